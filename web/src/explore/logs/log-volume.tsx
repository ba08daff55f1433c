/** How many records there were of each level, over time. */
import { type ReactElement, useEffect, useMemo, useState } from "react";

import type { QueryResult } from "../../api/query.js";
import { type SqlState, useQuerySql } from "../../api/use-query-sql.js";
import { serverNow } from "../../api/server-clock.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { type Buckets, bucketsOf, inEveryBucket } from "../../ui/chart/buckets.js";
import { type ChartData, toSeries } from "../../ui/chart/series.js";
import { TimeChart } from "../../ui/chart/time-chart.js";
import { levelColour } from "../../ui/colours.js";
import type { Condition } from "../../ui/filters/filters.js";
import { absoluteRange, type ResolvedRange, resolveRange } from "../../ui/time-range.js";
import css from "./logs-page.module.css";

const levels = ["fatal", "error", "warn", "info", "debug", "trace", "unknown"] as const;
const followEveryMs = 5000;

export interface Volume {
  readonly range: ResolvedRange;
  readonly data: ChartData;
  /** Of each level that there is, the worst first. */
  readonly totals: readonly { readonly level: string; readonly count: number }[];
  readonly total: number;
  readonly state: SqlState;
}

/** @param isLive follows the clock, as the live tail does */
export function useVolume(condition: Condition, pixels: number, isLive: boolean): Volume {
  const resolved = useFollowedRange(isLive);
  const buckets = bucketsOf(resolved, pixels);
  const state = useQuerySql(
    `SELECT date_bin('${buckets.width}', time) AS bucket, ifnull(level_name, 'unknown') AS level, count(*) AS entries
FROM log_entries WHERE ${condition.sql} GROUP BY ALL`,
    { parameters: condition.parameters, range: resolved },
  );
  const { result } = state;
  return useMemo(() => {
    const data = volumeData(result, buckets);
    const totals = data.series.map(({ name, values }) => ({
      level: name,
      count: values.reduce((sum, each) => sum + each, 0),
    }));
    return { range: resolved, data, totals, total: totals.reduce((sum, { count }) => sum + count, 0), state };
  }, [state]);
}

/** The range of the page, which is counted anew from the present every few seconds while it is live. */
function useFollowedRange(isLive: boolean): ResolvedRange {
  const { range, resolved } = useTimeRange();
  const [followed, setFollowed] = useState<ResolvedRange | null>(null);
  const { from, to } = range;
  useEffect(() => {
    setFollowed(null);
    if (!isLive) {
      return undefined;
    }
    const timer = setInterval(() => {
      if (!document.hidden) {
        setFollowed(resolveRange({ from, to }, serverNow()));
      }
    }, followEveryMs);
    return () => clearInterval(timer);
  }, [isLive, from, to, resolved]);
  return followed ?? resolved;
}

/** A bar for every bucket of the range, also for those without a record; the worst level at the bottom. */
function volumeData(result: QueryResult | null, buckets: Buckets): ChartData {
  if (result === null) {
    return { times: new Float64Array(0), series: [] };
  }
  const found = toSeries(result, { time: "bucket", value: "entries", name: "level" });
  const { times, series } = inEveryBucket(found, buckets, 0);
  const worstFirst = series.toSorted((a, b) => levels.indexOf(a.name as "info") - levels.indexOf(b.name as "info"));
  return { times, series: worstFirst.map((level) => ({ ...level, colour: levelColour(level.name) })) };
}

export function VolumeChart({ volume, narrow }: { readonly volume: Volume; readonly narrow: boolean }): ReactElement {
  const { setRange } = useTimeRange();
  const height = narrow ? 72 : 104;
  return (
    <div className={css.volume} style={{ minHeight: height }}>
      <TimeChart
        title="Log records over time, by level"
        data={volume.data}
        range={volume.range}
        kind="bars"
        height={height}
        legend={false}
        stale={volume.state.stale}
        onRange={(range) => setRange(absoluteRange(range))}
      />
    </div>
  );
}
