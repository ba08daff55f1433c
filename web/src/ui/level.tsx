import type { ReactElement } from "react";

import { classes } from "./controls/controls.js";
import { nothing } from "./format.js";
import css from "./level.module.css";

/** The level of a log record: never told by its colour alone. */
export function LevelBadge({ level }: { readonly level: string | null }): ReactElement {
  return <span className={classes(css.level, level !== null && css[level])}>{level ?? nothing}</span>;
}

/** The same in one letter, for dense lists. */
export function LevelLetter({ level }: { readonly level: string | null }): ReactElement {
  return (
    <span className={classes(css.level, css.letter, level !== null && css[level])} title={level ?? "no level"}>
      <span aria-hidden>{level === null ? "·" : level.charAt(0).toUpperCase()}</span>
      <span className="visually-hidden">{level ?? "no level"}</span>
    </span>
  );
}
