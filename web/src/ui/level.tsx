import type { ReactElement } from "react";

import { classes } from "./controls.js";
import { nothing } from "./format.js";
import css from "./level.module.css";

/** The level of a log record: never told by its colour alone. */
export function LevelBadge({ level }: { readonly level: string | null }): ReactElement {
  return <span className={classes(css.level, level !== null && css[level])}>{level ?? nothing}</span>;
}
