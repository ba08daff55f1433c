/** Rate, errors and duration of requests over time, as series: one value for each bucket. */
import type { QueryResult } from "../../api/query.js";
import { type Buckets, inEveryBucket, perSecond } from "../../ui/chart/buckets.js";
import { type ChartData, toSeries } from "../../ui/chart/series.js";

export function overTimeSql(buckets: Buckets, condition: string): string {
  return `SELECT date_bin('${buckets.width}', time) AS bucket, count(*) AS requests,
  count_if(is_error) / count(*) AS errors, approx_quantile(duration_ms, 0.5) AS p50,
  approx_quantile(duration_ms, 0.95) AS p95, approx_quantile(duration_ms, 0.99) AS p99
FROM spans WHERE ${condition} GROUP BY ALL ORDER BY bucket`;
}

const quantiles = [
  ["p50", "var(--series-2)"],
  ["p95", "var(--series-4)"],
  ["p99", "var(--series-1)"],
] as const;

/** @param result of {@link overTimeSql}; null while there is none. @param colour of the service */
export function redSeries(
  result: QueryResult | null,
  colour: string,
  buckets: Buckets,
): Readonly<Record<"requests" | "errors" | "durations", ChartData>> {
  const one = (value: string, title: string, lineColour: string): ChartData => {
    const data =
      result === null
        ? { times: new Float64Array(0), series: [] }
        : toSeries(result, { time: "bucket", value, name: null });
    return { ...data, series: data.series.map((series) => ({ ...series, name: title, colour: lineColour })) };
  };
  const lines = quantiles.map(([id, lineColour]) => one(id, id, lineColour));
  const durations = { times: lines[0]?.times ?? new Float64Array(0), series: lines.flatMap(({ series }) => series) };
  return {
    requests: perSecond(inEveryBucket(one("requests", "Requests", colour), buckets, 0), buckets),
    // Without requests there is no share that failed, and no duration.
    errors: inEveryBucket(one("errors", "Errors", "var(--level-error)"), buckets, Number.NaN),
    durations: inEveryBucket(durations, buckets, Number.NaN),
  };
}
