/**
 * The admin routes behind HTTP: a call that names its operation and its caller in, a status and a
 * JSON text out. Each call is judged in this order: caller, admin-ness where the route takes
 * administrators only, the request's fields, and then the rules of the operation itself.
 *
 * It holds at most two database connections, the limit of the whole web server: claims go through
 * one actor and so use one at a time, everything else shares what is left.
 */
import { connect, isConnectionError, missingRight, type Sql, unreachable } from "../db/sql.js";
import { schemaProblem } from "../db/migrations.js";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { operations, type StoredOperationId } from "../wire/web/admin-api.js";
import type { Operation } from "../wire/web/operation.js";
import { readBody, readFields, readQuery } from "../wire/web/fields.js";
import { accessHandlers } from "./access-handlers.js";
import { authorizing, type CallerStanding, isAdministrator, selectStanding } from "./administrators.js";
import type { Author } from "../auth/audit.js";
import type { Caller } from "../auth/caller.js";
import { createClaims, type MintResult } from "./claims.js";
import { DeadlineSql } from "../db/deadline-sql.js";
import { lakeHandlers } from "./lake-administration.js";
import { revokeKey } from "./key-administration.js";
import type { MintPolicy } from "./minting-policy.js";
import { type CallSql, callSql } from "../db/settled-transactions.js";
import type { Context, Handlers, KeyReference, Result } from "./operation-context.js";
import { selectSources, type SourceRow } from "./web/data-sources.js";
import { webHandlers } from "./web/handlers.js";
import { deleteMap, saveMap, type SavedMap, selectMap, type StoredMap } from "./web/maps.js";
import { createWebSchema } from "./web/web-schema.js";

/** A request to an operation that asks the database. */
interface AdminCall extends Author {
  readonly operation: StoredOperationId;
  /** Decoded segments of the path, by name. */
  readonly path: Readonly<Record<string, string>>;
  /** As in the URL, without `?`. */
  readonly query: string;
  /** Empty for a request without one. */
  readonly body: Uint8Array;
}

/** What the caller gets. */
export interface AdminAnswer {
  readonly status: number;
  /** JSON, or null for none. */
  readonly body: string | null;
  /** The key whose cleartext is in the body, and nowhere else; null in all other answers. */
  readonly minted: KeyReference | null;
}

/** A key that was minted for a caller who had left. */
interface UndeliveredKey extends KeyReference, Author {}

/** Options of {@link createAdminService}. */
export interface AdminServiceOptions {
  readonly connectionString: string;
  readonly policy: MintPolicy;
  readonly logger: Logger;
  /** Within this a call is done or given up, whatever the network does. Default 15000 ms. */
  readonly deadlineMs?: number;
  /** How much longer asking may take what became of its transaction. Default 5000 ms. */
  readonly settleMs?: number;
}

/** See the head of the file. */
export interface AdminService extends Component {
  /** @throws ServiceError for every answer that is not a success. */
  handle(call: AdminCall): Promise<AdminAnswer>;
  /**
   * Revokes, in the name of its minter, a key whose only answer reached nobody: nobody could use it, yet
   * it would always count among the caller's live keys.
   * @throws ServiceError when it could not be.
   */
  withdraw(minted: UndeliveredKey): Promise<void>;
  /** Whether a caller is an administrator. @throws ServiceError UNAVAILABLE when that cannot be told. */
  standing(caller: Caller): Promise<CallerStanding>;
  /** The data sources beside the built-in one. */
  sources(): Promise<readonly SourceRow[]>;
  /** Where the file of a map is. @throws ServiceError NOT_FOUND */
  map(file: string): Promise<StoredMap>;
  /** Publishes an object of the store as a map. */
  saveMap(map: StoredMap & Author & { readonly file: string }): Promise<SavedMap>;
  /** @returns the path of its object. @throws ServiceError NOT_FOUND */
  deleteMap(map: Author & { readonly file: string }): Promise<string>;
  /** Why the database cannot serve, in a sentence, or null. @throws ServiceError UNAVAILABLE. */
  probe(): Promise<string | null>;
}

/** Most connections that the web server opens. */
const maxConnections = 2;
const statementTimeoutMs = 10_000;
const defaultDeadlineMs = 15_000;
const defaultSettleMs = 5_000;

