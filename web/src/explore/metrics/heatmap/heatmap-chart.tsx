/**
 * How often values were measured, over time: columns are steps, rows are bins, colour is the count. A click zooms in,
 * drawing over a span chooses it, a diamond is a measurement that opens its trace.
 */
import { type KeyboardEvent, type ReactElement, type ReactNode, useEffect, useMemo, useRef } from "react";

import { useThemeVersion } from "../../../ui/colours.js";
import { useWidth } from "../../../ui/chart/canvas.js";
import { formatUnit, type Unit } from "../../../ui/chart/units.js";
import { useRangeZoom } from "../../../ui/chart/use-zoom.js";
import { classes } from "../../../ui/controls/controls.js";
import { formatCompact, formatNumber, formatTime } from "../../../ui/format.js";
import type { ResolvedRange } from "../../../ui/time-range.js";
import type { HeatmapLook } from "../metric-chart.js";
import { type Heatmap, summaryOf } from "./bins.js";
import type { Exemplar } from "./heatmap-query.js";
import {
  type Cell,
  type CellBox,
  drawHeatmap,
  heats,
  height,
  innerWidth,
  inset,
  type Place,
  plotOf,
} from "./heatmap-plot.js";
import css from "./heatmap.module.css";
import { binText } from "./scale.js";
import { type Drawn, isDrawn, type Pointed, usePointing } from "./use-pointing.js";

interface HeatmapChartProps {
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
  const { times, bins, counts } = heatmap;
  const host = useRef<HTMLDivElement | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const theme = useThemeVersion();
  const width = useWidth(host);
  const zooming = useRangeZoom(host, {
    range: o.range,
    plot: () => ({ left: (host.current?.getBoundingClientRect().left ?? 0) + inset.left, width: innerWidth(width) }),
    onRange: o.onRange,
  });
  const range = zooming.shown;
  const most = useMemo(() => counts.reduce((found, count) => Math.max(found, count), 0), [counts]);
  const plot = useMemo(
    () => plotOf({ heatmap, exemplars: o.exemplars, seconds, scale: look.values, range, width }),
    [heatmap, o.exemplars, seconds, look.values, range.beginMs, range.endMs, width],
  );
  useEffect(() => {
    drawHeatmap(canvas.current, plot, { heatmap, most, counts: look.counts, unit });
  }, [plot, look.counts, theme, unit]);

  const { pointed, setPointed, drawn, zoomTo, handlers } = usePointing(host, plot, o);
  const cell = pointed?.cell ?? null;
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || times.length === 0) {
      return;
    }
    const from = cell ?? { step: times.length - 1, bin: 0 };
    const next = neighbour(event.key, from, times.length, bins.length);
    if (next === undefined && zooming.onKey(event)) {
      return;
    }
    if (next !== undefined) {
      const to = cell === null ? from : next;
      setPointed({ ...plot.middleOf(to), cell: to, exemplar: null, isKey: true });
    } else if (event.key === "Enter") {
      zoomTo((times[from.step] ?? range.beginMs) + seconds * 500);
    } else if (event.key === "Escape") {
      setPointed(null);
    } else {
      return;
    }
    event.preventDefault();
  };
  const said = pointed === null ? null : wordsOf(pointed, heatmap, seconds, unit);
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
        data-exemplar={pointed !== null && pointed.exemplar !== null}
        onKeyDown={onKey}
        {...handlers}
      >
        <canvas ref={canvas} aria-hidden />
        {cell === null || drawn !== null ? null : <PointedCell box={plot.boxOf(cell)} />}
        {drawn === null || !isDrawn(drawn) ? null : <DrawnSpan span={drawn} />}
        {pointed === null || said === null || drawn !== null ? null : <Tip at={pointed} width={width} lines={said} />}
        <span className="visually-hidden" role="status">
          {pointed?.isKey === true ? said?.join(", ") : ""}
        </span>
      </div>
      <Legend most={most} hasExemplars={plot.points.length > 0} tools={o.tools} />
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

/** Null: the cell went with the last result. */
function PointedCell({ box }: { readonly box: CellBox | null }): ReactElement | null {
  return box === null ? null : (
    <div
      className={css.cell}
      style={{
        left: box.left,
        width: Math.max(2, box.right - box.left),
        top: box.top,
        height: box.bottom - box.top,
      }}
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
