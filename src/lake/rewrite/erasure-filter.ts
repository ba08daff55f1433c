/** Which rows an erasure takes: what administrators ask for, read from the task, and as conditions of SQL. */
import type { EngineValue } from "../../engine/protocol.js";
import type { RowCondition } from "../merge/merge-sql.js";
import type { TableName } from "../tables/tables.js";

/** What rows have in common. */
type ErasureCondition =
  | { readonly kind: "service"; readonly name: string }
  | { readonly kind: "process"; readonly processId: string }
  | { readonly kind: "trace"; readonly traceId: string }
  | { readonly kind: "attribute"; readonly key: string; readonly value: string };

/** Rows to erase. */
export interface ErasureFilter {
  readonly audience: string;
  readonly condition: ErasureCondition;
  /** Bounds of the rows' `time` in nanoseconds since 1970, the second one excluded; null: none. */
  readonly beginNs: bigint | null;
  readonly endNs: bigint | null;
}

/** The request of a task, as the administration stores it. @throws TypeError for anything else */
export function readErasureFilter(request: unknown): ErasureFilter {
  const { audience, where, begin_ns: begin, end_ns: end } = recordOf(request);
  return {
    audience: textOf(audience),
    condition: conditionOf(recordOf(where)),
    beginNs: nanosOf(begin),
    endNs: nanosOf(end),
  };
}

function conditionOf({ service, process, trace, attribute }: Readonly<Record<string, unknown>>): ErasureCondition {
  if (service !== undefined) {
    return { kind: "service", name: textOf(service) };
  }
  if (process !== undefined) {
    return { kind: "process", processId: textOf(process) };
  }
  if (trace !== undefined) {
    return { kind: "trace", traceId: textOf(trace) };
  }
  const { key, value } = recordOf(attribute);
  return { kind: "attribute", key: textOf(key), value: textOf(value) };
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw new TypeError("the request of an erasure cannot be read");
}

function textOf(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  throw new TypeError("the request of an erasure cannot be read");
}

function nanosOf(value: unknown): bigint | null {
  return value === undefined || value === null ? null : BigInt(textOf(value));
}

/** Columns that hold attributes as JSON objects. */
const attributeColumns: Readonly<Record<TableName, readonly string[]>> = {
  log_entries: ["properties", "scope_properties", "process_properties"],
  measures: ["properties", "metric_properties", "scope_properties", "process_properties"],
  histograms: ["properties", "metric_properties", "scope_properties", "process_properties"],
  spans: ["properties", "scope_properties", "process_properties"],
};
/** Columns with lists of structs that have attributes of their own. */
const attributeLists: Readonly<Record<TableName, readonly string[]>> = {
  log_entries: [],
  measures: ["exemplars"],
  histograms: ["exemplars"],
  spans: ["events", "links"],
};

/** The rows of a table that go by any of some erasures; null when it can hold none. */
export function erasedRows(table: TableName, filters: readonly ErasureFilter[]): RowCondition | null {
  const values: EngineValue[] = [];
  const parameter: Parameter = (type, text) => {
    values.push({ type, text });
    return `$${values.length}`;
  };
  const conditions = filters.flatMap(({ condition, beginNs, endNs }) => {
    const sql = conditionSql(table, condition, parameter);
    if (sql === null) {
      return [];
    }
    const bounds = [
      ...(beginNs === null || beginNs <= -beyondNs ? [] : [boundSql(">=", beginNs, parameter)]),
      ...(endNs === null || endNs >= beyondNs ? [] : [boundSql("<", endNs, parameter)]),
    ];
    return [`(${[`(${sql})`, ...bounds].join(" AND ")})`];
  });
  return conditions.length === 0 ? null : { sql: conditions.join(" OR "), values };
}

type Parameter = (type: string, text: string) => string;

/** Bounds from here on, which the administration sets to this, leave a side open or meet nothing: DuckDB has no such time. */
const beyondNs = 2n ** 63n - 1n;

function boundSql(operator: ">=" | "<", ns: bigint, parameter: Parameter): string {
  const isTime = -beyondNs < ns && ns < beyondNs;
  return isTime ? `time ${operator} make_timestamp_ns(${parameter("BIGINT", String(ns))})` : "false";
}

function conditionSql(table: TableName, condition: ErasureCondition, parameter: Parameter): string | null {
  switch (condition.kind) {
    case "service":
      return `service_name = ${parameter("VARCHAR", condition.name)}`;
    case "process":
      return `process_id = ${parameter("VARCHAR", condition.processId)}`;
    case "trace":
      return table === "log_entries" || table === "spans"
        ? `trace_id = ${parameter("VARCHAR", condition.traceId)}`
        : null;
    case "attribute": {
      const key = parameter("VARCHAR", condition.key);
      const value = parameter("VARCHAR", condition.value);
      const holds = (json: string): string => attributeSql(json, condition.key, key, value);
      return [
        ...attributeColumns[table].map(holds),
        ...attributeLists[table].map((list) => `len(list_filter(${list}, lambda one: ${holds("one.properties")})) > 0`),
      ].join(" OR ");
    }
  }
}

/** Characters that JSON leaves as they are, so that the text of an object that has such a key holds it. */
const plainKey = /^[A-Za-z0-9_.:@ -]+$/u;

/** Whether a JSON object has a key with a value, at any of the places where a key that was sent twice stands. */
function attributeSql(json: string, name: string, key: string, value: string): string {
  const pairs = `list_zip(json_keys(${json}), json_extract_string(${json}, '$.*'))`;
  const may = plainKey.test(name) ? `contains(${json}, ${key}) AND json_valid(${json})` : `json_valid(${json})`;
  return `CASE WHEN ${may} THEN len(list_filter(${pairs}, lambda pair: pair[1] = ${key} AND pair[2] = ${value})) > 0 ELSE false END`;
}
