/** Chunks of DuckDB gathered into record batches, within the bounds of a result. */
import type { DuckDBDataChunk } from "@duckdb/node-api";

import { ServiceError } from "../runtime/errors.js";
import type { YoungCollector } from "../runtime/collector.js";
import { bytesOfPiece, encodeBatch } from "./arrow-batch.js";
import type { Codec, Piece } from "./arrow-read.js";
import type { RawBindings } from "./duckdb-bindings.js";

/** Where the FlightData messages go, the schema's first. */
export interface QuerySink {
  /** Resolves when there is room for another message; rejects when the query is cancelled. */
  ready(): Promise<void>;
  send(message: Uint8Array<ArrayBuffer>): void;
}

/** Most that one query may return; 0: no limit. */
export interface ResultLimits {
  readonly maxResultRows: number;
  /** Of the messages that hold the rows. */
  readonly maxResultBytes: number;
}

/** What was sent so far. */
export interface SentResult {
  rows: number;
  batches: number;
  /** Of the messages that hold the rows. */
  bytes: number;
}

/** What a {@link Batcher} needs of its thread. */
export interface BatchContext {
  readonly bindings: RawBindings;
  readonly limits: ResultLimits;
  readonly collector: YoungCollector;
}

/** A batch is sent when it holds this much. */
const batchBytes = 1 << 20;
const batchRows = 1 << 16;
/** Rows of one chunk that are larger than this are sent in several batches. */
const maxPieceBytes = 2 << 20;

/** Gathers chunks of 2048 rows into batches of about a megabyte. */
export class Batcher {
  readonly #context: BatchContext;
  readonly #codecs: readonly Codec[];
  readonly #sink: QuerySink;
  readonly #sent: SentResult;
  #columns: Piece[][];
  #rows = 0;
  #bytes = 0;

  /** @param sent counts what is sent */
  constructor(context: BatchContext, codecs: readonly Codec[], sink: QuerySink, sent: SentResult) {
    this.#context = context;
    this.#codecs = codecs;
    this.#sink = sink;
    this.#sent = sent;
    this.#columns = codecs.map(() => []);
  }

  /** @throws ServiceError PAYLOAD_TOO_LARGE when the result is larger than it may be */
  async add(chunk: DuckDBDataChunk): Promise<void> {
    await this.#addRows(chunk, 0, chunk.rowCount);
  }

  /** Sends what is left. @throws ServiceError as {@link add} */
  async finish(): Promise<void> {
    await this.#flush();
  }

  async #addRows(chunk: DuckDBDataChunk, first: number, rows: number): Promise<void> {
    const { bindings, limits, collector } = this.#context;
    const { maxResultRows } = limits;
    if (maxResultRows > 0 && this.#sent.rows + this.#rows + rows > maxResultRows) {
      throw tooLarge(`more than ${maxResultRows} rows`, "SVC_QUERY_MAX_RESULT_ROWS");
    }
    const ranges = Int32Array.of(first, rows);
    const pieces = this.#codecs.map((codec, column) =>
      codec.read(bindings.data_chunk_get_vector(chunk.chunk, column), ranges, rows),
    );
    let bytes = 0;
    for (const piece of pieces) bytes += bytesOfPiece(piece);
    // As DuckDB's memory was copied, as pieces, and in the message.
    collector.made(3 * bytes);
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
    const { maxResultBytes } = this.#context.limits;
    if (maxResultBytes > 0 && this.#sent.bytes + message.length > maxResultBytes) {
      throw tooLarge(`more than ${maxResultBytes} bytes`, "SVC_QUERY_MAX_RESULT_BYTES");
    }
    const rows = this.#rows;
    const bytes = message.length;
    this.#columns = this.#codecs.map(() => []);
    this.#rows = 0;
    this.#bytes = 0;
    await this.#sink.ready();
    this.#sink.send(message);
    this.#sent.rows += rows;
    this.#sent.bytes += bytes;
    this.#sent.batches++;
  }
}

function tooLarge(what: string, option: string): ServiceError {
  return new ServiceError(
    "PAYLOAD_TOO_LARGE",
    `The result has ${what}, the most that this server sends for a query (${option}); narrow the query, aggregate, or add a LIMIT.`,
  );
}
