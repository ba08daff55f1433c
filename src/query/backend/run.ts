/** A query as the job of an engine: what is behind its names, and the statement itself. */
import type { EngineStep } from "../../engine/protocol.js";
import type { ServiceError } from "../../runtime/errors.js";
import { filesFirst, type NamedFiles, viewsFirst } from "./files-first.js";
import type { Executable } from "./inspect.js";
import type { RowColumns } from "../../lake/tables/duckdb-types.js";
import { quoteName, quoteText } from "../../runtime/text/sql-text.js";
import { foldName } from "../sql/identifier.js";
import { createRowTableSql, fileViews } from "../sql/views.js";

/** Rows and files behind the names of a query. Plain data. */
export interface QuerySources {
  /** Absolute paths of the directories that hold everything the caller may read; the engine opens nothing else. */
  readonly directories: readonly string[];
  readonly files: readonly NamedFiles[];
  readonly rows: readonly {
    readonly name: string;
    readonly columns: RowColumns;
    /** JSON arrays of objects; a TIMESTAMP_NS is a number of nanoseconds since the epoch. */
    readonly chunks: readonly string[];
  }[];
}

/** What was sent of a query, whether or not that was all of it. */
export interface QuerySummary {
  readonly rows: number;
  readonly batches: number;
  readonly bytes: number;
  /** Most memory that its engine held while it ran; null when that is not known. */
  readonly peakMemoryBytes: number | null;
}

/** How a query ended. */
export interface QueryOutcome {
  readonly summary: QuerySummary;
  /** Why it ended before its end; null when it did not. */
  readonly failure: ServiceError | null;
}

/** Most that one query may return; 0: no limit. */
export interface ResultLimits {
  readonly maxResultRows: number;
  /** Of the messages. */
  readonly maxResultBytes: number;
}

/** A message is closed when it holds this much. */
const messageBytes = 1 << 20;
/** Longest text of an explained plan. */
const maxPlanBytes = 16 << 20;

/**
 * The steps of a query that has passed the gate. The last one streams the result, or brings the rows of its EXPLAIN.
 * @returns whether its files are in front of it, too: see {@link filesFirst}
 */
export function stepsOf(
  query: Executable,
  { files, rows }: QuerySources,
  { maxResultRows, maxResultBytes }: ResultLimits,
): { readonly steps: EngineStep[]; readonly hasFilesFirst: boolean } {
  const inPlace = subqueryInPlace(query, files);
  const withFiles = query.explain === "none" ? filesFirst(inPlace ?? query.sql, files) : null;
  const steps = [
    ...(query.macros ?? []).map((sql): EngineStep => ({ kind: "execute", sql })),
    ...(withFiles === null ? viewsFirst(files) : []).map((view): EngineStep => ({ kind: "execute", ...view })),
    ...rows.flatMap(({ name, columns, chunks }) => rowSteps(name, columns, chunks)),
  ];
  if (query.explain === "none") {
    const stream: EngineStep = {
      kind: "stream",
      ...(withFiles ?? { sql: query.sql }),
      ...(withFiles !== null && inPlace !== null ? { inPlace: true } : {}),
      ...(query.names === undefined ? {} : { names: query.names }),
      ...(query.numbersOnly === true ? { ahead: "numbers" } : {}),
      messageBytes,
      ...(maxResultRows > 0 ? { maxRows: maxResultRows } : {}),
      ...(maxResultBytes > 0 ? { maxBytes: maxResultBytes } : {}),
    };
    return { steps: [...steps, stream], hasFilesFirst: withFiles !== null };
  }
  const keyword = query.explain === "analyze" ? "EXPLAIN (ANALYZE, FORMAT JSON)" : "EXPLAIN";
  const explain: EngineStep = { kind: "rows", sql: `${keyword} ${query.sql}`, maxBytes: maxPlanBytes };
  return { steps: [...steps, explain], hasFilesFirst: false };
}

/** The text of a query as a subquery whose rows are taken in place. @returns null when they are fetched */
function subqueryInPlace(
  { sql, isPlain, numbersOnly, names = [] }: Executable,
  files: readonly NamedFiles[],
): string | null {
  // A subquery gets new names for equal ones, which takes DuckDB seconds for thousands.
  const areDistinct = new Set(names.map(({ name }) => foldName(name))).size === names.length;
  if (isPlain !== true || numbersOnly === true || names.length === 0 || !areDistinct || !files.every(isRows)) {
    return null;
  }
  const end = sql.indexOf(";");
  if (end === -1) {
    return sql;
  }
  // Behind one that ends the text there is nothing else. Others may be in a name, or have a comment behind them.
  return /^[;\s]*$/u.test(sql.slice(end)) ? sql.slice(0, end) : null;
}

/** Whether a view has the rows of one table as they are. */
function isRows({ view }: NamedFiles): boolean {
  return fileViews[view].computed !== undefined;
}

/** A temporary table, filled from JSON, which DuckDB reads by itself. */
function rowSteps(name: string, columns: RowColumns, chunks: readonly string[]): EngineStep[] {
  const shape = JSON.stringify([
    Object.fromEntries(columns.map(([column, type]) => [column, type === "TIMESTAMP_NS" ? "BIGINT" : type])),
  ]);
  const values = columns.map(([column, type]) => {
    const value = `r.${quoteName(column)}`;
    return type === "TIMESTAMP_NS" ? `make_timestamp_ns(${value})` : value;
  });
  const insert =
    `INSERT INTO ${quoteName(name)} SELECT ${values.join(", ")} ` +
    `FROM (SELECT unnest(from_json($1::JSON, ${quoteText(shape)})) AS r)`;
  return [
    { kind: "execute", sql: createRowTableSql(name, columns) },
    ...chunks.map((text): EngineStep => ({
      kind: "execute",
      sql: insert,
      values: [{ type: "VARCHAR", text }],
    })),
  ];
}
