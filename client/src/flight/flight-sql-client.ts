/** A client of the analytics server: Arrow Flight SQL over gRPC. */
import type { Schema } from "apache-arrow";

import { type AuthProvider, type HeaderAuth, authFromHeaders, noToken } from "../auth/auth-provider.js";
import { followSignals } from "../shared/abort.js";
import { formatRfc3339Ns } from "../shared/rfc3339.js";
import { type CallContext, openFlightCalls } from "./flight-calls.js";
import { encodeSqlMessage } from "./flight-messages.js";
import { cancelled, clientClosed } from "./flight-sql-error.js";
import { type Metadata, metadataOf } from "./metadata.js";
import type { Parameter } from "./parameters.js";
import type { QueryResult } from "./query-result.js";
import { type ParameterRows, boundCommand, prepareStatement } from "./statement-command.js";

/** How to reach and call a Flight SQL server. */
export interface ConnectOptions {
  /** `grpc://host[:port]` or, beyond this machine, `grpc+tls://host[:port]`; the port defaults to 50051. */
  readonly uri: string;
  /** Where the bearer token comes from; without any, none is sent. */
  readonly auth?: AuthProvider;
  /** @deprecated Headers of every call, `authorization` among them; give `auth` instead. */
  readonly headers?: HeaderAuth;
  /** PEM certificates to trust instead of the system's; for `grpc+tls` only. */
  readonly rootCertificates?: Buffer;
  /** Appended to the user agent. */
  readonly clientName?: string;
  /** How long a call waits for a connection, in milliseconds. Default 20 s. */
  readonly connectTimeoutMs?: number;
}

/** Narrows and steers one query. */
export interface QueryOptions {
  /** Rows before this time are left out; nanoseconds since the Unix epoch, or a Date. */
  readonly begin?: bigint | Date | undefined;
  /** Rows at or after this time are left out; as `begin`. */
  readonly end?: bigint | Date | undefined;
  /** At most this many rows; the server is told to stop once they have arrived. */
  readonly limit?: number | undefined;
  /** Cancels the query, on the server too; pending reads reject with status CANCELLED. */
  readonly signal?: AbortSignal | undefined;
  /**
   * One value for each `?` of the statement, or several such rows. Lists alone are rows: `[[1], [2]]` binds one `?` twice.
   * Where every `?` takes a list, give the one row in a list, too: `[[[1, 2], [3]]]`.
   */
  readonly parameters?: readonly Parameter[] | readonly (readonly Parameter[])[] | undefined;
}

/** A statement that was parsed once and can be run with different parameters. */
export interface PreparedStatement {
  /** Columns of the result; null where the server cannot know them before it has the parameters. */
  readonly schema: Schema | null;
  /** One field per `?`, of the type that the statement asks for. */
  readonly parameters: Schema | null;
  query(options?: QueryOptions): Promise<QueryResult>;
  close(): Promise<void>;
}

/** A connection to a Flight SQL server. Everything throws FlightSqlError, and TypeError for options that mean nothing. */
export interface FlightSqlClient extends Metadata {
  /** Runs one statement. */
  query(sql: string, options?: QueryOptions): Promise<QueryResult>;
  prepare(sql: string, options?: Pick<QueryOptions, "signal">): Promise<PreparedStatement>;
  /**
   * Takes no more calls. A result that is being read goes on to its end; one that nobody has begun to read is given up,
   * and so is a query that has none yet.
   */
  close(): void;
}

/**
 * Opens a client; the connection itself is made by the first query.
 * @throws TypeError for a malformed URI.
 */
