/**
 * The schema's versions: numbered SQL files in `migrations/`, applied in order, each in a transaction of
 * its own together with its row in `schema_version`.
 *
 * The files are not compiled; the runner finds the folder `migrations` at the root of the package, which
 * is `../../../migrations` from `dist/src/db/migrations.js`.
 */
import { readdir, readFile } from "node:fs/promises";

import { ServiceError } from "../runtime/errors.js";
import type { Logger } from "../runtime/log/log.js";
import { type Sql, sqlState } from "./sql.js";

/** The schema version that this code writes and reads. */
export const schemaVersion = 24;

/** `pg_advisory_lock` key of migrations: "tsvc" and "mig" in ASCII. Nobody else may use it. */
const migrationLockKey = 0x74737663_6d6967n;

const defaultDirectory = new URL("../../../migrations/", import.meta.url);

/**
 * Of the session that migrates, in milliseconds. A large table may take long, and so may waiting for others. What a
 * process that is gone was at ends within seconds: it would go on for nothing, and keep the next one waiting.
 */
const sessionSettings = {
  statement_timeout: 0,
  lock_timeout: 0,
  transaction_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  client_connection_check_interval: 2000,
} as const;

/** One of the schemas of the telemetry database, each with versions of its own. */
interface MigratedSchema {
  readonly name: "public" | "web";
  readonly directory: URL;
  /** Key of `pg_advisory_lock`. */
  readonly lockKey: bigint;
}

/** The web server's own tables, which it migrates itself. */
const webSchema: MigratedSchema = {
  name: "web",
  directory: new URL("web/", defaultDirectory),
  lockKey: 0x74737663_776562n, // "tsvc" and "web" in ASCII
};

/** What to do when a statement of a migration fails, by SQLSTATE. */
const remedies: Readonly<Record<string, (message: string, schema: MigratedSchema["name"]) => string>> = {
  "42P07": (message) =>
    `The telemetry database has tables of something else (${message}): give the service a database of its own.`,
  "42501": (message, schema) =>
    `The schema ${schema} has to be migrated, which this login may not do (${message}): ${
      schema === "public" ? "start an ingestion server of this release once as the owner of the database, then " : ""
    }run migrations/roles/*.sql as the owner (docs/deploy.md#upgrade).`,
};

interface MigrationFile {
  readonly version: number;
  readonly name: string;
  readonly url: URL;
}

/**
 * Brings a database to `schemaVersion`. Safe when several processes do it at once: one migrates, the
 * others wait for it and find nothing left to do. A file that fails leaves the version before it.
 *
 * @param o.bootstrapAdmin `user:<email>`, who becomes the one administrator when the groups are created;
 *   null: everybody. A database that has groups is left as it is.
 * @param o.directory another folder of numbered files, ending in a slash; for tests.
 * @returns the version before and after.
 * @throws {ServiceError} `UNAVAILABLE` when the database is newer than this code.
 */
export async function migrate(
  sql: Sql,
  logger: Logger,
  o: { bootstrapAdmin?: string | null; directory?: URL } = {},
): Promise<{ from: number; to: number }> {
  const directory = o.directory ?? defaultDirectory;
  const files = await listMigrations(directory);
  const newest = files.length;
  if (o.directory === undefined && newest !== schemaVersion) {
    throw new ServiceError(
      "INTERNAL",
      `The folder of migrations holds versions up to ${String(newest)}, and this program needs ${String(schemaVersion)}: install it again.`,
    );
  }
  const schema = { name: "public", directory, lockKey: migrationLockKey } as const;
  return await migrateSchema(sql, logger, schema, files, o.bootstrapAdmin ?? "");
}

/**
 * Brings the schema `web` to the version of this code. Safe when several servers do it at once.
 * @throws {ServiceError} `UNAVAILABLE` when it is newer than this code; else the error of a statement.
 */
export async function migrateWeb(sql: Sql, logger: Logger): Promise<void> {
  const files = await listMigrations(webSchema.directory);
  // Most starts find nothing to do, and need no lock for that.
  if ((await readVersion(sql, webSchema.name)) !== files.length) {
    await migrateSchema(sql, logger, webSchema, files, "");
  }
}

async function migrateSchema(
  sql: Sql,
  logger: Logger,
  { name, lockKey }: MigratedSchema,
  files: readonly MigrationFile[],
  bootstrapAdmin: string,
): Promise<{ from: number; to: number }> {
  const newest = files.length;
  const connection = await sql.reserve();
  try {
    await assertServerVersion(connection);
    for (const [setting, value] of Object.entries(sessionSettings)) {
      await connection`select set_config(${setting}, ${String(value)}, false)`;
    }
    await lock(connection, lockKey, name, logger);
    try {
      const from = await readVersion(connection, name);
      if (from > newest) {
        throw newerSchema(from, newest);
      }
      if (from === 0) {
        await assertEncoding(connection);
      }
      if (from < newest) {
        logger.info({ schema: name, from, to: newest }, "migrating the database schema");
      }
      // Of a fresh database, whose steps all take milliseconds, the line above says enough.
      const level = from === 0 ? "debug" : "info";
      for (const file of files.slice(from)) {
        await apply(connection, name, file, bootstrapAdmin, logger);
        logger[level]({ schema: name, version: file.version, file: file.name }, "database schema migrated");
      }
      return { from, to: newest };
    } finally {
      await evenWhenDisconnected(connection`select pg_advisory_unlock(${lockKey})`, logger);
      for (const setting of Object.keys(sessionSettings)) {
        await evenWhenDisconnected(connection`reset ${connection(setting)}`, logger);
      }
    }
  } finally {
    connection.release();
  }
}

