/** Outages of the database as clients of the two servers see them. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

import { describe, expect, test } from "vitest";

import { generateKeyString } from "../../src/auth/key-string.js";
import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { migrate } from "../../src/db/migrations.js";
import { connect } from "../../src/db/sql.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { startAnalyticsServer } from "../../src/servers/analytics.js";
import { startIngestionServer } from "../../src/servers/ingestion.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { metricValue } from "../helpers/auth/auth-fixture.js";
import { flightInfo, grpcOk, grpcUnauthenticated, grpcUnavailable } from "../helpers/auth/auth-grpc.js";
import { type Posted, postLogs, startTestService } from "../helpers/auth/auth-service.js";
import { startTcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { plainRows } from "../helpers/flight/plain-rows.js";

const logger = createTappedLogger();

test("Postgres stopped and started under load: 503 and UNAVAILABLE, never a refusal of a live key", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "auth-outage-"));
  const start = (): ReturnType<typeof startEmbeddedPostgres> =>
    startEmbeddedPostgres({ dataDirectory: directory, logger, durable: false });
  let postgres = await start();
  const proxy = await startTcpProxy(postgres.connectionString);
  const { connectionString } = proxy;
  const sql = connect({ connectionString, maxConnections: 1, applicationName: "test", logger });
  await migrate(sql, logger);
  const live = await mintIngestionKey(sql, { name: "k", audience: "red", createdBy: "t" });
  const reader = await mintAnalyticsKey(sql, { name: "k", createdBy: "t" });
  await sql.end({ timeout: 5 });
  const metrics = createMetrics();
  const shared = {
    connectionString,
    objectStoreUri: pathToFileURL(path.join(directory, "lake")).href,
    logger,
    metrics,
  };
  const environment = {
    SVC_AUTH_CACHE_TTL_SECONDS: "1",
    SVC_API_KEY_UNKNOWN_CACHE_TTL_SECONDS: "1",
    SVC_INGESTION_LISTEN: "127.0.0.1:0",
    SVC_OTLP_HTTP_LISTEN: "",
    SVC_OTLP_GRPC_LISTEN: "",
    SVC_INGESTION_ACCEPTORS: "2",
    SVC_INGESTION_WORKERS: "1",
    SVC_INGESTION_ARENA_BYTES: String(16 * 1024 * 1024),
    SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
    SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
  };
  const ingestion = await startIngestionServer({
    ...shared,
    config: parseConfig("ingestion", [], environment),
  });
  const analytics = await startAnalyticsServer({
    ...shared,
    config: parseConfig("analytics", [], environment),
  });
  const url = `http://127.0.0.1:${ingestion.address.port}`;
  const { port } = analytics.address;

  // What was answered since the last `seen.clear()`.
  const seen = new Set<string>();
  const wrong: string[] = [];
  const note = (who: "live" | "stranger", protocol: string, code: number | null): void => {
    seen.add(`${who} ${protocol} ${code}`);
    const allowed =
      protocol === "http"
        ? { live: [200, 503], stranger: [401, 503] }
        : {
            live: [grpcOk, grpcUnavailable],
            stranger: [grpcUnauthenticated, grpcUnavailable],
          };
    if (code === null || !allowed[who].includes(code)) {
      wrong.push(`${who} ${protocol} ${code}`);
    }
  };
  const posted = (who: "live" | "stranger", answer: Posted): void => {
    note(who, "http", answer.status);
    if (answer.status === 503 && !(Number(answer.retryAfter) > 0)) {
      wrong.push("no Retry-After");
    }
  };
  const done = new AbortController();
  const lane = async (work: () => Promise<void>): Promise<void> => {
    while (!done.signal.aborted) {
      await work();
      await sleep(5);
    }
  };
  const bearer = (key: string): { authorization: string } => ({ authorization: `Bearer ${key}` });
  const load = [
    ...[1, 2].map(() => lane(async () => posted("live", await postLogs(url, live.key)))),
    lane(async () => posted("stranger", await postLogs(url, generateKeyString()))),
    lane(async () => note("live", "grpc", (await flightInfo(port, bearer(reader.key))).status)),
    lane(async () => note("stranger", "grpc", (await flightInfo(port, bearer(generateKeyString()))).status)),
  ];
  const allSeen = async (...wanted: string[]): Promise<void> => {
    seen.clear();
    await expect.poll(() => wanted.filter((entry) => !seen.has(entry))).toEqual([]);
  };
  const normal = ["live http 200", "stranger http 401", `live grpc ${grpcOk}`, `stranger grpc ${grpcUnauthenticated}`];
  try {
    await allSeen(...normal);
    await postgres.stop();
    await allSeen(
      "live http 503",
      "stranger http 503",
      `live grpc ${grpcUnavailable}`,
      `stranger grpc ${grpcUnavailable}`,
    );
    for (const table of ["ingestion_api_keys", "analytics_api_keys"]) {
      expect(await metricValue(metrics, "db_api_key_error_count", { table })).toBeGreaterThan(0);
    }
    postgres = await start();
    await proxy.restore(postgres.connectionString);
    await allSeen(...normal);
    done.abort();
    await Promise.all(load);
    expect(wrong).toEqual([]);
    // Queries over the catalogue work again, too.
    const count = "select count(*) as n from log_entries";
    await expect.poll(() => plainRows({ port, key: reader.key }, count)).toEqual([{ n: 0 }]);
  } finally {
    done.abort();
    await Promise.all(load);
    await analytics.stop();
    await ingestion.stop();
    await proxy.stop();
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  }
});

describe("keys in the cache when the database goes away", () => {
  const ttlSeconds = 1;

  test.each(["refuse", "hang"] as const)(
    "work to the end of their TTL and are then unavailable, not refused (%s)",
    async (mode) => {
      const t = await startTestService();
      const proxy = await startTcpProxy(t.connectionString);
      const { connectionString } = proxy;
      const environment = { SVC_AUTH_CACHE_TTL_SECONDS: String(ttlSeconds) };
      const ingestion = await t.startIngestion({ ...environment, SVC_INGESTION_ACCEPTORS: "2" }, connectionString);
      const analytics = await t.startAnalytics(environment, connectionString);
      const ingestionKey = await t.mintIngestion("red");
      const analyticsKey = await t.mintAnalytics();
      // Judged after the credential and before anything is stored: it needs no database.
      const write = async (): Promise<number | null> =>
        (await ingestion.post(ingestionKey.key, { contentType: "text/plain" })).status;
      const readAs = async (key: string): Promise<number | null> =>
        (await flightInfo(analytics.port, { authorization: `Bearer ${key}` })).status;
      const read = (): Promise<number | null> => readAs(analyticsKey.key);
      // The first description of a statement starts the query engine.
      expect(await readAs((await t.mintAnalytics()).key)).toBe(grpcOk);

      const problems: string[] = [];
      const firstMs = performance.now();
      expect([await write(), await read()]).toEqual([415, grpcOk]);
      await proxy[mode]();
      const cutMs = performance.now();
      const watch = async (
        use: () => Promise<number | null>,
        accepted: number,
        unavailable: number,
        leastMs: number,
      ): Promise<void> => {
        for (let status: number | null = accepted; status === accepted;) {
          const sentMs = performance.now();
          status = await use();
          if (status === accepted) {
            if (sentMs > cutMs + ttlSeconds * 1000) {
              problems.push("worked after its TTL");
            }
          } else if (status !== unavailable) {
            problems.push(`status ${status}`);
          } else if (performance.now() < leastMs) {
            problems.push("stopped working before its TTL");
          }
        }
      };
      await Promise.all([
        watch(write, 415, 503, firstMs + ttlSeconds * 1000),
        // Reading takes grants as well, which may have been read earlier than the key.
        watch(read, grpcOk, grpcUnavailable, cutMs),
      ]);
      expect(problems).toEqual([]);
      await proxy.restore();
      await expect.poll(write).toBe(415);
      await expect.poll(read).toBe(grpcOk);
      await t.stop();
      await proxy.stop();
    },
  );
});

test("connections that went silent are left for new ones", async () => {
  const t = await startTestService();
  const proxy = await startTcpProxy(t.connectionString);
  // One connection each, beside the one that commits: without another pool everything would wait for it.
  const environment = { SVC_AUTH_CACHE_TTL_SECONDS: "1" };
  const ingestion = await t.startIngestion({ ...environment, SVC_SQL_MAX_CONNECTIONS: "2" }, proxy.connectionString);
  const analytics = await t.startAnalytics({ ...environment, SVC_SQL_MAX_CONNECTIONS: "1" }, proxy.connectionString);
  const write = async (key: string): Promise<number> =>
    (await ingestion.post(key, { contentType: "text/plain" })).status;
  const read = async (key: string): Promise<number | null> =>
    (await flightInfo(analytics.port, { authorization: `Bearer ${key}` })).status;
  const before = { write: (await t.mintIngestion("red")).key, read: (await t.mintAnalytics()).key };
  expect([await write(before.write), await read(before.read)]).toEqual([415, grpcOk]);
  proxy.forget();
  // Keys that nobody has looked up yet: no cache and no refresh ahead of its end answers for them.
  const after = { write: (await t.mintIngestion("red")).key, read: (await t.mintAnalytics()).key };
  const seen: (number | null)[] = [];
  await expect
    .poll(async () => {
      const statuses = await Promise.all([write(after.write), read(after.read)]);
      seen.push(...statuses);
      return statuses;
    })
    .toEqual([415, grpcOk]);
  expect(seen.filter((status) => status === 401 || status === grpcUnauthenticated)).toEqual([]);
  // The silent connections end: the query log, which they kept waiting, is written before the stop.
  await proxy.refuse();
  await proxy.restore();
  await t.stop();
  await proxy.stop();
});
