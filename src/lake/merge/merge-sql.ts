/** The SQL of a merge. Every name and path in it is ours. */
import {
  attributeColumnPrefix,
  attributeColumnSql,
  attributesSql,
  type ObjectAttributes,
} from "../tables/attributes.js";
import type { EngineValue } from "../../engine/protocol.js";
import { quoteName, quoteText } from "../../runtime/text/sql-text.js";
import { boundsOfBucket, type MergeSlice, type MergeSource, rowGroupRows } from "./merge-plan.js";
import { tableLayouts } from "../parquet/layout.js";
import { columnsOfTable } from "../tables/duckdb-types.js";
import { type ColumnDefinition, type TableName, tables } from "../tables/tables.js";

/** A source with its object as a file. */
export interface SourceFile extends MergeSource {
  /** Absolute path. */
  readonly file: string;
}

/** Which rows of some sources are meant: an SQL condition, and the values of its parameters. */
export interface RowCondition {
  readonly sql: string;
  readonly values: readonly EngineValue[];
}

/**
 * Columns that the rows of a merged object are sorted by. Rows of one time stay in the order in which they
 * were received, and those of one batch in the order in which they were sent (their place in the source).
 */
export const mergedSortOrder = ["time", "insert_time"] as const;

const rowNumber = "file_row_number";

/** Columns that get a bloom filter. */
const filteredColumns: ReadonlySet<string> = new Set(["trace_id", "process_id"]);

function readSql(files: readonly SourceFile[]): string {
  return `read_parquet([${files.map(({ file }) => quoteText(file)).join(", ")}], file_row_number = true, hive_partitioning = false)`;
}

/** Per file its name, how many rows it has, and a sum that makes DuckDB read every value. */
export function everyValueSql(files: readonly { readonly file: string }[]): string {
  const list = files.map(({ file }) => quoteText(file)).join(", ");
  return `SELECT filename, count(*), CAST(bit_xor(hash(rows)) AS VARCHAR) FROM read_parquet([${list}],
    filename = true, union_by_name = true, hive_partitioning = false) AS rows GROUP BY 1`;
}

/**
 * Rows of files of one version and one kind of clock. A clock far behind would let them go before their time, so they say
 * that they were received when the last of these files counts as received.
 */
function rowsSql(files: readonly SourceFile[]): string {
  const received = files.reduce(
    (last, { receivedNs }) => (receivedNs !== null && receivedNs > last ? receivedNs : last),
    0n,
  );
  const columns =
    received === 0n ? "*" : `* REPLACE (greatest(insert_time, make_timestamp_ns(${received})) AS insert_time)`;
  return `SELECT ${columns} FROM ${readSql(files)}`;
}

/** All rows of some sources with every column of the table, `file_row_number` last. */
function sourceSql(table: TableName, sources: readonly SourceFile[]): string {
  const groups = new Map<string, SourceFile[]>();
  for (const source of sources) {
    const key = source.receivedNs === null ? source.schemaHash : `${source.schemaHash} behind`;
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, [source]);
    } else {
      group.push(source);
    }
  }
  const columns = columnsOfTable(table);
  if (groups.size === 1 && groups.has(tableLayouts[table].schemaHash)) {
    return readSql(sources);
  }
  // Empty rows in front bring the columns that objects of older versions lack.
  const empty = columns.map(([name, type]) => `CAST(NULL AS ${type}) AS ${quoteName(name)}`);
  const selects = [
    `SELECT ${empty.join(", ")}, CAST(0 AS BIGINT) AS ${rowNumber} WHERE false`,
    ...[...groups.values()].map(rowsSql),
  ];
  return `(${selects.join(" UNION ALL BY NAME ")})`;
}

const columnList = (table: TableName, texts: RepeatedTexts): string =>
  columnsOfTable(table)
    .map(([name, type]) => `CAST(${quoteName(name)} AS ${enumSql(texts.get(name)) ?? type}) AS ${quoteName(name)}`)
    .join(", ");

/** An enumeration of these texts; without any, its values are all null. */
function enumSql(texts: readonly string[] | undefined): string | null {
  return texts === undefined ? null : `ENUM(${(texts.length === 0 ? [""] : texts).map(quoteText).join(", ")})`;
}

/**
 * All texts of columns that have few of them. DuckDB sorts and writes those as numbers, and the same Parquet, but for
 * bloom filters.
 */
export type RepeatedTexts = ReadonlyMap<string, readonly string[]>;

/** Columns whose texts repeat from row to row. */
export function repeatedColumns(table: TableName): readonly string[] {
  return Object.entries<ColumnDefinition>(tables[table]).flatMap(([name, { type }]) =>
    // Each request has its own block.
    type === "run_utf8" && name !== "block_id" ? [name] : [],
  );
}

