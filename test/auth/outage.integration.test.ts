import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { createKeyAuthenticator } from "../../src/auth/keys/key-authenticator.js";
import { generateKeyString } from "../../src/auth/key-string.js";
import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { connect } from "../../src/db/sql.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { migrate } from "../../src/db/migrations.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import {
  createKeyStore,
  createRecordingLogger,
  type KeyStoreFixture,
  metricValue,
} from "../helpers/auth/auth-fixture.js";
import { startTcpProxy, type TcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { until } from "../helpers/until.js";

const bearer = (key: string): string => `Bearer ${key}`;
const table = "ingestion_api_keys";

let store: KeyStoreFixture | undefined;
let proxy: TcpProxy | undefined;
afterEach(async () => {
  await store?.stop();
  await proxy?.stop();
  store = undefined;
  proxy = undefined;
});

async function behindProxy(
  o: Parameters<typeof createKeyStore>[0] = {},
): Promise<{ store: KeyStoreFixture; proxy: TcpProxy }> {
  let started: TcpProxy | undefined;
  store = await createKeyStore({ statementTimeoutMs: 20_000, ...o }, async (connectionString) => {
    started = await startTcpProxy(connectionString);
    return started.connectionString;
  });
  if (started === undefined) {
    throw new Error("no proxy");
  }
  proxy = started;
  return { store, proxy };
}

function proxyAddress(): string {
  if (proxy === undefined) {
    throw new Error("no proxy");
  }
  return proxy.connectionString;
}

describe("a database outage on the key path", () => {
  it.each(["refuse", "hang"] as const)(
    "is unavailable and never a rejection, ends by itself, and spares cached keys (%s)",
    async (mode) => {
      // Short only where something hangs: elsewhere it would be an assertion about this machine.
      const { store, proxy } = await behindProxy(mode === "hang" ? { statementTimeoutMs: 1500 } : {});
      const mint = (): Promise<{ key: string }> =>
        mintIngestionKey(store.db.sql, { name: "k", audience: "a", createdBy: "me" });
      const cached = (await mint()).key;
      const uncached = (await mint()).key;
      await store.keys.authenticate(bearer(cached));
      await proxy[mode]();
      expect(await store.keys.authenticate(bearer(uncached))).toEqual({
        kind: "unavailable",
        retryAfterSeconds: 1,
      });
      expect(await store.keys.authenticate(bearer(generateKeyString()))).toMatchObject({
        kind: "unavailable",
      });
      store.advance(59_999);
      expect(store.keys.authenticateNow(bearer(cached))).toMatchObject({ kind: "ok" });
      store.advance(1);
      // Past its TTL the entry is not used, database or no database.
      expect(store.keys.authenticateNow(bearer(cached))).toBeNull();
      expect(await store.keys.authenticate(bearer(cached))).toMatchObject({ kind: "unavailable" });
      await proxy.restore();
      await until(async () => {
        store.advance(500);
        return (await store.keys.authenticate(bearer(uncached))).kind === "ok";
      });
    },
  );

  it("leaves connections that went silent for new ones", async () => {
    const { proxy, store } = await behindProxy({
      statementTimeoutMs: 1500,
      reopen: () =>
        connect({
          connectionString: proxyAddress(),
          maxConnections: 2,
          applicationName: "key store",
          logger: createSilentLogger(),
        }),
    });
    const { key } = await mintIngestionKey(store.db.sql, {
      name: "k",
      audience: "a",
      createdBy: "me",
    });
    await store.keys.authenticate(bearer(generateKeyString()));
    proxy.forget();
    expect(await store.keys.authenticate(bearer(key))).toMatchObject({ kind: "unavailable" });
    store.advance(2_100);
    expect(await store.keys.authenticate(bearer(key))).toMatchObject({ kind: "ok" });
  });

  it("counts every error, logs one line a minute, and does not ask again at once", async () => {
    const { store, proxy } = await behindProxy();
    await proxy.refuse();
    let expected = 0;
    // It is there before it counts: an alert does not see the step from nothing to 1.
    expect(await store.metrics.text()).toContain(`db_api_key_error_count{table="${table}"} 0`);
    for (let i = 0; i < 5; i++) {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, () => store.keys.authenticate(bearer(generateKeyString()))),
      );
      expect(new Set(outcomes.map((o) => o.kind))).toEqual(new Set(["unavailable"]));
      expected++;
      expect(await metricValue(store.metrics, "db_api_key_error_count", { table })).toBe(expected);
      store.advance(2_100);
    }
    const errors = (): unknown[] => store.lines.filter((line) => line["level"] === "error");
    expect(errors().length).toBe(1);
    store.advance(60_000);
    await store.keys.authenticate(bearer(generateKeyString()));
    expect(errors().length).toBe(2);
    expect(errors()[1]).toMatchObject({ table, earlierErrors: 4 });
  });

  it("treats an error of the statement itself as unavailable too", async () => {
    const { store } = await behindProxy();
    await store.db.sql`alter table ingestion_api_keys rename column audience to somewhere_else`;
    expect(await store.keys.authenticate(bearer(generateKeyString()))).toMatchObject({
      kind: "unavailable",
    });
    expect(await metricValue(store.metrics, "db_api_key_error_count", { table })).toBe(1);
  });

  it("lets a key in use ask for its refresh again once the database is back", async () => {
    const { store, proxy } = await behindProxy();
    const { key } = await mintIngestionKey(store.db.sql, {
      name: "k",
      audience: "a",
      createdBy: "me",
    });
    await store.keys.authenticate(bearer(key));
    await proxy.refuse();
    store.advance(46_000);
    store.keys.authenticateNow(bearer(key));
    await until(async () => (await metricValue(store.metrics, "db_api_key_error_count", { table })) > 0);
    await proxy.restore();
    const asked = await store.statements();
    await until(async () => {
      store.advance(100);
      expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
      const errors = await metricValue(store.metrics, "db_api_key_error_count", { table });
      return (await store.statements()) - asked > errors - 1;
    });
    // Statements go one after another: when this one is answered, the refresh is.
    await store.keys.authenticate(bearer(generateKeyString()));
    store.advance(30_000);
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
  });

  it("writes last_used_at after the outage that kept it from being written", async () => {
    const { store, proxy } = await behindProxy();
    const { key, keyId } = await mintIngestionKey(store.db.sql, {
      name: "k",
      audience: "a",
      createdBy: "me",
    });
    await store.keys.authenticate(bearer(key));
    await proxy.refuse();
    await store.keys.flushUsage();
    await proxy.restore();
    const used = async (): Promise<boolean> => {
      const [row] = await store.db.sql<{ used: boolean }[]>`
        select last_used_at is not null as used from ingestion_api_keys where key_id = ${keyId}`;
      return row?.used === true;
    };
    expect(await used()).toBe(false);
    await until(async () => {
      await store.keys.flushUsage();
      return used();
    });
    expect(await used()).toBe(true);
  });

  it("never rejects a live key while Postgres is stopped and started under load", async () => {
    const logger = createSilentLogger();
    const dataDirectory = await mkdtemp(path.join(tmpdir(), "auth-outage-"));
    const start = (): ReturnType<typeof startEmbeddedPostgres> =>
      startEmbeddedPostgres({ dataDirectory, logger, durable: false });
    let postgres = await start();
    const proxy = await startTcpProxy(postgres.connectionString);
    const sql = connect({
      connectionString: proxy.connectionString,
      maxConnections: 2,
      applicationName: "key store",
      logger,
    });
    const recording = createRecordingLogger();
    const keys = createKeyAuthenticator({
      sql,
      table,
      cacheSize: 100,
      cacheTtlMs: 200,
      unknownCacheSize: 100,
      unknownCacheTtlMs: 50,
      logger: recording.logger,
      metrics: createMetrics(),
    });
    try {
      await migrate(sql, logger);
      const minted = await Promise.all(
        Array.from({ length: 10 }, () => mintIngestionKey(sql, { name: "k", audience: "a", createdBy: "me" })),
      );
      const seen = new Set<string>();
      const wrong: unknown[] = [];
      const stopLoad = new AbortController();
      const load = Promise.all(
        minted.map(async ({ key }) => {
          while (!stopLoad.signal.aborted) {
            const known = await keys.authenticate(bearer(key));
            const stranger = await keys.authenticate(bearer(generateKeyString()));
            seen.add(known.kind);
            if (known.kind === "rejected" || stranger.kind === "ok") {
              wrong.push(known, stranger);
            }
            await sleep(2);
          }
        }),
      );
      await until(() => seen.has("ok"));
      await postgres.stop();
      await until(() => seen.has("unavailable"));
      postgres = await start();
      await proxy.restore(postgres.connectionString);
      seen.clear();
      await until(() => seen.has("ok"));
      stopLoad.abort();
      await load;
      expect(wrong).toEqual([]);
    } finally {
      await keys.stop();
      await sql.end({ timeout: 1 });
      await proxy.stop();
      await postgres.stop();
      await rm(dataDirectory, { recursive: true, force: true });
    }
  });
});
