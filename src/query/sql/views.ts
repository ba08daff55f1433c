/**
 * What an analyst sees: names, columns and types of the views, and the SQL that makes each of them from
 * files or rows. Every name in here is ours; no caller's text goes into this SQL.
 */
import {
  columnsOfTable,
  duckdbLeaf,
  duckdbType,
  quoteName,
  quoteText,
  type RowColumns,
} from "../../lake/tables/duckdb-types.js";
import { type TableName, tables } from "../../lake/tables/tables.js";
import { kindNames, levelNames, nameSql, statusNames } from "./value-names.js";

export { columnsOfTable, quoteName, quoteText, type RowColumns };

/** A view over Parquet files. */
export type FileView =
  | "log_entries"
  | "measures"
  | "histograms"
  | "spans"
  | "otel_spans"
  | "span_events"
  | "span_links"
  | "log_stats";

/** A view over rows of Postgres, loaded when it is referenced. */
export type CatalogueView = "processes" | "streams" | "blocks" | AdminView;

/** Views that exist for admins only. */
export type AdminView = "query_log";

/** Any view that query text may name. */
export type ViewName = FileView | CatalogueView;

/** What a file view reads and how its `time` relates to the table's: null when it says nothing about it. */
interface FileViewDefinition {
  readonly table: TableName;
  readonly time: { readonly slackAfterNs: bigint } | null;
}

/** File views by name. */
export const fileViews: Readonly<Record<FileView, FileViewDefinition>> = {
  log_entries: { table: "log_entries", time: { slackAfterNs: 0n } },
  measures: { table: "measures", time: { slackAfterNs: 0n } },
  histograms: { table: "histograms", time: { slackAfterNs: 0n } },
  spans: { table: "spans", time: { slackAfterNs: 0n } },
  otel_spans: { table: "spans", time: { slackAfterNs: 0n } },
  // The time of an event is the event's; partitions are bounded by the time of the span.
  span_events: { table: "spans", time: null },
  span_links: { table: "spans", time: { slackAfterNs: 0n } },
  // Cut to the minute: entries of the minute's rest belong to the same row.
  log_stats: { table: "log_entries", time: { slackAfterNs: 60_000_000_000n } },
};

/** Views over rows of Postgres by name. */
export const catalogueViews: Readonly<Record<CatalogueView, RowColumns>> = {
  processes: [
    ["process_id", "VARCHAR"],
    ["service_namespace", "VARCHAR"],
    ["service_name", "VARCHAR"],
    ["service_instance_id", "VARCHAR"],
    ["service_version", "VARCHAR"],
    ["host_id", "VARCHAR"],
    ["host_name", "VARCHAR"],
    ["process_pid", "BIGINT"],
    ["executable", "VARCHAR"],
    ["username", "VARCHAR"],
    ["sdk_name", "VARCHAR"],
    ["sdk_language", "VARCHAR"],
    ["sdk_version", "VARCHAR"],
    ["start_time", "TIMESTAMP_NS"],
    ["insert_time", "TIMESTAMP_NS"],
    ["properties", "VARCHAR"],
    ["audience", "VARCHAR"],
  ],
  streams: [
    ["stream_id", "VARCHAR"],
    ["process_id", "VARCHAR"],
    ["signal", "VARCHAR"],
    ["format", "VARCHAR"],
    ["insert_time", "TIMESTAMP_NS"],
    ["audience", "VARCHAR"],
  ],
  blocks: [
    ["block_id", "VARCHAR"],
    ["stream_id", "VARCHAR"],
    ["process_id", "VARCHAR"],
    ["signal", "VARCHAR"],
    ["begin_time", "TIMESTAMP_NS"],
    ["end_time", "TIMESTAMP_NS"],
    ["row_count", "INTEGER"],
    ["payload_bytes", "INTEGER"],
    ["insert_time", "TIMESTAMP_NS"],
    ["audience", "VARCHAR"],
  ],
  query_log: [
    ["query_id", "VARCHAR"],
    ["time", "TIMESTAMP_NS"],
    ["caller", "VARCHAR"],
    ["client", "VARCHAR"],
    ["sql", "VARCHAR"],
    ["sql_hash", "VARCHAR"],
    ["fingerprint", "VARCHAR"],
    ["duration_ms", "DOUBLE"],
    ["row_count", "BIGINT"],
    ["bytes", "BIGINT"],
    ["partitions", "INTEGER"],
    ["peak_memory_bytes", "BIGINT"],
    ["outcome", "VARCHAR"],
  ],
};