/** What queries choose rows by, and so has bloom filters where it has several values. */
const filteredTexts: ReadonlySet<string> = new Set([
  "service_namespace",
  "service_name",
  "service_instance_id",
  "service_version",
  "host_name",
  "target",
  "name",
]);

/** Whether texts of a column are known rather than written as they come. */
export function isRepeated(name: string, texts: readonly string[]): boolean {
  const isFiltered = filteredTexts.has(name) && texts.length > 1;
  return !isFiltered && !texts.some((text) => text.includes("\u0000"));
}

/**
 * The texts of these columns that occur together: one column for each, and last the bytes of all, with which the texts
 * are null when these are more than `most.bytes`. `most.rows` and one more at most.
 */
export function textsSql(
  table: TableName,
  sources: readonly SourceFile[],
  columns: readonly string[],
  most: { readonly rows: number; readonly bytes: number },
): string {
  const names = columns.map(quoteName);
  const length = names.map((name) => `coalesce(strlen(${name}), 0)`).join(" + ");
  const texts = names.map((name) => `CASE WHEN svc_bytes <= ${most.bytes} THEN ${name} END`).join(", ");
  return `SELECT ${texts}, CAST(svc_bytes AS BIGINT) FROM (SELECT *, sum(${length}) OVER () AS svc_bytes
    FROM (SELECT DISTINCT ${names.join(", ")} FROM ${sourceSql(table, sources)} LIMIT ${most.rows + 1}))`;
}

/** Rows of a condition that are among so many of one source. */
export function rowsFrom({ sql, values }: RowCondition, first: number, count: number): RowCondition {
  return { sql: `(${sql}) AND ${rowNumber} BETWEEN ${first} AND ${first + count - 1}`, values };
}

/**
 * Times to cut sorted rows at: (nanoseconds since 1970), in order. All texts between two take fewer than so many bytes,
 * beside those of the first time: rows of one time stay together, and so do those without. Null: an infinite time, which
 * no number makes.
 */
export function cutsSql(table: TableName, sources: readonly SourceFile[], condition: string, bytes: number): string {
  const lengths = columnsOfTable(table).flatMap(([name, type]) =>
    type === "VARCHAR" ? [`coalesce(strlen(${quoteName(name)}), 0)`] : [],
  );
  // A window, and a filter that is not the scan's own, would keep the texts.
  const sizes = `SELECT time, ${lengths.join(" + ")} AS size FROM ${sourceSql(table, sources)} WHERE ${condition}`;
  return `SELECT CAST(min(epoch_ns(time)) FILTER (isfinite(time)) AS VARCHAR)
    FROM (SELECT time, sum(size) OVER (ORDER BY time NULLS FIRST) // ${bytes} AS part FROM (${sizes}))
    GROUP BY part ORDER BY part OFFSET 1`;
}

/** A condition for the rows before the first of some times, one for those between each two, and one for the others. */
export function betweenTimes({ sql, values }: RowCondition, timesNs: readonly bigint[]): RowCondition[] {
  return [null, ...timesNs].map((from, i) => {
    const to = timesNs[i];
    const before = to === undefined ? "true" : `time < make_timestamp_ns(${to})`;
    const within = from === null ? `(${before} OR time IS NULL)` : `time >= make_timestamp_ns(${from}) AND ${before}`;
    return { sql: `(${sql}) AND ${within}`, values };
  });
}

/** The number of a row's bucket. `//` cuts towards zero, and times before 1970 are negative. */
function bucketSql(widthNs: bigint): string {
  const ns = "epoch_ns(CAST(time AS TIMESTAMP_NS))";
  return `CASE WHEN ${ns} >= 0 THEN ${ns} // ${widthNs} ELSE (${ns} + 1) // ${widthNs} - 1 END`;
}

/** Counts a step's rows by bucket: (bucket or null, rows). */
export function bucketCountsSql(table: TableName, sources: readonly SourceFile[], widthNs: bigint): string {
  return `SELECT CAST(${bucketSql(widthNs)} AS BIGINT) AS bucket, count(*) AS row_count
    FROM ${sourceSql(table, sources)} GROUP BY 1`;
}

/** Names of the columns that an object has. */
export function columnNamesSql(file: string): string {
  return `SELECT column_name FROM (DESCRIBE SELECT * FROM read_parquet([${quoteText(file)}], hive_partitioning = false))`;
}

/** The rows of a slice. */
export function sliceCondition(slice: MergeSlice, widthNs: bigint): RowCondition {
  return { sql: conditionSql(slice, widthNs), values: [] };
}

