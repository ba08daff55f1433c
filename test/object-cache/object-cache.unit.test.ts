/** Tiers, one fetch per block, and what leaves when. */
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { mkdtemp, readdir, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout } from "node:timers/promises";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { blockBytes } from "../../src/object-cache/blocks.js";
import { ObjectCache } from "../../src/object-cache/object-cache.js";
import { createObjectCacheCounts } from "../../src/object-cache/object-cache-counts.js";
import { DamagedObject } from "../../src/lake/store/object-store.js";
import { abortReason, ServiceError } from "../../src/runtime/errors.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { type FakeOrigin, fakeOrigin } from "../helpers/object-cache/fake-origin.js";
import { until } from "../helpers/until.js";
import { never } from "../helpers/never.js";

// Many read at once.
setMaxListeners(0, never);
const hour = 3_600_000;
let directory = "";
let origin: FakeOrigin;
let metrics: Metrics;
let cache: ObjectCache;
let nowMs = 0;

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-object-cache-"));
  origin = fakeOrigin();
  nowMs = 0;
  await open();
});

afterEach(async () => {
  await cache.stop();
  await rm(directory, { recursive: true, force: true });
});

async function open(o: { memory?: number; disk?: number | null } = {}): Promise<void> {
  metrics = createMetrics();
  const { memory = 64 * blockBytes, disk = 64 * blockBytes } = o;
  cache = await ObjectCache.open({
    origin,
    memoryBytes: memory,
    disk: disk === null ? null : { directory, maxBytes: disk },
    ttlMs: hour,
    monotonicMs: () => nowMs,
    counts: createObjectCacheCounts(metrics),
    logger: createTappedLogger(),
  });
}

/** As after the end of the process and a new start. */
async function restart(o: Parameters<typeof open>[0] = {}): Promise<void> {
  await cache.stop();
  await open(o);
}

function addObject(key: string, bytes: number): Buffer {
  const content = randomBytes(bytes);
  origin.objects.set(key, content);
  return content;
}

async function read(key: string, start = 0, end?: number, signal = never, caller = ""): Promise<Buffer> {
  const object = await cache.describe(key, signal);
  const parts: Uint8Array[] = [];
  for await (const part of cache.read(object, start, end ?? object.bytes, signal, caller)) {
    parts.push(Buffer.from(part));
  }
  return Buffer.concat(parts);
}

const reads = (): string[] => origin.asked.filter((asked) => asked.startsWith("read"));

const filesOf = async (): Promise<string[]> => {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
};

const metric = async (line: string): Promise<number> =>
  Number(
    (await metrics.text())
      .split("\n")
      .find((other) => other.startsWith(`${line} `))
      ?.slice(line.length),
  );

/** Holds requests to the origin back until they are let go. */
function gate(): () => void {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  origin.before = (asked) => (asked.startsWith("read") ? opened : Promise.resolve());
  return open;
}

