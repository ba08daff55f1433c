/**
 * A statement's rows as FlightData messages: chunks are fetched, converted where that changes anything, joined, and
 * written when they fill a message. DuckDB computes ahead on its other threads, where it has some.
 */
import type { MessageSlots } from "../message-slots.js";
import type { EngineStep } from "../protocol.js";
import { MessageWriter, type NativeFrame } from "./arrow/message.js";
import { PiecedColumn } from "./arrow/pieces.js";
import { ArrowConverter, type ColumnHandle, maxHeldChunks } from "./arrow/result.js";
import { type Connection, type Native, type Result } from "./connection.js";
import type { Pointer } from "./library.js";
import type { RowFunction } from "./row-function.js";

/** Where messages go. */
export interface MessageSink {
  /** Memory for large messages; null when there is none. */
  readonly slots: MessageSlots | null;
  /** Returns when the message has been written. @throws JobStopped when the job has been given up */
  send(frame: NativeFrame): void;
}

/** What was sent. */
export interface StreamedCounts {
  rows: number;
  batches: number;
  bytes: number;
  truncated: boolean;
}

/** A result that is larger than it may be. */
export class LimitError extends Error {
  override readonly name = "LimitError";
}

/** Of a job. */
export type StreamStep = Extract<EngineStep, { kind: "stream" }>;

/** Most rows of a message. */
const maxMessageRows = 1 << 16;

/**
 * A `stream` step.
 * @param counts are raised as messages go out.
 * @throws DuckDbError, LimitError, and what the sink throws
 */
export function streamResult(
  connection: Connection,
  result: Result,
  step: StreamStep,
  sink: MessageSink,
  counts: StreamedCounts,
): void {
  const { native } = connection;
  const converter = new ArrowConverter(connection);
  try {
    const joiner = withColumns(native, result, (columns) => begin(native, converter, columns, step, sink, counts));
    while (joiner.wants) {
      const chunk = result.fetch();
      if (chunk === 0) {
        break;
      }
      joiner.add(chunk);
    }
    joiner.flush();
  } finally {
    converter.close();
  }
}

/**
 * A `stream` step whose rows are taken where they are computed.
 * @param connection of an instance that has `rows`
 * @throws DuckDbError, LimitError, and what the sink throws
 */
export function streamInPlace(
  connection: Connection,
  rows: RowFunction,
  start: ResultOf,
  step: StreamStep,
  sink: MessageSink,
  counts: StreamedCounts,
): void {
  const { native } = rows;
  const converter = new ArrowConverter({ native, handle: connection.handle });
  const begun: { joiner?: Joiner } = {};
  const named = (types: readonly Pointer[]): ColumnHandle[] =>
    types.map((type, i) => ({ name: step.names?.[i]?.name ?? "", type }));
  const joinerOf = (types: readonly Pointer[]): Joiner =>
    (begun.joiner ??= begin(native, converter, named(types), step, sink, counts));
  const take = (chunk: Pointer, types: readonly Pointer[]): void => {
    const joiner = joinerOf(types);
    joiner.lend(chunk);
    if (!joiner.wants) {
      throw new EnoughRows();
    }
  };
  try {
    rows.serving({ take }, (types) => {
      start((result) => {
        const { duckdb, memory } = connection.native;
        for (let chunk = result.fetch(); chunk !== 0; chunk = result.fetch()) {
          duckdb.destroy_data_chunk(memory.box(chunk));
        }
        joinerOf(types()).flush();
      });
    });
  } catch (error) {
    if (!(error instanceof EnoughRows)) {
      throw error;
    }
    begun.joiner?.flush();
  } finally {
    converter.close();
  }
}

/** Runs a statement, hands its result over, and closes it. */
type ResultOf = (use: (result: Result) => void) => void;

/** Not an error: what follows is not wanted. */
class EnoughRows extends Error {
  override readonly name = "EnoughRows";
}

/** Sends the schema and what goes before rows. */
function begin(
  native: Native,
  converter: ArrowConverter,
  columns: readonly ColumnHandle[],
  step: StreamStep,
  sink: MessageSink,
  counts: StreamedCounts,
): Joiner {
  const writer = new MessageWriter(native.c, sink.slots);
  const { fields, message, dictionaries, sameVectors } = converter.schema(columns, step.names);
  sink.send(writer.plain(message));
  for (const { id, values } of dictionaries) {
    sink.send(writer.dictionary(id, values));
  }
  converter.release();
  const pieced = fields.map((field) => new PiecedColumn(field));
  return new Joiner(native, converter, writer, pieced, sameVectors, step, sink, counts);
}

/** Gives the columns of a result to `use`. */
export function withColumns<T>(
  { duckdb, memory }: Native,
  { address }: Result,
  use: (columns: readonly ColumnHandle[]) => T,
): T {
  const columns: ColumnHandle[] = [];
  try {
    const count = Number(duckdb.column_count(address));
    for (let i = 0; i < count; i++) {
      const type = duckdb.column_logical_type(address, i);
      columns.push({ name: duckdb.column_name(address, i) ?? "", type });
    }
    return use(columns);
  } finally {
    for (const { type } of columns) {
      duckdb.destroy_logical_type(memory.box(type));
    }
  }
}

