/** The results of a statement that runs once for each set of values, as one result. */
import { ServiceError, toServiceError } from "../runtime/errors.js";
import type { QueryStream } from "./backend/backend.js";
import type { QueryOutcome } from "./backend/run.js";

/**
 * Runs queries one after the other. The schema is sent once, because a stream has one (Arrow columnar format, "IPC
 * Streaming Format"); a query with another one ends the result.
 * @param starts what starts each query; none is started before the one before it has been read. Iterate the result:
 *   only then is anything started, and does it end
 * @param signal gives all of them up
 */
export function inSequence(starts: readonly (() => QueryStream)[], signal: AbortSignal): QueryStream {
  let settle: (outcome: QueryOutcome) => void = () => undefined;
  const ended = new Promise<QueryOutcome>((resolve) => {
    settle = resolve;
  });
  const total = { rows: 0, batches: 0, bytes: 0, peakMemoryBytes: null as number | null };

  async function* read(start: () => QueryStream, seen: { schema: Buffer | null }, row: number) {
    const stream = start();
    let first = true;
    try {
      for await (const message of stream) {
        const isSchema = first;
        first = false;
        if (isSchema && seen.schema !== null) {
          if (!seen.schema.equals(message)) {
            throw otherColumns(row);
          }
        } else {
          // The receiver of a message may move its memory.
          if (isSchema) {
            seen.schema = Buffer.from(message);
          }
          yield message;
        }
      }
    } finally {
      const { summary } = await stream.ended;
      total.rows += summary.rows;
      total.batches += summary.batches;
      total.bytes += summary.bytes;
      const { peakMemoryBytes: peak } = summary;
      if (peak !== null) {
        total.peakMemoryBytes = Math.max(total.peakMemoryBytes ?? 0, peak);
      }
    }
  }

  async function* readAll(): AsyncGenerator<Uint8Array, void, undefined> {
    const seen = { schema: null };
    let failure: ServiceError | null = new ServiceError("CANCELLED");
    try {
      for (const [i, start] of starts.entries()) {
        yield* read(start, seen, i + 1);
      }
      failure = null;
    } catch (error) {
      failure = toServiceError(error);
      throw error;
    } finally {
      settle({ summary: total, failure });
    }
  }
  return { ended, signal, [Symbol.asyncIterator]: readAll };
}

function otherColumns(row: number): ServiceError {
  return new ServiceError(
    "BAD_REQUEST",
    `The values of row ${row} give other columns than those of row 1; bind the rows one at a time.`,
  );
}