describe("reading", () => {
  it("gives ranges of objects, and asks the origin once, for neighbours together", async () => {
    const content = addObject("a/x", 6 * blockBytes + 17);
    expect((await read("a/x")).equals(content)).toBe(true);
    expect(reads()).toEqual([`read a/x 0 ${4 * blockBytes}`, `read a/x ${4 * blockBytes} ${2 * blockBytes + 17}`]);
    for (const [start, end] of [
      [0, 1],
      [blockBytes - 1, blockBytes + 1],
      [5, 3 * blockBytes],
      [6 * blockBytes, content.length],
      [content.length - 1, content.length],
    ] as const) {
      expect((await read("a/x", start, end)).equals(content.subarray(start, end))).toBe(true);
    }
    expect(reads()).toHaveLength(2);
    expect(origin.asked.filter((asked) => asked === "size a/x")).toHaveLength(1);
    expect(await metric('object_cache_blocks_total{from="origin"}')).toBe(7);
  });

  it("fetches only blocks with wanted bytes", async () => {
    const content = addObject("a/x", 10 * blockBytes);
    const [start, end] = [2 * blockBytes + 5, 3 * blockBytes + 5];
    expect((await read("a/x", start, end)).equals(content.subarray(start, end))).toBe(true);
    expect(reads()).toEqual([`read a/x ${2 * blockBytes} ${2 * blockBytes}`]);
  });

  it.each([
    [0, 1],
    [4, 1],
    [16, 1],
    [64, 16],
    [64, 40],
  ])(
    "fetches hardly a block twice when memory has %i of them for %i readers, and no disk has one",
    async (blocks, readers) => {
      await cache.stop();
      await open({ memory: blocks * blockBytes, disk: null });
      const keys = Array.from({ length: readers }, (_, i) => `a/${i}`);
      const content = addObject("a/0", 12 * blockBytes);
      for (const key of keys) {
        origin.objects.set(key, content);
      }
      await Promise.all(
        keys.map(async (key) => {
          const object = await cache.describe(key, never);
          for await (const part of cache.read(object, 0, object.bytes, never)) {
            expect(part).toHaveLength(blockBytes);
            // Slower than the origin, which has the next ones ready long before.
            await setTimeout(5);
          }
        }),
      );
      const fetched = await metric('object_cache_blocks_total{from="origin"}');
      // Who begins alone has blocks ahead that some of those who come then push out.
      expect(fetched / (12 * readers)).toBeLessThan(1.2);
    },
  );

  it("gives objects without bytes", async () => {
    addObject("a/empty", 0);
    expect(await read("a/empty")).toHaveLength(0);
    expect(reads()).toEqual([]);
  });

  it("fetches a block once for many, of whom those who leave end nothing", async () => {
    const content = addObject("a/x", blockBytes);
    const letGo = gate();
    const leaving = new AbortController();
    const first = read("a/x", 0, 10, leaving.signal);
    const others = Array.from({ length: 50 }, (_, i) => read("a/x", i, i + 100));
    await until(() => reads().length === 1);
    leaving.abort();
    await expect(first).rejects.toMatchObject({ code: "CANCELLED" });
    letGo();
    for (const [i, other] of (await Promise.all(others)).entries()) {
      expect(other.equals(content.subarray(i, i + 100))).toBe(true);
    }
    expect(origin.asked).toHaveLength(2);
  });

  it("goes on fetching when all have left, and fails all who wait when the origin does", async () => {
    addObject("a/x", blockBytes);
    let letGo = gate();
    const leaving = new AbortController();
    const only = read("a/x", 0, 10, leaving.signal);
    await until(() => reads().length === 1);
    leaving.abort();
    await expect(only).rejects.toMatchObject({ code: "CANCELLED" });
    letGo();
    await until(() => cache.memoryBytes === blockBytes);
    addObject("a/y", blockBytes);
    origin.before = () => Promise.resolve();
    await cache.describe("a/y", never);
    letGo = () => undefined;
    origin.before = () => Promise.reject(new ServiceError("UNAVAILABLE", "down"));
    const failures = await Promise.allSettled([read("a/y"), read("a/y", 5, 6)]);
    expect(failures.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    origin.before = () => Promise.resolve();
    expect(await read("a/y")).toHaveLength(blockBytes);
  });

  it("does not fetch what all have left before its turn, and what somebody came back for", async () => {
    const keys = Array.from({ length: 60 }, (_, i) => `a/${i}`);
    const content = addObject("a/0", 3 * blockBytes);
    for (const key of keys) {
      origin.objects.set(key, content);
    }
    const letGo = gate();
    const leaving = new AbortController();
    setMaxListeners(0, leaving.signal);
    const gone = keys.map((key) => read(key, 0, content.length, leaving.signal).catch(() => null));
    await until(() => reads().length === 16);
    // The others have a place in the queue, too.
    await until(() => cache.objects === keys.length);
    leaving.abort();
    await Promise.all(gone);
    const back = read("a/50");
    const fresh = read("a/51", blockBytes, 2 * blockBytes);
    letGo();
    expect((await back).equals(content)).toBe(true);
    expect((await fresh).equals(content.subarray(blockBytes, 2 * blockBytes))).toBe(true);
    await until(() => cache.memoryBytes >= 18 * 3 * blockBytes);
    expect(reads()).toHaveLength(18);
    expect((await read("a/59")).equals(content)).toBe(true);
    expect(await metric("object_cache_origin_failures_total")).toBe(0);
  });

  it("looks for an object as long as one of those who asked is there, and anew for who comes then", async () => {
    addObject("a/x", 10);
    let ended = 0;
    origin.before = (_asked, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          ended++;
          reject(abortReason(signal));
        });
      });
    const [first, second] = [new AbortController(), new AbortController()];
    const both = [first, second].map(({ signal }) => read("a/x", 0, 10, signal));
    void Promise.allSettled(both);
    await until(() => origin.asked.length === 1);
    first.abort();
    await expect(both[0]).rejects.toMatchObject({ code: "CANCELLED" });
    expect(ended).toBe(0);
    second.abort();
    await expect(both[1]).rejects.toMatchObject({ code: "CANCELLED" });
    origin.before = () => Promise.resolve();
    expect(await read("a/x")).toHaveLength(10);
    expect(ended).toBe(1);
    expect(await metric("object_cache_origin_failures_total")).toBe(0);
  });

  it.each([
    ["another caller", "b", 2],
    ["the same caller, for a small one", "a", 1],
  ])("takes turns between many large objects and an object for %s", async (_name, caller, blocks) => {
    const large = randomBytes(2 * blockBytes);
    const keys = Array.from({ length: 100 }, (_, i) => `a/${i}`);
    for (const key of keys) {
      origin.objects.set(key, large);
    }
    addObject("b/x", blocks * blockBytes);
    const letGo: (() => void)[] = [];
    origin.before = (asked) =>
      asked.startsWith("read") ? new Promise((resolve) => letGo.push(resolve)) : Promise.resolve();
    const many = keys.map((key) => read(key, 0, large.length, never, "a"));
    await until(() => reads().length === 16);
    await until(() => cache.objects === keys.length);
    const one = read("b/x", 0, blocks * blockBytes, never, caller);
    await until(() => cache.objects === keys.length + 1);
    letGo[0]?.();
    letGo[1]?.();
    await until(() => reads().length === 18);
    expect(reads().slice(16)).toContain(`read b/x 0 ${blocks * blockBytes}`);
    origin.before = () => Promise.resolve();
    for (const go of letGo.splice(0)) {
      go();
    }
    expect(await one).toHaveLength(blocks * blockBytes);
    await Promise.all(many);
  });

  it("keeps nothing of an object that is gone, or shorter than it was", async () => {
    addObject("a/x", 2 * blockBytes);
    await read("a/x", 0, 10);
    await cache.idle();
    const object = await cache.describe("a/x", never);
    addObject("a/x", blockBytes + 5);
    const second = async (): Promise<void> => {
      for await (const _ of cache.read(object, blockBytes, 2 * blockBytes, never)) {
        // Nothing comes.
      }
    };
    await expect(second()).rejects.toBeInstanceOf(DamagedObject);
    expect([cache.objects, cache.memoryBytes, cache.diskBytes]).toEqual([0, 0, 0]);
    expect(await read("a/x")).toHaveLength(blockBytes + 5);
    origin.objects.delete("a/x");
    nowMs += hour;
    await expect(read("a/x")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect([cache.objects, cache.memoryBytes, cache.diskBytes]).toEqual([0, 0, 0]);
  });
});

