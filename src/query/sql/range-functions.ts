/**
 * Functions of a time range that are called after FROM and stand for a query over the views:
 * `service_edges(begin, end)`, `attribute_keys(begin, end)`. The gate puts the query in the place of the call and then
 * walks it as if the caller had written it, so that it reads what the caller may read and prunes as anything else.
 */
import { audienceColumn } from "./file-source.js";
import { catalogName, schemaName } from "./catalog-names.js";
import type { RowColumns } from "../../lake/tables/duckdb-types.js";

/** What stands in a template for the begin and the end of the range. */
export const rangeBegin = "svc begin";
export const rangeEnd = "svc end";

/** A function of a range: its columns, and its SELECT of rows that meet a condition on `time`. */
interface RangeFunctionDefinition {
  readonly columns: RowColumns;
  readonly sql: (where: string) => string;
}

/** What `json_type` calls the types of values, by our words for them; other numbers are integers. */
const attributeType =
  "CASE coalesce(json_type(svc_entry.value), 'NULL') WHEN 'VARCHAR' THEN 'string' WHEN 'BOOLEAN' THEN 'bool' " +
  "WHEN 'DOUBLE' THEN 'double' WHEN 'ARRAY' THEN 'array' WHEN 'OBJECT' THEN 'kvlist' WHEN 'NULL' THEN 'empty' ELSE 'int' END";

const qualified = (view: string): string => `${catalogName}.${schemaName}.${view}`;

/** Definitions by name. */
export const rangeFunctions = {
  service_edges: {
    columns: [
      ["caller", "VARCHAR"],
      ["callee", "VARCHAR"],
      ["callee_type", "VARCHAR"],
      ["calls", "BIGINT"],
      ["errors", "BIGINT"],
      ["p50_ms", "DOUBLE"],
      ["p95_ms", "DOUBLE"],
      audienceColumn,
    ],
    sql: (where) =>
      // Both quantiles at once: each on its own would keep all values.
      `SELECT caller, callee, callee_type, calls, errors, svc_quantiles[1] AS p50_ms, svc_quantiles[2] AS p95_ms, audience
       FROM (
         SELECT caller, callee, callee_type, audience, count(*) AS calls, count(*) FILTER (is_error) AS errors,
           quantile_cont(duration_ms, [0.5, 0.95]) AS svc_quantiles
         FROM ${qualified("service_latencies")}${where} GROUP BY ALL)
       ORDER BY calls DESC, caller, callee`,
  },
  attribute_keys: {
    columns: [
      ["view", "VARCHAR"],
      ["key", "VARCHAR"],
      ["type", "VARCHAR"],
      ["rows", "BIGINT"],
      ["distinct_values", "BIGINT"],
      audienceColumn,
    ],
    // Rows with the same attributes are taken apart once, and as maps, of which DuckDB fills whole vectors: `json_each`
    // makes a small one for each row.
    sql: (where) =>
      `SELECT "view", key, type, CAST(round(sum(svc_weight)) AS BIGINT) AS "rows",
         approx_count_distinct(coalesce(svc_value, 'null')) AS distinct_values, audience
       FROM (
         SELECT "view", svc_entry.key AS key, svc_entry.value AS svc_value, ${attributeType} AS type, svc_weight, audience
         FROM (
           SELECT "view", unnest(map_entries(CAST(CAST(properties AS JSON) AS MAP(VARCHAR, JSON)))) AS svc_entry,
             svc_weight, audience
           FROM (
             SELECT "view", properties, sum(weight) AS svc_weight, audience
             FROM ${qualified("attribute_samples")}${where} GROUP BY ALL)))
       GROUP BY ALL
       ORDER BY "view", "rows" DESC, key, type`,
  },
} as const satisfies Readonly<Record<string, RangeFunctionDefinition>>;

/** A function of a range. */
export type RangeFunction = keyof typeof rangeFunctions;

/** Whether a name in lower case is that of a function of a range. */
export function isRangeFunction(name: string): name is RangeFunction {
  return Object.hasOwn(rangeFunctions, name);
}

/** The query of a call, with {@link rangeBegin} and {@link rangeEnd} in it when it has arguments. */
export function rangeTemplate(name: RangeFunction, ranged: boolean): string {
  const where = ranged ? ` WHERE time >= '${rangeBegin}' AND time < '${rangeEnd}'` : "";
  return `SELECT * FROM (${rangeFunctions[name].sql(where)}) AS svc_template`;
}
