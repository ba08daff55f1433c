/** What a heatmap asks, and what it makes of the answers. */
import { cellsOf } from "../../../api/cells.js";
import type { Condition } from "../../../ui/filters/filters.js";
import type { QueryResult } from "../../../api/query.js";
import type { Value } from "../../../arrow/column.js";
import { explicitHeatmap, exponentialHeatmap, type Heatmap } from "./bins.js";

/** The kinds of metrics that have buckets. */
export type BucketKind = "histogram" | "exponential_histogram";

/** Rows of a time and its buckets; several where series have other ones. @param seconds of a step */
export function heatmapSql(kind: BucketKind, name: string, seconds: number, whose: Condition): Condition {
  const step = `date_bin(to_seconds(${seconds}), time)`;
  const parameters = [name, ...whose.parameters];
  return kind === "histogram"
    ? {
        sql: `SELECT ${step} AS time, explicit_bounds AS bounds, histogram_merge(bucket_counts) AS counts
FROM histogram_increases WHERE name = ? AND ${whose.sql} AND histogram IS NOT NULL GROUP BY ALL ORDER BY time`,
        parameters,
      }
    : {
        sql: `SELECT time, h.scale AS scale, h.zero_count AS zero_count, h.zero_threshold AS zero_threshold,
  h.positive_offset AS positive_offset, h.positive_bucket_counts AS positive,
  h.negative_offset AS negative_offset, h.negative_bucket_counts AS negative
FROM (SELECT ${step} AS time, exp_histogram.zero_threshold AS threshold, exp_histogram_merge(exp_histogram) AS h
  FROM histogram_increases WHERE name = ? AND ${whose.sql} AND exp_histogram IS NOT NULL GROUP BY ALL)
ORDER BY time`,
        parameters,
      };
}

export function readHeatmap(kind: BucketKind, result: QueryResult): Heatmap {
  const { number, value } = cellsOf(result);
  const list = (name: string, row: number): readonly number[] => numbers(value(name, row));
  const rows = Array.from({ length: result.rows }, (_, row) => row);
  // Null is an offset of no buckets.
  const whole = (name: string, row: number): number => number(name, row) || 0;
  return kind === "histogram"
    ? explicitHeatmap(
        rows.map((row) => ({ timeMs: number("time", row), bounds: list("bounds", row), counts: list("counts", row) })),
      )
    : exponentialHeatmap(
        rows.map((row) => ({
          timeMs: number("time", row),
          scale: whole("scale", row),
          zeroCount: whole("zero_count", row),
          zeroThreshold: whole("zero_threshold", row),
          positiveOffset: whole("positive_offset", row),
          positive: list("positive", row),
          negativeOffset: whole("negative_offset", row),
          negative: list("negative", row),
        })),
      );
}

const numbers = (value: Value): readonly number[] => (Array.isArray(value) ? value.map(Number) : []);

/** A measurement that names its trace. */
export interface Exemplar {
  readonly timeMs: number;
  readonly value: number;
  readonly traceId: string;
  readonly spanId: string | null;
}

/** The largest of each of some steps. */
export function exemplarsSql(kind: BucketKind, name: string, seconds: number, whose: Condition): Condition {
  return {
    sql: `SELECT arg_max(e.time, e.value) AS time, max(e.value) AS value, arg_max(e.trace_id, e.value) AS trace_id,
  arg_max(e.span_id, e.value) AS span_id
FROM (SELECT unnest(exemplars) AS e FROM histograms WHERE metric_type = ? AND name = ? AND ${whose.sql})
WHERE e.trace_id IS NOT NULL GROUP BY date_bin(to_seconds(${seconds}), e.time) ORDER BY time LIMIT 200`,
    parameters: [kind, name, ...whose.parameters],
  };
}

export function readExemplars(result: QueryResult | null): readonly Exemplar[] {
  if (result === null) {
    return [];
  }
  const { text, number } = cellsOf(result);
  return Array.from({ length: result.rows }, (_, row) => ({
    timeMs: number("time", row),
    value: number("value", row),
    traceId: text("trace_id", row),
    spanId: text("span_id", row) === "" ? null : text("span_id", row),
  }));
}