describe("tiers", () => {
  it("stay below their bounds; what was read longest ago leaves first", async () => {
    await restart({ memory: 2 * blockBytes, disk: 4 * blockBytes });
    for (let i = 0; i < 6; i++) {
      addObject(`a/${i}`, blockBytes);
      await read(`a/${i}`);
      await read("a/0");
      await cache.idle();
    }
    expect([cache.memoryBytes, cache.diskBytes]).toEqual([2 * blockBytes, 4 * blockBytes]);
    await until(async () => (await filesOf()).length === 4);
    expect(cache.objects).toBeLessThanOrEqual(5);
    const before = reads().length;
    await read("a/5");
    await read("a/4");
    expect(reads()).toHaveLength(before);
    await read("a/1");
    expect(reads()).toHaveLength(before + 1);
    expect(await metric('object_cache_evicted_bytes_total{tier="disk"}')).toBeGreaterThanOrEqual(2 * blockBytes);
  });

  it("work without memory, and without a disk", async () => {
    const content = addObject("a/x", 3 * blockBytes);
    await restart({ memory: 0 });
    await read("a/x");
    await cache.idle();
    expect((await read("a/x")).equals(content)).toBe(true);
    expect([reads().length, cache.memoryBytes]).toEqual([1, 0]);
    await restart({ disk: null });
    expect((await read("a/x")).equals(content)).toBe(true);
    expect((await read("a/x")).equals(content)).toBe(true);
    expect([reads().length, cache.diskBytes]).toEqual([2, 0]);
    await restart({ memory: 0, disk: null });
    expect((await read("a/x")).equals(content)).toBe(true);
    expect([cache.diskBytes, cache.memoryBytes]).toEqual([0, 0]);
  });

  it("survive a restart without a question to the origin", async () => {
    const content = addObject("a/x", 6 * blockBytes);
    await read("a/x");
    origin.asked.length = 0;
    origin.before = () => Promise.reject(new ServiceError("UNAVAILABLE", "down"));
    await restart();
    expect((await read("a/x")).equals(content)).toBe(true);
    expect(origin.asked).toEqual([]);
    expect(await metric('object_cache_blocks_total{from="disk"}')).toBe(6);
    // A smaller disk keeps what fits.
    await restart({ disk: 2 * blockBytes });
    expect(cache.diskBytes).toBe(2 * blockBytes);
    await until(async () => (await filesOf()).length === 2);
  });

  it.each([
    ["cut short while nobody looked", (file: string) => truncate(file, 100), true],
    ["changed while nobody looked", (file: string) => writeFile(file, randomBytes(blockBytes)), true],
    ["cut short", (file: string) => truncate(file, 100), false],
    ["changed", (file: string) => writeFile(file, randomBytes(blockBytes)), false],
    ["gone", (file: string) => rm(file), false],
  ] as const)("fetch a block again whose file is %s", async (_name, damage, whileDown) => {
    const content = addObject("a/x", 2 * blockBytes);
    await read("a/x");
    await cache.idle();
    const [first = ""] = await filesOf();
    if (whileDown) {
      await damage(first);
      await restart();
    } else {
      await restart();
      await damage(first);
    }
    expect((await read("a/x")).equals(content)).toBe(true);
    expect(reads()).toHaveLength(2);
    await cache.idle();
    await restart();
    expect((await read("a/x")).equals(content)).toBe(true);
    expect(reads()).toHaveLength(2);
  });

  it("remove at a start what no block is", async () => {
    addObject("a/x", 10);
    await read("a/x");
    await cache.idle();
    const [file = ""] = await filesOf();
    for (const name of [".0011223344556677.tmp", "notes.txt", `${path.basename(file)}.1`]) {
      await writeFile(path.join(path.dirname(file), name), "x");
    }
    await restart();
    expect(await filesOf()).toEqual([file]);
  });

  it("answer while the disk cannot be written", async () => {
    await rm(directory, { recursive: true });
    await writeFile(directory, "a file where a directory should be");
    const content = addObject("a/x", 2 * blockBytes);
    expect((await read("a/x")).equals(content)).toBe(true);
    await cache.idle();
    expect(await metric("object_cache_unwritten_blocks_total")).toBeGreaterThan(0);
    expect((await read("a/x")).equals(content)).toBe(true);
    expect(cache.diskBytes).toBe(0);
  });
});

