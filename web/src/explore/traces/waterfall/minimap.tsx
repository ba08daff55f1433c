/** The whole trace, small: drawing over a part of it shows that part. */
import { type PointerEvent, type ReactElement, useEffect, useRef, useState } from "react";

import { blankCanvas, useWidth } from "../../../ui/chart/canvas.js";
import { resolvedColour, useThemeVersion } from "../../../ui/colours.js";
import type { ResolvedRange } from "../../../ui/time-range.js";
import type { Trace } from "../trace-model.js";
import css from "./waterfall.module.css";

const height = 44;

export function Minimap({
  trace,
  colours,
  view,
  onView,
}: {
  readonly trace: Trace;
  readonly colours: ReadonlyMap<string, string>;
  readonly view: ResolvedRange;
  readonly onView: (view: ResolvedRange) => void;
}): ReactElement {
  const host = useRef<HTMLDivElement | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const theme = useThemeVersion();
  const width = useWidth(host);
  const [drawn, setDrawn] = useState<readonly [number, number] | null>(null);
  useEffect(() => draw(canvas.current, trace, colours, width), [trace, colours, width, theme]);

  const place = (event: PointerEvent): number => {
    const box = host.current?.getBoundingClientRect();
    return box === undefined ? 0 : Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
  };
  const { durationMs } = trace;
  const [left, right] =
    drawn === null
      ? [view.beginMs / Math.max(durationMs, 1e-9), view.endMs / Math.max(durationMs, 1e-9)]
      : [Math.min(...drawn), Math.max(...drawn)];
  return (
    <div
      ref={host}
      className={css.minimap}
      style={{ height }}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrawn([place(event), place(event)]);
      }}
      onPointerMove={(event) => drawn !== null && setDrawn([drawn[0], place(event)])}
      onPointerUp={() => {
        if (drawn !== null && right - left > 0.005) {
          onView({ beginMs: left * durationMs, endMs: right * durationMs });
        }
        setDrawn(null);
      }}
      onPointerCancel={() => setDrawn(null)}
      onDoubleClick={() => onView({ beginMs: 0, endMs: durationMs })}
    >
      <canvas ref={canvas} role="img" aria-label="All spans of the trace over time" />
      <div className={css.shade} style={{ left: 0, width: `${left * 100}%` }} />
      <div className={css.shade} style={{ left: `${right * 100}%`, right: 0 }} />
    </div>
  );
}

function draw(
  canvas: HTMLCanvasElement | null,
  trace: Trace,
  colours: ReadonlyMap<string, string>,
  width: number,
): void {
  const context = blankCanvas(canvas, width, height);
  if (context === null) {
    return;
  }
  const inks = new Map([...colours].map(([name, colour]) => [name, resolvedColour(colour)]));
  const failed = resolvedColour("var(--level-error)");
  const step = Math.min(4, (height - 8) / Math.max(1, trace.spans.length));
  const thick = Math.max(1, step - 0.5);
  trace.spans.forEach((span, at) => {
    context.fillStyle = span.isError ? failed : (inks.get(span.service) ?? "");
    const left = (span.startMs / Math.max(trace.durationMs, 1e-9)) * width;
    context.fillRect(
      left,
      4 + at * step,
      Math.max(1, (span.durationMs / Math.max(trace.durationMs, 1e-9)) * width),
      thick,
    );
  });
}
