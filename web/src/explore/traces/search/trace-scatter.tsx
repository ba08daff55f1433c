/**
 * Traces as points, by when they began and how long they took. A point opens its trace; drawing a box narrows to it, and
 * two fingers, Ctrl with the wheel, + and - zoom.
 */
import { cellsOf } from "../../../api/cells.js";
import { type PointerEvent, type ReactElement, useEffect, useMemo, useRef, useState } from "react";

import type { QueryResult } from "../../../api/query.js";
import { classes } from "../../../ui/controls/controls.js";
import { resolvedColour, useThemeVersion } from "../../../ui/colours.js";
import { blankCanvas, useWidth } from "../../../ui/chart/canvas.js";
import { timeTicks } from "../../../ui/chart/time-ticks.js";
import { formatMilliseconds } from "../../../ui/format.js";
import { useRangeZoom } from "../../../ui/chart/use-zoom.js";
import type { ResolvedRange } from "../../../ui/time-range.js";
import css from "./traces-page.module.css";

interface Selection {
  readonly range: ResolvedRange;
  /** Null: as it was. */
  readonly minMs: number | null;
  readonly maxMs: number | null;
}

interface Point {
  readonly row: number;
  readonly timeMs: number;
  readonly durationMs: number;
  readonly failed: boolean;
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly toX: number;
  readonly toY: number;
}

const inset = { left: 64, right: 12, top: 8, bottom: 24 };

export function TraceScatter(o: {
  readonly result: QueryResult | null;
  readonly range: ResolvedRange;
  readonly height: number;
  readonly stale: boolean;
  readonly onOpen: (row: number) => void;
  readonly onSelect: (selection: Selection) => void;
}): ReactElement {
  const { result, height } = o;
  const host = useRef<HTMLDivElement | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const theme = useThemeVersion();
  const width = useWidth(host);
  const zoom = useRangeZoom(host, {
    range: o.range,
    plot: () => ({
      left: (host.current?.getBoundingClientRect().left ?? 0) + inset.left,
      width: Math.max(1, width - inset.left - inset.right),
    }),
    onRange: (range) => o.onSelect({ range, minMs: null, maxMs: null }),
  });
  const range = zoom.shown;
  const [box, setBox] = useState<Box | null>(null);
  const [near, setNear] = useState<Point | null>(null);
  const points = useMemo(() => pointsOf(result), [result]);
  const scale = useMemo(
    () => scaleOf(points, range, width, height),
    [points, range.beginMs, range.endMs, width, height],
  );
  useEffect(() => draw(canvas.current, points, scale, range), [points, scale, theme]);

  const placeOf = (event: PointerEvent): readonly [number, number] => {
    const { left = 0, top = 0 } = host.current?.getBoundingClientRect() ?? {};
    return [event.clientX - left, event.clientY - top];
  };
  const nearest = ([x, y]: readonly [number, number]): Point | null => {
    let found: Point | null = null;
    let best = 12 ** 2;
    for (const point of points) {
      const distance = (scale.x(point.timeMs) - x) ** 2 + (scale.y(point.durationMs) - y) ** 2;
      if (distance < best) {
        best = distance;
        found = point;
      }
    }
    return found;
  };
  const finish = (event: PointerEvent): void => {
    if (box === null) {
      return;
    }
    if (Math.abs(box.toX - box.x) > 6) {
      const tall = Math.abs(box.toY - box.y) > 12;
      o.onSelect({
        range: { beginMs: scale.timeAt(Math.min(box.x, box.toX)), endMs: scale.timeAt(Math.max(box.x, box.toX)) },
        minMs: tall ? scale.durationAt(Math.max(box.y, box.toY)) : null,
        maxMs: tall ? scale.durationAt(Math.min(box.y, box.toY)) : null,
      });
    } else {
      const point = nearest(placeOf(event));
      if (point !== null) {
        o.onOpen(point.row);
      }
    }
    setBox(null);
  };
  return (
    <div
      ref={host}
      className={classes(css.scatter, o.stale && css.stale)}
      aria-busy={o.stale}
      style={{ height }}
      data-near={near !== null}
      tabIndex={0}
      role="group"
      aria-label="Traces over time: + and - zoom, arrows move"
      onKeyDown={zoom.onKey}
      onPointerDown={(event) => {
        const [x, y] = placeOf(event);
        event.currentTarget.setPointerCapture(event.pointerId);
        // Two fingers zoom.
        setBox(event.isPrimary ? { x, y, toX: x, toY: y } : null);
      }}
      onPointerMove={(event) => {
        const [x, y] = placeOf(event);
        setNear(nearest([x, y]));
        setBox((before) => (before === null ? null : { ...before, toX: x, toY: y }));
      }}
      onPointerUp={finish}
      onPointerCancel={() => setBox(null)}
      onPointerLeave={() => setNear(null)}
    >
      <canvas ref={canvas} role="img" aria-label="Traces by time and duration; the list below has the same" />
      {box === null ? null : (
        <div
          className={css.box}
          style={{
            left: Math.min(box.x, box.toX),
            top: Math.min(box.y, box.toY),
            width: Math.abs(box.toX - box.x),
            height: Math.abs(box.toY - box.y),
          }}
        />
      )}
      {near === null || box !== null ? null : (
        <div
          className={css.tip}
          style={{
            top: Math.max(0, scale.y(near.durationMs) - 34),
            ...(scale.x(near.timeMs) > width / 2
              ? { right: width - scale.x(near.timeMs) }
              : { left: scale.x(near.timeMs) }),
          }}
        >
          {textAt(result, "root_service", near.row)} {textAt(result, "root_name", near.row)},{" "}
          {formatMilliseconds(near.durationMs)}
          {near.failed ? ", failed" : ""}
        </div>
      )}
    </div>
  );
}

