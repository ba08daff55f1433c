/** The rows of a table: SQL over the objects that a query reads of it. Every name in here is ours. */
import { attributePlaces } from "../../lake/catalogue.js";
import { attributeColumnSql, isPlainAttribute } from "../../lake/tables/attributes.js";
import { columnsOfTable } from "../../lake/tables/duckdb-types.js";
import type { TableName } from "../../lake/tables/tables.js";
import { quoteName, quoteText } from "../../runtime/text/sql-text.js";

/** Objects do not hold this column: it is the audience of the object. */
export const audienceColumn = ["audience", "VARCHAR"] as const;

/**
 * What stands for `time` where it is compared with constants (see the gate's `OwnColumns`): it meets the same conditions.
 */
export const comparedTime = "svc_compared_time";

/** Files of one schema and one audience: a group's columns are read off its first file. */
export interface FileGroup {
  /** What rows have in the column `audience`. */
  readonly audience: string;
  /** Absolute. */
  readonly paths: readonly string[];
  /** Where they have the source's attributes: a letter for each (see `Partition` of the catalogue). */
  readonly attributes?: string;
  /**
   * A time that meets every condition that {@link comparedTime} has to meet, as all of the rows do, nanoseconds since
   * the epoch; none: each row's own time decides.
   */
  readonly timeNs?: bigint | null;
}

/** An attribute that a query reads as if it were a column. */
export interface AttributeColumn {
  /** As `isPlainAttribute` says. */
  readonly attribute: string;
  /** What the column is called there; one of ours. */
  readonly column: string;
}

/** Where the rows of one table come from. */
export interface FileSource {
  /** No file of theirs is opened that the query's predicates rule out. */
  readonly groups: readonly FileGroup[];
  /**
   * Only the rows of these traces are wanted, each named once. In more files, merged ones, DuckDB asks the bloom
   * filters of a row group for an equal value but not for a list, so each trace has a SELECT of its own.
   */
  readonly byTrace?: {
    readonly traceIds: readonly string[];
    readonly groups: readonly FileGroup[];
  };
  /** Roll-ups of objects that are not in `groups`, all of whose rows matter. */
  readonly rollups?: readonly FileGroup[];
  /** Only rows of this process. */
  readonly processId: string | null;
  /** Only rows of this trace. */
  readonly traceId: string | null;
  /** Only rows of the view with `time` at or after this, nanoseconds since the epoch. */
  readonly beginNs: bigint | null;
  /** Only rows with `time` before this. */
  readonly endNs: bigint | null;
  /**
   * Rows of the table with `time` before or after these (included) do not matter to the rows that the query wants. Other
   * objects are not opened, and other rows of those that are do not count, so that no result depends on the objects.
   */
  readonly firstNeededNs: bigint | null;
  readonly lastNeededNs: bigint | null;
  /** Columns of attributes that rows have beside those of the table. */
  readonly attributes: readonly AttributeColumn[];
  /** Rows have {@link comparedTime} beside the columns of the table. */
  readonly comparesTime: boolean;
  /** All columns that are read of the view; null: any may be. */
  readonly columns: readonly string[] | null;
  /** How many rows of the objects are in the range that matters, as far as the catalogue tells. */
  readonly rowsAbout: number;
}

/** The SQL of a list of files. */
export type ListSql = (paths: readonly string[]) => string;

/** Columns of tables that conditions of ours may be on. */
const conditionColumns = ["time", "process_id", "trace_id"];

/** The list, written out. */
export const literalList: ListSql = (paths) => `[${paths.map(quoteText).join(", ")}]`;

/** Conditions that hold for the rows of the source's range. */
export function timeConditions({ beginNs, endNs }: FileSource, column: "time" | typeof comparedTime): string[] {
  return [
    ...(beginNs === null ? [] : [`${column} >= make_timestamp_ns(${beginNs})`]),
    ...(endNs === null ? [] : [`${column} < make_timestamp_ns(${endNs})`]),
  ];
}

/** Conditions on `time` that hold for the rows of the table that matter. */
export function neededConditions({ firstNeededNs, lastNeededNs }: FileSource): string[] {
  return [
    ...(firstNeededNs === null ? [] : [`time >= make_timestamp_ns(${firstNeededNs})`]),
    ...(lastNeededNs === null ? [] : [`time <= make_timestamp_ns(${lastNeededNs})`]),
  ];
}

/** Conditions joined, or nothing. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? "" : ` WHERE ${conditions.join(" AND ")}`;
}

/** Rows by chance. */
interface Sample {
  /** How many rows each of them stands for. */
  readonly weight: number;
  /** On the places of rows in their files: DuckDB tests them before it reads any column. */
  readonly conditions: readonly string[];
}

function sampleOf(rows: number, { rowsAbout }: FileSource): Sample {
  const weight = Math.max(1, rowsAbout / rows);
  const below = BigInt(Math.floor(2 ** 53 / weight)) << 11n;
  return {
    weight,
    conditions: weight === 1 ? [] : [`hash(file_row_number, file_index) < CAST(${below} AS UBIGINT)`],
  };
}

