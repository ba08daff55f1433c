import { randomUUID } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";

import { DeadlineSql } from "../../src/db/deadline-sql.js";
import { HourlyUsage } from "../../src/auth/keys/hourly-usage.js";
import { type KeyHourUsage, UsageCounts } from "../../src/auth/keys/usage-counts.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { createRecordingLogger, metricValue } from "../helpers/auth/auth-fixture.js";
import { startTcpProxy, type TcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";
import { until } from "../helpers/until.js";
import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

interface Fixture {
  readonly db: TestDatabase;
  readonly proxy: TcpProxy;
  readonly usage: HourlyUsage;
  /** Its only connection. */
  readonly sql: Sql;
  readonly metrics: Metrics;
  readonly lines: readonly Record<string, unknown>[];
}

function open(connectionString: string): Sql {
  const { logger } = createRecordingLogger();
  return connect({ connectionString, maxConnections: 1, applicationName: "usage", logger });
}

async function start(o: { readonly maxPending?: number; readonly timeoutMs?: number } = {}): Promise<Fixture> {
  const db = await createTestDatabase();
  onTestFinished(() => db.drop());
  const proxy = await startTcpProxy(db.connectionString);
  onTestFinished(() => proxy.stop());
  const sql = open(proxy.connectionString);
  onTestFinished(() => sql.end({ timeout: 1 }));
  const { logger, lines } = createRecordingLogger();
  const metrics = createMetrics();
  const usage = new HourlyUsage({
    sql: new DeadlineSql({ sql, timeoutMs: o.timeoutMs ?? 3000 }),
    logger,
    metrics,
    flushIntervalMs: 3_600_000,
    ...(o.maxPending === undefined ? {} : { maxPending: o.maxPending }),
  });
  onTestFinished(() => usage.stop());
  return { db, proxy, usage, sql, metrics, lines };
}

const hour = 1_795_284_000;

function one(keyId: string, over: Partial<KeyHourUsage> = {}): KeyHourUsage {
  return { keyId, hourSeconds: hour, requests: 1, bytes: 10, records: 2, ...over };
}

async function stored(db: TestDatabase): Promise<readonly (readonly [string, string, number[]])[]> {
  const rows = await db.sql<
    { key_id: string; hour: Date; requests: bigint; bytes: bigint; records: bigint }[]
  >`select * from api_key_usage order by hour, key_id`;
  return rows.map((r) => [r.key_id, r.hour.toISOString(), [Number(r.requests), Number(r.bytes), Number(r.records)]]);
}

describe("counting on the thread that answers", () => {
  it("adds up per key and hour, and gives counts away once", () => {
    let nowMs = hour * 1000 + 3_599_999;
    const counts = new UsageCounts(() => nowMs);
    counts.add("a", 100, 3);
    counts.add("b", 1, 0);
    counts.add("a", 50, 1);
    nowMs += 1;
    counts.add("a", 7, 7);
    expect(counts.take()).toEqual([
      { keyId: "a", hourSeconds: hour, requests: 2, bytes: 150, records: 4 },
      { keyId: "b", hourSeconds: hour, requests: 1, bytes: 1, records: 0 },
      { keyId: "a", hourSeconds: hour + 3600, requests: 1, bytes: 7, records: 7 },
    ]);
    expect(counts.take()).toEqual([]);
    counts.add("a", 1, 1);
    expect(counts.take()).toHaveLength(1);
  });
});

describe("usage", () => {
  it("is added to existing rows, from several processes at once, in as many rows as it takes", async () => {
    const { db, usage, metrics } = await start();
    const keys = Array.from({ length: 2500 }, () => randomUUID());
    const sql = open(db.connectionString);
    const { logger } = createRecordingLogger();
    const other = new HourlyUsage({
      sql: new DeadlineSql({ sql, timeoutMs: 10_000 }),
      logger,
      metrics,
    });
    onTestFinished(() => sql.end({ timeout: 1 }));
    usage.add(keys.map((key) => one(key)));
    usage.add([one(keys[0] ?? "", { hourSeconds: hour - 3600 })]);
    other.add(keys.toReversed().map((key) => one(key, { requests: 4 })));
    await Promise.all([usage.flush(), other.stop()]);
    usage.add([one(keys[0] ?? "")]);
    await usage.flush();
    const rows = await stored(db);
    expect(rows).toHaveLength(2501);
    expect(rows[0]).toEqual([keys[0], new Date((hour - 3600) * 1000).toISOString(), [1, 10, 2]]);
    const counted = new Map(rows.slice(1).map(([key, , numbers]) => [key, numbers]));
    expect(counted.get(keys[0] ?? "")).toEqual([6, 30, 6]);
    expect(counted.get(keys[2499] ?? "")).toEqual([5, 20, 4]);
    expect(usage.pending).toBe(0);
  });

  it("takes more than 2^32 bytes, and takes from its sources before it writes", async () => {
    const { db, usage } = await start();
    const key = randomUUID();
    let given: KeyHourUsage[] = [one(key, { bytes: 2 ** 45, records: 2 ** 33 })];
    usage.addSource(() => given.splice(0));
    await usage.flush();
    given = [one(key)];
    await usage.stop();
    expect(await stored(db)).toEqual([[key, new Date(hour * 1000).toISOString(), [2, 2 ** 45 + 10, 2 ** 33 + 2]]]);
  });

  it("waits out an outage without growing, loses nothing, and says so once", async () => {
    const { db, proxy, usage, lines } = await start();
    const key = randomUUID();
    await proxy.refuse();
    for (let i = 0; i < 5; i++) {
      usage.add([one(key)]);
      await usage.flush();
      expect(usage.pending).toBe(1);
    }
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ level: "warn" });
    await proxy.restore();
    await usage.flush();
    expect(await stored(db)).toEqual([[key, new Date(hour * 1000).toISOString(), [5, 50, 10]]]);
  });

  it("of more keys than may be remembered is dropped and counted", async () => {
    const { db, proxy, usage, metrics } = await start({ maxPending: 3 });
    await proxy.refuse();
    const keys = Array.from({ length: 5 }, () => randomUUID());
    usage.add(keys.map((key) => one(key, { requests: 7 })));
    await usage.flush();
    usage.add(keys.map((key) => one(key)));
    expect(usage.pending).toBe(3);
    expect(await metricValue(metrics, "api_key_usage_dropped_requests_total")).toBe(16);
    await proxy.restore();
    await usage.flush();
    expect((await stored(db)).map(([, , [requests]]) => requests)).toEqual([8, 8, 8]);
  });

  it("whose transaction begins after the deadline is not counted twice", async () => {
    const { db, usage, sql } = await start({ timeoutMs: 200 });
    const key = randomUUID();
    usage.add([one(key)]);
    // The only connection is taken, so the first transaction waits in the pool.
    const holder = await sql.reserve();
    await usage.flush();
    expect(usage.pending).toBe(1);
    holder.release();
    await until(async () => {
      await usage.flush();
      return usage.pending === 0;
    });
    // What the pool still holds has run by the time this has.
    await sql`select 1`;
    expect(await stored(db)).toEqual([[key, new Date(hour * 1000).toISOString(), [1, 10, 2]]]);
  });

  it("that was committed when the connection broke is not counted twice", async () => {
    const { db, proxy, usage } = await start();
    // The commit itself takes a while, so the connection can break in the middle of it.
    await db.sql.unsafe(`
      create function slow_commit() returns trigger language plpgsql as
        $$ begin perform pg_sleep(0.5); return null; end $$;
      create constraint trigger slow after insert on api_key_usage
        deferrable initially deferred for each row execute function slow_commit()`);
    const key = randomUUID();
    usage.add([one(key)]);
    const flushed = usage.flush();
    await waiting(db, "PgSleep");
    await proxy.refuse();
    await flushed;
    expect(usage.pending).toBe(1);
    await proxy.restore();
    await db.sql.unsafe("drop trigger slow on api_key_usage");
    usage.add([one(key)]);
    await usage.flush();
    expect(usage.pending).toBe(0);
    expect(await stored(db)).toEqual([[key, new Date(hour * 1000).toISOString(), [2, 20, 4]]]);
  });

  it("that was not committed when the connection broke is written again", async () => {
    const { db, proxy, usage } = await start();
    const key = randomUUID();
    usage.add([one(key)]);
    const locked = await db.sql.reserve();
    await locked.unsafe("begin; lock table api_key_usage in access exclusive mode");
    const flushed = usage.flush();
    await waiting(db, "Lock");
    await proxy.refuse();
    await flushed;
    expect(usage.pending).toBe(1);
    await locked.unsafe("rollback");
    locked.release();
    await proxy.restore();
    // The server finds out that its client has gone only once it has the lock.
    await until(async () => {
      await usage.flush();
      return usage.pending === 0;
    });
    expect(await stored(db)).toEqual([[key, new Date(hour * 1000).toISOString(), [1, 10, 2]]]);
  });

  it("that cannot be written at stop is given up in bounded time, with a word in the log", async () => {
    const { proxy, usage, lines } = await start({ timeoutMs: 200 });
    usage.add([one(randomUUID())]);
    proxy.hang();
    await usage.stop();
    expect(lines.at(-1)).toMatchObject({
      rows: 1,
      msg: "usage of API keys was not written and is lost",
    });
    await proxy.restore();
  });
});

