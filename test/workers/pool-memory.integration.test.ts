/**
 * What threads are asked leaves nothing behind: a pool of each kind, after 20,000 tasks, or 100,000 in `pnpm test:long`. The merge pool is of
 * the encode pool's kind, and what it adds is tested in runtime/basics.unit.test.ts.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, expect, it } from "vitest";

import { requestCode } from "../../src/ingest/request.js";
import { systemClock } from "../../src/runtime/clock.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { startEncodePool } from "../../src/workers/encode-client.js";
import { effort } from "../helpers/effort.js";
import { heapBytes } from "../helpers/heap.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { startTestBackend } from "../helpers/query/query-backend.js";
import { startTestAdminPool } from "../helpers/servers/admin-pool.js";

const tasks = effort(10_000, 100_000);
const warmUp = effort(2_000, 10_000);
const atOnce = 50;
/** Far less than any object for each task; V8's own tables grow by some of it. */
const slackBytes = 1_500_000;

const logger = createSilentLogger();
const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (let stop = stops.pop(); stop !== undefined; stop = stops.pop()) {
    await stop();
  }
});

/** Bytes that the heap has gained after this many more tasks. */
async function growth(task: () => Promise<unknown>): Promise<number> {
  const run = async (count: number): Promise<void> => {
    for (let left = count; left > 0; left -= atOnce) {
      await Promise.all(Array.from({ length: atOnce }, task));
    }
  };
  await run(warmUp);
  const before = heapBytes();
  await run(tasks);
  return heapBytes() - before;
}

async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "pool-memory-"));
  stops.push(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

it(`${tasks} batches through the encode pool leave the heap as it was`, async () => {
  const pool = await startEncodePool({
    threads: 1,
    objectStoreUri: pathToFileURL(await temporaryDirectory()).href,
    maxInflatedBytes: 1024,
    maxDepth: 10,
    compression: "none",
    batchBytes: 8 << 20,
    clock: systemClock,
    logger,
    metrics: createMetrics(),
  });
  stops.push(() => pool.stop());
  const buffer = new SharedArrayBuffer(1024);
  const code = requestCode(1, "protobuf", "identity");
  const empty = { buffer, offset: 0, length: 0, code, audience: "team-a", sinceMs: 0, answer: () => undefined };
  expect(await growth(() => pool.encode([empty], new Set(), false))).toBeLessThan(slackBytes);
}, 300_000);

it(`${tasks} calls through the admin pool leave the heap as it was`, async () => {
  const database = await createTestDatabase({ migrate: false });
  stops.push(() => database.drop());
  const pool = await startTestAdminPool(database.connectionString);
  stops.push(() => pool.stop());
  expect(await growth(() => pool.probe())).toBeLessThan(slackBytes);
}, 300_000);

it(`${tasks} questions to query engines leave the heap as it was`, async () => {
  const started = await startTestBackend();
  stops.push(() => started.stop());
  const context = { user: "ann", email: "", client: "", sql: "SELECT 1", sql_hash: "" };
  const ask = (): Promise<unknown> => started.backend.match([], context, new AbortController().signal);
  expect(await growth(ask)).toBeLessThan(slackBytes);
}, 300_000);
