/** `telemetry query`: runs one statement and prints its result. */
import type { RecordBatch, Schema } from "apache-arrow";

import type { AuthProvider } from "../auth/auth-provider.js";
import { connect } from "../flight/flight-sql-client.js";
import { underSignals } from "../shared/abort.js";
import type { QueryFormat } from "./formats/names.js";
import { type Progress, startProgress } from "./progress.js";
import { type Output, type Terminal, createOutput } from "./terminal.js";

/** What `telemetry query` runs. */
export interface QueryCommand {
  readonly sql: string;
  readonly format: QueryFormat;
  /** Ends the lines of CSV with CRLF instead of LF. */
  readonly crlf: boolean;
  /** Nanoseconds since the Unix epoch. */
  readonly begin: bigint | null;
  /** Nanoseconds since the Unix epoch. */
  readonly end: bigint | null;
  /** Most rows to print. */
  readonly limit: number | null;
  /** `grpc://host:port` or `grpc+tls://host:port`. */
  readonly analyticsUri: string;
  readonly auth: AuthProvider;
}

/** How {@link runQuery} ended; failures are thrown. */
type QueryEnd = "complete" | "reader-gone" | "interrupted";

/**
 * Runs the statement and prints its result on stdout as it arrives.
 * @throws FlightSqlError when the server or the connection fails; TypeError for a malformed URI.
 */
export async function runQuery(command: QueryCommand, terminal: Terminal): Promise<QueryEnd> {
  const output = createOutput(terminal);
  const client = connect({
    uri: command.analyticsUri,
    auth: command.auth,
    clientName: "telemetry-cli",
  });
  const progress = startProgress(terminal.stderr, terminal.now);
  try {
    await underSignals([terminal.interrupted, output.closed], async (signal) => {
      const { schema, batches } = await client.query(command.sql, {
        begin: command.begin ?? undefined,
        end: command.end ?? undefined,
        limit: command.limit ?? undefined,
        signal,
      });
      await print(command, schema, counted(batches, progress), output, terminal, progress);
    });
    await output.flush();
    return output.closed.aborted ? "reader-gone" : "complete";
  } catch (error) {
    if (terminal.interrupted.aborted) {
      return "interrupted";
    }
    if (output.closed.aborted) {
      await output.flush(); // throws when it was a failure, not a reader that had enough
      return "reader-gone";
    }
    throw error;
  } finally {
    progress.stop();
    client.close();
  }
}

async function* counted(batches: AsyncIterable<RecordBatch>, progress: Progress): AsyncGenerator<RecordBatch> {
  for await (const batch of batches) {
    progress.add(batch.numRows);
    yield batch;
  }
}

async function print(
  command: QueryCommand,
  schema: Schema,
  batches: AsyncIterable<RecordBatch>,
  output: Output,
  terminal: Terminal,
  progress: Progress,
): Promise<void> {
  const write = async (chunk: string | Uint8Array): Promise<void> => {
    // On a terminal the rows themselves are the progress.
    if (chunk.length > 0 && terminal.stdout.isTTY === true) {
      progress.stop();
    }
    await output.write(chunk);
  };
  const { formatted } = await import("./formats/create-format.js");
  for await (const piece of formatted(command, schema, batches, terminal.stdout)) {
    await write(piece);
  }
}
