/**
 * The connection to Postgres: one `connect` for every part of the service, with the conventions that
 * all statements rely on.
 *
 * - `int8` columns arrive as `bigint`, and a `bigint` parameter is sent as `int8`: nanoseconds since the epoch do not
 *   fit a JavaScript number. `count(*)` is an `int8` too; cast it (`count(*)::int`) where a number is wanted.
 * - The driver mistakes an array of `bigint` for one `bigint`: pass their decimal texts, cast by `::int8[]`.
 * - `timestamptz` arrives as `Date`, `bytea` as `Uint8Array`, `jsonb` parsed, `uuid` as text.
 * - Notices go to the log at debug level, never to standard output.
 * - Statements find the tables of the schema `public`, values are read and written in Postgres's own formats, and a commit
 *   is durable when it is answered, whatever the role or the database has set ({@link conventions}).
 */
import net from "node:net";

import postgres from "postgres";

import { readConnectionString } from "./connection-string.js";
import { ServiceError, tlsFailureCode } from "../runtime/errors.js";
import type { Logger } from "../runtime/log/log.js";

/** A pool of connections that is also the tag for statements; `int8` is `bigint` (see the module's head). */
export type Sql = postgres.Sql<{ bigint: bigint }>;

/** The tag inside `sql.begin(...)`: the same statements on one connection, in one transaction. */
export type TransactionSql = postgres.TransactionSql<{ bigint: bigint }>;

/** Either of them: for statements that may be part of a transaction. */
export type SqlOrTransaction = postgres.ISql<{ bigint: bigint }>;

export interface ConnectOptions {
  /** `postgres://user:password@host:port/database`; never logged and never part of an error. */
  readonly connectionString: string;
  /** Upper bound of the pool; connections open when they are first needed. At least 1. */
  readonly maxConnections: number;
  /** Shown in `pg_stat_activity`, so that an operator sees which part holds a connection. */
  readonly applicationName: string;
  readonly logger: Logger;
  /** Bound on every statement, in milliseconds; none when absent. A statement over it fails with 57014. */
  readonly statementTimeoutMs?: number;
  /**
   * For sessions that hold locks: the database keeps them while this process works and says nothing, and notices within
   * ten seconds that it or its machine is gone.
   */
  readonly keepAlive?: boolean;
  /** Bound on opening a connection, in seconds. Default 10. */
  readonly connectTimeoutSeconds?: number;
}

const defaultConnectTimeoutSeconds = 10;
/** Settings of a session that the text of statements, the driver's reading of values, and acknowledgements rely on. */
export const conventions = {
  search_path: "public",
  DateStyle: "ISO",
  IntervalStyle: "postgres",
  TimeZone: "UTC",
  bytea_output: "hex",
  extra_float_digits: 1,
  standard_conforming_strings: "on",
  default_transaction_isolation: "read committed",
  // Else what was acknowledged may be lost with a crash of the database.
  synchronous_commit: "on",
} as const;
const fixedParameters = new Set(Object.keys(conventions).map((name) => name.toLowerCase()));
/** 24 days, the most that Postgres takes; the driver leaves out a zero. */
const neverMs = 2 ** 31 - 1;
/**
 * Settings of a session: the keepalives in seconds, the others in milliseconds; the last one is for a statement under
 * way.
 */
export const keepAlive = {
  idle_session_timeout: neverMs,
  idle_in_transaction_session_timeout: neverMs,
  tcp_keepalives_idle: 4,
  tcp_keepalives_interval: 2,
  tcp_keepalives_count: 2,
  tcp_user_timeout: 8000,
  client_connection_check_interval: 2000,
} as const;

/**
 * Opens a pool. No connection is made until the first statement, so this does not fail when the
 * database is down; the statement does. Close it with `sql.end({ timeout })`:
 * without a bound, the driver may wait for ever for a session that was ended from outside.
 *
 * @throws {ServiceError} `NOT_CONFIGURED` when the connection string cannot be parsed, or has parameters that are not taken.
 *   The message does not repeat it, because it may hold a password.
 */
export function connect(options: ConnectOptions): Sql {
  const { logger } = options;
  const { connectionString, ssl } = readConnectionString(options.connectionString, fixedParameters);
  const more = { socket: socketOpener(), ...(ssl === undefined ? {} : { ssl }) };
  try {
    return postgres(connectionString, {
      ...more,
      max: options.maxConnections,
      connect_timeout: options.connectTimeoutSeconds ?? defaultConnectTimeoutSeconds,
      backoff: (failures) => (0.5 + Math.random() / 2) * Math.min(3 ** failures / 100, mostBackoffSeconds),
      types: { bigint: postgres.BigInt },
      onnotice: (notice) => {
        logger.debug(
          { severity: notice["severity"], code: notice["code"], notice: notice["message"] },
          "database notice",
        );
      },
      connection: {
        ...conventions,
        application_name: options.applicationName,
        ...(options.keepAlive === true ? keepAlive : {}),
        ...(options.statementTimeoutMs === undefined ? {} : { statement_timeout: options.statementTimeoutMs }),
      },
    });
  } catch {
    // The parser's error carries the whole string, password included: it is not kept, not even as cause.
    throw new ServiceError(
      "NOT_CONFIGURED",
      "The database connection string cannot be read: it must look like postgres://user:password@host:5432/database.",
    );
  }
}

