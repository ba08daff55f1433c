/** Where bins are on the page, and which colour a count has. */
import { formatUnit, type Unit } from "../../../ui/chart/units.js";
import type { Bin } from "./bins.js";

export const scales = ["log", "linear"] as const;
export type Scale = (typeof scales)[number];

/** Colours of `--heat-0` to `--heat-7`. */
export const heatSteps = 8;

/** The edges of a bin, in pixels. */
export interface Row {
  readonly top: number;
  readonly bottom: number;
}

/**
 * Upper and lower edge of each bin in pixels, from the lowest bin up. Bins without an end, around zero, or with a sign that
 * differs at its ends are as high as an ordinary one.
 */
export function rowsOf(bins: readonly Bin[], scale: Scale, top: number, height: number): readonly Row[] {
  const sizes = bins.map(({ low, high }) =>
    !Number.isFinite(low) || !Number.isFinite(high) || (scale === "log" && low <= 0 && high >= 0) || high <= low
      ? Number.NaN
      : scale === "linear"
        ? high - low
        : Math.abs(Math.log(high / low)),
  );
  const known = sizes.filter((size) => !Number.isNaN(size)).toSorted((a, b) => a - b);
  const usual =
    scale === "linear"
      ? known.reduce((sum, size) => sum + size, 0) / Math.max(4, known.length)
      : (known[known.length >> 1] ?? 1);
  const heights = sizes.map((size) => (Number.isNaN(size) ? usual || 1 : size));
  const pixels = height / heights.reduce((sum, size) => sum + size, 0);
  let bottom = top + height;
  return heights.map((size) => {
    const row = { top: bottom - size * pixels, bottom };
    bottom = row.top;
    return row;
  });
}

/** Where a value is, in pixels; null: above or below all bins. */
export function yOf(value: number, bins: readonly Bin[], rows: readonly Row[], scale: Scale): number | null {
  const at = bins.findIndex(({ low, high }) => value >= low && value <= high);
  const [bin, row] = [bins[at], rows[at]];
  if (bin === undefined || row === undefined) {
    return null;
  }
  const { low, high } = bin;
  const share =
    !Number.isFinite(low) || !Number.isFinite(high) || high <= low || (scale === "log" && low <= 0 && high >= 0)
      ? 0.5
      : scale === "linear"
        ? (value - low) / (high - low)
        : Math.log(value / low) / Math.log(high / low);
  return row.bottom - (row.bottom - row.top) * share;
}

/** 0 to 7; -1: there are none. @param most of all counts */
export function heatOf(count: number, most: number, scale: Scale): number {
  if (count <= 0) {
    return -1;
  }
  // Spread counts may be below one.
  const share = scale === "linear" ? count / most : Math.log1p(count) / Math.log1p(most);
  return Math.min(heatSteps - 1, Math.max(0, Math.ceil(share * heatSteps) - 1));
}

/** "25 ms – 50 ms", "up to 5 ms", "above 1 s" */
export function binText({ low, high }: Bin, unit: Unit): string {
  if (low === high || (low < 0 && high === -low)) {
    return high === 0 ? "0" : `${formatUnit(low, unit)} – ${formatUnit(high, unit)}`;
  }
  if (low === -Infinity) {
    return high === Infinity ? "any" : `up to ${formatUnit(high, unit)}`;
  }
  return high === Infinity ? `above ${formatUnit(low, unit)}` : `${formatUnit(low, unit)} – ${formatUnit(high, unit)}`;
}

/** Edges of bins that have room for a label, with their places. @param least pixels between two */
export function edgeLabels(
  bins: readonly Bin[],
  rows: readonly Row[],
  least: number,
): readonly { readonly value: number; readonly y: number }[] {
  const found: { readonly value: number; readonly y: number }[] = [];
  const add = (value: number | undefined, y: number | undefined): void => {
    const last = found.at(-1);
    if (
      value !== undefined &&
      y !== undefined &&
      Number.isFinite(value) &&
      (last === undefined || last.y - y >= least)
    ) {
      found.push({ value, y });
    }
  };
  bins.forEach(({ low }, at) => add(low, rows[at]?.bottom));
  add(bins.at(-1)?.high, rows.at(-1)?.top);
  return found;
}

/**
 * The span that a click zooms to: a quarter of the range around the place.
 * @param leastMs a shorter one makes no sense; @returns null: it is as short already.
 */
export function zoomedRange(
  range: { readonly beginMs: number; readonly endMs: number },
  atMs: number,
  leastMs: number,
): { readonly beginMs: number; readonly endMs: number } | null {
  const span = range.endMs - range.beginMs;
  const wanted = Math.max(span / 4, leastMs);
  if (wanted >= span) {
    return null;
  }
  const beginMs = Math.min(Math.max(range.beginMs, atMs - wanted / 2), range.endMs - wanted);
  return { beginMs, endMs: beginMs + wanted };
}
