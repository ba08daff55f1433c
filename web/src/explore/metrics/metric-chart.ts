/** A chart of a metric: what can be asked of each kind, the SQL that asks it, and its text in the address. */
import type { Condition } from "../../ui/filters/filters.js";
import type { Buckets } from "../../ui/chart/buckets.js";
import type { Unit } from "../../ui/chart/units.js";
import { formatCount, formatNumber } from "../../ui/format.js";
import { type Scale, scales } from "./heatmap/scale.js";

/** What the points of a metric are, as far as charts differ. */
export type MetricKind = "counter" | "gauge" | "histogram" | "exponential_histogram";

/** What is shown of a metric. */
export interface MetricChart {
  readonly kind: MetricKind;
  readonly aggregation: string;
  /** Empty: all together; `service_name`; else a key of attributes. */
  readonly by: string;
  readonly name: string;
  /** Of a heatmap; logarithmic values and linear counts unless given. */
  readonly look?: HeatmapLook;
}

export interface HeatmapLook {
  readonly values: Scale;
  readonly counts: Scale;
}

export const usualLook: HeatmapLook = { values: "log", counts: "linear" };

/** What a chart may show, the first one at first. */
export const aggregations: Readonly<Record<MetricKind, readonly string[]>> = {
  counter: ["rate", "increase"],
  gauge: ["avg", "min", "max"],
  histogram: ["p95", "p50", "p99", "mean", "rate", "heatmap"],
  exponential_histogram: ["p95", "p50", "p99", "mean", "rate", "heatmap"],
};

const kinds = Object.keys(aggregations) as MetricKind[];

/** Of a row of `metric_catalogue`; null for what has no chart. */
export function kindOf(kind: string, isMonotonic: boolean): MetricKind | null {
  if (kind === "sum") {
    return isMonotonic ? "counter" : "gauge";
  }
  return kinds.find((each) => each === kind) ?? null;
}

/** As an address has it. */
export function chartText({ kind, aggregation, by, name, look = usualLook }: MetricChart): string {
  const isUsual = look.values === usualLook.values && look.counts === usualLook.counts;
  return JSON.stringify([kind, aggregation, by, name, ...(isUsual ? [] : [look.values, look.counts])]);
}

/** Null for anything else than what {@link chartText} makes. */
export function parseChart(text: string): MetricChart | null {
  try {
    const [kind, aggregation, by, name, ...rest] = JSON.parse(text) as readonly unknown[];
    const known = kinds.find((each) => each === kind);
    const asked = known === undefined ? undefined : aggregations[known].find((each) => each === aggregation);
    const [values, counts] = rest.map((each) => scales.find((scale) => scale === each));
    const look = values === undefined || counts === undefined ? null : { values, counts };
    return known === undefined ||
      asked === undefined ||
      typeof by !== "string" ||
      typeof name !== "string" ||
      (rest.length > 0 && (rest.length !== 2 || look === null))
      ? null
      : { kind: known, aggregation: asked, by, name, ...(look === null ? {} : { look }) };
  } catch {
    return null;
  }
}

/** The unit of the values, of a metric with this one. */
export function chartUnit({ aggregation }: MetricChart, unit: Unit): Unit {
  return aggregation === "rate" ? "per-second" : unit;
}

const views: Readonly<Record<MetricKind, string>> = {
  counter: "counter_increases",
  gauge: "measures",
  histogram: "histogram_increases",
  exponential_histogram: "histogram_increases",
};

/** What rows of the kind have; a name may have points of several. */
const columns: Readonly<Partial<Record<MetricKind, string>>> = {
  histogram: "histogram",
  exponential_histogram: "exp_histogram",
};

const quantiles: Readonly<Record<string, number>> = { p50: 0.5, p95: 0.95, p99: 0.99 };

/** What is said of a chart whose values all are none, or no finite numbers. */
export function nothingDrawn({ aggregation }: MetricChart): string {
  return aggregation in quantiles
    ? "Nothing to draw: no quantile is a finite number. Histograms without buckets have none: choose mean or rate."
    : "Nothing to draw: no value in this time range is a finite number.";
}

/** Most series that are named. */
const mostNamed = 3;

/** Of series with steps whose histograms cannot be added up, each with their number; null: there is none. */
export function mixedWords({ kind, aggregation, by }: MetricChart, mixed: ReadonlyMap<string, number>): string | null {
  if (mixed.size === 0) {
    return null;
  }
  const named = [...mixed].slice(0, mostNamed).map(([series, count]) => {
    const steps = `in ${formatCount(count, "step")}`;
    return by === "" ? steps : `of ${series} ${steps}`;
  });
  const others = mixed.size > mostNamed ? [`of ${formatNumber(mixed.size - mostNamed)} more`] : [];
  const differ = kind === "histogram" ? "bounds" : "zero thresholds";
  const instead = by === "service_name" ? "Choose" : "Draw them by service, or choose";
  return (
    `No ${aggregation} ${[...named, ...others].join(", ")}: histograms of different ${differ} cannot be added up. ` +
    `${instead} mean, rate or heatmap.`
  );
}

