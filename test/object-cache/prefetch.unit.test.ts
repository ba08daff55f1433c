/** What a prefetch says, and what becomes of it. */
import { randomBytes } from "node:crypto";

import { beforeEach, describe, expect, it } from "vitest";

import { blockBytes } from "../../src/object-cache/blocks.js";
import { ObjectCache } from "../../src/object-cache/object-cache.js";
import { createObjectCacheCounts, type ObjectCacheCounts } from "../../src/object-cache/object-cache-counts.js";
import { parsePrefetch, PrefetchQueue } from "../../src/object-cache/prefetch.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { type FakeOrigin, fakeOrigin } from "../helpers/object-cache/fake-origin.js";
import { until } from "../helpers/until.js";

describe("a body", () => {
  it("has a line for each object", () => {
    const body = '{"key":"a/x","size":10}\r\n\n{"key":"a/y","size":10,"ranges":[{"start":0,"length":4}]}\n';
    expect(parsePrefetch(Buffer.from(body))).toEqual([
      { key: "a/x", size: 10, ranges: null },
      { key: "a/y", size: 10, ranges: [{ start: 0, length: 4 }] },
    ]);
    expect(parsePrefetch(Buffer.alloc(0))).toEqual([]);
  });

  it.each([
    "x",
    "[]",
    "null",
    '{"key":"a"}',
    '{"key":1,"size":1}',
    '{"key":"a","size":-1}',
    '{"key":"a","size":1.5}',
    '{"key":"a","size":1e300}',
    '{"key":"a","size":"1"}',
    '{"key":"a","size":1,"range":[]}',
    '{"key":"a","size":1,"ranges":{}}',
    '{"key":"a","size":1,"ranges":[{"start":0,"length":2}]}',
    '{"key":"a","size":1,"ranges":[{"start":0,"length":0}]}',
    '{"key":"a","size":1,"ranges":[{"start":-1,"length":1}]}',
    '{"key":"a","size":1,"ranges":[[0,1]]}',
    `{"key":"a","size":9,"ranges":[${Array.from({ length: 101 }, () => '{"start":0,"length":1}').join(",")}]}`,
  ])("is refused for %s, and says which line", (line) => {
    const body = Buffer.from(`{"key":"a/x","size":10}\n${line}\n`);
    expect(() => parsePrefetch(body)).toThrow(expect.objectContaining({ code: "BAD_REQUEST" }) as Error);
    expect(() => parsePrefetch(body)).toThrow("line 2");
  });

  it("has so many lines at most, of UTF-8", () => {
    expect(() => parsePrefetch(Buffer.from("\n".repeat(10_001)))).toThrow(
      expect.objectContaining({ code: "PAYLOAD_TOO_LARGE" }) as Error,
    );
    expect(() => parsePrefetch(Buffer.from([0xff]))).toThrow("UTF-8");
  });
});

describe("the queue", () => {
  let origin: FakeOrigin;
  let metrics: Metrics;
  let counts: ObjectCacheCounts;
  let cache: ObjectCache;
  let queue: PrefetchQueue;

  beforeEach(async () => {
    origin = fakeOrigin();
    metrics = createMetrics();
    counts = createObjectCacheCounts(metrics);
    const logger = createTappedLogger();
    const memoryBytes = 32 * blockBytes;
    cache = await ObjectCache.open({
      origin,
      memoryBytes,
      disk: null,
      ttlMs: 1e9,
      monotonicMs: () => 0,
      counts,
      logger,
    });
    queue = new PrefetchQueue(cache, counts, logger);
  });

  const result = async (name: string): Promise<number> =>
    Number(
      new RegExp(`^object_cache_prefetches_total\\{result="${name}"\\} (\\d+)$`, "mu").exec(
        await metrics.text(),
      )?.[1] ?? 0,
    );

  it("fetches what is not there, ranges or whole, once", async () => {
    origin.objects.set("a/x", randomBytes(6 * blockBytes));
    origin.objects.set("a/y", randomBytes(3 * blockBytes));
    const ranges = [
      { start: 5, length: 1 },
      { start: 4 * blockBytes, length: 2 * blockBytes },
    ];
    queue.add({ key: "a/x", size: 6 * blockBytes, ranges });
    queue.add({ key: "a/y", size: 3 * blockBytes, ranges: null });
    queue.add({ key: "a/y", size: 3 * blockBytes, ranges: null });
    await until(async () => (await result("fetched")) === 3);
    expect(origin.asked.filter((asked) => asked.startsWith("read")).toSorted()).toEqual([
      `read a/x 0 ${blockBytes}`,
      `read a/x ${4 * blockBytes} ${2 * blockBytes}`,
      `read a/y 0 ${3 * blockBytes}`,
    ]);
  });

  it("counts what fails, and objects that have another size than was said", async () => {
    origin.objects.set("a/x", randomBytes(10));
    queue.add({ key: "a/x", size: 11, ranges: null });
    queue.add({ key: "a/gone", size: 11, ranges: null });
    await until(async () => (await result("other size")) === 1 && (await result("failed")) === 1);
    expect(cache.memoryBytes).toBe(0);
  });

  it("takes so many at most", async () => {
    let open: () => void = () => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    origin.before = () => opened;
    const taken = Array.from({ length: 10_005 }, (_, i) => queue.add({ key: `a/${i}`, size: 1, ranges: null }));
    // Two are being fetched, and the others wait.
    expect(taken.filter(Boolean)).toHaveLength(10_002);
    queue.stop();
    open();
    expect(queue.add({ key: "a/x", size: 1, ranges: null })).toBe(false);
    await until(async () => (await result("failed")) === 2);
  });
});
