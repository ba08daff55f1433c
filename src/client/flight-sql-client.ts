/** A Flight SQL client over gRPC (Arrow Flight SQL, statements only). */
import * as grpc from "@grpc/grpc-js";
import { type RecordBatch, RecordBatchReader, type Schema } from "apache-arrow";

import { followSignals } from "../runtime/abort.js";
import { isLoopbackHost } from "../runtime/text/loopback.js";
import type { TokenProvider } from "./credentials.js";
import {
  type FlightDataFrame,
  decodeDataFrame,
  decodeFlightInfoTickets,
  encodeStatementDescriptor,
  encodeTicket,
} from "./flight-messages.js";
import { ipcStream } from "./ipc-stream.js";

const service = "/arrow.flight.protocol.FlightService";
const defaultPort = 50051;

/** A call that failed; `message` is the server's sentence, or one about the connection. */
export class FlightSqlError extends Error {
  override readonly name = "FlightSqlError";
  /** gRPC status code. */
  readonly status: grpc.status;

  constructor(status: grpc.status, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Where an analytics server listens. */
export interface FlightSqlAddress {
  /** `host:port`. */
  readonly target: string;
  readonly tls: boolean;
  /** The connection does not leave this machine. */
  readonly loopback: boolean;
}

/** How to reach and call a Flight SQL server. */
export interface FlightSqlOptions {
  /** `grpc://host[:port]` or `grpc+tls://host[:port]`; the port defaults to 50051. */
  readonly uri: string;
  readonly token: TokenProvider;
  /** PEM certificates to trust instead of the system's; for `grpc+tls` only. */
  readonly rootCertificates?: Buffer;
  /** Appended to the user agent. */
  readonly clientName?: string;
}

/** Narrows and steers one query. */
export interface QueryOptions {
  /** Rows before this time are left out; nanoseconds since the Unix epoch. */
  readonly begin?: bigint | undefined;
  /** Rows at or after this time are left out; nanoseconds since the Unix epoch. */
  readonly end?: bigint | undefined;
  /** At most this many rows; the server is told to stop once they have arrived. */
  readonly limit?: number | undefined;
  /** Cancels the query, on the server too; pending reads reject with status CANCELLED. */
  readonly signal?: AbortSignal | undefined;
}

/** A running query. */
export interface QueryResult {
  readonly schema: Schema;
  /** Record batches as they arrive, to be read once; reading slowly slows the server. */
  readonly batches: AsyncIterable<RecordBatch>;
}

/** A connection to a Flight SQL server. */
export interface FlightSqlClient {
  /**
   * Runs one statement.
   * @throws FlightSqlError for every failure, here or while the batches are read.
   */
  query(sql: string, options?: QueryOptions): Promise<QueryResult>;
  close(): void;
}

/**
 * Reads `grpc://host[:port]` or `grpc+tls://host[:port]`.
 * @throws TypeError for anything else; the message says what it takes.
 */
export function parseFlightSqlUri(uri: string): FlightSqlAddress {
  const match = /^(grpc|grpc\+tls|grpc\+tcp):\/\/(\[[0-9a-fA-F:.]+\]|[^/:@?#\s]+)(?::(\d{1,5}))?\/?$/.exec(uri);
  const port = Number(match?.[3] ?? defaultPort);
  if (match === null || port < 1 || port > 65_535) {
    throw new TypeError("the analytics URI takes grpc://host:port or grpc+tls://host:port");
  }
  const host = match[2] ?? "";
  return {
    target: `${host}:${port}`,
    tls: match[1] === "grpc+tls",
    loopback: isLoopbackHost(host),
  };
}

/**
 * Opens a client; the connection itself is made by the first query.
 * @throws TypeError for a malformed URI.
 */
export function connectFlightSql(o: FlightSqlOptions): FlightSqlClient {
  const address = parseFlightSqlUri(o.uri);
  const credentials = address.tls
    ? grpc.credentials.createSsl(o.rootCertificates ?? null)
    : grpc.credentials.createInsecure();
  const client = new grpc.Client(address.target, credentials, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.primary_user_agent": o.clientName ?? "telemetry-client",
    // A proxy for the world outside must not get to see loopback traffic.
    ...(address.loopback ? { "grpc.enable_http_proxy": 0 } : {}),
    "grpc.keepalive_time_ms": 30_000,
  });
  return {
    async query(sql, options = {}) {
      const { controller, release } = followSignals(options.signal === undefined ? [] : [options.signal]);
      const { signal } = controller;
      const stop = (): void => {
        controller.abort();
        release();
      };
      try {
        const metadata = await callMetadata(o.token, options);
        const tickets = await getFlightInfo(client, address, sql, metadata, signal);
        const frames = readTickets(client, address, tickets, metadata, signal);
        return await openResult(frames, options.limit, stop);
      } catch (error) {
        stop();
        throw error;
      }
    },
    close: () => client.close(),
  };
}

async function callMetadata(token: TokenProvider, options: QueryOptions): Promise<grpc.Metadata> {
  const metadata = new grpc.Metadata();
  const authorization = await token.authorization();
  if (authorization !== null) {
    metadata.set("authorization", authorization);
  }
  if (options.begin !== undefined) {
    metadata.set("query-range-begin", rfc3339(options.begin));
  }
  if (options.end !== undefined) {
    metadata.set("query-range-end", rfc3339(options.end));
  }
  return metadata;
}

function rfc3339(ns: bigint): string {
  const within = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = new Date(Number((ns - within) / 1_000_000n)).toISOString().slice(0, -5);
  return `${seconds}.${within.toString().padStart(9, "0")}Z`;
}

function getFlightInfo(
  client: grpc.Client,
  address: FlightSqlAddress,
  sql: string,
  metadata: grpc.Metadata,
  signal: AbortSignal,
): Promise<Uint8Array[]> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(cancelled());
      return;
    }
    const call = client.makeUnaryRequest(
      `${service}/GetFlightInfo`,
      encodeStatementDescriptor,
      decodeFlightInfoTickets,
      sql,
      metadata,
      (error, tickets) => {
        signal.removeEventListener("abort", cancel);
        if (error !== null) {
          reject(toFlightSqlError(error, address));
        } else {
          resolve(tickets ?? []);
        }
      },
    );
    const cancel = (): void => call.cancel();
    signal.addEventListener("abort", cancel, { once: true });
  });
}

