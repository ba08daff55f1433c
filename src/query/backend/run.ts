/** A query as the job of an engine: the views and tables behind its names, and the statement itself. */
import type { EngineStep } from "../../engine/protocol.js";
import type { ServiceError } from "../../runtime/errors.js";
import { FileLists } from "./file-lists.js";
import type { Executable } from "./inspect.js";
import type { FileSource } from "../sql/file-source.js";
import type { RowColumns } from "../../lake/tables/duckdb-types.js";
import { quoteName, quoteText } from "../../runtime/text/sql-text.js";
import { createFileViewSql, createRowTableSql, type FileView } from "../sql/views.js";

/** Rows and files behind the names of a query. Plain data. */
export interface QuerySources {
  /** Absolute paths of the directories that hold everything the caller may read; the engine opens nothing else. */
  readonly directories: readonly string[];
  readonly files: readonly {
    readonly name: string;
    readonly view: FileView;
    /** One for each table that the view reads. */
    readonly sources: readonly FileSource[];
  }[];
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
 */
export function stepsOf(
  query: Executable,
  { files, rows }: QuerySources,
  { maxResultRows, maxResultBytes }: ResultLimits,
): EngineStep[] {
  const lists = new FileLists();
  const views = files.map(({ name, view, sources }): EngineStep => {
    const sql = createFileViewSql(name, view, sources, lists.sql);
    // Files that lack a column were written by an older version; there are few of them, so that is tried last.
    const orElse = createFileViewSql(name, view, sources, lists.sql, true);
    return { kind: "execute", sql, orElse };
  });
  const execute = (sql: string): EngineStep => ({ kind: "execute", sql });
  const steps = [
    ...(query.macros ?? []).map(execute),
    ...lists.begin().map(execute),
    ...views,
    ...rows.flatMap(({ name, columns, chunks }) => rowSteps(name, columns, chunks)),
  ];
  if (query.explain === "none") {
    const stream: EngineStep = {
      kind: "stream",
      sql: query.sql,
      ...(query.names === undefined ? {} : { names: query.names }),
      messageBytes,
      beforeStart: lists.complete(),
      ...(maxResultRows > 0 ? { maxRows: maxResultRows } : {}),
      ...(maxResultBytes > 0 ? { maxBytes: maxResultBytes } : {}),
    };
    return [...steps, stream];
  }
  const keyword = query.explain === "analyze" ? "EXPLAIN (ANALYZE, FORMAT JSON)" : "EXPLAIN";
  return [
    ...steps,
    ...lists.complete().map(execute),
    { kind: "rows", sql: `${keyword} ${query.sql}`, maxBytes: maxPlanBytes },
  ];
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
