/** A server whose object store is not its database's: nothing is mounted there, or a setting names another one. */
import { readdir, rename, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, expect, it } from "vitest";

import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { startMaintenance } from "../../src/servers/maintenance.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";

let t: TestIngestion;

beforeAll(async () => {
  t = await startTestIngestion();
});
afterAll(() => t.stop());

it("acknowledges nothing into a directory where the lake is not mounted", async () => {
  const mountPoint = fileURLToPath(t.storeUri);
  const elsewhere = `${mountPoint}-unmounted`;
  expect((await t.post("logs", protobufLogs("before"))).status).toBe(200);
  await rename(mountPoint, elsewhere);
  try {
    await expect(startTestIngestion({ beside: t })).rejects.toThrow(
      /lacks lake-id\/.*not mounted.*SVC_OBJECT_STORE_URI/u,
    );
    expect(await readdir(mountPoint)).toEqual([]);
  } finally {
    await rm(mountPoint, { recursive: true, force: true });
    await rename(elsewhere, mountPoint);
  }
  const again = await startTestIngestion({ beside: t });
  await again.stop();
});

it("does not start over the lake of another database", async () => {
  const other = await startTestIngestion();
  try {
    // Databases of tests are copies of one.
    await t.database.sql`update lake_state set lake_id = gen_random_uuid(), marked = false`;
    const beside = { ...t, storeUri: other.storeUri };
    const words = /belongs to another database.*SVC_SQL_CONNECTION_STRING/u;
    await expect(startTestIngestion({ beside })).rejects.toThrow(words);
    await expect(
      startMaintenance({
        config: parseConfig("maintenance", [], {}),
        connectionString: t.database.connectionString,
        objectStoreUri: other.storeUri,
        logger: createTappedLogger(),
        metrics: createMetrics(),
        alone: false,
      }),
    ).rejects.toThrow(words);
  } finally {
    await other.stop();
  }
});
