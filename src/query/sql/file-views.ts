/** The views over the rows of one table, and over the elements of a span's lists. */
import { columnsOfTable, duckdbLeaf, duckdbType, type RowColumns } from "../../lake/tables/duckdb-types.js";
import { type TableName, tables } from "../../lake/tables/tables.js";
import { minuteSql } from "../../lake/rollup/rollup.js";
import { quoteName } from "../../runtime/text/sql-text.js";
import { audienceColumn, whereSql } from "./file-source.js";
import { type ComputedColumns, exactTime, type FileViewDefinition, noTime } from "./file-view.js";
import { kindNames, levelNames, nameSql, statusNames } from "./value-names.js";

const levelColumns: ComputedColumns = [["level_name", "VARCHAR", nameSql("level", levelNames), "level"]];

const spanColumns: ComputedColumns = [
  ["kind_name", "VARCHAR", nameSql("kind", kindNames), "kind"],
  ["status", "VARCHAR", nameSql("status_code", statusNames), "status_code"],
  ["is_error", "BOOLEAN", "status_code = 2", "status_code"],
  ["is_root", "BOOLEAN", "parent_span_id IS NULL", "parent_span_id"],
  ["duration_ms", "DOUBLE", "duration_ns / 1e6", "duration_ns"],
];

/** Tables of {@link plainViews.attribute_samples}. */
const sampledTables = ["histograms", "log_entries", "measures", "spans"] as const satisfies TableName[];

const logStatsColumns: RowColumns = [
  ["time", "TIMESTAMP_NS"],
  ["process_id", "VARCHAR"],
  ["service_name", "VARCHAR"],
  ["level", "INTEGER"],
  ["target", "VARCHAR"],
  ["count", "BIGINT"],
];

/** Fields of the span and its process that its events and links carry. */
const spanOwners = [
  ["span_trace_id", "trace_id"],
  ["span_id", "span_id"],
  ["span_name", "name"],
  ["process_id", "process_id"],
  ["stream_id", "stream_id"],
  ["block_id", "block_id"],
  ["insert_time", "insert_time"],
  ["service_namespace", "service_namespace"],
  ["service_name", "service_name"],
  ["service_instance_id", "service_instance_id"],
  ["service_version", "service_version"],
  ["host_name", "host_name"],
  ["process_properties", "process_properties"],
] as const satisfies readonly (readonly [string, keyof typeof tables.spans])[];

const spanEventFields = [
  ["time", "time"],
  ["name", "name"],
  ["properties", "properties"],
  ["dropped_attributes_count", "dropped_attributes_count"],
] as const;

const spanLinkFields = [
  ["linked_trace_id", "trace_id"],
  ["linked_span_id", "span_id"],
  ["linked_trace_state", "trace_state"],
  ["flags", "flags"],
  ["properties", "properties"],
  ["dropped_attributes_count", "dropped_attributes_count"],
] as const;

/** In `span_events` and `span_links` the span's own trace id is `trace_id`. */
const ownerName = (name: string): string => (name === "span_trace_id" ? "trace_id" : name);

const spanOwnerColumns: RowColumns = spanOwners.map(
  ([name, column]) => [ownerName(name), duckdbType(tables.spans[column])] as const,
);

function spanElementColumns(list: "events" | "links"): RowColumns {
  if (list === "events") {
    return spanEventFields.map(([name, field]) => [name, duckdbLeaf(tables.spans.events.children[field])] as const);
  }
  return [
    ["time", "TIMESTAMP_NS"] as const,
    ...spanLinkFields.map(([name, field]) => [name, duckdbLeaf(tables.spans.links.children[field])] as const),
  ];
}

/**
 * One row per element of a span's list. `unnest` is in the SELECT and not after FROM: the optimiser
 * moves conditions on the span through the one to the files, and makes a join of the other.
 */
