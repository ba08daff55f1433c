/**
 * One query from SQL to FlightData messages, in a query thread. The sink decides the pace: no more than one
 * chunk is fetched from DuckDB while it is busy, and DuckDB computes at most a few megabytes ahead.
 */
import { type DuckDBConnection, type DuckDBDataChunk, ResultReturnType } from "@duckdb/node-api";

import { atMost } from "../runtime/at-most.js";
import { ServiceError } from "../runtime/errors.js";
import type { YoungCollector } from "../runtime/collector.js";
import { encodeDictionary, encodeSchema } from "./arrow-batch.js";
import { createCodecs } from "./arrow-read.js";
import { Batcher, type QuerySink, type ResultLimits, type SentResult } from "./batcher.js";
import type { RawBindings } from "./duckdb-bindings.js";
import type { ConnectionSource } from "./engine.js";
import { execute, type ExecuteContext, type Step } from "./execute.js";
import { analyzedPlan } from "./explain.js";
import { FileLists } from "./file-lists.js";
import type { Executable } from "./inspect.js";
import type { MemoryWatch } from "./memory-watch.js";
import { queryError, type Scrubber } from "./scrub.js";
import {
  createFileViewSql,
  createRowTableSql,
  type FileSource,
  type FileView,
  quoteName,
  quoteText,
  type RowColumns,
} from "./views.js";

/** Rows and files behind the names of a query. Plain data; it crosses threads. */
export interface QuerySources {
  readonly files: readonly {
    readonly name: string;
    readonly view: FileView;
    readonly source: FileSource;
  }[];
  readonly rows: readonly {
    readonly name: string;
    readonly columns: RowColumns;
    /** JSON arrays of objects; a TIMESTAMP_NS is a number of nanoseconds since the epoch. */
    readonly chunks: readonly string[];
  }[];
}

/** What was sent of a query, whether or not that was all of it. */
export interface QuerySummary extends Readonly<SentResult> {
  /**
   * Most memory that the thread's DuckDB held while the query ran, other queries of the thread included;
   * null when the query ended before it was measured.
   */
  readonly peakMemoryBytes: number | null;
}

/** How a query ended. */
export interface QueryOutcome {
  readonly summary: QuerySummary;
  /** Why it ended before its end; null when it did not. */
  readonly failure: ServiceError | null;
}

/** Whether the query has been given up; set it, then call `interrupt`. */
export interface Cancellation {
  cancelled: boolean;
  /** Interrupts whatever DuckDB is doing for the query. */
  interrupt: () => void;
  /** Leaves the call in progress behind, which interrupting has not ended. */
  leave: () => void;
}

/** Everything of a thread that queries share. */
export interface RunContext {
  readonly bindings: RawBindings;
  readonly connections: ConnectionSource;
  readonly scrub: Scrubber;
  readonly memory: MemoryWatch;
  readonly limits: ResultLimits;
  readonly collector: YoungCollector;
  /** Runs one call into DuckDB; limits how many of them are in progress. */
  readonly enter: Step;
  /** Told about work that may outlive the query; the thread does not end before it has. */
  readonly track: (work: Promise<void>) => Promise<void>;
  /** Queries that are being let go of. */
  readonly leavers: () => number;
}

/** How long a query that was given up keeps its place when DuckDB does not let go of it, in milliseconds. */
export const letGoMs = 5000;
/** The same when few are being let go of: DuckDB ends a step of a sort in its own time, and nobody need wait for that. */
const letGoSoonMs = 50;
const fewLeavers = 2;

/**
 * Runs a query that has passed the gate. Failures are part of what it returns, because rows may have been sent
 * before: as {@link queryError} words DuckDB's errors; CANCELLED when it was given up.
 */
