/** Buckets of time: whole ones, each with a value, so that a minute without requests is 0 and not a line across it. */
import type { ResolvedRange } from "../time-range.js";
import { bucketSeconds, type ChartData } from "./series.js";

/** The buckets of a range. */
export interface Buckets {
  readonly seconds: number;
  /** For `date_bin`: `30 seconds`. */
  readonly width: string;
  /** From the first bucket to the end of the last, or to the end of the range where that is earlier. */
  readonly range: ResolvedRange;
  /** The range whose rows are asked for: it may begin within the first bucket. */
  readonly asked: ResolvedRange;
  /** Beginnings, in milliseconds since the epoch. */
  readonly times: Float64Array;
}

/**
 * The buckets that a range meets.
 * @param pixels of the chart. @param o.leastSeconds narrower ones make no sense, for example below the interval at which
 *   something reports.
 */
export function bucketsOf(range: ResolvedRange, pixels: number, o: { readonly leastSeconds?: number } = {}): Buckets {
  const seconds = Math.max(bucketSeconds(range.endMs - range.beginMs, pixels), o.leastSeconds ?? 1);
  const stepMs = seconds * 1000;
  const beginMs = Math.floor(range.beginMs / stepMs) * stepMs;
  const count = Math.max(1, Math.ceil((range.endMs - beginMs) / stepMs));
  const times = Float64Array.from({ length: count }, (_, at) => beginMs + at * stepMs);
  return { seconds, width: `${seconds} seconds`, range: { beginMs, endMs: range.endMs }, asked: range, times };
}

/** The same series with a value for every bucket. @param fill of buckets without one; NaN leaves a gap. */
export function inEveryBucket(data: ChartData, buckets: Buckets, fill: number): ChartData {
  const places = new Map([...buckets.times].map((ms, at) => [ms, at]));
  return {
    ...data,
    times: buckets.times,
    series: data.series.map((series) => {
      const values = new Float64Array(buckets.times.length).fill(fill);
      series.values.forEach((value, at) => {
        const place = places.get(data.times[at] ?? Number.NaN);
        if (place !== undefined && !Number.isNaN(value)) {
          values[place] = value;
        }
      });
      return { ...series, values };
    }),
  };
}

/** Sums of buckets per second; the range may begin within the first bucket and end within the last. */
export function perSecond(data: ChartData, { times, seconds, asked }: Buckets): ChartData {
  const secondsAt = (at: number): number => {
    const beginMs = times[at] ?? 0;
    return (Math.min(asked.endMs, beginMs + seconds * 1000) - Math.max(asked.beginMs, beginMs)) / 1000;
  };
  return {
    ...data,
    series: data.series.map((series) => ({
      ...series,
      values: series.values.map((value, at) => value / Math.max(1, secondsAt(at))),
    })),
  };
}
