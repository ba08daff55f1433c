/** A chart of a metric: what can be asked of each kind, the SQL that asks it, and its text in the address. */
import type { Condition } from "../../ui/filters.js";
import type { Unit } from "../../ui/chart/units.js";
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

const quantiles: Readonly<Record<string, number>> = { p50: 0.5, p95: 0.95, p99: 0.99 };

/** Rows of time, series and value. @param seconds of a bucket */
export function chartSql(chart: MetricChart, seconds: number, whose: Condition): Condition {
  const { kind, by, name } = chart;
  const series =
    by === ""
      ? { sql: "NULL::VARCHAR", parameters: [] }
      : by === "service_name"
        ? { sql: "coalesce(service_name, 'unknown_service')", parameters: [] }
        : { sql: "coalesce(attr(properties, ?), '(none)')", parameters: [by] };
  const only = kind === "histogram" ? " AND histogram IS NOT NULL" : "";
  return {
    sql: `SELECT date_bin(to_seconds(${seconds}), time) AS time, ${series.sql} AS series, ${valueSql(chart, seconds)} AS value
FROM ${views[kind]} WHERE name = ? AND ${whose.sql}${only} GROUP BY ALL ORDER BY time`,
    parameters: [...series.parameters, name, ...whose.parameters],
  };
}

function valueSql({ kind, aggregation }: MetricChart, seconds: number): string {
  const quantile = quantiles[aggregation];
  if (quantile !== undefined) {
    return kind === "histogram"
      ? `histogram_quantile(${quantile}, histogram_merge(histogram))`
      : `exp_histogram_quantile(${quantile}, exp_histogram_merge(exp_histogram))`;
  }
  switch (aggregation) {
    case "rate":
      return kind === "counter" ? `sum(increase) / ${seconds}` : `sum(count) / ${seconds}`;
    case "increase":
      return "sum(increase)";
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