function textAt(result: QueryResult | null, name: string, row: number): string {
  return result === null ? "" : cellsOf(result).text(name, row);
}

function pointsOf(result: QueryResult | null): readonly Point[] {
  if (result === null) {
    return [];
  }
  const { number } = cellsOf(result);
  return Array.from({ length: result.rows }, (_, row) => ({
    row,
    timeMs: number("time", row),
    durationMs: Math.max(1e-3, number("duration_ms", row)),
    failed: number("errors", row) > 0,
  }));
}

interface Scale {
  readonly width: number;
  readonly height: number;
  readonly lowMs: number;
  readonly highMs: number;
  readonly x: (timeMs: number) => number;
  readonly y: (durationMs: number) => number;
  readonly timeAt: (x: number) => number;
  readonly durationAt: (y: number) => number;
}

/** Time is linear, duration logarithmic. */
function scaleOf(points: readonly Point[], { beginMs, endMs }: ResolvedRange, width: number, height: number): Scale {
  let lowMs = Number.POSITIVE_INFINITY;
  let highMs = 0;
  for (const { durationMs } of points) {
    lowMs = Math.min(lowMs, durationMs);
    highMs = Math.max(highMs, durationMs);
  }
  const low = Math.log10(points.length === 0 ? 1 : lowMs / 1.3);
  const high = Math.log10(points.length === 0 ? 1000 : highMs * 1.3);
  const innerWidth = Math.max(1, width - inset.left - inset.right);
  const innerHeight = Math.max(1, height - inset.top - inset.bottom);
  return {
    width,
    height,
    lowMs: 10 ** low,
    highMs: 10 ** high,
    x: (ms) => inset.left + ((ms - beginMs) / (endMs - beginMs)) * innerWidth,
    y: (ms) => inset.top + (1 - (Math.log10(ms) - low) / (high - low)) * innerHeight,
    timeAt: (x) => beginMs + Math.max(0, Math.min(1, (x - inset.left) / innerWidth)) * (endMs - beginMs),
    durationAt: (y) => 10 ** (low + Math.max(0, Math.min(1, 1 - (y - inset.top) / innerHeight)) * (high - low)),
  };
}

function draw(canvas: HTMLCanvasElement | null, points: readonly Point[], scale: Scale, range: ResolvedRange): void {
  const { width, height } = scale;
  const context = blankCanvas(canvas, width, height);
  if (context === null) {
    return;
  }
  context.font = '11px "Inter Variable", sans-serif';
  context.strokeStyle = resolvedColour("var(--border)");
  context.fillStyle = resolvedColour("var(--text-muted)");
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  let lastY = Number.POSITIVE_INFINITY;
  for (const ms of durationTicks(scale)) {
    const y = Math.round(scale.y(ms)) + 0.5;
    if (lastY - y >= 20) {
      lastY = y;
      context.beginPath();
      context.moveTo(inset.left, y);
      context.lineTo(width - inset.right, y);
      context.stroke();
      context.fillText(formatMilliseconds(ms), inset.left - 6, y);
    }
  }
  context.textAlign = "center";
  for (const { ms, text } of timeTicks(range, Math.floor((width - inset.left) / 110))) {
    if (scale.x(ms) < width - 20) {
      context.fillText(text, scale.x(ms), height - 10);
    }
  }
  const good = resolvedColour("var(--level-info)");
  const bad = resolvedColour("var(--level-error)");
  context.fillStyle = good;
  context.globalAlpha = 0.75;
  for (const { timeMs, durationMs, failed } of points) {
    if (!failed) {
      context.beginPath();
      context.arc(scale.x(timeMs), scale.y(durationMs), 2.5, 0, Math.PI * 2);
      context.fill();
    }
  }
  // Failed ones are crosses, above the others.
  context.globalAlpha = 1;
  context.strokeStyle = bad;
  context.lineWidth = 2;
  for (const { timeMs, durationMs, failed } of points) {
    if (failed) {
      const x = scale.x(timeMs);
      const y = scale.y(durationMs);
      context.beginPath();
      context.moveTo(x - 3, y - 3);
      context.lineTo(x + 3, y + 3);
      context.moveTo(x + 3, y - 3);
      context.lineTo(x - 3, y + 3);
      context.stroke();
    }
  }
}

/** 1, 2 and 5 of each power of ten, ascending. */
function durationTicks({ lowMs, highMs }: Scale): readonly number[] {
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(lowMs)); power <= Math.ceil(Math.log10(highMs)); power++) {
    for (const factor of [1, 2, 5]) {
      const ms = factor * 10 ** power;
      if (ms >= lowMs && ms <= highMs) {
        found.push(ms);
      }
    }
  }
  return found;
}
