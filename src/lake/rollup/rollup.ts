/**
 * Roll-ups: what the rows of an object add up to, for the views that ask for nothing else. A roll-up is a Parquet file
 * beside a merged object, published with it, and it goes with it. Queries read it in the place of the object's rows.
 *
 * Logs are counted by minute, process, level and target; points of metrics by series: every row is in exactly one count.
 * Of spans there are the calls among them, and the open ends of others (calls.ts).
 */
import { attributeColumnSql, attributesSql, type ObjectAttributes } from "../tables/attributes.js";
import type { TableName } from "../tables/tables.js";
import { calleeAttributes, openCallsSql } from "./calls.js";

/** Raise a table's whenever its SQL below changes: roll-ups of another version are not read. */
const versions: Readonly<Record<TableName, number>> = { log_entries: 1, measures: 2, histograms: 2, spans: 2 };

/** The path of the roll-up of a table's object at `path`. No glob of Parquet files meets it. */
export function rollupPathOf(table: TableName, path: string): string {
  return path.replace(/(?:\.parquet)?$/u, `.rollup${versions[table]}`);
}

/** Whether a table's roll-up is one that this version reads. */
export function isReadableRollup(table: TableName, path: string): boolean {
  return path.endsWith(`.rollup${versions[table]}`);
}

/** A table whose roll-ups count rows. */
export type CountedTable = Exclude<TableName, "spans">;

/** What series of metrics are told apart by. */
const seriesColumns = [
  "process_id",
  "service_name",
  "target",
  "scope_version",
  "scope_properties",
  "name",
  "unit",
  "metric_type",
  "temporality",
  "properties",
  "process_properties",
] as const;

/** What the rows of a series have in common, mostly. */
const detailColumns = ["service_namespace", "service_instance_id", "service_version", "host_name"] as const;

/**
 * Columns of a roll-up of points that are named as in the table. `description` is the largest of the series, and
 * `is_monotonic` whether any point is; there are `count`, `first_seen` and `last_seen` besides.
 */
export const rolledSeriesColumns = [...seriesColumns, ...detailColumns, "description", "is_monotonic"] as const;

/** The beginning of a row's minute. */
export const minuteSql = "CAST(date_trunc('minute', time) AS TIMESTAMP_NS)";

const seriesSql = (isMonotonic: string): string =>
  [
    ...seriesColumns,
    ...detailColumns.map((name) => `any_value(${name}) AS ${name}`),
    "max(description) AS description",
    `${isMonotonic} AS is_monotonic`,
    "count(*) AS count",
    "min(time) AS first_seen",
    "max(time) AS last_seen",
  ].join(", ");

const columnsSql: Readonly<Record<CountedTable, string>> = {
  log_entries: `${minuteSql} AS time, process_id, any_value(service_name) AS service_name, level, target, count(*) AS count`,
  measures: seriesSql("bool_or(is_monotonic)"),
  histograms: seriesSql("CAST(NULL AS BOOLEAN)"),
};

/** What rows of a roll-up are told apart by. */
const keysSql: Readonly<Record<CountedTable, string>> = {
  log_entries: `${minuteSql}, process_id, level, target`,
  measures: seriesColumns.join(", "),
  histograms: seriesColumns.join(", "),
};

const inTime = "time BETWEEN make_timestamp_ns(-9000000000000000000) AND make_timestamp_ns(9000000000000000000)";

/** A SELECT of how many of some rows (SQL in brackets) have no time, or one so near to the ends that others are lost. */
export function timelessSql(rows: string): string {
  return `SELECT count(*) FROM ${rows} WHERE (${inTime}) IS NOT TRUE`;
}

/** A SELECT of about how many rows the roll-up of some rows (SQL in brackets) has; far cheaper than one that has many. */
export function rollupLengthSql(table: CountedTable, rows: string): string {
  return `SELECT approx_count_distinct(hash(${keysSql[table]})) FROM ${rows} WHERE ${inTime}`;
}

/**
 * A SELECT of the roll-up of some rows (SQL in brackets). It leaves out rows without a time, and those so near to the ends
 * of time that their minute may not be representable; an object with such rows has no roll-up.
 */
export function rollupSql(table: CountedTable, rows: string): string {
  return `SELECT ${columnsSql[table]} FROM ${rows}
    WHERE ${inTime} GROUP BY ALL`;
}

/**
 * A SELECT of the roll-up of the spans of a file.
 * @param from SQL of its rows, to stand after FROM
 */
export function callsRollupSql(from: string, { columns, names }: ObjectAttributes): string {
  const read = calleeAttributes.filter((name) => !columns.includes(name) && (names === null || names.includes(name)));
  const values = calleeAttributes.map((name, i) => {
    const value = columns.includes(name)
      ? attributeColumnSql(name)
      : read.includes(name)
        ? `svc_read[${read.indexOf(name) + 1}]`
        : "CAST(NULL AS VARCHAR)";
    return `${value} AS svc_callee_${i}`;
  });
  const rows = read.length === 0 ? from : `(SELECT *, ${attributesSql(read)} AS svc_read FROM ${from})`;
  return openCallsSql(
    `(SELECT *, ${values.join(", ")} FROM ${rows})`,
    calleeAttributes.map((_, i) => `svc_callee_${i}`),
    ["time", "duration_ns"],
  );
}