/** Listings that are called like functions or by `SHOW TABLES`; the gate puts these tables in their place. */
export const listings = {
  svc_list_partitions: [
    ["view_set", "VARCHAR"],
    ["partition_id", "VARCHAR"],
    ["path", "VARCHAR"],
    ["begin_time", "TIMESTAMP_NS"],
    ["end_time", "TIMESTAMP_NS"],
    ["min_insert_time", "TIMESTAMP_NS"],
    ["max_insert_time", "TIMESTAMP_NS"],
    ["level", "INTEGER"],
    ["row_count", "BIGINT"],
    ["file_bytes", "BIGINT"],
    ["schema_hash", "VARCHAR"],
    ["sort_order", "VARCHAR"],
  ],
  svc_list_view_sets: [
    ["view_set", "VARCHAR"],
    ["kind", "VARCHAR"],
    ["column_count", "INTEGER"],
  ],
  svc_show_tables: [["name", "VARCHAR"]],
  svc_information_schema_tables: [
    ["table_catalog", "VARCHAR"],
    ["table_schema", "VARCHAR"],
    ["table_name", "VARCHAR"],
    ["table_type", "VARCHAR"],
  ],
  svc_information_schema_columns: [
    ["table_catalog", "VARCHAR"],
    ["table_schema", "VARCHAR"],
    ["table_name", "VARCHAR"],
    ["column_name", "VARCHAR"],
    ["ordinal_position", "INTEGER"],
    ["column_default", "VARCHAR"],
    ["is_nullable", "VARCHAR"],
    ["data_type", "VARCHAR"],
  ],
} as const satisfies Record<string, RowColumns>;

/** Name of a listing. */
export type Listing = keyof typeof listings;

/** The tables of `information_schema` that there are. */
export const informationSchema = {
  tables: "svc_information_schema_tables",
  columns: "svc_information_schema_columns",
} as const satisfies Record<string, Listing>;

const adminViews: readonly ViewName[] = ["query_log"] satisfies AdminView[];

const allViewNames: readonly ViewName[] = [
  ...(Object.keys(fileViews) as FileView[]),
  ...(Object.keys(catalogueViews) as CatalogueView[]),
].sort();

/** Every name that any caller may put after FROM, sorted. */
export const viewNames: readonly ViewName[] = allViewNames.filter((name) => !adminViews.includes(name));

/** Every name that this caller may put after FROM, sorted. */
export function viewNamesFor(admin: boolean): readonly ViewName[] {
  return admin ? allViewNames : viewNames;
}

/** The view of a name in lower case, or null. */
export function viewOf(name: string, admin: boolean): ViewName | null {
  return viewNamesFor(admin).find((view) => view === name) ?? null;
}

/** Whether a view reads files. */
export function isFileView(view: ViewName): view is FileView {
  return view in fileViews;
}

/** Columns of a view: names and DuckDB types in order. */
export function columnsOfView(view: ViewName): RowColumns {
  return isFileView(view)
    ? [...columnsOfRows(view), audienceColumn, ...computedColumnsOf(view).map(([name, type]) => [name, type] as const)]
    : catalogueViews[view];
}

/** Objects do not hold it: it is the audience of the object. */
const audienceColumn = ["audience", "VARCHAR"] as const;

type ComputedColumns = readonly (readonly [name: string, type: string, sql: string])[];

const levelColumns: ComputedColumns = [["level_name", "VARCHAR", nameSql("level", levelNames)]];

const spanColumns: ComputedColumns = [
  ["kind_name", "VARCHAR", nameSql("kind", kindNames)],
  ["status", "VARCHAR", nameSql("status_code", statusNames)],
  ["is_error", "BOOLEAN", "status_code = 2"],
  ["is_root", "BOOLEAN", "parent_span_id IS NULL"],
  ["duration_ms", "DOUBLE", "duration_ns / 1e6"],
];

/**
 * Columns that a view computes of others. Expressions, so that a query that does not name them pays nothing, and
 * DuckDB tests a condition on a name where it reads the column beneath.
 */
const computedColumns: Readonly<Partial<Record<FileView, ComputedColumns>>> = {
  log_entries: levelColumns,
  log_stats: levelColumns,
  spans: spanColumns,
  otel_spans: spanColumns,
};

function computedColumnsOf(view: FileView): ComputedColumns {
  return computedColumns[view] ?? [];
}

function columnsOfRows(view: FileView): RowColumns {
  if (view === "log_stats") {
    return logStatsColumns;
  }
  if (view === "span_events") {
    return [...spanElementColumns("events"), ...spanOwnerColumns];
  }
  if (view === "span_links") {
    return [...spanElementColumns("links"), ...spanOwnerColumns];
  }
  return columnsOfTable(fileViews[view].table);
}

/** Files of one schema and one audience: a group's columns are read off its first file. */
export interface FileGroup {
  /** What rows have in the column `audience`. */
  readonly audience: string;
  /** Absolute. */
  readonly paths: readonly string[];
}

