/**
 * How often values were measured, over time: columns are steps, rows are bins, colour is the count. A click zooms in,
 * drawing over a span chooses it, a diamond is a measurement that opens its trace.
 */
import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactElement,
  type ReactNode,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";

import { resolvedColour, useThemeVersion } from "../../../ui/colours.js";
import { blankCanvas, useWidth } from "../../../ui/chart/canvas.js";
import { timeTicks } from "../../../ui/chart/time-ticks.js";
import { formatUnit, type Unit } from "../../../ui/chart/units.js";
import { useRangeZoom } from "../../../ui/chart/use-zoom.js";
import { classes } from "../../../ui/controls.js";
import { formatCompact, formatNumber, formatTime } from "../../../ui/format.js";
import type { ResolvedRange } from "../../../ui/time-range.js";
import type { HeatmapLook } from "../metric-chart.js";
import { type Heatmap, summaryOf } from "./bins.js";
import type { Exemplar } from "./heatmap-query.js";
import css from "./heatmap.module.css";
import { binText, edgeLabels, heatOf, heatSteps, rowsOf, yOf, zoomedRange } from "./scale.js";

const inset = { left: 56, right: 10, top: 8, bottom: 22 };
const height = 220;
/** Of a click beside a diamond. */
const reach = 8;
const heats = Array.from({ length: heatSteps }, (_, at) => at);

interface Cell {
  /** Places of the step and of the bin. */
  readonly step: number;
  readonly bin: number;
}

interface Place {
  readonly x: number;
  readonly y: number;
}

/** What is pointed at, and where to say so. */
interface Pointed extends Place {
  readonly cell: Cell | null;
  readonly exemplar: Exemplar | null;
  /** Said aloud: moved by keyboard. */
  readonly isKey: boolean;
}

/** A span that is being drawn, in pixels. */
interface Drawn {
  readonly from: number;
  readonly to: number;
}

/** Whether it is more than a click. */
const isDrawn = ({ from, to }: Drawn): boolean => Math.abs(to - from) > 6;

export interface HeatmapChartProps {
  readonly title: string;
  readonly heatmap: Heatmap;
  readonly exemplars: readonly Exemplar[];
  readonly range: ResolvedRange;
  /** Seconds of a step. */
  readonly seconds: number;
  /** Zooming in makes no shorter range. */
  readonly leastMs: number;
  readonly unit: Unit;
  readonly look: HeatmapLook;
  readonly stale: boolean;
  /** Beside the legend. */
  readonly tools: ReactNode;
  readonly onRange: (range: ResolvedRange) => void;
  readonly onExemplar: (exemplar: Exemplar) => void;
}

