/** Series of a chart, and what a result of a query makes of them. */
import type { QueryResult } from "../../api/query.js";
import { type Column, keyText } from "../../arrow/column.js";
import { lastDateMs, momentOfClock } from "../format.js";
import type { ResolvedRange } from "../time-range.js";

interface ChartSeries {
  readonly name: string;
  /** As many as there are times; what is not finite is drawn as a gap. */
  readonly values: Float64Array;
  /** A variable of the theme; left out: by its name. */
  readonly colour?: string;
}

export interface ChartData {
  /** Milliseconds since the epoch, ascending. */
  readonly times: Float64Array;
  readonly series: readonly ChartSeries[];
  /** How many series there are where these are not all. */
  readonly of?: number;
}

/** More make no picture, and no legend; and each has a value for every time. */
const mostSeries = 50;

/**
 * The rows of a result as series, the first {@link mostSeries} in the order in which their names come.
 * @param o.time a column of timestamps, or of dates, whose days begin where those of the chosen zone do; @param o.value of numbers; @param o.name what tells series apart; null: one.
 * @param o.fill of times at which a series has no row.
 */
export function toSeries(
  result: QueryResult,
  o: { readonly time: string; readonly value: string; readonly name: string | null; readonly fill?: number },
): ChartData {
  const find = (name: string): Column | undefined => result.columns.find((column) => column.name === name);
  const time = find(o.time);
  const value = find(o.value);
  const name = o.name === null ? undefined : find(o.name);
  if (time === undefined || value === undefined) {
    return { times: new Float64Array(0), series: [] };
  }
  const momentAt = time.type.kind === "date" ? dayBeginning(time) : (row: number) => time.number(row);
  const moments = new Set(Array.from({ length: result.rows }, (_, row) => momentAt(row)).filter(isMoment));
  const times = Float64Array.from(moments).sort();
  const places = new Map(Array.from(times, (ms, at) => [ms, at]));
  const found = new Map<string, Float64Array>();
  const others = new Set<string>();
  for (let row = 0; row < result.rows; row++) {
    const at = places.get(momentAt(row));
    if (at === undefined) {
      continue;
    }
    const key = name === undefined ? o.value : keyText(name.value(row));
    let values = found.get(key);
    if (values === undefined) {
      if (found.size === mostSeries) {
        others.add(key);
        continue;
      }
      values = new Float64Array(times.length).fill(o.fill ?? Number.NaN);
      found.set(key, values);
    }
    values[at] = value.number(row);
  }
  const series = [...found].map(([each, values]) => ({ name: each, values }));
  return { times, series, ...(others.size === 0 ? {} : { of: series.length + others.size }) };
}

/** When the days of a column of dates begin. */
function dayBeginning(date: Column): (row: number) => number {
  const known = new Map<number, number>();
  return (row) => {
    const ms = date.number(row);
    const begin = known.get(ms) ?? (isMoment(ms) ? momentOfClock(ms) : ms);
    known.set(ms, begin);
    return begin;
  };
}

/** Whether a chart can have a column as its axis. */
export const isTime = ({ type }: Column): boolean => type.kind === "timestamp" || type.kind === "date";

/** What a chart of days shows: all of them in whole, and the range of the page where that is near. */
export function rangeOfDays(times: Float64Array, page: ResolvedRange): ResolvedRange {
  const beginMs = times[0] ?? page.beginMs;
  const endMs = (times.at(-1) ?? page.endMs) + dayMs;
  return beginMs >= page.endMs || endMs <= page.beginMs
    ? { beginMs, endMs }
    : { beginMs: Math.min(beginMs, page.beginMs), endMs: Math.max(endMs, page.endMs) };
}

const dayMs = 86_400_000;

/** Null and `infinity` have no place on an axis. */
const isMoment = (ms: number): boolean => Math.abs(ms) <= lastDateMs;