/** The first version that has every setting of a session that migrates. */
const oldestServer = 17;

/** @throws ServiceError NOT_CONFIGURED for a Postgres that is too old */
export async function assertServerVersion(sql: Sql): Promise<void> {
  const [found] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
  if (found !== undefined && Number.parseInt(found.version, 10) < oldestServer) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `The telemetry database is on Postgres ${found.version}, which is too old: use Postgres 18 (${oldestServer} at least).`,
    );
  }
}

/** Before the first migration. @throws ServiceError NOT_CONFIGURED where Postgres would refuse some texts later */
async function assertEncoding(connection: Sql): Promise<void> {
  const [found] = await connection<{ encoding: string }[]>`select current_setting('server_encoding') as encoding`;
  if (found !== undefined && found.encoding !== "UTF8") {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `The telemetry database has the encoding ${found.encoding}, which cannot hold every text: create it with "encoding 'UTF8' template template0".`,
    );
  }
}

/** Held by the session, over all the transactions: between two versions nobody else gets in. */
async function lock(connection: Sql, key: bigint, schema: string, logger: Logger): Promise<void> {
  const [now] = await connection<{ locked: boolean }[]>`select pg_try_advisory_lock(${key}) as locked`;
  if (now?.locked !== true) {
    logger.info({ schema }, "another process migrates the database schema; waiting for it");
    await connection`select pg_advisory_lock(${key})`;
  }
}

/**
 * For servers that never migrate: checks that the database has exactly the schema that this code knows.
 *
 * @returns the version.
 * @throws {ServiceError} `UNAVAILABLE`, one sentence, when the schema is missing, older or newer.
 */
export async function assertSchemaVersion(sql: Sql): Promise<number> {
  const version = await readVersion(sql);
  if (version > schemaVersion) {
    throw newerSchema(version, schemaVersion);
  }
  if (version < schemaVersion) {
    const found = version === 0 ? "has no schema yet" : `has schema version ${String(version)}`;
    throw new ServiceError(
      "UNAVAILABLE",
      `The telemetry database ${found}, and this program needs version ${String(schemaVersion)}: start the ingestion server (or a monolith with a lake role) of this release first, which migrates it.`,
    );
  }
  return version;
}

/**
 * For the readiness of a server that starts without a schema: what is wrong with it, in a sentence, or null.
 * A newer schema is no reason: it comes with every upgrade, before this server's turn.
 */
export async function schemaProblem(sql: Sql): Promise<string | null> {
  const version = await readVersion(sql);
  if (version >= schemaVersion) {
    return null;
  }
  return version === 0
    ? "the database has no schema; start ingestion once"
    : `the database has schema version ${String(version)} instead of ${String(schemaVersion)}; start ingestion of this release once`;
}

function newerSchema(found: number, known: number): ServiceError {
  return new ServiceError(
    "UNAVAILABLE",
    `The telemetry database has schema version ${String(found)}, and this program knows versions up to ${String(known)}: upgrade it to the release that wrote the schema.`,
  );
}

/** The version of a schema; 0 for one that was never migrated. */
async function readVersion(sql: Sql, schema: MigratedSchema["name"] = "public"): Promise<number> {
  const [table] = await sql<{ present: boolean }[]>`
    select to_regclass(${`${schema}.schema_version`}) is not null as present`;
  if (table?.present !== true) {
    return 0;
  }
  const [row] = await sql<{ version: number }[]>`
    select coalesce(max(version), 0)::int as version from ${sql(schema)}.schema_version`;
  return row?.version ?? 0;
}

async function apply(
  connection: Sql,
  schema: MigratedSchema["name"],
  file: MigrationFile,
  bootstrapAdmin: string,
  logger: Logger,
): Promise<void> {
  const text = await readFile(file.url, "utf8");
  // A reserved connection has no `begin` of its own, and this one must stay: it holds the lock.
  await connection`begin`;
  try {
    await connection`select set_config('telemetry.bootstrap_admin', ${bootstrapAdmin}, true)`;
    await connection.unsafe(text).simple();
    await connection`
      insert into ${connection(schema)}.schema_version (version, name) values (${file.version}, ${file.name})`;
    await connection`commit`;
  } catch (error) {
    await evenWhenDisconnected(connection`rollback`, logger);
    const remedy = remedies[sqlState(error) ?? ""];
    throw remedy === undefined
      ? error
      : new ServiceError("NOT_CONFIGURED", remedy((error as Error).message, schema), { cause: error });
  }
}

/** Tidying up after a statement that may have failed because the session is gone, and its locks with it. */
async function evenWhenDisconnected(statement: PromiseLike<unknown>, logger: Logger): Promise<void> {
  try {
    await statement;
  } catch (error) {
    logger.debug({ err: error }, "the session of the migration is gone");
  }
}

/** The numbered files in order, numbers from 1 without a gap. */
async function listMigrations(directory: URL): Promise<MigrationFile[]> {
  const files = (await readdir(directory)).flatMap((name) => {
    const match = /^(\d{4})_[a-z0-9_]+\.sql$/u.exec(name);
    return match === null ? [] : [{ version: Number(match[1]), name, url: new URL(name, directory) }];
  });
  files.sort((a, b) => a.version - b.version);
  const gap = files.findIndex((file, index) => file.version !== index + 1);
  if (gap !== -1) {
    throw new ServiceError(
      "INTERNAL",
      `The migration files are not numbered without gaps: version ${String(gap + 1)} is missing or doubled.`,
    );
  }
  return files;
}