export function HeatmapChart(o: HeatmapChartProps): ReactElement {
  const { heatmap, seconds, unit, look } = o;
  const host = useRef<HTMLDivElement | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const theme = useThemeVersion();
  const width = useWidth(host);
  const inner = Math.max(1, width - inset.left - inset.right);
  const zooming = useRangeZoom(host, {
    range: o.range,
    plot: () => ({ left: (host.current?.getBoundingClientRect().left ?? 0) + inset.left, width: inner }),
    onRange: o.onRange,
  });
  const range = zooming.shown;
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [drawn, setDrawn] = useState<Drawn | null>(null);

  const { times, bins, counts } = heatmap;
  const most = useMemo(() => counts.reduce((found, count) => Math.max(found, count), 0), [counts]);
  const rows = useMemo(
    () => rowsOf(bins, look.values, inset.top, height - inset.top - inset.bottom),
    [bins, look.values],
  );
  const xOf = (ms: number): number => inset.left + ((ms - range.beginMs) / (range.endMs - range.beginMs)) * inner;
  const timeAt = (x: number): number =>
    range.beginMs + Math.max(0, Math.min(1, (x - inset.left) / inner)) * (range.endMs - range.beginMs);
  const points = useMemo(
    () =>
      o.exemplars.flatMap((exemplar) => {
        const y = yOf(exemplar.value, bins, rows, look.values);
        return y === null || exemplar.timeMs < range.beginMs || exemplar.timeMs > range.endMs
          ? []
          : [{ exemplar, x: xOf(exemplar.timeMs), y }];
      }),
    [o.exemplars, bins, rows, look.values, range.beginMs, range.endMs, width],
  );

  useEffect(() => {
    draw(canvas.current, { ...o, range, most, rows, points, width, xOf });
  }, [heatmap, rows, points, width, look.counts, range.beginMs, range.endMs, theme, unit]);

  const placeOf = (event: PointerEvent): Place => {
    const { left = 0, top = 0 } = host.current?.getBoundingClientRect() ?? {};
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const at = (place: Place): Pointed | null => {
    const near = points.find((point) => Math.hypot(point.x - place.x, point.y - place.y) <= reach);
    const ms = timeAt(place.x);
    const step = times.findIndex((begin) => ms >= begin && ms < begin + seconds * 1000);
    const bin = rows.findIndex(({ top, bottom }) => place.y >= top && place.y < bottom);
    const cell = step === -1 || bin === -1 ? null : { step, bin };
    return near === undefined && cell === null
      ? null
      : { ...place, cell, exemplar: near?.exemplar ?? null, isKey: false };
  };
  const zoom = (ms: number): void => {
    const next = zoomedRange(range, ms, o.leastMs);
    if (next !== null) {
      o.onRange(next);
    }
  };
  const finish = (event: PointerEvent): void => {
    const place = placeOf(event);
    if (drawn !== null && isDrawn(drawn)) {
      o.onRange({
        beginMs: timeAt(Math.min(drawn.from, drawn.to)),
        endMs: timeAt(Math.max(drawn.from, drawn.to)),
      });
    } else if (drawn !== null) {
      const exemplar = at(place)?.exemplar ?? null;
      if (exemplar === null) {
        zoom(timeAt(place.x));
      } else {
        o.onExemplar(exemplar);
      }
    }
    setDrawn(null);
  };
  const toCell = (cell: Cell): void => {
    const row = rows[cell.bin];
    setPointed({
      cell,
      exemplar: null,
      isKey: true,
      x: Math.max(inset.left, xOf((times[cell.step] ?? 0) + seconds * 500)),
      y: ((row?.top ?? 0) + (row?.bottom ?? 0)) / 2,
    });
  };
  const onKey = (event: KeyboardEvent): void => {
    const cell = pointed?.cell ?? { step: times.length - 1, bin: 0 };
    const next = neighbour(event.key, cell, times.length, bins.length);
    if (event.ctrlKey || event.metaKey || event.altKey || times.length === 0) {
      return;
    }
    if (next === undefined && zooming.onKey(event)) {
      return;
    }
    if (next !== undefined) {
      toCell(pointed?.cell === undefined || pointed.cell === null ? cell : next);
    } else if (event.key === "Enter") {
      zoom((times[cell.step] ?? range.beginMs) + seconds * 500);
    } else if (event.key === "Escape") {
      setPointed(null);
    } else {
      return;
    }
    event.preventDefault();
  };

  const said = pointed === null ? null : wordsOf(pointed, heatmap, seconds, unit);
  const cell = pointed?.cell ?? null;
  const shownCell = cell === null ? null : { row: rows[cell.bin], ms: times[cell.step] };
  return (
    <figure className={classes(css.chart, o.stale && css.stale)} aria-busy={o.stale}>
      <figcaption className="visually-hidden">{o.title}</figcaption>
      <div
        ref={host}
        className={css.plot}
        style={{ height }}
        role="group"
        tabIndex={0}
        aria-label={`${o.title}. ${summaryWords(heatmap, unit)} Arrow keys tell of cells, Enter, + and - zoom.`}
        data-exemplar={pointed?.exemplar !== null && pointed?.exemplar !== undefined}
        onKeyDown={onKey}
        onBlur={() => setPointed(null)}
        onPointerDown={(event) => {
          if (!event.isPrimary) {
            setDrawn(null); // two fingers zoom
          } else if (event.button === 0) {
            const { x } = placeOf(event);
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrawn({ from: x, to: x });
          }
        }}
        onPointerMove={(event) => {
          const place = placeOf(event);
          setPointed(at(place));
          setDrawn((before) => (before === null ? null : { ...before, to: place.x }));
        }}
        onPointerUp={finish}
        onPointerCancel={() => setDrawn(null)}
        onPointerLeave={() => setPointed(null)}
      >
        <canvas ref={canvas} aria-hidden />
        {shownCell?.row === undefined || shownCell.ms === undefined || drawn !== null ? null : (
          <PointedCell
            left={Math.max(inset.left, xOf(shownCell.ms))}
            right={xOf(shownCell.ms + seconds * 1000)}
            row={shownCell.row}
          />
        )}
        {drawn === null || !isDrawn(drawn) ? null : <DrawnSpan span={drawn} />}
        {pointed === null || said === null || drawn !== null ? null : <Tip at={pointed} width={width} lines={said} />}
        <span className="visually-hidden" role="status">
          {pointed?.isKey === true ? said?.join(", ") : ""}
        </span>
      </div>
      <Legend most={most} hasExemplars={points.length > 0} tools={o.tools} />
      <BinTable heatmap={heatmap} unit={unit} title={o.title} />
    </figure>
  );
}

/** The cell that a key leads to; undefined for keys that lead to none. */
function neighbour(key: string, cell: Cell, steps: number, bins: number): Cell | undefined {
  const within = (value: number, count: number): number => Math.max(0, Math.min(count - 1, value));
  const moves: Readonly<Record<string, Cell>> = {
    ArrowRight: { ...cell, step: within(cell.step + 1, steps) },
    ArrowLeft: { ...cell, step: within(cell.step - 1, steps) },
    ArrowUp: { ...cell, bin: within(cell.bin + 1, bins) },
    ArrowDown: { ...cell, bin: within(cell.bin - 1, bins) },
    Home: { ...cell, step: 0 },
    End: { ...cell, step: steps - 1 },
  };
  return moves[key];
}

function PointedCell(o: {
  readonly left: number;
  readonly right: number;
  readonly row: { readonly top: number; readonly bottom: number };
}): ReactElement {
  const { top, bottom } = o.row;
  return (
    <div
      className={css.cell}
      style={{ left: o.left, width: Math.max(2, o.right - o.left), top, height: bottom - top }}
    />
  );
}

function DrawnSpan({ span: { from, to } }: { readonly span: Drawn }): ReactElement {
  const { top, bottom } = inset;
  return <div className={css.drawn} style={{ left: Math.min(from, to), width: Math.abs(to - from), top, bottom }} />;
}

/** Words beside a place, on the side where there is room. */
function Tip(o: { readonly at: Place; readonly width: number; readonly lines: readonly string[] }): ReactElement {
  const { x, y } = o.at;
  return (
    <div
      className={css.tip}
      style={{
        ...(y < 70 ? { top: y + 14 } : { bottom: height - y + 12 }),
        ...(x > o.width / 2 ? { right: o.width - x } : { left: x }),
      }}
    >
      {o.lines.map((line) => (
        <span key={line}>{line}</span>
      ))}
    </div>
  );
}

function Legend(o: { readonly most: number; readonly hasExemplars: boolean; readonly tools: ReactNode }): ReactElement {
  return (
    <div className={css.legend}>
      <span>none</span>
      <span className={css.ramp} aria-hidden>
        <span className={css.none} />
        {heats.map((heat) => (
          <span key={heat} style={{ background: `var(--heat-${heat})` }} />
        ))}
      </span>
      <span>{formatCompact(o.most)} per step</span>
      {o.hasExemplars ? (
        <span className={css.mark}>
          <span aria-hidden>◆</span> opens a trace
        </span>
      ) : null}
      <span className={css.tools}>{o.tools}</span>
    </div>
  );
}

/** What is pointed at, line by line. */
function wordsOf(
  { cell, exemplar }: Pointed,
  { times, bins, counts }: Heatmap,
  seconds: number,
  unit: Unit,
): readonly string[] {
  if (exemplar !== null) {
    return [
      formatUnit(exemplar.value, unit),
      formatTime(exemplar.timeMs, { digits: 0 }),
      `Trace ${exemplar.traceId.slice(0, 8)}…`,
    ];
  }
  const bin = bins[cell?.bin ?? -1];
  const beginMs = times[cell?.step ?? -1];
  if (cell === null || bin === undefined || beginMs === undefined) {
    return [];
  }
  const end = formatTime(beginMs + seconds * 1000, { digits: 0, date: false });
  return [
    valuesText(counts[cell.step * bins.length + cell.bin] ?? 0),
    binText(bin, unit),
    `${formatTime(beginMs, { digits: 0 })} – ${end}`,
  ];
}

/** Counts that were spread over bins are not whole. */
function valuesText(count: number): string {
  const text = Number.isInteger(count) ? formatNumber(count) : `about ${formatCompact(count)}`;
  return `${text} ${count === 1 ? "value" : "values"}`;
}

function summaryWords(heatmap: Heatmap, unit: Unit): string {
  const rows = summaryOf(heatmap);
  const total = rows.reduce((sum, row) => sum + row.total, 0);
  const [first] = rows.toSorted((a, b) => b.total - a.total);
  return first === undefined || total === 0
    ? "No values."
    : `${valuesText(total)}, most of them ${binText(first.bin, unit)}.`;
}

function BinTable({
  heatmap,
  unit,
  title,
}: {
  readonly heatmap: Heatmap;
  readonly unit: Unit;
  readonly title: string;
}): ReactElement {
  const rows = useMemo(() => summaryOf(heatmap), [heatmap]);
  const total = rows.reduce((sum, row) => sum + row.total, 0);
  return (
    <div className={css.table} tabIndex={0} role="group" aria-label={`Table of ${title}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Values</th>
            <th scope="col">Count</th>
            <th scope="col">Share</th>
            <th scope="col" title="Most in one step">
              Peak
            </th>
            <th scope="col">At</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.bin.low}>
              <th scope="row">{binText(row.bin, unit)}</th>
              <td>{formatCompact(row.total)}</td>
              <td>{total === 0 ? "" : `${((row.total / total) * 100).toFixed(1)}%`}</td>
              <td>{formatCompact(row.most)}</td>
              <td>{row.most === 0 ? "" : formatTime(row.mostAtMs, { digits: 0, date: false })}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function draw(
  canvas: HTMLCanvasElement | null,
  o: HeatmapChartProps & {
    readonly most: number;
    readonly rows: readonly { readonly top: number; readonly bottom: number }[];
    readonly points: readonly Place[];
    readonly width: number;
    readonly xOf: (ms: number) => number;
  },
): void {
  const { heatmap, rows, width, xOf, look, range } = o;
  const context = blankCanvas(canvas, width, height);
  if (context === null) {
    return;
  }
  const right = width - inset.right;
  const muted = resolvedColour("var(--text-muted)");
  const grid = resolvedColour("var(--border)");
  const colours = heats.map((heat) => resolvedColour(`var(--heat-${heat})`));
  heatmap.times.forEach((ms, step) => {
    const left = Math.max(inset.left, Math.round(xOf(ms)));
    const end = Math.min(right, Math.round(xOf(ms + o.seconds * 1000)));
    rows.forEach(({ top, bottom }, bin) => {
      const heat = heatOf(heatmap.counts[step * rows.length + bin] ?? 0, o.most, look.counts);
      if (heat !== -1 && end > left) {
        context.fillStyle = colours[heat] ?? "";
        const y = Math.round(top);
        // A line between cells where there is room for one.
        const gap = end - left > 4 ? 1 : 0;
        context.fillRect(left, y, end - left - gap, Math.max(1, Math.round(bottom) - y - (bottom - top > 5 ? 1 : 0)));
      }
    });
  });
  context.font = '11px "Inter Variable", sans-serif';
  context.fillStyle = muted;
  context.strokeStyle = grid;
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const { value, y } of edgeLabels(heatmap.bins, rows, 17)) {
    context.fillText(formatUnit(value, o.unit), inset.left - 7, y);
    context.beginPath();
    context.moveTo(inset.left - 4, Math.round(y) + 0.5);
    context.lineTo(inset.left, Math.round(y) + 0.5);
    context.stroke();
  }
  context.beginPath();
  context.moveTo(inset.left - 0.5, inset.top);
  context.lineTo(inset.left - 0.5, height - inset.bottom + 0.5);
  context.lineTo(right, height - inset.bottom + 0.5);
  context.stroke();
  context.textAlign = "center";
  for (const { ms, text } of timeTicks(range, Math.floor((width - inset.left) / 100))) {
    if (xOf(ms) < width - 18) {
      context.fillText(text, xOf(ms), height - 9);
    }
  }
  context.fillStyle = resolvedColour("var(--mark-point)");
  context.strokeStyle = resolvedColour("var(--bg)");
  context.lineWidth = 1.5;
  for (const { x, y } of o.points) {
    context.beginPath();
    context.moveTo(x, y - 5);
    context.lineTo(x + 5, y);
    context.lineTo(x, y + 5);
    context.lineTo(x - 5, y);
    context.closePath();
    context.fill();
    context.stroke();
  }
}
