/** Where the parts of a heatmap are on the screen, in pixels, and drawing them. */
import { blankCanvas } from "../../../ui/chart/canvas.js";
import { timeTicks } from "../../../ui/chart/time-ticks.js";
import { formatUnit, type Unit } from "../../../ui/chart/units.js";
import { resolvedColour } from "../../../ui/colours.js";
import type { ResolvedRange } from "../../../ui/time-range.js";
import type { Heatmap } from "./bins.js";
import type { Exemplar } from "./heatmap-query.js";
import { edgeLabels, heatOf, heatSteps, type Row, rowsOf, type Scale, yOf } from "./scale.js";

export const inset = { left: 56, right: 10, top: 8, bottom: 22 };
export const height = 220;
export const heats = Array.from({ length: heatSteps }, (_, at) => at);

export interface Cell {
  /** Places of the step and of the bin. */
  readonly step: number;
  readonly bin: number;
}

export interface Place {
  readonly x: number;
  readonly y: number;
}

export interface CellBox extends Row {
  readonly left: number;
  readonly right: number;
}

export interface HeatmapPlot {
  readonly range: ResolvedRange;
  /** Of a step. */
  readonly seconds: number;
  readonly width: number;
  /** Of each bin. */
  readonly rows: readonly Row[];
  /** The exemplars that are within the plot. */
  readonly points: readonly (Place & { readonly exemplar: Exemplar })[];
  readonly xOf: (ms: number) => number;
  /** The nearest within the range. */
  readonly timeAt: (x: number) => number;
  readonly cellAt: (place: Place) => Cell | null;
  readonly middleOf: (cell: Cell) => Place;
  /** Null: there is no such cell. */
  readonly boxOf: (cell: Cell) => CellBox | null;
}

/** Of what is drawn from the left to the right inset. @param width of all */
export const innerWidth = (width: number): number => Math.max(1, width - inset.left - inset.right);

/** @param o.seconds of a step; @param o.scale of values */
export function plotOf(o: {
  readonly heatmap: Heatmap;
  readonly exemplars: readonly Exemplar[];
  readonly seconds: number;
  readonly scale: Scale;
  readonly range: ResolvedRange;
  readonly width: number;
}): HeatmapPlot {
  const { seconds, range, width } = o;
  const { times, bins } = o.heatmap;
  const { beginMs, endMs } = range;
  const inner = innerWidth(width);
  const rows = rowsOf(bins, o.scale, inset.top, height - inset.top - inset.bottom);
  const xOf = (ms: number): number => inset.left + ((ms - beginMs) / (endMs - beginMs)) * inner;
  const timeAt = (x: number): number =>
    beginMs + Math.max(0, Math.min(1, (x - inset.left) / inner)) * (endMs - beginMs);
  return {
    range,
    seconds,
    width,
    rows,
    points: o.exemplars.flatMap((exemplar) => {
      const y = yOf(exemplar.value, bins, rows, o.scale);
      const isIn = exemplar.timeMs >= beginMs && exemplar.timeMs <= endMs;
      return y === null || !isIn ? [] : [{ exemplar, x: xOf(exemplar.timeMs), y }];
    }),
    xOf,
    timeAt,
    cellAt: ({ x, y }) => {
      const ms = timeAt(x);
      const step = times.findIndex((begin) => ms >= begin && ms < begin + seconds * 1000);
      const bin = rows.findIndex(({ top, bottom }) => y >= top && y < bottom);
      return step === -1 || bin === -1 ? null : { step, bin };
    },
    middleOf: ({ step, bin }) => ({
      x: Math.max(inset.left, xOf((times[step] ?? 0) + seconds * 500)),
      y: ((rows[bin]?.top ?? 0) + (rows[bin]?.bottom ?? 0)) / 2,
    }),
    boxOf: ({ step, bin }) => {
      const [row, ms] = [rows[bin], times[step]];
      return row === undefined || ms === undefined
        ? null
        : { ...row, left: Math.max(inset.left, xOf(ms)), right: xOf(ms + seconds * 1000) };
    },
  };
}

/** @param o.most of all counts; @param o.counts their scale */
export function drawHeatmap(
  canvas: HTMLCanvasElement | null,
  plot: HeatmapPlot,
  o: { readonly heatmap: Heatmap; readonly most: number; readonly counts: Scale; readonly unit: Unit },
): void {
  const { rows, width, xOf, range } = plot;
  const { heatmap } = o;
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
    const end = Math.min(right, Math.round(xOf(ms + plot.seconds * 1000)));
    rows.forEach(({ top, bottom }, bin) => {
      const heat = heatOf(heatmap.counts[step * rows.length + bin] ?? 0, o.most, o.counts);
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
  for (const { x, y } of plot.points) {
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
