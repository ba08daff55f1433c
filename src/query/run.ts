/**
 * One query from SQL to FlightData messages, in a query thread. The sink decides the pace: nothing is
 * fetched from DuckDB while it is busy, and DuckDB computes at most a few megabytes ahead.
 */
import type { DuckDBConnection, DuckDBDataChunk, DuckDBInstance } from "@duckdb/node-api";

import { ServiceError } from "../runtime/errors.js";
import { bytesOfPiece, encodeBatch, encodeDictionary, encodeSchema } from "./arrow-batch.js";
import { type Codec, createCodecs, type Piece } from "./arrow-read.js";
import type { RawBindings } from "./duckdb-bindings.js";
import { connectEngine } from "./engine.js";
import { analyzedPlan } from "./explain.js";
import type { Executable } from "./inspect.js";
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

/** What came out of a query. */
export interface QuerySummary {
  readonly rows: number;
  readonly batches: number;
  readonly bytes: number;
  /**
   * Most memory that the thread's DuckDB held while the query ran, other queries of the thread included;
   * null when the query ended before it was measured.
   */
  readonly peakMemoryBytes: number | null;
}

/** Where the FlightData messages go, the schema's first. */
export interface QuerySink {
  /** Resolves when there is room for another message; rejects when the query is cancelled. */
  ready(): Promise<void>;
  send(message: Uint8Array<ArrayBuffer>): void;
}

/** Whether the query has been given up; set it, then call `interrupt`. */
export interface Cancellation {
  cancelled: boolean;
  /** Interrupts whatever DuckDB is doing for the query. */
  interrupt: () => void;
}

/** Everything of a thread that queries share. */
export interface RunContext {
  readonly bindings: RawBindings;
  readonly instance: DuckDBInstance;
  readonly scrub: Scrubber;
  /** Runs one call into DuckDB; limits how many of them are in progress. */
  readonly enter: <T>(call: () => Promise<T>) => Promise<T>;
}

/** A batch is sent when it holds this much. */
const batchBytes = 1 << 20;
const batchRows = 1 << 16;
/** Rows of one chunk that are larger than this are sent in several batches. */
const maxPieceBytes = 2 << 20;

/**
 * Runs a query that has passed the gate.
 * @throws ServiceError as {@link queryError} words DuckDB's errors; CANCELLED when it was given up
 */
export async function runQuery(
  context: RunContext,
  query: Executable,
  sources: QuerySources,
  sink: QuerySink,
  cancellation: Cancellation,
): Promise<QuerySummary> {
  const { enter } = context;
  const step = async <T>(call: () => Promise<T>): Promise<T> =>
    enter(async () => {
      if (cancellation.cancelled) throw new ServiceError("CANCELLED");
      return call();
    });
  let connection: DuckDBConnection | null = null;
  let finished = false;
  const memory = watchMemory(context.instance);
  try {
    const opened = await step(() => connectEngine(context.instance));
    connection = opened;
    cancellation.interrupt = () => {
      opened.interrupt();
    };
    await step(() => createSources(opened, sources));
    const sql = await step(() => executable(context, opened, query));
    const summary = await streamResult(context, opened, sql, sink, step);
    finished = true;
    return { ...summary, peakMemoryBytes: memory.peakBytes() };
  } catch (error) {
    if (cancellation.cancelled) throw new ServiceError("CANCELLED", undefined, { cause: error });
    throw queryError(error, context.scrub);
  } finally {
    await memory.stop();
    cancellation.interrupt = () => undefined;
    const abandoned = connection;
    if (abandoned !== null) {
      // An unfinished result holds on to its memory until the collector finds it, unless another
      // statement takes its place.
      if (!finished) await abandoned.run("SELECT 1").catch(() => undefined);
      abandoned.closeSync();
    }
  }
}

const memoryEveryMs = 200;

/** Measures what an instance holds from time to time; short queries cost nothing. */
function watchMemory(instance: DuckDBInstance): {
  readonly peakBytes: () => number | null;
  /** Resolves when no measurement is under way. */
  readonly stop: () => Promise<void>;
} {
  let peak: number | null = null;
  let measuring = false;
  let last: Promise<void> = Promise.resolve();
  const measure = async (): Promise<void> => {
    const connection = await connectEngine(instance);
    try {
      const reader = await connection.runAndReadAll(
        "SELECT CAST(sum(memory_usage_bytes + temporary_storage_bytes) AS DOUBLE) FROM duckdb_memory()",
      );
      const bytes = reader.getRows()[0]?.[0];
      if (typeof bytes === "number" && (peak === null || bytes > peak)) peak = bytes;
    } catch {
      // A measurement less; the query itself will say what is wrong.
    } finally {
      // Never while a call is in progress: that would take the process down.
      connection.closeSync();
      measuring = false;
    }
  };
  const timer = setInterval(() => {
    if (measuring) return;
    measuring = true;
    last = measure();
  }, memoryEveryMs);
  return {
    peakBytes: () => peak,
    stop: () => {
      clearInterval(timer);
      return last;
    },
  };
}