/** Sums from the first to each, for stacks; what is not finite counts as nothing. */
export function stacked(series: readonly ChartSeries[]): readonly Float64Array[] {
  let below: Float64Array | null = null;
  return series.map(({ values }) => {
    const sums: Float64Array = Float64Array.from(
      values,
      (value, at) => (Number.isFinite(value) ? value : 0) + (below?.[at] ?? 0),
    );
    below = sums;
    return sums;
  });
}

/** A line goes on over this many of the usual steps of its series. */
const mostSteps = 3;

/** The step that half of the others are not longer than; 0: there is none. */
function usualStep(times: readonly number[]): number {
  const steps = times.slice(1).map((ms, at) => ms - (times[at] ?? 0));
  return steps.sort((a, b) => a - b)[steps.length >> 1] ?? 0;
}

/** The same with a time without values in each long step, so that no line is drawn over it. */
export function withHoles({ times, series, ...rest }: ChartData): ChartData {
  const step = usualStep([...times]);
  const all: number[] = [];
  const places: number[] = [];
  times.forEach((ms, at) => {
    const before = all.at(-1);
    if (before !== undefined && ms - before > mostSteps * step) {
      all.push(before + step);
    }
    places[at] = all.length;
    all.push(ms);
  });
  const spread = (values: Float64Array): Float64Array => {
    const wider = new Float64Array(all.length).fill(Number.NaN);
    values.forEach((value, at) => {
      wider[places[at] ?? 0] = value;
    });
    return wider;
  };
  return {
    ...rest,
    times: Float64Array.from(all),
    series: series.map((each) => ({ ...each, values: spread(each.values) })),
  };
}

/**
 * What is drawn of a line. A series that reports more seldom than others, or at other times, has no value where they have
 * one: there its line goes on.
 * @returns null: a gap; undefined: the line goes on
 */
export function lineValues(times: Float64Array, values: Float64Array): (number | null | undefined)[] {
  const drawn = Array.from(values, (value): number | null | undefined => (Number.isFinite(value) ? value : null));
  const present = [...drawn.keys()].filter((at) => drawn[at] !== null);
  const msAt = (at: number): number => times[at] ?? 0;
  const most = mostSteps * usualStep(present.map(msAt));
  present.slice(1).forEach((at, i) => {
    const before = present[i] ?? 0;
    if (msAt(at) - msAt(before) <= most) {
      drawn.fill(undefined, before + 1, at);
    }
  });
  return drawn;
}

/** Where of {@link lineValues} there is a value between two gaps: no line leads to it. Null where there is no such place. */
export function lonePoints(values: ArrayLike<number | null | undefined>): number[] | null {
  const isGap = (at: number): boolean => at < 0 || at >= values.length || values[at] === null;
  const alone = Array.from({ length: values.length }, (_, at) => at).filter(
    (at) => typeof values[at] === "number" && isGap(at - 1) && isGap(at + 1),
  );
  return alone.length === 0 ? null : alone;
}

/** Whether there is anything to draw. */
export const isDrawn = ({ series }: ChartData): boolean => series.some(({ values }) => values.some(Number.isFinite));

/** What the legend says of a series. */
export interface SeriesSummary {
  readonly last: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
}

export function summarize(values: Float64Array): SeriesSummary {
  let last = Number.NaN;
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let sum = 0;
  let count = 0;
  for (const value of values) {
    if (!Number.isNaN(value)) {
      last = value;
      min = Math.min(min, value);
      max = Math.max(max, value);
      sum += value;
      count++;
    }
  }
  return count === 0
    ? { last, min: Number.NaN, max: Number.NaN, mean: Number.NaN }
    : { last, min, max, mean: sum / count };
}

/**
 * A round width of buckets in seconds for a range: as many as fit into the pixels, so that no raw points are shipped.
 * @param pixels of the chart; a bucket gets at least four.
 */
export function bucketSeconds(rangeMs: number, pixels: number): number {
  const least = rangeMs / 1000 / Math.max(20, pixels / 4);
  const round = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
  return round.find((seconds) => seconds >= least) ?? Math.ceil(least / 86_400) * 86_400;
}
