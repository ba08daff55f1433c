/** Database and object store as servers are given them. */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { connect, type ConnectOptions, isConnectionError, type Sql, sqlState } from "../db/sql.js";
import { withEndpoint } from "../lake/store/s3-address.js";
import { answering, type HealthProbes, heldReady } from "../routes/http/health.js";
import { ServiceError } from "../runtime/errors.js";
import type { Scope } from "../runtime/lifecycle.js";

interface StoreConfig {
  readonly objectStoreUri: string | null;
  readonly s3Endpoint: string | null;
  readonly dataDir: string;
}

/**
 * Where objects are: `SVC_OBJECT_STORE_URI`, or else the folder `lake` of the data directory. The URI of an S3 store
 * carries `SVC_S3_ENDPOINT`, so that threads need nothing else.
 */
export function objectStoreUriOf({ objectStoreUri, s3Endpoint, dataDir }: StoreConfig): string {
  if (objectStoreUri === null) {
    return pathToFileURL(resolve(dataDir, "lake")).href;
  }
  return /^s3:/iu.test(objectStoreUri) ? withEndpoint(objectStoreUri, s3Endpoint) : objectStoreUri;
}

/** Database and object store of a server that keeps none of its own. @throws ServiceError NOT_CONFIGURED */
export function sharedStores(config: { readonly sqlConnectionString: string | null } & StoreConfig): {
  readonly connectionString: string;
  readonly objectStoreUri: string;
} {
  if (config.sqlConnectionString === null) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "SVC_SQL_CONNECTION_STRING must name the telemetry database; the ingestion server or the monolith creates it.",
    );
  }
  return { connectionString: config.sqlConnectionString, objectStoreUri: objectStoreUriOf(config) };
}

/** Ready while the database answers and the object store does. @param probes what the server needs of the store */
export function readyWith(sql: Sql, ...probes: readonly (() => Promise<void>)[]): HealthProbes["ready"] {
  return heldReady(async () => {
    await Promise.all([
      answering("database", sql`select 1`),
      ...probes.map((probe) => answering("object store", probe())),
    ]);
    return null;
  });
}

/** Opens a pool that is closed when `scope` stops. @param name what the log calls it */
export function openPool(scope: Scope, name: string, o: ConnectOptions): Sql {
  const sql = connect(o);
  scope.defer(name, () => sql.end({ timeout: 5 }));
  return sql;
}

const refused = "refuses the connection";
const checkString = "check SVC_SQL_CONNECTION_STRING";
/** How the database keeps a server from starting, by SQLSTATE, and what to do about it. */
const refusals: Readonly<Record<string, readonly [what: string, remedy: string]>> = {
  "28P01": [refused, checkString], // wrong password
  "28000": [refused, checkString], // role without the right to log in
  "3D000": [refused, checkString], // no such database
  "42704": [refused, "leave that parameter out of SVC_SQL_CONNECTION_STRING"],
  "08P01": [refused, "docs/deploy.md#postgres says what PgBouncer has to be told; or connect without it"],
  "42501": [
    "does not let its login do what the service needs",
    "make the login of SVC_SQL_CONNECTION_STRING the owner of the database, or give it the role of its server; see docs/deploy.md#postgres",
  ],
  "25006": [
    "can only be read",
    "name the primary in SVC_SQL_CONNECTION_STRING, and leave default_transaction_read_only off",
  ],
  "53300": [
    "has no connection left",
    "raise max_connections of Postgres, or the connection limit of the login; see docs/scaling.md",
  ],
};

/** Why a server did not start, in one sentence for who starts it. */
export function startFailure(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  const { message } = error;
  if (error instanceof ServiceError) {
    return message;
  }
  const refusal = refusals[sqlState(error) ?? ""];
  if (refusal !== undefined) {
    return `the database ${refusal[0]} (${message}): ${refusal[1]}`;
  }
  return isConnectionError(error)
    ? `the database cannot be reached (${message}): check SVC_SQL_CONNECTION_STRING`
    : message;
}