export function connect(o: ConnectOptions): FlightSqlClient {
  const auth = o.auth ?? (o.headers === undefined ? noToken : authFromHeaders(o.headers));
  const extraHeaders = Object.fromEntries(
    Object.entries(o.headers ?? {}).filter(([name]) => name.toLowerCase() !== "authorization"),
  );
  const calls = openFlightCalls({ ...o, auth });
  /** Stops queries whose results nobody reads yet. Each would hold its place on the server, and keep the process up. */
  const unread = new Set<() => void>();
  let closed = false;

  const run = async (commandOf: (context: CallContext) => Promise<Uint8Array>, options: QueryOptions) => {
    const { limit } = options;
    if (limit !== undefined && (!(limit >= 0) || limit % 1 > 0)) {
      throw new TypeError(`limit takes a whole number of at least 0; got ${limit}`);
    }
    const { controller, release } = followSignals(options.signal === undefined ? [] : [options.signal]);
    const { signal } = controller;
    const stop = (): void => {
      controller.abort();
      release();
      unread.delete(stop);
    };
    const begin = (): void => {
      unread.delete(stop);
      if (signal.aborted) {
        throw closed ? clientClosed() : cancelled();
      }
    };
    unread.add(stop);
    signal.addEventListener("abort", () => unread.delete(stop), { once: true });
    try {
      const context = { signal, headers: { ...extraHeaders, ...rangeHeaders(options) } };
      const command = await commandOf(context);
      // apache-arrow takes longer to load than most queries to answer: both at the same time.
      const [tickets, { openResult }] = await Promise.all([calls.info(command, context), import("./query-result.js")]);
      return await openResult(calls.get(tickets, signal), limit, { begin, stop });
    } catch (error) {
      const wasClosed = closed && signal.aborted;
      stop();
      throw wasClosed ? clientClosed() : error;
    }
  };
  const contextOf = (signal: AbortSignal | undefined): CallContext => ({
    signal: signal ?? new AbortController().signal,
    headers: extraHeaders,
  });
  const prepare: FlightSqlClient["prepare"] = async (sql, options = {}) => {
    const prepared = await prepareStatement(calls, sql, contextOf(options.signal));
    const { readSchema } = await import("./schema-message.js");
    const parameters = readSchema(prepared.parameterSchema);
    const count = parameters?.fields.length;
    return {
      schema: readSchema(prepared.resultSchema),
      parameters,
      query: (queryOptions = {}) =>
        run(
          (context) => boundCommand(calls, prepared.handle, parameterRows(queryOptions.parameters), context, count),
          queryOptions,
        ),
      async close() {
        const body = encodeSqlMessage("ActionClosePreparedStatementRequest", { 1: prepared.handle });
        await calls.action("ClosePreparedStatement", body, contextOf(undefined));
      },
    };
  };
  const query: FlightSqlClient["query"] = async (sql, options = {}) => {
    if (options.parameters === undefined) {
      return run(() => Promise.resolve(encodeSqlMessage("CommandStatementQuery", { 1: sql })), options);
    }
    // Such a statement has no resource on the server that would have to be closed.
    return (await prepare(sql, options)).query(options);
  };
  return {
    query,
    prepare,
    ...metadataOf((command) => run(() => Promise.resolve(command), {})),
    close() {
      closed = true;
      for (const stop of unread) {
        stop();
      }
      calls.close();
    },
  };
}

/** Rows of parameters; null where there are none to bind. */
function parameterRows(given: QueryOptions["parameters"]): ParameterRows | null {
  if (given === undefined || given.length === 0) {
    return null;
  }
  // One row of lists looks like several rows. What it means must not depend on how long the lists happen to be.
  return given.every((row) => Array.isArray(row)) ? (given as ParameterRows) : [given];
}

function rangeHeaders({ begin, end }: QueryOptions): Record<string, string> {
  return {
    ...(begin === undefined ? {} : { "query-range-begin": rfc3339("begin", begin) }),
    ...(end === undefined ? {} : { "query-range-end": rfc3339("end", end) }),
  };
}

/** @throws TypeError for what JavaScript lets through: a number, a text, a Date that is none, a year that no Date has */
function rfc3339(name: string, time: bigint | Date): string {
  const ns = time instanceof Date && !Number.isNaN(time.getTime()) ? BigInt(time.getTime()) * 1_000_000n : time;
  if (typeof ns !== "bigint" || ns > lastNs || ns < -lastNs) {
    throw new TypeError(`${name} takes a Date, or nanoseconds since 1970 as a bigint`);
  }
  return formatRfc3339Ns(ns);
}

/** The last moment of a Date, as nanoseconds; the first is as far from 1970. */
const lastNs = 8_640_000_000_000_000_000_000n;