/** The frames of all endpoints in their order, the first one's schema standing for all. */
async function* readTickets(
  client: grpc.Client,
  address: FlightSqlAddress,
  tickets: readonly Uint8Array[],
  metadata: grpc.Metadata,
  signal: AbortSignal,
): AsyncGenerator<FlightDataFrame> {
  for (const [index, ticket] of tickets.entries()) {
    if (signal.aborted) {
      throw cancelled();
    }
    const call = client.makeServerStreamRequest(
      `${service}/DoGet`,
      encodeTicket,
      decodeDataFrame,
      Buffer.from(ticket),
      metadata,
    );
    const cancel = (): void => call.cancel();
    signal.addEventListener("abort", cancel, { once: true });
    let seen = 0;
    try {
      for await (const frame of call as AsyncIterable<FlightDataFrame>) {
        const repeatedSchema = index > 0 && seen === 0;
        if (frame.header.length > 0) {
          seen += 1;
        }
        if (!repeatedSchema && frame.header.length > 0) {
          yield frame;
        }
      }
    } catch (error) {
      throw toFlightSqlError(error, address);
    } finally {
      signal.removeEventListener("abort", cancel);
      // Reached early when the reader has enough: the server must not go on.
      call.cancel();
    }
  }
}

async function openResult(
  frames: AsyncGenerator<FlightDataFrame>,
  limit: number | undefined,
  stop: () => void,
): Promise<QueryResult> {
  const reader = await RecordBatchReader.from(ipcStream(frames));
  await reader.open();
  // Typed as always there, but a stream that holds no message has none.
  const schema = reader.schema as Schema | undefined;
  if (schema === undefined) {
    throw new FlightSqlError(grpc.status.INTERNAL, "the server answered without a schema");
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
  return { schema, batches: limited() };
}

function cancelled(): FlightSqlError {
  return new FlightSqlError(grpc.status.CANCELLED, "the query was cancelled");
}

function toFlightSqlError(error: unknown, address: FlightSqlAddress): FlightSqlError {
  if (error instanceof FlightSqlError) {
    return error;
  }
  if (!isGrpcError(error)) {
    const message = error instanceof Error ? error.message : "the query failed";
    return new FlightSqlError(grpc.status.UNKNOWN, message, { cause: error });
  }
  const { code, details } = error;
  if (code === grpc.status.UNAVAILABLE && connectionFailure.test(details)) {
    const message = `the analytics server at ${address.target} cannot be reached`;
    return new FlightSqlError(code, message, { cause: error });
  }
  return new FlightSqlError(code, details === "" ? error.message : details, { cause: error });
}

/** The details that grpc-js gives when it has no connection, as against a server's own UNAVAILABLE. */
const connectionFailure =
  /No connection established|Name resolution failed|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH/;

function isGrpcError(error: unknown): error is grpc.ServiceError {
  return (
    error instanceof Error &&
    "code" in error &&
    typeof error.code === "number" &&
    "details" in error &&
    typeof error.details === "string"
  );
}