export async function runQuery(
  context: RunContext,
  query: Executable,
  sources: QuerySources,
  sink: QuerySink,
  cancellation: Cancellation,
): Promise<QueryOutcome> {
  const memory = context.memory.start();
  const session = createSession(context, cancellation);
  const sent: SentResult = { rows: 0, batches: 0, bytes: 0 };
  let failure: ServiceError | null = null;
  try {
    const connection = await session.open();
    session.holds(sources.rows.map(({ name }) => name));
    const lists = new FileLists();
    await session.step(() => createSources(connection, sources, lists));
    const sql = await executable(context, session, connection, query, lists);
    await streamResult({ context, session, connection, lists }, sql, sink, sent);
    await session.close("finished");
  } catch (error) {
    await session.close("abandoned");
    failure = cancellation.cancelled
      ? new ServiceError("CANCELLED", undefined, { cause: error })
      : queryError(error, context.scrub);
  } finally {
    memory.stop();
  }
  return { summary: { ...sent, peakMemoryBytes: memory.peakBytes }, failure };
}

/** A query's connection and the calls on it. */
interface Session extends ExecuteContext {
  open(): Promise<DuckDBConnection>;
  /** Told about temporary tables that are about to be made. */
  holds(tables: readonly string[]): void;
  /** Gives the connection back. Never rejects, and does not wait longer than {@link letGoMs}. */
  close(how: "finished" | "abandoned"): Promise<void>;
}

function createSession(context: RunContext, cancellation: Cancellation): Session {
  let connection: DuckDBConnection | null = null;
  const tables: string[] = [];
  /** The last call; the next one begins after it. */
  let last: Promise<unknown> = Promise.resolve();
  const step: Step = (call) => {
    const turn = context.enter(async () => {
      if (cancellation.cancelled) throw new ServiceError("CANCELLED");
      return call();
    });
    last = turn.catch(() => undefined);
    return new Promise((resolve, reject) => {
      cancellation.leave = () => {
        reject(new ServiceError("CANCELLED"));
      };
      turn.then(resolve, reject);
    });
  };
  const letGo = async (how: "finished" | "abandoned"): Promise<void> => {
    // Closing while a call is in progress would take the process down.
    await last;
    if (connection === null) return;
    // An unfinished or failed result holds on to its memory, and DuckDB goes on with it, until the collector
    // finds it, unless another statement takes its place. It holds on to the connection's tables also then.
    if (how === "abandoned") {
      await connection.run("SELECT 1").catch(() => undefined);
      cancellation.interrupt = () => undefined;
      for (const table of tables) {
        await connection.run(`DROP TABLE IF EXISTS ${quoteName(table)}`).catch(() => undefined);
      }
    }
    cancellation.interrupt = () => undefined;
    connection.closeSync();
  };
  return {
    bindings: context.bindings,
    cancellation,
    step,
    holds: (names) => {
      tables.push(...names);
    },
    open: () =>
      step(async () => {
        const opened = await context.connections.take();
        connection = opened;
        cancellation.interrupt = () => {
          opened.interrupt();
        };
        return opened;
      }),
    close: async (how) => {
      const closed = context.track(letGo(how));
      if (how === "finished") await closed;
      else await atMost(closed, context.leavers() <= fewLeavers ? letGoSoonMs : letGoMs);
    },
  };
}

async function createSources(
  connection: DuckDBConnection,
  sources: QuerySources,
  lists: FileLists,
): Promise<void> {
  for (const { name, view, source } of sources.files) {
    await createFileView(connection, name, view, source, lists);
  }
  for (const { name, columns, chunks } of sources.rows) {
    await createRows(connection, name, columns, chunks);
  }
}

/** Files that lack a column were written by an older version; there are few of them, so that is tried last. */
async function createFileView(
  connection: DuckDBConnection,
  name: string,
  view: FileView,
  source: FileSource,
  lists: FileLists,
): Promise<void> {
  const sql = createFileViewSql(name, view, source, lists.sql);
  await lists.begin(connection);
  try {
    await connection.run(sql);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("Binder Error")) throw error;
    await connection.run(createFileViewSql(name, view, source, lists.sql, true));
  }
}