/** Longest wait between two attempts to connect, in seconds: a database that is back is found soon. */
const mostBackoffSeconds = 1;

/** What the driver passes to its `socket` option, which its type declarations leave out. */
interface SocketAddress {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** A Unix socket, or false. */
  readonly path: string | false;
}

/**
 * Opens the driver's sockets for it, for one reason: when a peer accepts and hangs up before it has said
 * anything (a load balancer or port proxy whose database is down), the driver connects again at once, without
 * pause and without end, and the statement never fails. Here such a socket fails with ECONNRESET.
 *
 * The socket is returned while it still connects, so that every error, refusal included, reaches the
 * driver as the socket's own event; a rejected promise would cost it the pool's slot.
 */
function socketOpener(): (address: SocketAddress) => Promise<net.Socket> {
  let attempt = 0;
  return async ({ host: hosts, port: ports, path }) => {
    // What fails at once, as without a route or a file descriptor, is told after all microtasks: the driver listens by then.
    await Promise.resolve();
    const at = attempt++ % Math.max(1, hosts.length);
    const host = hosts[at] ?? "127.0.0.1";
    const port = ports[at] ?? 5432;
    const socket = path === false ? net.connect({ host, port, noDelay: true }) : net.connect({ path });
    socket.once("end", () => {
      if (socket.bytesRead > 0) {
        return;
      }
      const error = new Error(`The database at ${path || `${host}:${String(port)}`} hung up.`);
      socket.destroy(Object.assign(error, { code: "ECONNRESET" }));
    });
    // The driver names the server in its errors, and to TLS, from these.
    return Object.assign(socket, { host, port });
  };
}

/** Codes of Node's sockets and of the driver that mean: no usable connection. */
const unreachableCodes: ReadonlySet<string> = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_DESTROYED",
  "CONNECTION_ENDED",
  "CONNECT_TIMEOUT",
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
]);

/**
 * SQLSTATEs (PostgreSQL manual, appendix A) that say "not now" rather than "not this statement": shutting down,
 * crashed, starting up, statement timeout, connected to a server that is read-only after a failover.
 */
const unavailableStates: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "57P05", "57014", "25006"]);

const diskFull = "53100";

/** Connection exceptions (08) and insufficient resources (53: disk full, memory, too many connections). */
const unavailableClasses: ReadonlySet<string> = new Set(["08", "53"]);

/** What `work` returns. @throws ServiceError UNAVAILABLE where it met a {@link isConnectionError}; {@link missingRight} */
export async function reaching<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isConnectionError(error)) {
      throw missingRight(error) ?? error;
    }
    throw unreachable(error);
  }
}

/** What to tell of a {@link isConnectionError}: itself, when it has been worded. */
export function unreachable(cause: unknown): ServiceError {
  if (cause instanceof ServiceError) {
    return cause;
  }
  const told = sqlState(cause) === diskFull ? "the disk of the database is full" : "the database cannot be reached";
  return new ServiceError("UNAVAILABLE", told, { cause });
}

/** What to tell of a login that lacks a right (insufficient_privilege), as after an upgrade; null for other errors. */
export function missingRight(error: unknown): ServiceError | null {
  return error instanceof postgres.PostgresError && error.code === "42501"
    ? new ServiceError(
        "NOT_CONFIGURED",
        `the database does not let this server do that (${error.message}); run migrations/roles/*.sql as the owner of the tables, now and after every upgrade`,
        { cause: error },
      )
    : null;
}

/**
 * Whether an error means that the database could not be reached or could not serve anybody just now (refused, reset,
 * timed out, restarting, out of connections; a certificate that has ended, a password that was changed), as against a
 * statement that is wrong. Such an error is answered with 503 or `UNAVAILABLE`, never as a refusal of the caller. Looks
 * through `cause`.
 */
export function isConnectionError(error: unknown): boolean {
  for (let e: unknown = error, depth = 0; e instanceof Error && depth < 8; e = e.cause, depth += 1) {
    const code: unknown = "code" in e ? e.code : undefined;
    if (typeof code !== "string") {
      continue;
    }
    // Whatever the system says of connecting: no route, no descriptor, no port left.
    if ("syscall" in e && e.syscall === "connect") {
      return true;
    }
    if (unreachableCodes.has(code) || unavailableStates.has(code) || tlsFailureCode.test(code)) {
      return true;
    }
    // It ends a session, or none begins.
    if (e instanceof postgres.PostgresError && e.severity === "FATAL") {
      return true;
    }
    if (code.length === 5 && unavailableClasses.has(code.slice(0, 2))) {
      return true;
    }
  }
  return false;
}

/**
 * The SQLSTATE of an error that the database reported for a statement (for example `23505`, unique
 * violation), or null for anything else.
 */
export function sqlState(error: unknown): string | null {
  return error instanceof postgres.PostgresError ? error.code : null;
}

/**
 * Reads one state of the database, however many statements it takes.
 * @param read gets the transaction as if it were a pool: what it reads with needs nothing else of one
 */
export async function readSnapshot<T>(sql: Sql, read: (snapshot: Sql) => Promise<T>): Promise<T> {
  const result = await sql.begin("isolation level repeatable read read only", (transaction) =>
    read(transaction as unknown as Sql),
  );
  return result as T;
}
