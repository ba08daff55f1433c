/**
 * Merging under way while telemetry comes in and queries run, with the analytics server under its own
 * database role: a query sees every record that was acknowledged before it began, none twice.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { type AnalyticsServer, startAnalyticsServer } from "../../src/servers/analytics.js";
import { createRoleLogin, type RoleLogin } from "../helpers/auth/auth-roles.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { effort } from "../helpers/effort.js";
import { connectRows, type FlightRows } from "../helpers/flight/flight-rows.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";
import { noonMs } from "../helpers/noon.js";

let t: TestIngestion;
let login: RoleLogin;
let analytics: AnalyticsServer;
let merging: FlightRows;
let asking: FlightRows;

beforeAll(async () => {
  t = await startTestIngestion();
  const { sql } = t.database;
  const { key, keyId } = await mintAnalyticsKey(sql, { name: "test", createdBy: "test" });
  await sql`insert into audience_grants (audience, kind, member, created_by)
    values ('team-a', 'read', ${`key:${keyId}`}, 'test')`;
  login = await createRoleLogin(sql, t.database.connectionString, "analytics");
  analytics = await startAnalyticsServer({
    config: parseConfig("analytics", [], {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_AUTH_CACHE_TTL_SECONDS: "0",
    }),
    connectionString: login.connectionString,
    objectStoreUri: t.storeUri,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
  merging = connectRows(analytics.address.port, key, "merging");
  asking = connectRows(analytics.address.port, key, "asking");
});

afterAll(async () => {
  merging.close();
  asking.close();
  await analytics.stop();
  await login.drop();
  await t.stop();
});

const recordsPerRequest = 20;
const leastRequests = effort(8, 60);
const leastMerges = 4;
let sent = 0;

/** Sends a request of records spread over minutes and returns when it is acknowledged. */
async function send(): Promise<void> {
  const request = sent++;
  const logRecords = Array.from({ length: recordsPerRequest }, (_, i) => ({
    timeUnixNano: `${noonMs + request * 1000 + i * 10_000}000000`,
    body: { stringValue: `${request}/${i}` },
  }));
  const body = Buffer.from(JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }));
  const response = await t.post("logs", body, { "content-type": "application/json" });
  expect(response.status).toBe(200);
}

async function count(): Promise<{ n: number; different: number }> {
  const [row] = await asking.rows("SELECT count(*) AS n, count(DISTINCT msg) AS different FROM log_entries");
  return { n: Number(row?.["n"]), different: Number(row?.["different"]) };
}

it("shows every acknowledged record, and none twice, while partitions are merged again and again", async () => {
  const progress = { acknowledged: 0, merges: 0, done: false };
  const sendSome = async (): Promise<void> => {
    for (let i = 0; i < leastRequests || progress.merges < leastMerges; i++) {
      await send();
      progress.acknowledged += recordsPerRequest;
      // The more there is to merge and to count, the longer both take: a busy machine would never get there.
      if (i >= leastRequests) {
        await sleep(100);
      }
    }
  };
  const mergeAll = async (): Promise<void> => {
    while (!progress.done) {
      const name = progress.merges % 4 === 3 ? "regenerate_partitions" : "materialize_partitions";
      const width = [60, 300, 3600][progress.merges % 3];
      const made = await merging.rows(
        `SELECT action FROM ${name}('log_entries', '2025-11-21', '2025-11-23', ${width})`,
      );
      if (made.length > 0) {
        progress.merges++;
      }
    }
  };
  const countAll = async (): Promise<void> => {
    while (!progress.done) {
      const before = progress.acknowledged;
      const { n, different } = await count();
      expect(n).toBeGreaterThanOrEqual(before);
      expect(n).toBeLessThanOrEqual(sent * recordsPerRequest);
      expect(different).toBe(n);
      // Merging needs a core, too.
      await sleep(100);
    }
  };
  const others = Promise.all([mergeAll(), countAll()]);
  try {
    await Promise.race([sendSome(), others]);
  } finally {
    progress.done = true;
    await others;
  }
  const all = sent * recordsPerRequest;
  expect(await count()).toEqual({ n: all, different: all });
  const levels = await merging.rows("SELECT DISTINCT level FROM list_partitions() WHERE level > 0");
  expect(levels.length).toBeGreaterThan(0);
}, 600_000);
