/** Rate, errors and duration of requests over time. */
import { type ReactElement, useMemo } from "react";

import type { SqlState } from "../../api/use-query-sql.js";
import { useTimeRange } from "../../app/time-range-context.js";
import type { Buckets } from "../../ui/chart/buckets.js";
import { TimeChart } from "../../ui/chart/time-chart.js";
import { seriesColour } from "../../ui/colours.js";
import { absoluteRange } from "../../ui/time-range.js";
import { redSeries } from "./red-series.js";
import css from "./service-page.module.css";

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
  const charts = useMemo(() => redSeries(result, seriesColour(name), buckets), [result, buckets, name]);
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