/** Adds a piece of rows to every column. @returns about how many bytes they take */
type AddPieces = (first: number, rows: number) => number;

/** A chunk takes the memory of 2048 rows, an array that of its rows: chunks with fewer are not kept as they are. */
const leastKeptRows = 1024;

/** Joins chunks into messages. */
class Joiner {
  readonly #native: Native;
  readonly #converter: ArrowConverter;
  readonly #writer: MessageWriter;
  readonly #columns: readonly PiecedColumn[];
  readonly #sameVectors: boolean;
  readonly #step: StreamStep;
  readonly #sink: MessageSink;
  readonly #counts: StreamedCounts;
  #rows = 0;
  #bytes = 0;
  /** Rows that may still come. */
  #left: number;

  constructor(
    native: Native,
    converter: ArrowConverter,
    writer: MessageWriter,
    columns: readonly PiecedColumn[],
    sameVectors: boolean,
    step: StreamStep,
    sink: MessageSink,
    counts: StreamedCounts,
  ) {
    this.#native = native;
    this.#converter = converter;
    this.#writer = writer;
    this.#columns = columns;
    this.#sameVectors = sameVectors;
    this.#step = step;
    this.#sink = sink;
    this.#counts = counts;
    this.#left = step.maxRows ?? Infinity;
  }

  /** Whether more rows are wanted. */
  get wants(): boolean {
    return !this.#counts.truncated;
  }

  /** Takes a chunk over. */
  add(chunk: Pointer): void {
    const { duckdb, memory } = this.#native;
    const rows = Number(duckdb.data_chunk_get_size(chunk));
    if (this.#sameVectors && rows >= leastKeptRows) {
      this.#converter.keep(chunk);
      this.#take(rows, this.#addVectors(chunk));
      return;
    }
    let array: Pointer;
    try {
      array = this.#converter.convert(chunk);
    } finally {
      duckdb.destroy_data_chunk(memory.box(chunk));
    }
    this.#take(rows, this.#addArrays(array));
  }

  /** Takes the rows of a chunk that stays its owner's. */
  lend(chunk: Pointer): void {
    const rows = Number(this.#native.duckdb.data_chunk_get_size(chunk));
    this.#take(rows, this.#addArrays(this.#converter.convert(chunk)));
  }

  #take(found: number, add: AddPieces): void {
    const before = this.#counts.batches;
    let rows = found;
    if (rows > this.#left) {
      rows = this.#left;
      this.#counts.truncated = true;
    }
    this.#left -= rows;
    if (rows > 0) {
      this.#addRows(add, 0, rows);
    }
    // What is left of a chunk that did not fit goes as well: nothing is let go while something waits.
    const sent = this.#counts.batches > before;
    const full = this.#bytes >= this.#step.messageBytes || this.#rows >= maxMessageRows;
    if (sent || full || this.#converter.held === maxHeldChunks) {
      this.flush();
    }
  }

  /** Sends what is left. */
  flush(): void {
    this.#send();
    this.#converter.release();
  }

  /** Rows that would make a message much too large go into several. */
  #addRows(add: AddPieces, first: number, rows: number): void {
    const bytes = add(first, rows);
    if (this.#bytes + bytes > this.#step.messageBytes * 1.5 && this.#rows + rows > 1) {
      for (const column of this.#columns) {
        column.undo();
      }
      if (this.#rows > 0) {
        this.#send();
        this.#addRows(add, first, rows);
      } else {
        const half = rows >> 1;
        this.#addRows(add, first, half);
        this.#addRows(add, first + half, rows - half);
      }
      return;
    }
    this.#rows += rows;
    this.#bytes += bytes;
  }

  #addArrays(array: Pointer): AddPieces {
    const { memory } = this.#native;
    const children = memory.pointerAt(array + 48);
    return (first, rows) => {
      let bytes = 0;
      for (let i = 0; i < this.#columns.length; i++) {
        bytes += this.#columns[i]!.add(memory, memory.pointerAt(children + i * 8), first, rows);
      }
      return bytes;
    };
  }

  #addVectors(chunk: Pointer): AddPieces {
    const { duckdb } = this.#native;
    return (first, rows) => {
      let bytes = 0;
      for (let i = 0; i < this.#columns.length; i++) {
        bytes += this.#columns[i]!.addVector(this.#native, duckdb.data_chunk_get_vector(chunk, i), first, rows);
      }
      return bytes;
    };
  }

  #send(): void {
    if (this.#rows === 0) {
      return;
    }
    const frame = this.#writer.batch(this.#columns, this.#rows);
    const { maxBytes } = this.#step;
    const counts = this.#counts;
    const bytes = frame.messageBytes;
    if (maxBytes !== undefined && counts.bytes + bytes > maxBytes) {
      throw new LimitError(`the result has more than ${maxBytes} bytes`);
    }
    this.#sink.send(frame);
    counts.rows += this.#rows;
    counts.batches++;
    counts.bytes += bytes;
    for (const column of this.#columns) {
      column.clear();
    }
    this.#rows = 0;
    this.#bytes = 0;
  }
}