/** Waits until a backend of the writer's waits for what `condition` names. */
const waiting = (db: TestDatabase, condition: "PgSleep" | "Lock"): Promise<void> =>
  until(async () => {
    const rows = await db.sql`
      select from pg_stat_activity
      where application_name = 'usage' and datname = current_database()
        and ${condition} in (wait_event, wait_event_type)`;
    return rows.length > 0;
  });

describe("an ingestion server", () => {
  async function ingestion(environment: Record<string, string>): Promise<TestIngestion> {
    const t = await startTestIngestion({ environment });
    onTestFinished(() => t.stop());
    return t;
  }

  it.each(["1", "2"])("with %s front ends has written the use of every key when it has stopped", async (acceptors) => {
    const t = await ingestion({ SVC_INGESTION_ACCEPTORS: acceptors });
    const keyB = await t.mint("team-b");
    const bodies = Array.from({ length: 12 }, (_, i) => protobufLogs(`m${i}`, i + 1));
    const malformed = Buffer.from([0xff, 0xff]);
    const statuses = await Promise.all([
      ...bodies.map((body, i) => t.post("logs", body, i < 4 ? { authorization: `Bearer ${keyB}` } : {})),
      t.post("traces", malformed, { authorization: `Bearer ${keyB}` }),
      // Neither of these is a key's.
      t.post("logs", bodies[0] ?? malformed, { authorization: "Bearer svk_wrong" }),
      t.post("logs", bodies[0] ?? malformed, { authorization: "" }),
    ]);
    expect(statuses.slice(-3).map(({ status }) => status)).toEqual([400, 401, 401]);
    await t.server.stop();
    const names = await t.database.sql<{ key_id: string; audience: string }[]>`
        select key_id, audience from ingestion_api_keys`;
    const audienceOf = new Map(names.map((row) => [row.key_id, row.audience]));
    const rows = await stored(t.database);
    const total = (audience: string): number[] =>
      rows
        .filter(([key]) => audienceOf.get(key) === audience)
        .reduce((sum, [, , numbers]) => sum.map((n, i) => n + (numbers[i] ?? 0)), [0, 0, 0]);
    const bytes = (part: readonly Buffer[]): number => part.reduce((sum, body) => sum + body.length, 0);
    expect(total("team-b")).toEqual([5, bytes(bodies.slice(0, 4)) + 2, 1 + 2 + 3 + 4]);
    expect(total("team-a")).toEqual([8, bytes(bodies.slice(4)), 68]);
    for (const [, at] of rows) {
      expect(Date.parse(at) % 3_600_000).toBe(0);
    }
  });
});
