/** The result of a query as it comes: Arrow batches, a table, or plain rows. */
import { status } from "@grpc/grpc-js";
import { type RecordBatch, RecordBatchReader, type Schema, Table } from "apache-arrow";

import { type CellValue, columnReaders, uniqueNames } from "../values/arrow-values.js";
import type { FlightDataFrame } from "./flight-messages.js";
import { FlightSqlError } from "./flight-sql-error.js";
import { ipcStream } from "./ipc-stream.js";

/** One row by column; of columns that share a name, the second becomes `name_2`. */
export type Row = Readonly<Record<string, CellValue>>;

/**
 * A running query. Its result is read once, in one of the three ways; each throws FlightSqlError, also when somebody has
 * begun to read it: what is left would look like the whole.
 */
export interface QueryResult {
  readonly schema: Schema;
  /** Record batches as they arrive; reading slowly slows the server, leaving the loop cancels the query. */
  readonly batches: AsyncIterable<RecordBatch>;
  /** The whole result in memory. */
  table(): Promise<Table>;
  /** Rows as they arrive, with exact values: see {@link CellValue}. */
  rows(): AsyncGenerator<Row>;
  /**
   * Gives the query up, on the server too: for a result that is not read, or not to its end. Reads reject with status
   * CANCELLED then. Nothing when it has ended.
   */
  cancel(): void;
}

/** What a result tells whoever runs its query. */
export interface RunningQuery {
  /** Somebody begins to read. @throws FlightSqlError when it was given up before */
  readonly begin: () => void;
  /** Nothing more is wanted of it. */
  readonly stop: () => void;
}

/** Reads the schema of a result. @param limit most rows */
export async function openResult(
  frames: AsyncGenerator<FlightDataFrame>,
  limit: number | undefined,
  { begin, stop }: RunningQuery,
): Promise<QueryResult> {
  const reader = await RecordBatchReader.from(ipcStream(frames));
  await reader.open();
  // Typed as always there, but a stream that holds no message has none.
  const schema = reader.schema as Schema | undefined;
  if (schema === undefined) {
    throw new FlightSqlError(status.INTERNAL, "the server answered without a schema");
  }
  async function* limited(): AsyncGenerator<RecordBatch> {
    let left = limit ?? Number.POSITIVE_INFINITY;
    try {
      if (left <= 0) {
        return;
      }
      for await (const batch of reader) {
        yield batch.numRows > left ? batch.slice(0, left) : batch;
        left -= batch.numRows;
        if (left <= 0) {
          return;
        }
      }
    } finally {
      // Ends a read that waits for the server, which closing the generator alone would wait for.
      stop();
    }
  }
  let begun = false;
  const batches: AsyncIterable<RecordBatch> = {
    [Symbol.asyncIterator]() {
      if (begun) {
        throw new FlightSqlError(
          status.FAILED_PRECONDITION,
          "the result was read already, or in part; run the query again, or keep its table()",
        );
      }
      begin();
      begun = true;
      return limited();
    },
  };
  return {
    schema,
    batches,
    cancel: stop,
    async table() {
      const all: RecordBatch[] = [];
      for await (const batch of batches) {
        all.push(batch);
      }
      return new Table(schema, all);
    },
    async *rows() {
      const names = uniqueNames(schema);
      for await (const batch of batches) {
        const readers = columnReaders(batch);
        for (let row = 0; row < batch.numRows; row++) {
          yield Object.fromEntries(readers.map((read, column) => [names[column] ?? "", read(row)]));
        }
      }
    },
  };
}
