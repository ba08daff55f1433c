/** Fresh databases in the embedded cluster of the test run (global-setup.ts). */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { inject } from "vitest";

import { connect, type Sql } from "../../../src/db/sql.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { recordMintedHashes } from "../cleartext/cleartext-tap.js";
import { databaseUrl, templateDatabase } from "../global-setup.js";

export interface TestDatabase {
  /** Superuser's connection string of the fresh database. */
  readonly connectionString: string;
  /** A small pool on it; `drop` closes it. */
  readonly sql: Sql;
  /**
   * Drops the database. Throws when a connection other than `sql` is still open after `patienceMs`, by default
   * long enough for a busy machine: a component that leaves its pool open is a defect, and the test fails for it.
   */
  drop(patienceMs?: number): Promise<void>;
}

const namePrefix = "tsvc_test_";
const leakPatienceMs = 20_000;

/**
 * Creates a database that nobody else uses, with the current schema, or empty with `migrate: false` or another encoding.
 * Takes some tens of milliseconds.
 */
export async function createTestDatabase(o?: { migrate?: boolean; encoding?: string }): Promise<TestDatabase> {
  const clusterUrl = inject("testClusterUrl");
  const name = `${namePrefix}${randomBytes(8).toString("hex")}`;
  const connectionString = databaseUrl(clusterUrl, name);
  const template = o?.migrate === false || o?.encoding !== undefined ? "template0" : templateDatabase;
  const cluster = adminOf(clusterUrl);
  await cluster`create database ${cluster(name)} template ${cluster(template)} strategy file_copy
    ${o?.encoding === undefined ? cluster`` : cluster`encoding ${cluster(o.encoding)} locale 'C'`}`;
  const sql = connect({
    connectionString,
    maxConnections: 4,
    applicationName: "test",
    logger: createSilentLogger(),
  });
  return {
    connectionString,
    sql,
    drop: async (patienceMs = leakPatienceMs) => {
      recordMintedHashes(await keyHashes(sql));
      await sql.end({ timeout: 5 });
      await dropTestDatabase(clusterUrl, connectionString, patienceMs);
    },
  };
}

/** Of every key that was minted in it, however that was done. */
async function keyHashes(sql: Sql): Promise<string[]> {
  const hashes: string[] = [];
  for (const table of ["ingestion_api_keys", "analytics_api_keys"]) {
    const [found] = await sql<{ present: boolean }[]>`
      select to_regclass(${table}) is not null as present`;
    if (found?.present !== true) {
      continue;
    }
    const rows = await sql<{ hash: string }[]>`
      select encode(key_hash, 'hex') as hash from ${sql(table)}`;
    hashes.push(...rows.map((row) => row.hash));
  }
  return hashes;
}

/** Refuses everything but a database that `createTestDatabase` made: on loopback, named as a test's. */
export function assertTestDatabase(connectionString: string): void {
  const url = new URL(connectionString);
  const name = url.pathname.slice(1);
  if (url.hostname !== "127.0.0.1" || !/^tsvc_test_[0-9a-f]{16}$/u.test(name)) {
    throw new Error(`Refusing to touch the database "${name}" on ${url.hostname}: not a test's.`);
  }
}

async function dropTestDatabase(clusterUrl: string, connectionString: string, patienceMs: number): Promise<void> {
  assertTestDatabase(connectionString);
  const name = new URL(connectionString).pathname.slice(1);
  const cluster = adminOf(clusterUrl);
  const deadline = Date.now() + patienceMs;
  let open: readonly { application_name: string }[];
  for (;;) {
    open = await cluster<{ application_name: string }[]>`
      select application_name from pg_stat_activity
      where datname = ${name} and backend_type = 'client backend'`;
    if (open.length === 0 || Date.now() > deadline) {
      break;
    }
    await sleep(20);
  }
  await cluster`drop database ${cluster(name)} with (force)`;
  if (open.length > 0) {
    const names = open.map((row) => row.application_name).join(", ");
    throw new Error(`${String(open.length)} database connections were left open: ${names}`);
  }
}

let admin: Sql | null = null;

/**
 * To the cluster itself, one connection a test process: opening one costs Postgres and Node.js some 15 ms of CPU time
 * together, and a file may make dozens of databases. It ends with the process.
 */
function adminOf(connectionString: string): Sql {
  admin ??= connect({
    connectionString,
    maxConnections: 1,
    applicationName: "test-admin",
    logger: createSilentLogger(),
  });
  return admin;
}