/** Makes the service; no connection is opened before the first call. */
export function createAdminService(o: AdminServiceOptions): AdminService {
  const open = (): Sql =>
    connect({
      connectionString: o.connectionString,
      maxConnections,
      applicationName: "telemetry-web",
      logger: o.logger,
      statementTimeoutMs,
    });
  const { deadlineMs = defaultDeadlineMs, settleMs = defaultSettleMs } = o;
  let pool = open();
  const database = new DeadlineSql({
    sql: pool,
    reopen: () => {
      // The hung connections go at once, so that there are never more than two.
      void pool.end({ timeout: 0 });
      pool = open();
      return pool;
    },
    timeoutMs: deadlineMs,
  });
  const { policy } = o;
  const claims = createClaims({ policy, logger: o.logger });
  const webSchema = createWebSchema(o.logger);
  /** Runs a call's work; everything that it throws is a ServiceError. */
  const call = async <T>(work: (sql: CallSql) => Promise<T>): Promise<T> => {
    try {
      return await work(callSql({ database, deadlineMs, settleMs }));
    } catch (error) {
      throw asServiceError(error);
    }
  };
  /** The same of what needs the schema `web`. */
  const webCall = <T>(work: (sql: CallSql) => Promise<T>): Promise<T> =>
    call(async (sql) => {
      await webSchema(sql.read);
      return await work(sql);
    });
  return {
    name: "admin-service",
    handle: (request) =>
      (Object.hasOwn(webHandlers, request.operation) ? webCall : call)((sql) => {
        const { caller, origin } = request;
        const claim = (name: string, audience: string): Promise<MintResult> =>
          claims.claim(sql, { caller, origin, name, audience });
        return dispatch(request, { ...sql, caller, origin, policy, claim });
      }),
    standing: (caller) => call(({ read }) => read((sql) => authorizing(sql, () => selectStanding(sql, caller)))),
    withdraw: (minted) =>
      call(async ({ transaction }) => {
        const { table, keyId } = minted;
        await transaction((tx) => revokeKey(tx, table, minted, keyId, "its minting was never answered"));
      }),
    sources: () => webCall(({ read }) => read(selectSources)),
    map: (file) => webCall(({ read }) => read((sql) => selectMap(sql, file))),
    saveMap: (map) => webCall(({ transaction }) => transaction((tx) => saveMap(tx, map, map))),
    deleteMap: (map) => webCall(({ transaction }) => transaction((tx) => deleteMap(tx, map, map.file))),
    async probe() {
      try {
        return await database.run(schemaProblem);
      } catch (cause) {
        throw unreachable(cause);
      }
    },
    async stop() {
      await claims.stop();
      await database.stop();
      await pool.end({ timeout: 5 });
    },
  };
}

/** What the database could not do now is UNAVAILABLE, what it may not NOT_CONFIGURED; what is left is a defect. */
function asServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) {
    return error;
  }
  if (isConnectionError(error) || (error instanceof Error && error.message.startsWith("no answer"))) {
    return new ServiceError("UNAVAILABLE", "the database cannot be reached now; try again", {
      cause: error,
      retryAfterSeconds: 1,
    });
  }
  return missingRight(error) ?? new ServiceError("INTERNAL", undefined, { cause: error });
}

async function dispatch(call: AdminCall, context: Context): Promise<AdminAnswer> {
  const operation: Operation = operations[call.operation];
  if (operation.access === "admin") {
    const { caller } = context;
    const isAdmin = await context.read((sql) => authorizing(sql, () => isAdministrator(sql, caller)));
    if (!isAdmin) {
      throw new ServiceError("FORBIDDEN", "only administrators, the members of the group admins, may do this");
    }
  }
  const { status, value, json, minted } = await run(call.operation, call, operation, context);
  const body = json ?? (value === undefined ? null : JSON.stringify(value));
  return { status, body, minted: minted ?? null };
}

const handlers: Handlers<StoredOperationId> = { ...webHandlers, ...lakeHandlers, ...accessHandlers };

/** An operation's handler, to be called with what its fields read. */
type AnyHandler = (input: unknown, context: Context) => Promise<Result>;

function run(id: StoredOperationId, call: AdminCall, operation: Operation, context: Context): Promise<Result> {
  const input = {
    path: readFields(operation.pathParameters, new Map(Object.entries(call.path)), "path segment"),
    query: readQuery(operation.query, call.query),
    body: operation.body === null ? null : readBody(operation.body, call.body),
  };
  // Read by the fields of operation `id`, which is what the input of its handler is made of.
  return (handlers[id] as AnyHandler)(input, context);
}
