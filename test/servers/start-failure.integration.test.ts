/** What a start says when the database keeps a server from it. */
import { afterAll, beforeAll, expect, test } from "vitest";

import { migrate } from "../../src/db/migrations.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { startFailure } from "../../src/servers/stores.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { startTestIngestion } from "../helpers/servers/ingest-server.js";

let db: TestDatabase;
const role = `nobody_${String(process.pid)}`;
const logger = createTappedLogger();

beforeAll(async () => {
  db = await createTestDatabase({ migrate: false });
  await db.sql.unsafe(`create role ${role} login password 'p'`);
});
afterAll(async () => {
  await db.sql.unsafe(`drop role ${role}`);
  await db.drop();
});

async function said(change: Partial<URL>): Promise<string> {
  const connectionString = Object.assign(new URL(db.connectionString), change).href;
  const sql = connect({ connectionString, maxConnections: 1, applicationName: "test", logger });
  try {
    await migrate(sql, logger);
    return "";
  } catch (error) {
    return startFailure(error);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

const login = { username: role, password: "p" };

test.each([
  [{ password: "wrong", username: role }, /refuses the connection \(password .*\): check SVC_SQL_CONNECTION_STRING$/],
  [{ search: "?schema=other" }, /refuses the connection \(unrecognized .*"schema"\): leave that parameter out/],
  [{ search: "?default_transaction_read_only=on" }, /can only be read \(.*\): name the primary/],
  [login, /may not do \(permission denied for schema public\): start an ingestion server .* as the owner/],
])("%o", async (change, words) => {
  expect(await said(change)).toMatch(words);
});

test("no connection is left", async () => {
  await db.sql.unsafe(`alter role ${role} connection limit 0`);
  expect(await said(login)).toMatch(/has no connection left \(too many connections for role .*\): raise/);
});

test("a Postgres that is too old is named with the oldest that does", async () => {
  const connection = Object.assign(() => Promise.resolve([{ version: "15.18" }]), {
    release: () => undefined,
  });
  const sql = { reserve: () => Promise.resolve(connection) } as unknown as Sql;
  await expect(migrate(sql, logger)).rejects.toThrow("is on Postgres 15.18, which is too old");
});

test("ingestion refuses a single connection", async () => {
  const start = startTestIngestion({ environment: { SVC_SQL_MAX_CONNECTIONS: "1" } });
  await expect(start).rejects.toThrow("SVC_SQL_MAX_CONNECTIONS of ingestion must be at least 2");
});