function conditionSql(slice: MergeSlice, widthNs: bigint): string {
  const { buckets, except, timeless } = slice;
  const within =
    except || buckets.length !== 1
      ? `${bucketSql(widthNs)} ${except ? "NOT IN" : "IN"} (${buckets.length === 0 ? "NULL" : buckets.join(", ")})`
      : betweenSql(buckets[0] ?? 0n, widthNs);
  return timeless ? `(${within} OR time IS NULL)` : within;
}

/** Plain bounds, which row groups are left out by. */
function betweenSql(bucket: bigint, widthNs: bigint): string {
  const { firstNs, lastNs } = boundsOfBucket(bucket, widthNs);
  const bounds = [
    ...(firstNs === null ? [] : [`time >= make_timestamp_ns(${firstNs})`]),
    ...(lastNs === null ? [] : [`time <= make_timestamp_ns(${lastNs})`]),
  ];
  return bounds.length === 0 ? "time IS NOT NULL" : `(${bounds.join(" AND ")})`;
}

/**
 * Writes the rows of `condition` (its SQL), sorted, to a new file.
 * @param attributes those that get columns of their own
 * @param texts of columns whose texts are all known
 * @param groupRows rows of one row group
 */
export function writeRowsSql(
  table: TableName,
  sources: readonly SourceFile[],
  condition: string,
  attributes: ObjectAttributes,
  texts: RepeatedTexts,
  groupRows: number,
  target: string,
): string {
  const { columns } = attributes;
  const rows = sourceSql(table, sources);
  const own = columns.map((name, i) => `svc_attributes[${i + 1}] AS ${attributeColumnSql(name)}`);
  return `COPY (SELECT ${[columnList(table, texts), ...own].join(", ")}
      FROM ${columns.length === 0 ? rows : `(SELECT *, ${attributesSql(columns)} AS svc_attributes FROM ${rows})`}
      WHERE ${condition}
      ORDER BY ${mergedSortOrder.map((name) => `${name} ASC NULLS FIRST`).join(", ")}, ${rowNumber}
    ) TO ${quoteText(target)} (FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd,
      COMPRESSION_LEVEL 1, ROW_GROUP_SIZE ${groupRows}, KV_METADATA {attributes: ${quoteText(JSON.stringify(attributes))}},
      USE_TMP_FILE false)`;
}

/** How many rows of some files have each attribute, twice those that have it twice: (name, rows), most rows first. */
export function attributeCountsSql(files: readonly SourceFile[], limit: number): string {
  return `SELECT name, count(*) FROM (
      SELECT unnest(TRY(json_keys(properties))) AS name FROM ${readSql(files)}
    ) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ${limit + 1}`;
}

/** Columns of attributes that DuckDB gave no bloom filter in some row group: (column). */
export function unfilteredSql(file: string): string {
  return `SELECT DISTINCT path_in_schema FROM parquet_metadata([${quoteText(file)}])
    WHERE starts_with(path_in_schema, ${quoteText(attributeColumnPrefix)}) AND bloom_filter_offset IS NULL AND stats_null_count < num_values`;
}

/**
 * Writes the columns that get bloom filters to a file of the same row groups (parquet/footer.ts).
 * @param others those beside the table's own
 */
export function writeFiltersSql(
  table: TableName,
  others: readonly string[],
  groupRows: number,
  file: string,
  target: string,
): string {
  const columns = [
    ...columnsOfTable(table).flatMap(([name]) => (filteredColumns.has(name) ? [quoteName(name)] : [])),
    ...others.map(quoteName),
  ];
  // Only what has a dictionary gets a filter, so the dictionaries may hold every value.
  return `COPY (SELECT ${columns.join(", ")} FROM read_parquet([${quoteText(file)}], hive_partitioning = false))
    TO ${quoteText(target)} (FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE ${groupRows},
      DICTIONARY_SIZE_LIMIT ${rowGroupRows}, STRING_DICTIONARY_PAGE_SIZE_LIMIT ${rowGroupRows * 64},
      BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.01, USE_TMP_FILE false)`;
}

/** What the catalogue says about an object: (rows, first and last time or null). */
export function factsSql(file: string): string {
  return `SELECT count(*), min(epoch_ns(time)), max(epoch_ns(time)) FROM read_parquet([${quoteText(file)}], hive_partitioning = false)`;
}

/** The processes of an object, one more than `limit` at most. */
export function processesSql(file: string, limit: number): string {
  return `SELECT DISTINCT process_id FROM read_parquet([${quoteText(file)}], hive_partitioning = false) LIMIT ${limit + 1}`;
}
