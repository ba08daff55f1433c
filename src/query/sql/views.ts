/**
 * What an analyst sees: names, columns and types of the views, and the SQL that makes each of them from
 * files or rows. Every name in here is ours; no caller's text goes into this SQL.
 */
import type { RowColumns } from "../../lake/tables/duckdb-types.js";
import { quoteName } from "../../runtime/text/sql-text.js";
import {
  type AttributeColumn,
  comparedTime,
  emptySource,
  type FileSource,
  type ListSql,
  literalList,
  neededConditions,
  rollupsSql,
  tableSql,
  timeConditions,
} from "./file-source.js";
import { attributeColumnsOf, exactTime, type FileViewDefinition, type TableRows } from "./file-view.js";
import { plainViews } from "./file-views.js";
import { metricViews } from "./metric-views.js";
import { spanViews } from "./span-views.js";
import { traceFunctions } from "./trace-views.js";

/** A view over Parquet files. */
export type FileView = keyof typeof plainViews | keyof typeof metricViews | keyof typeof spanViews | TraceFunction;

/** A view of one trace, which is called like a function with the id of the trace. */
export type TraceFunction = keyof typeof traceFunctions;

/** File views by name. */
export const fileViews: Readonly<Record<FileView, FileViewDefinition>> = {
  ...plainViews,
  ...metricViews,
  ...spanViews,
  ...traceFunctions,
};

/** Whether a name in lower case is that of a function that takes a trace id. */
export function isTraceFunction(name: string): name is TraceFunction {
  return Object.hasOwn(traceFunctions, name);
}

/** Functions that take a trace id, by name. */
export const traceFunctionNames: readonly string[] = Object.keys(traceFunctions);

/** A view over rows of Postgres, loaded when it is referenced. */
export type CatalogueView = "processes" | "streams" | "blocks" | "usage" | AdminView;

/** Views that exist for admins only. */
export type AdminView = "query_log";

/** Any view that query text may name. */
export type ViewName = FileView | CatalogueView;

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
  usage: [
    ["time", "TIMESTAMP_NS"],
    ["key_id", "VARCHAR"],
    ["key_name", "VARCHAR"],
    ["requests", "BIGINT"],
    ["bytes", "BIGINT"],
    ["records", "BIGINT"],
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
    ["engine", "VARCHAR"],
    ["engine_reason", "VARCHAR"],
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
  ...(Object.keys(fileViews) as FileView[]).filter((view) => !isTraceFunction(view)),
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

/** Whether a view can be narrowed to the rows of one process. */
export function isOfProcesses(view: ViewName): boolean {
  return columnsOfView(view).some(([column]) => column === "process_id");
}

/** Columns of a view: names and DuckDB types in order. */
export function columnsOfView(view: ViewName): RowColumns {
  return isFileView(view) ? fileViews[view].columns : catalogueViews[view];
}

/**
 * The columns of a view that a query with these names reads, and the columns that they are computed of.
 * @returns null when the view cannot do with less than all of its columns
 */
export function columnsRead(view: ViewName, named: ReadonlySet<string>): readonly string[] | null {
  const { columns = [], computed }: Partial<FileViewDefinition> = isFileView(view) ? fileViews[view] : {};
  if (computed === undefined) {
    return null;
  }
  const wanted = columns.flatMap(([name]) => (named.has(name) ? [name] : []));
  return [...wanted, ...computed.flatMap(([name, , , of]) => (named.has(name) ? [of] : []))];
}

/** Columns of attributes that a view's own SQL reads. */
export function attributesOfView(view: ViewName): readonly AttributeColumn[] {
  return isFileView(view) ? attributeColumnsOf(fileViews[view].attributes ?? []) : [];
}

/** SQL text of `CREATE TEMP VIEW name AS ...` for a file view; parameters as {@link fileViewSql}. */
export function createFileViewSql(name: string, ...view: Parameters<typeof fileViewSql>): string {
  return `CREATE TEMP VIEW ${quoteName(name)} AS ${fileViewSql(...view)}`;
}

/**
 * A SELECT of the columns of a file view.
 * @param sources one for each table that it reads; none: it has no rows
 * @param list how the view names its files
 * @param padded bring columns that files lack, whatever that costs the optimiser of its view of them
 */
export function fileViewSql(
  view: FileView,
  sources: readonly FileSource[],
  list: ListSql = literalList,
  padded = false,
): string {
  const definition: FileViewDefinition = fileViews[view];
  const [first = emptySource] = sources;
  const [rows, ...more] = definition.tables.map((table, i): TableRows => {
    const source = sources[i] ?? { ...emptySource, attributes: attributesOfView(view) };
    const needed = definition.time === exactTime ? [] : neededConditions(source);
    const inRange = timeConditions(first, comparedTime);
    return (which) =>
      `(${tableSql(table, source, list, padded, [...needed, ...(which === "inRange" ? inRange : which)], definition.sampledRows ?? null)})`;
  });
  if (rows === undefined) {
    throw new TypeError(`${view} reads no table`);
  }
  const rolled = sources.map((source) => rollupsSql(source, list));
  return definition.sql([rows, ...more], timeConditions(first, "time"), rolled, first.columns);
}

/** SQL text of `CREATE TEMP TABLE name (...)` for rows that are loaded. */
export function createRowTableSql(name: string, columns: RowColumns): string {
  return `CREATE TEMP TABLE ${quoteName(name)} (${columns
    .map(([column, type]) => `${quoteName(column)} ${type}`)
    .join(", ")})`;
}
