/**
 * Maintenance beside ingestion and queries, each under its own database role: small requests become few
 * objects by themselves, and a query sees every record that was acknowledged before it began, none twice.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { type AnalyticsServer, startAnalyticsServer } from "../../src/servers/analytics.js";
import { type MaintenanceServer, startMaintenance } from "../../src/servers/maintenance.js";
import { createRoleLogin, type RoleLogin } from "../helpers/auth/auth-roles.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { connectRows, type FlightRows } from "../helpers/flight/flight-rows.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";
import { noonMs } from "../helpers/noon.js";

let t: TestIngestion;
const logins: RoleLogin[] = [];
let analytics: AnalyticsServer;
let maintenance: MaintenanceServer;
let metrics: Metrics;
let asking: FlightRows;

beforeAll(async () => {
  t = await startTestIngestion();
  const { sql, connectionString } = t.database;
  const { key, keyId } = await mintAnalyticsKey(sql, { name: "test", createdBy: "test" });
  await sql`insert into audience_grants (audience, kind, member, created_by)
    values ('team-a', 'read', ${`key:${keyId}`}, 'test')`;
  for (const role of ["analytics", "ingestion"] as const) {
    logins.push(await createRoleLogin(sql, connectionString, role));
  }
  const shared = { objectStoreUri: t.storeUri, logger: createTappedLogger() };
  analytics = await startAnalyticsServer({
    ...shared,
    config: parseConfig("analytics", [], {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_AUTH_CACHE_TTL_SECONDS: "0",
    }),
    connectionString: logins[0]?.connectionString ?? "",
    metrics: createMetrics(),
  });
  metrics = createMetrics();
  maintenance = await startMaintenance({
    ...shared,
    config: parseConfig("maintenance", [], {
      SVC_MAINTENANCE_INTERVAL_SECONDS: "0.2",
      SVC_MAINTENANCE_HEALTH_LISTEN: "127.0.0.1:0",
    }),
    connectionString: logins[1]?.connectionString ?? "",
    metrics,
    alone: true,
  });
  asking = connectRows(analytics.address.port, key, "asking");
});

afterAll(async () => {
  asking.close();
  await maintenance.stop();
  await analytics.stop();
  for (const login of logins) {
    await login.drop();
  }
  await t.stop();
});

const requests = 600;
/** Three tables, each with those of level 0 that wait, and what was made of the others. */
const fewObjects = 3 * (63 + 3);

/** A request of one signal with two records, a second after the one before it. */
function request(number: number): ["logs" | "metrics" | "traces", object] {
  const ns = (ms: number): string => `${noonMs + number * 1000 + ms}000000`;
  const two = [0, 1];
  switch (number % 3) {
    case 0: {
      const logRecords = two.map((i) => ({
        timeUnixNano: ns(i),
        body: { stringValue: `${number}/${i}` },
      }));
      return ["logs", { resourceLogs: [{ scopeLogs: [{ logRecords }] }] }];
    }
    case 1: {
      const spans = two.map((i) => ({
        traceId: `${i + 1}`.padStart(32, "0"),
        spanId: String(number).padStart(16, "0"),
        name: `${number}/${i}`,
        startTimeUnixNano: ns(i),
        endTimeUnixNano: ns(i + 5),
      }));
      return ["traces", { resourceSpans: [{ scopeSpans: [{ spans }] }] }];
    }
    default: {
      const dataPoints = two.map((i) => ({ timeUnixNano: ns(i), asInt: String(number * 2 + i) }));
      const gauge = { name: "load", gauge: { dataPoints } };
      return ["metrics", { resourceMetrics: [{ scopeMetrics: [{ metrics: [gauge] }] }] }];
    }
  }
}

async function send(number: number): Promise<void> {
  const [signal, body] = request(number);
  const headers = { "content-type": "application/json" };
  const response = await t.post(signal, Buffer.from(JSON.stringify(body)), headers);
  expect(response.status).toBe(200);
}

async function rowsSeen(): Promise<number> {
  const [row] = await asking.rows(`
    SELECT (SELECT count(DISTINCT msg) FROM log_entries) + (SELECT count(DISTINCT name) FROM spans)
      + (SELECT count(DISTINCT value) FROM measures) AS different,
      (SELECT count(*) FROM log_entries) + (SELECT count(*) FROM spans) + (SELECT count(*) FROM measures) AS n`);
  expect(row?.["different"]).toBe(row?.["n"]);
  return Number(row?.["n"]);
}

async function objects(): Promise<number> {
  const [row] = await t.database.sql<{ n: number }[]>`
    select count(*)::int as n from lakehouse_partitions`;
  return row?.n ?? 0;
}

it("makes few objects of 600 small requests by itself, and queries see every record once all along", async () => {
  const progress = { acknowledged: 0, done: false };
  const ask = async (): Promise<void> => {
    while (!progress.done) {
      const before = progress.acknowledged;
      expect(await rowsSeen()).toBeGreaterThanOrEqual(before);
    }
  };
  const asked = ask();
  try {
    for (let number = 0; number < requests; number++) {
      await send(number);
      progress.acknowledged += 2;
    }
    await expect.poll(objects, { timeout: 300_000 }).toBeLessThanOrEqual(fewObjects);
  } finally {
    progress.done = true;
    await asked;
  }
  expect(await rowsSeen()).toBe(requests * 2);
  const text = await metrics.text();
  expect(text).toMatch(/^maintenance_leader 1$/mu);
  expect(text).toMatch(/^maintenance_merges_total [1-9]/mu);
  expect(text).toMatch(/^maintenance_failures_total 0$/mu);
}, 600_000);
