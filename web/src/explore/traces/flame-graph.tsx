/** Where the time of a trace went: boxes of spans with the same ancestors, as wide as the time that they took. */
import { type ReactElement, useMemo, useState } from "react";

import { Button, classes } from "../../ui/controls/controls.js";
import { formatCount, formatMilliseconds, formatNumber, formatPercent } from "../../ui/format.js";
import css from "./flame-graph.module.css";
import { type Flame, flames, type Trace } from "./trace-model.js";

/** Narrower ones, of the width shown, are left out: no one could read or hit them. */
const leastWidth = 0.0015;
const mostBoxes = 3000;

export function FlameGraph({
  trace,
  colours,
}: {
  readonly trace: Trace;
  readonly colours: ReadonlyMap<string, string>;
}): ReactElement {
  const boxes = useMemo(() => flames(trace.spans), [trace]);
  const [focus, setFocus] = useState<Flame | null>(null);
  const [pointed, setPointed] = useState<Flame | null>(null);
  const left = focus?.left ?? 0;
  const width = focus?.width ?? 1;
  const shown = boxes
    .filter(
      (box) => box.width / width >= leastWidth && box.left < left + width - 1e-9 && box.left + box.width > left + 1e-9,
    )
    .slice(0, mostBoxes);
  const depth = shown.reduce((most, box) => Math.max(most, box.depth), 0) + 1;
  const told = pointed ?? focus;
  return (
    <div className={css.part}>
      <p className={css.said}>
        {told === null ? (
          "Each box is all spans of one name below the same ancestors. Choose one to see it alone."
        ) : (
          <>
            <strong>{told.service}</strong> {told.name}: {formatMilliseconds(told.totalMs)} in{" "}
            {formatCount(told.count, "span")}, {formatMilliseconds(told.selfMs)} itself
            {told.errors > 0 ? `, ${formatNumber(told.errors)} failed` : ""} ({formatPercent(told.width)})
          </>
        )}
        {focus === null ? null : (
          <Button look="quiet" onClick={() => setFocus(null)}>
            Show all
          </Button>
        )}
      </p>
      <div className={css.scroll} tabIndex={0} role="group" aria-label="Flame graph">
        <ul className={css.graph} style={{ height: depth * 22 }}>
          {shown.map((box, at) => {
            const begin = Math.max(0, (box.left - left) / width);
            const end = Math.min(1, (box.left + box.width - left) / width);
            return (
              <li
                key={at}
                style={{ left: `${begin * 100}%`, width: `${(end - begin) * 100}%`, top: box.depth * 22 }}
                className={css.box}
              >
                <button
                  type="button"
                  className={classes(css.button, box.errors > 0 && css.failed)}
                  title={`${box.service}: ${box.name}, ${formatMilliseconds(box.totalMs)}`}
                  onClick={() => setFocus(box === focus ? null : box)}
                  onPointerEnter={() => setPointed(box)}
                  onPointerLeave={() => setPointed(null)}
                  onFocus={() => setPointed(box)}
                  onBlur={() => setPointed(null)}
                >
                  <span className={css.edge} style={{ background: colours.get(box.service) }} />
                  <span className={css.words}>
                    {box.service} {box.name} <span className={css.more}>{formatMilliseconds(box.totalMs)}</span>
                  </span>
                </button>
              </li>
            );
          })}
        </ul>
      </div>
    </div>
  );
}
