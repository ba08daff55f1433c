/** Rate, errors and duration of requests over time. */
import { type ReactElement, useMemo } from "react";

import type { SqlState } from "../../api/use-query-sql.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { type Buckets, inEveryBucket, perSecond } from "../../ui/chart/buckets.js";
import { type ChartData, toSeries } from "../../ui/chart/series.js";
import { TimeChart } from "../../ui/chart/time-chart.js";
import { seriesColour } from "../../ui/colours.js";
import { absoluteRange } from "../../ui/time-range.js";
import css from "./service-page.module.css";

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

export function RedCharts({
  name,
  overTime,
  buckets,
}: {
  readonly name: string;
  readonly overTime: SqlState;
  readonly buckets: Buckets;
}): ReactElement | null {
  const { resolved, setRange } = useTimeRange();
  const { result } = overTime;
  const charts = useMemo(() => {
    const one = (value: string, title: string, colour: string): ChartData => {
      const data =
        result === null
          ? { times: new Float64Array(0), series: [] }
          : toSeries(result, { time: "bucket", value, name: null });
      return { ...data, series: data.series.map((series) => ({ ...series, name: title, colour })) };
    };
    const requests = perSecond(inEveryBucket(one("requests", "Requests", seriesColour(name)), buckets, 0), buckets);
    const errors = inEveryBucket(one("errors", "Errors", "var(--level-error)"), buckets, 0);
    const lines = quantiles.map(([id, colour]) => one(id, id, colour));
    const durations = inEveryBucket(
      { times: lines[0]?.times ?? new Float64Array(0), series: lines.flatMap(({ series }) => series) },
      buckets,
      Number.NaN,
    );
    return { requests, errors, durations };
  }, [result, buckets, name]);
  const shared = {
    heading: true,
    range: resolved,
    height: 150,
    stale: overTime.stale,
    onRange: (range: typeof resolved) => setRange(absoluteRange(range)),
  };
  return (
    <div className={css.charts}>
      <TimeChart title="Rate" data={charts.requests} unit="per-second" {...shared} />
      <TimeChart title="Errors" data={charts.errors} unit="fraction" {...shared} />
      <TimeChart title="Duration" data={charts.durations} unit="milliseconds" legend {...shared} />
    </div>
  );
}
