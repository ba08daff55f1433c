/** What is there instead of the shell where the server did not say who is logged in. */
import type { ReactElement } from "react";

import { ErrorPart } from "../../ui/states.js";
import css from "./login-page.module.css";
import { Mark } from "../mark.js";

export function StartFailed({ error }: { readonly error: unknown }): ReactElement {
  return (
    <main className={css.page}>
      <Mark />
      <h1>Telemetry</h1>
      <ErrorPart error={error} title="Nobody can be logged in now" onRetry={() => window.location.reload()} />
    </main>
  );
}
