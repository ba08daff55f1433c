/**
 * Reads of a bucket on a real server, through the object cache as a process of its own, while either of them fails.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { afterAll, afterEach, beforeAll, expect, it, describe } from "vitest";

import { createCacheClient } from "../../src/lake/cache-client/cache-client.js";
import { type CachedReads, createCachedReads } from "../../src/lake/cache-client/cached-reads.js";
import type { ByteRange, ObjectStore } from "../../src/lake/store/object-store.js";
import { withEndpoint } from "../../src/lake/store/s3-address.js";
import { openS3Store } from "../../src/lake/store/s3-store.js";
import { systemClock } from "../../src/runtime/clock.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { type FaultyBucket, startFaultyBucket } from "../helpers/lake/faulty-bucket.js";
import { findS3Server, s3Environment } from "../helpers/lake/s3-server.js";
import { cacheAnnouncement, cacheKey, metricOf } from "../helpers/object-cache/cache-world.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";
import { until } from "../helpers/until.js";
import { never } from "../helpers/never.js";

const program = await findS3Server();
const MiB = 1 << 20;
const key = "log_entries/audience=a/2026-11-22/x.l2.parquet";

describe.skipIf(program === null)("a bucket behind the object cache", () => {
  let bucket: FaultyBucket;
  let directory = "";
  let cache: ServerProcess;
  let store: ObjectStore;
  let reads: CachedReads;
  let metrics: Metrics;
  const content = randomBytes(7 * MiB + 11);

  const startCache = (): Promise<ServerProcess> =>
    startServerProcess(
      "object-cache-srv",
      {
        ...s3Environment,
        SVC_API_KEYS: JSON.stringify([{ name: "flight", key: cacheKey }]),
        SVC_OBJECT_CACHE_LISTEN: "127.0.0.1:0",
        SVC_OBJECT_STORE_URI: "s3://lake/deep",
        SVC_S3_ENDPOINT: bucket.proxy.endpoint,
        SVC_DATA_DIR: directory,
      },
      cacheAnnouncement,
    );
  const connect = async (url: string): Promise<void> => {
    metrics = createMetrics();
    const client = await createCacheClient(url, cacheKey, { connectMs: 500, firstByteMs: 2000, slowMs: 1000 });
    if (store.remote === null) {
      throw new TypeError("a store without a network");
    }
    const monotonicMs = (): number => systemClock.monotonicMs();
    reads = createCachedReads({ remote: store.remote, client, monotonicMs, logger: createTappedLogger(), metrics });
  };

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-s3-object-cache-"));
    bucket = await startFaultyBucket(program);
    store = await openS3Store(withEndpoint("s3://lake/deep", bucket.server.endpoint));
    await store.put(key, [content]);
    cache = await startCache();
    await connect(cache.url);
  });

  afterEach(() => {
    bucket.proxy.fault = () => null;
  });

  afterAll(async () => {
    await reads.stop();
    await cache.end("SIGKILL");
    await bucket.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const read = async (range: ByteRange | null, name = key, size?: number): Promise<Buffer> => {
    const parts: Buffer[] = [];
    const take = (bytes: Uint8Array): Promise<void> => {
      parts.push(Buffer.from(bytes));
      return Promise.resolve();
    };
    await reads.read(name, range, take, never, size);
    return Buffer.concat(parts);
  };
  const result = async (name: string): Promise<number> =>
    Number(
      new RegExp(`^object_cache_client_reads_total\\{result="${name}"\\} (\\d+)$`, "mu").exec(
        await metrics.text(),
      )?.[1] ?? 0,
    );
  const gets = (): number => bucket.proxy.requests.filter(({ method }) => method === "GET").length;

  it("is read once, in whole and in ranges", async () => {
    expect(
      (await read({ start: MiB - 3, length: 7 }, key, content.length)).equals(content.subarray(MiB - 3, MiB + 4)),
    ).toBe(true);
    expect(gets()).toBe(1);
    expect((await read(null, key, content.length)).equals(content)).toBe(true);
    const before = gets();
    expect((await read(null)).equals(content)).toBe(true);
    expect([gets(), await result("whole")]).toEqual([before, 3]);
    expect((await fetch(`${cache.url}/ready`)).status).toBe(200);
  });

  it("gives what it holds while it fails, and what it does not hold once it is well", async () => {
    await store.put("t/fresh", [content]);
    bucket.proxy.fault = () => ({ kind: "status", status: 503, code: "SlowDown" });
    // A good answer of before holds for some seconds.
    await until(async () => (await fetch(`${cache.url}/ready`)).status === 503);
    expect((await read(null)).equals(content)).toBe(true);
    // The bucket answers this process, though not the cache.
    expect((await read(null, "t/fresh", content.length)).equals(content)).toBe(true);
    expect(await result("failed")).toBe(1);
    bucket.proxy.fault = () => null;
    expect((await read(null, "t/fresh", content.length)).equals(content)).toBe(true);
    expect(await result("failed")).toBe(1);
  });

  it("is asked again where its answers break off", async () => {
    await store.put("t/cut", [content]);
    let cuts = 0;
    bucket.proxy.fault = (method) => (method === "GET" && cuts++ < 2 ? { kind: "cut body", bytes: 1_500_000 } : null);
    expect((await read(null, "t/cut", content.length)).equals(content)).toBe(true);
    expect(cuts).toBeGreaterThan(2);
    expect(await metricOf(cache.url, "object_cache_damaged_blocks_total")).toBe(0);
  });

  it("is read without the cache while it is slow, and through it when the cache has got it in the end", async () => {
    await store.put("t/slow", [content]);
    let letGo: () => void = () => undefined;
    const slow = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    bucket.proxy.fault = (method) => (method === "GET" ? { kind: "wait", until: slow } : null);
    const failed = await result("failed");
    expect((await read({ start: 0, length: MiB }, "t/slow", content.length)).equals(content.subarray(0, MiB))).toBe(
      true,
    );
    expect(await result("failed")).toBe(failed + 1);
    letGo();
    await until(async () => (await metricOf(cache.url, "object_cache_objects")) === 4);
    const before = bucket.proxy.requests.length;
    const whole = await result("whole");
    await until(async () => {
      expect((await read({ start: 5, length: 100 }, "t/slow")).equals(content.subarray(5, 105))).toBe(true);
      return (await result("whole")) > whole;
    });
    expect(bucket.proxy.requests.slice(before).filter(({ method }) => method === "GET")).toEqual([]);
  });

  it("has no such object for either", async () => {
    await expect(read(null, "t/none")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await result("declined")).toBe(1);
  });

  it("gives every byte while the cache is killed and started again", async () => {
    for (let i = 0; i < 4; i++) {
      const under = Array.from({ length: 6 }, () => read(null, key, content.length));
      await cache.end("SIGKILL");
      for (const bytes of await Promise.all(under)) {
        expect(bytes.equals(content)).toBe(true);
      }
      expect((await read({ start: 5, length: 3 * MiB })).equals(content.subarray(5, 5 + 3 * MiB))).toBe(true);
      cache = await startCache();
      await reads.stop();
      await connect(cache.url);
    }
    const before = gets();
    expect((await read(null, key, content.length)).equals(content)).toBe(true);
    expect([gets(), await result("whole")]).toEqual([before, 1]);
  });
});