/** Rows of time, series and value, and of a quantile whether it is null because its histograms are mixed. */
export function chartSql(chart: MetricChart, buckets: Buckets, whose: Condition): Condition {
  const { kind, by, name } = chart;
  const series =
    by === ""
      ? { sql: "NULL::VARCHAR", parameters: [] }
      : by === "service_name"
        ? { sql: "coalesce(service_name, 'unknown_service')", parameters: [] }
        : { sql: "coalesce(attr(properties, ?), '(none)')", parameters: [by] };
  const only = columns[kind] === undefined ? "" : ` AND ${columns[kind]} IS NOT NULL`;
  const rows = `FROM ${views[kind]} WHERE name = ? AND ${whose.sql}${only}`;
  return {
    sql: isSpread(chart)
      ? spreadSql(chart, buckets, series.sql, rows)
      : `SELECT date_bin(to_seconds(${buckets.seconds}), time) AS time, ${series.sql} AS series, ${valueSql(chart)} AS value
${rows} GROUP BY ALL ORDER BY time`,
    parameters: [...series.parameters, name, ...whose.parameters],
  };
}

/** Whether a chart shows by how much something rose, in each of its buckets. */
const isSpread = ({ aggregation }: MetricChart): boolean => ["rate", "increase"].includes(aggregation);

/** A point is the last of its series while the next is not due: so many times its own time may have passed. */
const dueAfter = 1.5;

/**
 * Each point rose over a time that may be longer than a bucket, and series report at different times: its increase is
 * spread over the buckets that its time meets. A rate goes on until the next point is due, so that it does not fall at
 * the end of the range.
 */
function spreadSql(
  { kind, aggregation }: MetricChart,
  { seconds, asked }: Buckets,
  series: string,
  rows: string,
): string {
  const [begin, end] = [asked.beginMs / 1000, asked.endMs / 1000];
  const isRate = aggregation === "rate";
  const until = isRate
    ? `CASE WHEN is_last AND ${end} - ended < ${dueAfter} * took THEN ${end} ELSE ended END`
    : "ended";
  const width = `(least(${end}, (bucket + 1) * ${seconds}) - greatest(${begin}, bucket * ${seconds}))`;
  return `WITH points AS (
  SELECT epoch_ns(time) / 1e9 AS ended, coalesce(nullif(seconds, 0), ${seconds}) AS took, ${kind === "counter" ? "increase" : "count"} AS rose,
    lead(time) OVER (PARTITION BY series ORDER BY time) IS NULL AS is_last, ${series} AS line
  ${rows}),
spread AS (
  SELECT line, rose / took AS rate, greatest(ended - took, ${begin}) AS since, least(${until}, ${end}) AS until FROM points),
parts AS (
  SELECT *, unnest(range(floor(since / ${seconds})::BIGINT, ceil(until / ${seconds})::BIGINT)) AS bucket
  FROM spread WHERE since < until)
SELECT make_timestamp(bucket * ${seconds * 1e6}) AS time, line AS series,
  sum(rate * (least(until, (bucket + 1) * ${seconds}) - greatest(since, bucket * ${seconds})))${isRate ? ` / ${width}` : ""} AS value
FROM parts GROUP BY bucket, line ORDER BY time`;
}

function valueSql({ kind, aggregation }: MetricChart): string {
  const quantile = quantiles[aggregation];
  if (quantile !== undefined) {
    const [merged, must] =
      kind === "histogram"
        ? [`histogram_quantile(${quantile}, histogram_merge(histogram))`, "hash(histogram.explicit_bounds)"]
        : [
            `exp_histogram_quantile(${quantile}, exp_histogram_merge(exp_histogram))`,
            "coalesce(exp_histogram.zero_threshold, 0)",
          ];
    // What a merge refuses would fail the query, and with it the steps and series that are right.
    return `min(${must}) <> max(${must}) AS mixed, CASE WHEN NOT mixed THEN ${merged} END`;
  }
  switch (aggregation) {
    case "mean":
      return "sum(sum) / nullif(sum(count), 0)";
    case "min":
      return "min(value)";
    case "max":
      return "max(value)";
    default:
      return "avg(value)";
  }
}
