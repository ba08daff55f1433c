/** Streams that are still being read when merging, an erasure and retention take their objects out of the lake. */
import { access } from "node:fs/promises";
import path from "node:path";

import { afterEach, beforeEach, expect, it } from "vitest";
import { connect, FlightSqlError, staticKey } from "telemetry-service-client";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { applyRetention } from "../../src/lake/retention/retention.js";
import { sweepRetired } from "../../src/lake/retire.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { type AnalyticsServer, startAnalyticsServer } from "../../src/servers/analytics.js";
import { createTappedLogger, recordOutput } from "../helpers/cleartext/cleartext-tap.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, taskContext } from "../helpers/lake/lake-tasks.js";

/** Together far more than is computed ahead of a reader, so most files are opened after the first batch was read. */
const objects = 30;
const rowsEach = 6000;
/** Wide rows: some megabytes of them are computed ahead of a reader, and others are on their way to him. */
const columns = [
  "severity_text AS id",
  "repeat(md5(severity_text), 12) AS text",
  ...Array.from({ length: 24 }, (_, i) => `epoch_ns(time) + ${i} AS t${i}`),
].join(", ");
const graceMs = 3_600_000;

let lab: MergeLab;
let server: AnalyticsServer;
let key: string;

beforeEach(async () => {
  lab = await startMergeLab();
  ({ key } = await mintAnalyticsKey(lab.sql, { name: "test", createdBy: "test" }));
  server = await startAnalyticsServer({
    config: parseConfig("analytics", [], {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
    }),
    connectionString: lab.connectionString,
    objectStoreUri: lab.lake.uri,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
  for (let i = 0; i < objects; i++) {
    await addAged(lab, {
      table: "log_entries",
      audience: "public",
      // A third is old, a third is to be erased, and the rest is merged.
      daysAgo: i % 3 === 0 ? [10, 10] : [0, 0],
      rowsSql: `SELECT make_timestamp_ns(${i * 1e9} + r) AS time, 'p' AS process_id,
        ${i % 3 === 1 ? "'gone'" : "'stays'"} AS service_name, CAST(${i * rowsEach} + r AS VARCHAR) AS severity_text
        FROM range(${rowsEach}) t(r)`,
    });
  }
});

afterEach(async () => {
  await server.stop();
  await lab.stop();
});

/** Reads a stream until `changes` are due, which is after its first batch, makes them, and reads on. */
async function read(changes: () => Promise<void>): Promise<string[]> {
  const client = connect({ uri: `grpc://127.0.0.1:${server.address.port}`, auth: staticKey(key) });
  const ids: string[] = [];
  try {
    const { batches } = await client.query(`SELECT ${columns} FROM log_entries`);
    let changed = false;
    for await (const batch of batches) {
      ids.push(...Array.from(batch.getChild("id") ?? [], String));
      if (!changed) {
        changed = true;
        await changes();
      }
    }
  } finally {
    client.close();
  }
  recordOutput("response", String(ids.length));
  return ids;
}

/** Nothing that stood in the catalogue stands there afterwards. */
async function replaceAll(): Promise<readonly string[]> {
  const before = await lab.sql<{ path: string }[]>`select path from lakehouse_partitions`;
  await applyRetention({
    sql: lab.sql,
    policy: { defaultDays: 1, unstampedAudience: "public", overrides: [] },
    objectsOnly: true,
    cancelled: () => false,
  });
  await runTask(taskContext(lab), await askErasure(lab, { audience: "public", where: { service: "gone" } }));
  await mergePartitions(lab.context, mergeAll);
  const after = await lab.sql<{ path: string; rows: number }[]>`
    select path, row_count::int as rows from lakehouse_partitions`;
  expect(after.map(({ rows }) => rows)).toEqual([(objects / 3) * rowsEach]);
  expect(before.map(({ path: one }) => one)).not.toContain(after[0]?.path);
  return before.map(({ path: one }) => one);
}

const sweep = (afterMs: number): Promise<unknown> => sweepRetired(lab.sql, lab.context.store, afterMs);

const isThere = (object: string): Promise<boolean> =>
  access(path.join(lab.lake.directory, object)).then(
    () => true,
    () => false,
  );

it("end with every row that there was when they began, once, and then the objects go", async () => {
  let replaced: readonly string[] = [];
  const ids = await read(async () => {
    replaced = await replaceAll();
    await sweep(graceMs);
    await sweepOrphans(lab.sql, lab.context.store, { nowMs: Date.now() + 2 * graceMs });
  });
  expect(ids).toHaveLength(objects * rowsEach);
  expect(new Set(ids).size).toBe(objects * rowsEach);
  expect(replaced).toHaveLength(objects);
  expect(await Promise.all(replaced.map(isThere))).toEqual(replaced.map(() => true));
  // A query that begins now sees what is left.
  expect(await read(() => Promise.resolve())).toHaveLength((objects / 3) * rowsEach);
  await sweep(0);
  expect(await Promise.all(replaced.map(isThere))).toEqual(replaced.map(() => false));
});

it("that outlast the grace period fail, and do not end as if they were whole", async () => {
  await expect(
    read(async () => {
      await replaceAll();
      await sweep(0);
    }),
  ).rejects.toThrow(FlightSqlError);
});