/**
 * A SELECT of a table's columns, or of those that are read, and `audience` from the objects of `source`, without its range.
 * @param padded as `fileViewSql` says
 * @param conditions on these columns and {@link comparedTime}
 * @param sampledRows about so many rows by chance, with the column `weight`; null: all rows, without it
 */
export function tableSql(
  table: TableName,
  source: FileSource,
  list: ListSql,
  padded: boolean,
  conditions: readonly string[],
  sampledRows: number | null,
): string {
  const sample = sampledRows === null ? null : sampleOf(sampledRows, source);
  const { byTrace } = source;
  const read = source.columns === null ? null : new Set([...source.columns, ...conditionColumns]);
  const stored = columnsOfTable(table).filter(([name]) => read?.has(name) !== false);
  // It fails where a file lacks one of the columns, and is made padded then. With few columns, or one group, that is rare.
  const asTheyAre = !padded && (read !== null || (source.groups.length === 1 && (byTrace?.groups ?? []).length === 0));
  // Paths look like Hive's (`audience=a/`), of which DuckDB would make a column by itself, but not of all of them.
  const selectSql = (
    { audience, paths, attributes: places = "", timeNs = null }: FileGroup,
    ofTraces: readonly string[],
  ): string => {
    const time = timeNs === null ? "time" : `make_timestamp_ns(${timeNs})`;
    const own = source.attributes.map(
      ({ attribute, column }, i) => `${attributeSql(attribute, places[i])} AS ${quoteName(column)}`,
    );
    const weight = sample === null ? [] : [`CAST(${sample.weight} AS DOUBLE) AS weight`];
    const items = asTheyAre ? stored.map(([name]) => quoteName(name)) : ["*"];
    return `SELECT ${[...items, `${quoteText(audience)} AS audience`, ...weight, `${time} AS ${comparedTime}`, ...own].join(", ")} FROM read_parquet(${list(paths)}, hive_partitioning = false)${whereSql([...(sample?.conditions ?? []), ...ofTraces])}`;
  };
  const columns = [
    ...stored,
    audienceColumn,
    ...(sample === null ? [] : [["weight", "DOUBLE"] as const]),
    ...(source.comparesTime ? [[comparedTime, "TIMESTAMP_NS"] as const] : []),
    ...source.attributes.map(({ column }) => [column, "VARCHAR"] as const),
  ];
  const ofInstance = [
    ...(source.processId === null ? [] : [`process_id = ${quoteText(source.processId)}`]),
    ...(source.traceId === null ? [] : [`trace_id = ${quoteText(source.traceId)}`]),
  ];
  const empty = `SELECT ${columns
    .map(([name, type]) => `CAST(NULL AS ${type}) AS ${quoteName(name)}`)
    .join(", ")} WHERE false`;
  // A view may join its rows before it looks at their traces.
  const ofTraces = byTrace === undefined ? [] : [`trace_id IN (${byTrace.traceIds.map(quoteText).join(", ")})`];
  const selects = [
    ...source.groups.map((group) => selectSql(group, ofTraces)),
    ...(byTrace?.groups ?? []).flatMap((group) =>
      (byTrace?.traceIds ?? []).map((traceId) => selectSql(group, [`trace_id = ${quoteText(traceId)}`])),
    ),
  ];
  if (selects.length === 0) {
    return empty;
  }
  const casts = columns.map(([name, type]) => `CAST(${quoteName(name)} AS ${type}) AS ${quoteName(name)}`).join(", ");
  // The empty rows in front bring every column that some of the files lack.
  const rows = asTheyAre ? selects.join(" UNION ALL ") : [empty, ...selects].join(" UNION ALL BY NAME ");
  return `SELECT ${casts} FROM (${rows})${whereSql([...ofInstance, ...conditions])}`;
}

/** SQL of a source's roll-ups, in brackets, with the column `audience`; null when it has none. */
export function rollupsSql({ rollups = [], processId }: FileSource, list: ListSql): string | null {
  const selects = rollups.map(
    ({ audience, paths }) =>
      `SELECT *, ${quoteText(audience)} AS audience FROM read_parquet(${list(paths)}, hive_partitioning = false)` +
      whereSql(processId === null ? [] : [`process_id = ${quoteText(processId)}`]),
  );
  return selects.length === 0 ? null : `(${selects.join(" UNION ALL ")})`;
}

/** The value of an attribute in a row of an object. @param place the object's letter for it */
function attributeSql(attribute: string, place: string | undefined): string {
  if (!isPlainAttribute(attribute)) {
    throw new TypeError("the name of an attribute is none that may be a column");
  }
  if (place === attributePlaces.column) {
    return attributeColumnSql(attribute);
  }
  return place === attributePlaces.nowhere ? "CAST(NULL AS VARCHAR)" : `attr(properties, ${quoteText(attribute)})`;
}

/** A source of no rows. */
export const emptySource: FileSource = {
  groups: [],
  processId: null,
  traceId: null,
  beginNs: null,
  endNs: null,
  firstNeededNs: null,
  lastNeededNs: null,
  attributes: [],
  comparesTime: false,
  columns: null,
  rowsAbout: 0,
};
