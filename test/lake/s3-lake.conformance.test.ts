/** Merging, erasing, checking and reading a lake in a bucket, part by part. */
import { randomBytes } from "node:crypto";
import { appendFile, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import path from "node:path";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { BadObjects } from "../../src/lake/bad-objects.js";
import { type CachedFiles, openCachedFiles } from "../../src/lake/cache/cached-files.js";
import { findPartitions } from "../../src/lake/catalogue.js";
import { checkLake } from "../../src/lake/check/check-lake.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { sweepRetired } from "../../src/lake/retire.js";
import type { ObjectStore, RemoteObjects } from "../../src/lake/store/object-store.js";
import { partBytes } from "../../src/lake/store/s3-put.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { type BucketLab, startBucketLab } from "../helpers/lake/bucket-lab.js";
import { mergeAll } from "../helpers/lake/lake-merge.js";
import { askErasure, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";
import { type FaultyBucket, startFaultyBucket } from "../helpers/lake/faulty-bucket.js";
import { findS3Server } from "../helpers/lake/s3-server.js";
import { never } from "../helpers/never.js";

const program = await findS3Server();
async function flipByte(file: string, at: number): Promise<void> {
  const bytes = await readFile(file);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 0xff, at);
  await writeFile(file, bytes);
}
const minuteNs = 60_000_000_000n;

describe.skipIf(program === null)("a lake in a bucket", () => {
  let bucket: FaultyBucket;
  let lab: BucketLab;
  let files: CachedFiles;
  let store: ObjectStore;
  let remote: RemoteObjects;
  let directory = "";
  let prefixes = 0;
  let prefix = "";

  beforeAll(async () => {
    bucket = await startFaultyBucket(program);
  });

  afterAll(async () => {
    await bucket.stop();
  });

  beforeEach(async () => {
    prefix = `lake-${prefixes++}`;
    lab = await startBucketLab(bucket.proxy.endpoint, prefix);
    ({ store, remote, files, directory } = lab);
  });

  afterEach(async () => {
    bucket.proxy.fault = () => null;
    await lab.stop();
  });

  /** Adds an object of log records of `service` to the bucket. */
  const addLogs = async (first: number, count: number, service = "shop"): Promise<string> => {
    const rowsSql = `SELECT make_timestamp_ns(i * 100000000) AS time, 'message ' || i AS msg, md5(i::VARCHAR) AS trace_id,
      '${service}' AS service_name, '{"a": "' || md5((i * 7)::VARCHAR) || md5((i * 11)::VARCHAR) || '"}' AS properties
      FROM range(${first}, ${first + count}) AS r(i)`;
    return lab.add({ table: "log_entries", audience: "a", rowsSql });
  };
  /** Rows in a range of time as a query reads them. */
  const readRange = async (minTimeNs?: bigint, maxTimeNs?: bigint): Promise<Record<string, unknown>> => {
    const wanted = { minTimeNs, maxTimeNs };
    const found = await findPartitions(lab.sql, { viewSet: "log_entries", audiences: { kind: "all" }, ...wanted });
    const objects = found.map((partition) => ({ ...partition, wanted }));
    const held = await files.hold(objects, never);
    const list = objects.flatMap((object) => held.fileOf(object) ?? []).map((file) => `'${file}'`);
    const where = [
      ...(minTimeNs === undefined ? [] : [`time >= make_timestamp_ns(${minTimeNs})`]),
      ...(maxTimeNs === undefined ? [] : [`time <= make_timestamp_ns(${maxTimeNs})`]),
    ];
    const [row] = await lab.duck(
      `SELECT count(*)::INT AS rows, count(DISTINCT msg)::INT AS different FROM read_parquet([${list.join(", ")}], hive_partitioning = false)
       WHERE ${where.length === 0 ? "true" : where.join(" AND ")}`,
    );
    held.release(false);
    return row ?? {};
  };
  const objectsInBucket = async (): Promise<string[]> => {
    const names = await readdir(path.join(bucket.server.directory, "lake", prefix), { recursive: true });
    return names.filter((name) => name.endsWith(".parquet"));
  };

  it("merges through its temporary directory, and leaves nothing there", async () => {
    for (let i = 0; i < 5; i++) {
      await addLogs(i * 100, 100);
    }
    const made = await mergePartitions(lab.context, mergeAll);
    expect(made.filter(({ action }) => action === "created")).toHaveLength(1);
    expect(await readRange()).toEqual({ rows: 500, different: 500 });
    const left = await readdir(lab.context.root, { recursive: true, withFileTypes: true });
    expect(left.filter((entry) => entry.isFile())).toEqual([]);
    expect(await objectsInBucket()).toHaveLength(6);
    await lab.sql`update retired_objects set retired_at = now() - interval '61 minutes'`;
    await sweepRetired(lab.sql, store, 3_600_000);
    expect(await objectsInBucket()).toHaveLength(1);
    expect(await readRange()).toEqual({ rows: 500, different: 500 });
  });

  it("changes nothing when a merge cannot write its result, and merges later", async () => {
    for (let i = 0; i < 4; i++) {
      await addLogs(i * 100, 100);
    }
    bucket.proxy.fault = (method) => (method === "PUT" ? { kind: "status", status: 503, code: "SlowDown" } : null);
    await expect(mergePartitions(lab.context, mergeAll)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bucket.proxy.fault = () => null;
    expect(await readRange()).toEqual({ rows: 400, different: 400 });
    await mergePartitions(lab.context, mergeAll);
    expect(await readRange()).toEqual({ rows: 400, different: 400 });
  });

  it("sweeps what was never published", async () => {
    const published = await addLogs(0, 10);
    await store.put("log_entries/audience=a/2026-01-01/never.l0.parquet", [Buffer.from("x")]);
    const nowMs = Date.now();
    expect(await sweepOrphans(lab.sql, store, { nowMs })).toMatchObject({ removedObjects: 0 });
    expect(await sweepOrphans(lab.sql, store, { nowMs: nowMs + 3_700_000 })).toMatchObject({ removedObjects: 1 });
    expect(await objectsInBucket()).toEqual([published]);
  });

  it("erases", async () => {
    await addLogs(0, 50, "shop");
    await addLogs(50, 50, "other");
    const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
    await runTask(taskContext(lab), taskId);
    expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 50, error: null });
    expect(await readRange()).toEqual({ rows: 50, different: 50 });
  });

  it.each([
    ["missing", (file: string) => rm(file)],
    ["truncated", (file: string) => truncate(file, 1000)],
    ["longer", (file: string) => appendFile(file, "x")],
    ["different in a byte", (file: string) => flipByte(file, 100)],
  ])("erases everything but an object that is %s, and says which; a check ends", async (_what, spoil) => {
    await addLogs(0, 50, "shop");
    const spoilt = await addLogs(50, 50, "shop");
    await spoil(path.join(bucket.server.directory, "lake", prefix, spoilt));
    const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
    await expect(runTask(taskContext(lab), taskId)).rejects.toBeInstanceOf(BadObjects);
    expect(await taskRow(lab, taskId)).toMatchObject({
      state: "failed",
      rows: 50,
      error: expect.stringContaining(`missing or damaged: ${spoilt}. Restore it`) as string,
    });
    const { problems } = await checkLake(taskContext(lab), { repair: false, deep: true });
    expect(new Set(problems.map((problem) => problem.path))).toEqual(new Set([spoilt]));
  });

  it("checks, and takes neither an outage nor a list that lags for a loss", async () => {
    const objects = [await addLogs(0, 5000), await addLogs(5000, 5000), await addLogs(10_000, 5000)];
    const check = (deep: boolean) => checkLake(taskContext(lab), { repair: true, deep });
    for (const deep of [false, true]) {
      expect((await check(deep)).problems).toEqual([]);
      bucket.proxy.fault = (method, url) =>
        method === "GET" && url.pathname.endsWith(".parquet")
          ? { kind: "status", status: 503, code: "SlowDown" }
          : null;
      await expect(check(deep)).rejects.toMatchObject({ code: "UNAVAILABLE" });
      bucket.proxy.fault = (_method, url) =>
        url.searchParams.get("prefix")?.includes("log_entries") === true ? { kind: "empty list" } : null;
      expect((await check(deep)).problems).toEqual([]);
      bucket.proxy.fault = () => null;
    }
    const damaged = path.join(bucket.server.directory, "lake", prefix, objects[1] ?? "");
    const bytes = await readFile(damaged);
    bytes.fill(0, 1000, bytes.length - 3000);
    await writeFile(damaged, bytes);
    await rm(path.join(bucket.server.directory, "lake", prefix, objects[2] ?? ""));
    const report = await check(true);
    expect(new Map(report.problems.map(({ kind, path: object }) => [kind, object]))).toEqual(
      new Map([
        ["unreadable", objects[1]],
        ["missing", objects[2]],
      ]),
    );
    expect(await readRange()).toEqual({ rows: 5000, different: 5000 });
  }, 180_000);

  it("reads the row groups of a minute out of a large object, and those only once", async () => {
    for (let i = 0; i < 4; i++) {
      await addLogs(i * 125_000, 125_000);
    }
    // 500,000 records, ten a second: some fourteen hours.
    // Enough memory for one object.
    const roomy = lab.limited({ memoryLimitBytes: 2 ** 30 });
    const [large] = (await mergePartitions(roomy, { ...mergeAll, widthSeconds: 86_400 })).filter(
      ({ action }) => action === "created",
    );
    expect(large?.rowCount).toBe(500_000);
    const begin = 300n * minuteNs;
    bucket.proxy.bytesOut = 0;
    expect(await readRange(begin, begin + minuteNs - 1n)).toEqual({ rows: 600, different: 600 });
    const cold = bucket.proxy.bytesOut;
    process.stdout.write(`one minute of ${large?.fileBytes} bytes: ${cold} bytes read\n`);
    expect(cold).toBeLessThan((large?.fileBytes ?? 0) / 3);
    expect(await readRange(begin + minuteNs, begin + 2n * minuteNs - 1n)).toEqual({ rows: 600, different: 600 });
    expect(bucket.proxy.bytesOut).toBe(cold);
    expect(await readRange(begin * 2n, begin * 2n + minuteNs - 1n)).toEqual({ rows: 600, different: 600 });
    expect(bucket.proxy.bytesOut).toBeLessThan(cold * 2);
    expect(await readRange()).toEqual({ rows: 500_000, different: 500_000 });
  }, 180_000);

  it("does not share the directory of its cache", async () => {
    const options = { remote, maxBytes: null, logger: createTappedLogger(), metrics: createMetrics() };
    await expect(openCachedFiles({ ...options, directory: path.join(directory, "cache") })).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("SVC_LAKE_CACHE_DIR") as string,
    });
  });

  it("stores objects that come in parts, and leaves nothing of those that end too early", async () => {
    const bytes = randomBytes(partBytes * 2 + 5);
    async function* parts(fails: boolean): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < bytes.length; at += 1_000_000) {
        yield await Promise.resolve(bytes.subarray(at, at + 1_000_000));
      }
      if (fails) {
        throw new RangeError("it ends too early");
      }
    }
    await expect(store.putParts("web/maps/a.glb", parts(true))).rejects.toThrow("it ends too early");
    await expect(remote.read("web/maps/a.glb", null, () => Promise.resolve(), never)).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    expect(await store.putParts("web/maps/a.glb", parts(false))).toBe(bytes.length);
    expect((await readFile(path.join(bucket.server.directory, "lake", prefix, "web/maps/a.glb"))).equals(bytes)).toBe(
      true,
    );
  });
});
