/** The bar above a list: narrows it to what has certain words, and says how much there is. */
import type { ReactElement, ReactNode } from "react";

import { AddressInput } from "../ui/controls/controls.js";
import css from "./find-bar.module.css";

export function FindBar(o: {
  readonly label: string;
  readonly placeholder: string;
  readonly words: string;
  /** Undefined: there are none, and the address does without them. */
  readonly onWords: (words: string | undefined) => void;
  /** How much there is; empty while nobody knows. */
  readonly found: string;
  /** Before the field. */
  readonly children?: ReactNode;
}): ReactElement {
  return (
    <div className={css.bar}>
      {o.children}
      <AddressInput
        aria-label={o.label}
        placeholder={o.placeholder}
        className={css.find}
        value={o.words}
        onType={(typed) => o.onWords(typed === "" ? undefined : typed)}
      />
      <span className={css.found} role="status">
        {o.found}
      </span>
    </div>
  );
}
