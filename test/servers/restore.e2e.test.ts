/**
 * A backup that is taken while the service works, as docs/deploy.md says: first the database as it is at one moment,
 * then the objects. Restored elsewhere, it holds every record that had been acknowledged when it began, each once.
 */
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { afterAll, beforeAll, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import type { Sql } from "../../src/db/sql.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { startAnalyticsServer } from "../../src/servers/analytics.js";
import { type MaintenanceServer, startMaintenance } from "../../src/servers/maintenance.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { connectRows } from "../helpers/flight/flight-rows.js";
import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";
import { until } from "../helpers/until.js";

const listens = { SVC_ANALYTICS_LISTEN: "127.0.0.1:0", SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0" };
const logger = createTappedLogger();
let t: TestIngestion;
let maintenance: MaintenanceServer;
let restored: TestDatabase;
let directory: string;
let key: string;

beforeAll(async () => {
  t = await startTestIngestion();
  const reader = await mintAnalyticsKey(t.database.sql, { name: "test", createdBy: "test" });
  ({ key } = reader);
  await t.database.sql`insert into audience_grants (audience, kind, member, created_by)
    values ('team-a', 'read', ${`key:${reader.keyId}`}, 'test')`;
  maintenance = await startMaintenance({
    config: parseConfig("maintenance", [], { SVC_MAINTENANCE_INTERVAL_SECONDS: "0.2" }),
    connectionString: t.database.connectionString,
    objectStoreUri: t.storeUri,
    logger,
    metrics: createMetrics(),
    alone: false,
  });
  restored = await createTestDatabase();
  directory = await mkdtemp(path.join(tmpdir(), "restore-test-"));
});

afterAll(async () => {
  await maintenance.stop();
  await restored.drop();
  await t.stop();
  await rm(directory, { recursive: true, force: true });
});

/** Rows of each table, as JSON. */
type Dump = ReadonlyMap<string, string>;

/** Every table as it is at one moment, which is what pg_dump reads. */
async function dump(sql: Sql): Promise<Dump> {
  return sql.begin("isolation level repeatable read read only", async (at) => {
    const tables = await at<{ name: string }[]>`
      select table_name as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE'`;
    const found = new Map<string, string>();
    for (const { name } of tables) {
      const [row] = await at<{ rows: string | null }[]>`select json_agg(t)::text as rows from ${at(name)} t`;
      found.set(name, row?.rows ?? "[]");
    }
    return found;
  });
}

async function restore(sql: Sql, tables: Dump): Promise<void> {
  await sql.begin(async (at) => {
    // As pg_restore has it: rows come before what watches over them.
    await at`set local session_replication_role = replica`;
    for (const [name, rows] of tables) {
      await at`delete from ${at(name)}`;
      await at`insert into ${at(name)} overriding system value
        select * from json_populate_recordset(null::${at(name)}, ${rows}::text::json)`;
    }
  });
}

async function merged(): Promise<number> {
  const [row] = await t.database.sql<{ n: number }[]>`
    select count(*)::int as n from lakehouse_partitions where level > 0`;
  return row?.n ?? 0;
}

it("is whole, whatever was sent and merged meanwhile", async () => {
  const acknowledged: string[] = [];
  const state = { done: false };
  const send = async (): Promise<void> => {
    while (!state.done) {
      const mark = freshMark();
      const { status } = await t.post("logs", protobufLogs(mark));
      expect(status).toBe(200);
      acknowledged.push(`${mark} 0`);
    }
  };
  const sending = [send(), send()];
  let before: readonly string[] = [];
  let tables: Dump = new Map();
  const lake = path.join(directory, "lake");
  try {
    await until(async () => acknowledged.length > 100 && (await merged()) > 0);

    before = [...acknowledged];
    tables = await dump(t.database.sql);
    // Objects of the dump are merged into others and retired before they are copied.
    const named = tables.get("lakehouse_partitions") ?? "";
    await until(async () => {
      const gone = await t.database.sql<{ path: string }[]>`select path from retired_objects`;
      return gone.some(({ path: object }) => named.includes(object));
    });
    // Unfinished writes have other names, or none, by the time they are copied.
    await cp(fileURLToPath(t.storeUri), lake, { recursive: true, filter: (from) => !from.endsWith(".tmp") });
  } finally {
    state.done = true;
    await Promise.all(sending);
  }

  await restore(restored.sql, tables);
  const analytics = await startAnalyticsServer({
    config: parseConfig("analytics", [], listens),
    connectionString: restored.connectionString,
    objectStoreUri: pathToFileURL(lake).href,
    logger,
    metrics: createMetrics(),
  });
  const asking = connectRows(analytics.address.port, key);
  try {
    const rows = await asking.rows("SELECT msg FROM log_entries");
    const found = rows.map(({ msg }) => msg as string);
    expect(new Set(found).size).toBe(found.length);
    const held = new Set(found);
    expect(before.filter((msg) => !held.has(msg))).toEqual([]);
    // What came after the dump is not in it.
    expect(found.length).toBeLessThan(acknowledged.length);
  } finally {
    asking.close();
    await analytics.stop();
  }
});
