/** Where a logout ends and a login in a window of its own comes back to. */
import { useNavigate } from "@tanstack/react-router";
import { type ReactElement, useEffect } from "react";

import { baseUrl } from "../../api/http.js";
import { announceLogin, logInHere, takeReturnTarget } from "../../api/session.js";
import { Button } from "../../ui/controls/controls.js";
import css from "./login-page.module.css";
import { Mark } from "../mark.js";
import { useSearchParameters } from "../search.js";

export function LoginPage(): ReactElement {
  const { done, resume } = useSearchParameters();
  const navigate = useNavigate();
  useEffect(() => {
    if (done !== undefined) {
      announceLogin();
      window.close();
    }
    if (resume !== undefined) {
      void navigate({ href: takeReturnTarget() ?? baseUrl.pathname, replace: true });
    }
  }, [done, resume, navigate]);
  return (
    <main className={css.page}>
      <Mark />
      <h1>Telemetry</h1>
      {done === undefined ? (
        <>
          <p>Logs, traces and metrics of your services.</p>
          <Button look="primary" onClick={() => logInHere(baseUrl.pathname)}>
            Log in
          </Button>
        </>
      ) : (
        <p>You are logged in. This window can be closed.</p>
      )}
    </main>
  );
}