describe("what was removed from the store", () => {
  it("leaves at the end of its time, whether anybody asks or not", async () => {
    addObject("a/x", blockBytes);
    addObject("a/y", blockBytes);
    await read("a/x");
    await read("a/y");
    await cache.idle();
    origin.objects.clear();
    nowMs = hour - 1;
    cache.sweep();
    expect(cache.objects).toBe(2);
    nowMs = hour;
    await expect(read("a/x")).rejects.toMatchObject({ code: "NOT_FOUND" });
    cache.sweep();
    expect([cache.objects, cache.memoryBytes, cache.diskBytes]).toEqual([0, 0, 0]);
    await until(async () => (await filesOf()).length === 0);
  });

  it("is looked for before its time is over when somebody asks, and stays when it is there", async () => {
    addObject("a/x", blockBytes);
    await read("a/x");
    nowMs = hour * 0.8;
    await read("a/x");
    await until(() => origin.asked.filter((asked) => asked === "size a/x").length === 2);
    nowMs = hour * 1.5;
    cache.sweep();
    expect(await read("a/x")).toHaveLength(blockBytes);
    expect(reads()).toHaveLength(1);
  });

  /** The file of one of two objects on the disk. */
  const oneOfTwoFiles = async (): Promise<string> => {
    addObject("a/x", blockBytes);
    addObject("a/y", blockBytes);
    await read("a/x");
    await read("a/y");
    await cache.idle();
    const [file = ""] = await filesOf();
    return file;
  };

  it("leaves within its time while the origin cannot be asked", async () => {
    addObject("a/x", blockBytes);
    await read("a/x");
    origin.before = () => Promise.reject(new ServiceError("UNAVAILABLE", "down"));
    nowMs = hour;
    await expect(read("a/x")).rejects.toMatchObject({ code: "UNAVAILABLE" });
    cache.sweep();
    expect(cache.memoryBytes).toBe(0);
  });

  it("is not kept when its time lies ahead, since nobody knows how old it is", async () => {
    const file = await oneOfTwoFiles();
    const aheadMs = (Date.now() + 48 * hour) / 1000;
    await utimes(file, aheadMs, aheadMs);
    await restart();
    expect(cache.objects).toBe(1);
    expect(await filesOf()).toHaveLength(1);
  });

  it("does not get older by a restart, nor younger", async () => {
    const file = await oneOfTwoFiles();
    const beforeMs = (Date.now() - 0.9 * hour) / 1000;
    await utimes(file, beforeMs, beforeMs);
    await restart();
    nowMs += 0.2 * hour;
    cache.sweep();
    expect(cache.objects).toBe(1);
    nowMs += 0.9 * hour;
    cache.sweep();
    expect(cache.objects).toBe(0);
  });
});