function spanElementsSql(
  rows: string,
  list: "events" | "links",
  fields: readonly (readonly [string, string])[],
  leading: readonly "time"[],
): string {
  const elements = fields.map(([name, field]) => `element.${quoteName(field)} AS ${quoteName(name)}`);
  const owners = spanOwners.map(([name, column]) => `${quoteName(column)} AS ${quoteName(ownerName(name))}`);
  const needed = [...leading, ...spanOwners.map(([, column]) => column), "audience"].map(quoteName);
  return (
    `SELECT ${[...leading, ...elements, ...owners, "audience"].join(", ")} ` +
    `FROM (SELECT ${needed.join(", ")}, unnest(${list}) AS element FROM ${rows})`
  );
}

/** Definitions by name. */
export const plainViews = {
  log_entries: rowsOf("log_entries", levelColumns),
  measures: rowsOf("measures", []),
  histograms: rowsOf("histograms", []),
  spans: rowsOf("spans", spanColumns),
  otel_spans: rowsOf("spans", spanColumns),
  attribute_samples: {
    tables: sampledTables,
    time: exactTime,
    columns: [
      ["view", "VARCHAR"],
      ["time", "TIMESTAMP_NS"],
      ["properties", "VARCHAR"],
      audienceColumn,
      ["weight", "DOUBLE"],
    ],
    sampledRows: 50_000,
    // Columns of ours that a query needs (see the gate's `OwnColumns`) come along.
    sql: (rows) =>
      rows
        .map(
          (of, i) =>
            `SELECT '${sampledTables[i]}' AS "view", COLUMNS('^(time|properties|audience|weight|svc_.*)$') FROM ${of("inRange")}`,
        )
        .join(" UNION ALL "),
  },
  span_events: {
    tables: ["spans"],
    // The time of an event is the event's; partitions are bounded by the time of the span.
    time: noTime,
    columns: [...spanElementColumns("events"), ...spanOwnerColumns, audienceColumn],
    sql: ([spans], inRange) =>
      `SELECT * FROM (${spanElementsSql(spans([]), "events", spanEventFields, [])})${whereSql(inRange)}`,
  },
  span_links: {
    tables: ["spans"],
    time: exactTime,
    columns: [...spanElementColumns("links"), ...spanOwnerColumns, audienceColumn],
    sql: ([spans]) => spanElementsSql(spans("inRange"), "links", spanLinkFields, ["time"]),
  },
  log_stats: {
    tables: ["log_entries"],
    // Cut to the minute: entries of the minute's rest belong to the same row.
    time: { slackBeforeNs: 0n, slackAfterNs: 60_000_000_000n },
    columns: [...logStatsColumns, audienceColumn, ...typesOf(levelColumns)],
    rolledUp: ["whole"],
    sql: ([entries], inRange, [rolled = null] = []) => {
      const counted =
        `SELECT ${minuteSql} AS time, process_id, any_value(service_name) AS service_name, level, target, ` +
        `count(*) AS count, audience FROM ${entries([])} GROUP BY ALL`;
      const added =
        `SELECT time, process_id, any_value(service_name) AS service_name, level, target, ` +
        `CAST(sum(count) AS BIGINT) AS count, audience FROM (${counted} UNION ALL ` +
        `SELECT time, process_id, service_name, level, target, count, audience FROM ${rolled}) GROUP BY ALL`;
      return `SELECT ${withComputed(levelColumns)} FROM (${rolled === null ? counted : added})${whereSql(inRange)}`;
    },
  },
} as const satisfies Readonly<Record<string, FileViewDefinition>>;

/** The rows of a table as they are, with what is computed of each. */
function rowsOf(table: TableName, computed: ComputedColumns): FileViewDefinition {
  return {
    tables: [table],
    time: exactTime,
    columns: [...columnsOfTable(table), audienceColumn, ...typesOf(computed)],
    computed,
    sql: ([rows], _inRange, _rolled, columns = null) =>
      `SELECT ${withComputed(computed.filter(([name]) => columns?.includes(name) !== false))} FROM ${rows("inRange")}`,
  };
}

function typesOf(computed: ComputedColumns): RowColumns {
  return computed.map(([name, type]) => [name, type] as const);
}

function withComputed(computed: ComputedColumns): string {
  return ["*", ...computed.map(([name, , sql]) => `${sql} AS ${quoteName(name)}`)].join(", ");
}
