import { readdir, rm } from "node:fs/promises";

import { afterEach, beforeEach, expect, it } from "vitest";

import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { MergePool } from "../../src/workers/merge-client.js";
import { mergeAll, type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addPartition } from "../helpers/lake/lake.js";
import { ofThisDatabase } from "../helpers/postgres/locks.js";
import { until } from "../helpers/until.js";

let lab: MergeLab;
let pool: MergePool;
beforeEach(async () => {
  lab = await startMergeLab();
  pool = new MergePool({
    connectionString: lab.connectionString,
    objectStoreUri: lab.lake.uri,
    tempDirectory: lab.context.limits.tempDirectory,
    memoryLimitBytes: 512 << 20,
    maxTempBytes: 256 << 20,
    threads: 1,
    cpuPercent: null,
    logger: createSilentLogger(),
    metrics: createMetrics(),
  });
});
afterEach(async () => {
  await pool.stop();
  await lab.stop();
});

async function addLogs(rows: number): Promise<void> {
  await addPartition(lab.lake, lab.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql: `SELECT make_timestamp_ns(i) AS time, md5('m' || i) AS msg FROM range(${rows}) t(i)`,
  });
}

it("merges one call after the other, and keeps no session between them", async () => {
  await addLogs(10);
  const { signal } = new AbortController();
  const both = await Promise.all([pool.merge(mergeAll, signal), pool.merge(mergeAll, signal)]);
  expect(both.map((result) => result.length)).toEqual([2, 0]);
  await until(async () => {
    const sessions = await lab.sql`select from pg_stat_activity
      where application_name = 'telemetry-merge' and datname = current_database()`;
    return sessions.length === 0;
  });
});

it("gives up a running merge when it stops, and takes no other", async () => {
  await addLogs(1_000_000);
  const { signal } = new AbortController();
  const merging = pool.merge(mergeAll, signal).catch((error: unknown) => error);
  await until(async () => {
    const sessions =
      await lab.sql`select from pg_locks where locktype = 'advisory' and granted and ${ofThisDatabase(lab.sql)}`;
    return sessions.length > 0;
  });
  await pool.stop();
  expect(await merging).toMatchObject({ code: "CANCELLED" });
  await expect(pool.merge(mergeAll, signal)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  const left = await lab.sql`select level, row_count::int as rows from lakehouse_partitions`;
  expect(left).toEqual([{ level: 0, rows: 1_000_000 }]);
});

it("keeps its engine process for the next call, and ends it when it stops", async () => {
  const engines = (): Promise<string[]> => readdir(lab.context.limits.tempDirectory);
  const { signal } = new AbortController();
  await addLogs(10);
  await pool.merge(mergeAll, signal);
  const first = await engines();
  expect(first).toHaveLength(1);
  await addLogs(20);
  await pool.merge(mergeAll, signal);
  expect(await engines()).toEqual(first);
  await pool.stop();
  expect(await engines()).toEqual([]);
});

it("ends an engine process that nobody needs for a while, and starts another when its directory was removed", async () => {
  const engines = (): Promise<string[]> => readdir(lab.context.limits.tempDirectory);
  const { signal } = new AbortController();
  await addLogs(10);
  await pool.merge(mergeAll, signal);
  expect(await engines()).toHaveLength(1);
  await until(async () => (await engines()).length === 0);
  await rm(lab.context.limits.tempDirectory, { recursive: true });
  await addLogs(20);
  expect(await pool.merge(mergeAll, signal)).toHaveLength(2);
});
