import type { ReactElement } from "react";

import { classes } from "../../ui/controls/controls.js";
import { formatTime, formatTimeExact, nothing } from "../../ui/format.js";
import { LevelLetter } from "../../ui/level.js";
import css from "./log-panel.module.css";

/** A line of a list that is no table. */
export function LogLine({
  level,
  time,
  text,
  current = false,
}: {
  readonly level: string | null;
  readonly time: bigint;
  readonly text: string | null;
  readonly current?: boolean;
}): ReactElement {
  return (
    <div className={classes(css.line, current && css.current)}>
      <time title={formatTimeExact(time)}>{formatTime(time, { date: false })}</time>
      <LevelLetter level={level} />
      <span className={css.lineText}>{text ?? nothing}</span>
    </div>
  );
}