async function createRows(
  connection: DuckDBConnection,
  name: string,
  columns: RowColumns,
  chunks: readonly string[],
): Promise<void> {
  await connection.run(createRowTableSql(name, columns));
  const shape = JSON.stringify([
    Object.fromEntries(
      columns.map(([column, type]) => [column, type === "TIMESTAMP_NS" ? "BIGINT" : type]),
    ),
  ]);
  const values = columns.map(([column, type]) => {
    const value = `r.${quoteName(column)}`;
    return type === "TIMESTAMP_NS" ? `make_timestamp_ns(${value})` : value;
  });
  const insert =
    `INSERT INTO ${quoteName(name)} SELECT ${values.join(", ")} ` +
    `FROM (SELECT unnest(from_json($1::JSON, ${quoteText(shape)})) AS r)`;
  for (const chunk of chunks) await connection.run(insert, [chunk]);
}

/** The SQL to stream: the query itself, or the (scrubbed) rows of its EXPLAIN. */
async function executable(
  context: RunContext,
  session: Session,
  connection: DuckDBConnection,
  query: Executable,
  lists: FileLists,
): Promise<string> {
  if (query.explain === "none") return query.sql;
  const analyze = query.explain === "analyze";
  const keyword = analyze ? "EXPLAIN (ANALYZE, FORMAT JSON)" : "EXPLAIN";
  const result = await execute(session, connection, `${keyword} ${query.sql}`, lists, "all");
  const explained = await session.step(() => result.getRows());
  const rows = explained.map(([key, value]) => ({
    explain_key: String(key),
    explain_value: analyze
      ? analyzedPlan(String(value), context.scrub)
      : context.scrub(String(value)),
  }));
  session.holds(["svc_explain"]);
  await session.step(() =>
    createRows(
      connection,
      "svc_explain",
      [
        ["explain_key", "VARCHAR"],
        ["explain_value", "VARCHAR"],
      ],
      [JSON.stringify(rows)],
    ),
  );
  return "SELECT explain_key, explain_value FROM svc_explain";
}

/** What the parts of a run share. */
interface Run {
  readonly context: RunContext;
  readonly session: Session;
  readonly connection: DuckDBConnection;
  readonly lists: FileLists;
}

/** @param sent counts what is sent */
async function streamResult(
  { context, session, connection, lists }: Run,
  sql: string,
  sink: QuerySink,
  sent: SentResult,
): Promise<void> {
  const result = await execute(session, connection, sql, lists, "stream");
  const { codecs, dictionaries } = createCodecs(
    context.bindings,
    Array.from({ length: result.columnCount }, (_, i) => ({
      name: result.columnName(i),
      type: () => result.columnType(i),
    })),
  );
  await sink.ready();
  sink.send(encodeSchema(codecs.map(({ field }) => field)));
  for (const dictionary of dictionaries) {
    await sink.ready();
    sink.send(encodeDictionary(dictionary));
  }
  const batcher = new Batcher(context, codecs, sink, sent);
  const fetchNext = (): Promise<DuckDBDataChunk | null> => {
    const next = session.step(() => result.fetchChunk());
    // Seen when it is waited for, unless the chunk before it fails.
    next.catch(() => undefined);
    return next;
  };
  for (let chunk = await fetchNext(); chunk !== null && chunk.rowCount > 0;) {
    // DuckDB is asked for the next chunk while this one is converted.
    const next = fetchNext();
    await batcher.add(chunk);
    chunk = await next;
  }
  // A fetch that fails looks like the end; only the result itself tells that it is none.
  if (result.returnType === ResultReturnType.INVALID) {
    throw await failureOf({ context, session, connection, lists }, sql);
  }
  await batcher.finish();
}

/**
 * What DuckDB says of a query that failed after its first rows. Its bindings keep the words to themselves, so the
 * query runs once more, for them alone: nothing of its result is kept.
 */
async function failureOf({ session, connection, lists }: Run, sql: string): Promise<unknown> {
  try {
    await execute(session, connection, `EXPLAIN ANALYZE ${sql}`, lists, "all");
  } catch (error) {
    return error;
  }
  return new ServiceError("INTERNAL", undefined, {
    cause: new Error("the query failed after its first rows, and not when it ran again"),
  });
}