async function createSources(connection: DuckDBConnection, sources: QuerySources): Promise<void> {
  for (const { name, view, source } of sources.files) {
    await createFileView(connection, name, view, source);
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
): Promise<void> {
  try {
    await connection.run(createFileViewSql(name, view, source));
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("Binder Error")) throw error;
    await connection.run(createFileViewSql(name, view, source, true));
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
  connection: DuckDBConnection,
  query: Executable,
): Promise<string> {
  if (query.explain === "none") return query.sql;
  const analyze = query.explain === "analyze";
  const keyword = analyze ? "EXPLAIN (ANALYZE, FORMAT JSON)" : "EXPLAIN";
  const reader = await connection.runAndReadAll(`${keyword} ${query.sql}`);
  const rows = reader.getRows().map(([key, value]) => ({
    explain_key: String(key),
    explain_value: analyze
      ? analyzedPlan(String(value), context.scrub)
      : context.scrub(String(value)),
  }));
  await createRows(
    connection,
    "svc_explain",
    [
      ["explain_key", "VARCHAR"],
      ["explain_value", "VARCHAR"],
    ],
    [JSON.stringify(rows)],
  );
  return "SELECT explain_key, explain_value FROM svc_explain";
}

async function streamResult(
  context: RunContext,
  connection: DuckDBConnection,
  sql: string,
  sink: QuerySink,
  step: <T>(call: () => Promise<T>) => Promise<T>,
): Promise<Omit<QuerySummary, "peakMemoryBytes">> {
  const result = await step(() => connection.stream(sql));
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
  const batcher = new Batcher(context.bindings, codecs, sink);
  for (;;) {
    const chunk = await step(() => result.fetchChunk());
    if (chunk === null || chunk.rowCount === 0) break;
    await batcher.add(chunk);
  }
  return batcher.finish();
}

/** Gathers chunks of 2048 rows into batches of about a megabyte. */
class Batcher {
  readonly #bindings: RawBindings;
  readonly #codecs: readonly Codec[];
  readonly #sink: QuerySink;
  #columns: Piece[][];
  #rows = 0;
  #bytes = 0;
  #totalRows = 0;
  #totalBytes = 0;
  #batches = 0;

  constructor(bindings: RawBindings, codecs: readonly Codec[], sink: QuerySink) {
    this.#bindings = bindings;
    this.#codecs = codecs;
    this.#sink = sink;
    this.#columns = codecs.map(() => []);
  }

  async add(chunk: DuckDBDataChunk): Promise<void> {
    await this.#addRows(chunk, 0, chunk.rowCount);
  }

  async finish(): Promise<Omit<QuerySummary, "peakMemoryBytes">> {
    await this.#flush();
    return { rows: this.#totalRows, batches: this.#batches, bytes: this.#totalBytes };
  }

  async #addRows(chunk: DuckDBDataChunk, first: number, rows: number): Promise<void> {
    const ranges = Int32Array.of(first, rows);
    const pieces = this.#codecs.map((codec, column) =>
      codec.read(this.#bindings.data_chunk_get_vector(chunk.chunk, column), ranges, rows),
    );
    let bytes = 0;
    for (const piece of pieces) bytes += bytesOfPiece(piece);
    if (bytes > maxPieceBytes && rows > 1) {
      const half = rows >> 1;
      await this.#addRows(chunk, first, half);
      await this.#addRows(chunk, first + half, rows - half);
      return;
    }
    if (this.#rows > 0 && this.#bytes + bytes > batchBytes + (batchBytes >> 1)) await this.#flush();
    for (const [column, piece] of pieces.entries()) this.#columns[column]?.push(piece);
    this.#rows += rows;
    this.#bytes += bytes;
    if (this.#bytes >= batchBytes || this.#rows >= batchRows) await this.#flush();
  }

  async #flush(): Promise<void> {
    if (this.#rows === 0) return;
    const message = encodeBatch(
      this.#codecs.map(({ field }) => field),
      this.#columns,
      this.#rows,
    );
    this.#totalRows += this.#rows;
    this.#totalBytes += message.length;
    this.#batches++;
    this.#columns = this.#codecs.map(() => []);
    this.#rows = 0;
    this.#bytes = 0;
    await this.#sink.ready();
    this.#sink.send(message);
  }
}