/** Where the rows of a file view come from. */
export interface FileSource {
  /** No file of theirs is opened that the query's predicates rule out. */
  readonly groups: readonly FileGroup[];
  /**
   * More files, merged ones, of which only the rows of these traces are wanted, each named once. DuckDB asks the bloom
   * filters of a row group for an equal value but not for a list, so each trace has a SELECT of its own.
   */
  readonly byTrace?: {
    readonly traceIds: readonly string[];
    readonly groups: readonly FileGroup[];
  };
  /** Only rows of this process. */
  readonly processId: string | null;
  /** Only rows of the view with `time` at or after this, nanoseconds since the epoch. */
  readonly beginNs: bigint | null;
  /** Only rows with `time` before this. */
  readonly endNs: bigint | null;
}

/** The SQL of a list of files. */
export type ListSql = (paths: readonly string[]) => string;

/** The list, written out. */
export const literalList: ListSql = (paths) => `[${paths.map(quoteText).join(", ")}]`;

/**
 * SQL text of `CREATE TEMP VIEW name AS ...` for a file view over `source`.
 * @param list how the view names its files
 * @param padded bring the columns that the files of a single group lack, too; costs the optimiser some
 *   of its view of the file
 */
export function createFileViewSql(
  name: string,
  view: FileView,
  source: FileSource,
  list: ListSql = literalList,
  padded = false,
): string {
  return `CREATE TEMP VIEW ${quoteName(name)} AS ${fileViewSql(view, source, list, padded)}`;
}

/** SQL text of `CREATE TEMP TABLE name (...)` for rows that are loaded. */
export function createRowTableSql(name: string, columns: RowColumns): string {
  return `CREATE TEMP TABLE ${quoteName(name)} (${columns
    .map(([column, type]) => `${quoteName(column)} ${type}`)
    .join(", ")})`;
}

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

function fileViewSql(view: FileView, source: FileSource, list: ListSql, padded: boolean): string {
  const { table } = fileViews[view];
  const inRange = timeConditions(source);
  const rows = (conditions: readonly string[]): string => `(${tableSql(table, source, list, padded, conditions)})`;
  const all = ["*", ...computedColumnsOf(view).map(([name, , sql]) => `${sql} AS ${quoteName(name)}`)].join(", ");
  switch (view) {
    case "log_entries":
    case "measures":
    case "histograms":
    case "spans":
    case "otel_spans":
      return `SELECT ${all} FROM ${rows(inRange)}`;
    case "span_links":
      return spanElementsSql(rows(inRange), "links", spanLinkFields, ["time"]);
    // The time of these is not that of the rows they are made of.
    case "span_events":
      return `SELECT * FROM (${spanElementsSql(rows([]), "events", spanEventFields, [])})${whereSql(inRange)}`;
    case "log_stats":
      return (
        `SELECT ${all} FROM (SELECT CAST(date_trunc('minute', time) AS TIMESTAMP_NS) AS time, process_id, ` +
        `any_value(service_name) AS service_name, level, target, count(*) AS count, audience ` +
        `FROM ${rows([])} GROUP BY ALL)${whereSql(inRange)}`
      );
  }
}

function timeConditions({ beginNs, endNs }: FileSource): string[] {
  return [
    ...(beginNs === null ? [] : [`time >= make_timestamp_ns(${beginNs})`]),
    ...(endNs === null ? [] : [`time < make_timestamp_ns(${endNs})`]),
  ];
}

function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? "" : ` WHERE ${conditions.join(" AND ")}`;
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

function tableSql(
  table: TableName,
  source: FileSource,
  list: ListSql,
  padded: boolean,
  conditions: readonly string[],
): string {
  // Paths look like Hive's (`audience=a/`), of which DuckDB would make a column by itself, but not of all of them.
  const selectSql = ({ audience, paths }: FileGroup): string =>
    `SELECT *, ${quoteText(audience)} AS audience FROM read_parquet(${list(paths)}, hive_partitioning = false)`;
  const columns = [...columnsOfTable(table), audienceColumn];
  const ofProcess = source.processId === null ? [] : [`process_id = ${quoteText(source.processId)}`];
  const empty = `SELECT ${columns
    .map(([name, type]) => `CAST(NULL AS ${type}) AS ${quoteName(name)}`)
    .join(", ")} WHERE false`;
  const { byTrace } = source;
  const selects = [
    ...source.groups.map(selectSql),
    ...(byTrace?.groups ?? []).flatMap((group) =>
      (byTrace?.traceIds ?? []).map((traceId) => `${selectSql(group)} WHERE trace_id = ${quoteText(traceId)}`),
    ),
  ];
  const [only] = source.groups;
  if (selects.length === 0) {
    return empty;
  }
  const casts = columns.map(([name, type]) => `CAST(${quoteName(name)} AS ${type}) AS ${quoteName(name)}`).join(", ");
  // One schema: the files are read as they are. Several: the empty rows in front bring every column
  // that some of the files lack.
  const rows =
    selects.length === 1 && only !== undefined && !padded
      ? `(${selectSql(only)})`
      : `(${[empty, ...selects].join(" UNION ALL BY NAME ")})`;
  return `SELECT ${casts} FROM ${rows}${whereSql([...ofProcess, ...conditions])}`;
}
