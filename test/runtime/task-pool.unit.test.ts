import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { afterEach, describe, expect, test } from "vitest";

import { createSilentLogger } from "../../src/runtime/log/log.js";
import { type Metrics, createMetrics } from "../../src/runtime/metrics.js";
import { TaskPool, type TaskPoolOptions } from "../../src/runtime/threads/task-pool.js";
import { ThreadDiedError } from "../../src/runtime/threads/task-thread.js";
import { heapBytes } from "../helpers/heap.js";
import type { TestApi, TestSettings, TestThread } from "../helpers/runtime-task-thread.js";
import { withoutThreads } from "../helpers/no-threads.js";
import { until } from "../helpers/until.js";

type TestPool = TaskPool<TestApi>;

const cleanups: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (let next = cleanups.pop(); next !== undefined; next = cleanups.pop()) {
    await next();
  }
});

async function createPool(o?: Partial<TaskPoolOptions<TestSettings>>, metrics?: Metrics): Promise<TestPool> {
  const pool = await TaskPool.create<TestThread>({
    name: "test",
    entry: new URL("../helpers/runtime-task-thread.js", import.meta.url),
    threads: 1,
    settings: {},
    logger: createSilentLogger(),
    metrics: metrics ?? createMetrics(),
    stopGraceMs: 0,
    ...o,
  });
  cleanups.push(() => pool.stop());
  return pool;
}

function word(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4));
}

/** Resolves when a thread has set the word. */
async function isSet(shared: Int32Array): Promise<void> {
  await until(() => Atomics.load(shared, 0) !== 0);
}

function open(gate: Int32Array): void {
  Atomics.store(gate, 0, 1);
  Atomics.notify(gate, 0);
}

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "task-pool-"));
  cleanups.push(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

describe("results and errors", () => {
  test("a task is answered with what its handler returns, and threads know the pool's data", async () => {
    const pool = await createPool({ threads: 2, settings: { value: { city: "Oslo" } } });
    const sums = await Promise.all(Array.from({ length: 100 }, (_, i) => pool.run("add", { a: i, b: 1 })));
    expect(sums).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
    expect(await pool.run("settings", undefined)).toEqual({ value: { city: "Oslo" } });
  });

  test("an error of the catalogue keeps its code, retry time and cause across the thread", async () => {
    const pool = await createPool();
    await expect(pool.run("failKnown", undefined)).rejects.toMatchObject({
      name: "ServiceError",
      code: "CONFLICT",
      message: "it exists already",
      retryAfterSeconds: 7,
      cause: { name: "RangeError", message: "inner" },
    });
  });

  test("any other error is INTERNAL with the original as its cause, and the thread goes on", async () => {
    const pool = await createPool();
    await expect(pool.run("failUnknown", undefined)).rejects.toMatchObject({
      code: "INTERNAL",
      publicMessage: "internal error",
      cause: { name: "SyntaxError", message: "unexpected thing" },
    });
    expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
  });

  test("an argument that cannot be sent is INTERNAL and hurts nobody else", async () => {
    const pool = await createPool();
    const bytes = ((): void => undefined) as unknown as Uint8Array;
    await expect(pool.run("firstByte", bytes)).rejects.toMatchObject({ code: "INTERNAL" });
    expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
  });

  test("listed buffers are moved, not copied, to the thread; bytes come back", async () => {
    const pool = await createPool();
    const bytes = new Uint8Array([9, 8]);
    expect(await pool.run("firstByte", bytes, { transfer: [bytes.buffer] })).toBe(9);
    expect(bytes.byteLength).toBe(0);
    expect(await pool.run("makeBytes", 5)).toEqual(new Uint8Array(5).fill(1));
  });

  test("one thread runs several tasks at a time when it is told to", async () => {
    const pool = await createPool({ concurrentTasksPerWorker: 3 });
    const barrier = word();
    const parties = Array.from({ length: 3 }, () => pool.run("meet", { barrier, parties: 3 }));
    expect(await Promise.all(parties)).toEqual(["met", "met", "met"]);
  });
});

describe("the queue", () => {
  test("has a bound: beyond it a task is OVERLOADED, and counts are kept", async () => {
    const metrics = createMetrics();
    const pool = await createPool({ maxQueue: 2 }, metrics);
    const started = word();
    const gate = word();
    const held = pool.run("hold", { started, gate });
    await isSet(started);
    const waiting = [pool.run("add", { a: 1, b: 1 }), pool.run("add", { a: 2, b: 2 })];
    expect([pool.running, pool.queued]).toEqual([1, 2]);
    await expect(pool.run("add", { a: 3, b: 3 })).rejects.toMatchObject({
      code: "OVERLOADED",
      retryAfterSeconds: 1,
    });
    expect(await metrics.text()).toContain('task_pool_waiting{pool="test"} 2');
    open(gate);
    expect(await held).toBe("released");
    expect(await Promise.all(waiting)).toEqual([2, 4]);
    expect([pool.running, pool.queued]).toEqual([0, 0]);
    expect(await metrics.text()).toContain('task_pool_run_seconds_count{pool="test"} 3');
  });
});

describe("cancellation", () => {
  test("a task that waits is removed and never runs", async () => {
    const pool = await createPool();
    const started = word();
    const gate = word();
    const neverStarted = word();
    const held = pool.run("hold", { started, gate });
    await isSet(started);
    const controller = new AbortController();
    const waiting = pool.run("spinUntilCancelled", neverStarted, { signal: controller.signal });
    controller.abort(new Error("the client left"));
    await expect(waiting).rejects.toMatchObject({
      code: "CANCELLED",
      cause: { message: "the client left" },
    });
    expect(pool.queued).toBe(0);
    open(gate);
    await held;
    expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
    expect(Atomics.load(neverStarted, 0)).toBe(0);
  });

  test("a signal that has fired already rejects without a thread", async () => {
    const pool = await createPool();
    await expect(pool.run("add", { a: 1, b: 1 }, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "CANCELLED",
    });
  });

  test("a handler that asks ends itself, and its thread lives on", async () => {
    const metrics = createMetrics();
    const pool = await createPool({ cancelGraceMs: 60_000 }, metrics);
    const started = word();
    const controller = new AbortController();
    const task = pool.run("spinUntilCancelled", started, { signal: controller.signal });
    await isSet(started);
    controller.abort();
    await expect(task).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
    expect(await metrics.text()).not.toMatch(/task_pool_thread_deaths_total\{.*\} [1-9]/);
    // The next task in its place is not cancelled with it.
    expect(await pool.run("isCancelled", undefined)).toBe(false);
  });

  test("a handler that does not ask loses its thread, which is replaced", async () => {
    const metrics = createMetrics();
    const pool = await createPool({ cancelGraceMs: 1 }, metrics);
    const started = word();
    const controller = new AbortController();
    const task = pool.run("spinForever", started, { signal: controller.signal });
    await isSet(started);
    controller.abort();
    await expect(task).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
    expect(await metrics.text()).toContain('task_pool_thread_deaths_total{pool="test"} 1');
    expect(pool.healthy).toBe(true);
  });
});

describe("threads that die", () => {
  const deaths = ["exit", "throwLater", "exhaustHeap", "uncloneableAnswer"] as const;

  test.each(deaths)("%s: the task is UNAVAILABLE, the thread is replaced", async (how) => {
    const pool = await createPool({
      resourceLimits: { maxOldGenerationSizeMb: 24, maxYoungGenerationSizeMb: 8 },
    });
    for (let round = 0; round < 2; round++) {
      const error: unknown = await pool.run(how, undefined).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(ThreadDiedError);
      expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: true });
      expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
    }
    expect(pool.healthy).toBe(true);
  });

  test("tasks that wait and tasks on other threads are not touched", async () => {
    const pool = await createPool({ threads: 2 });
    const started = word();
    const gate = word();
    const held = pool.run("hold", { started, gate });
    await isSet(started);
    const dying = pool.run("exit", undefined);
    const waiting = pool.run("add", { a: 1, b: 1 });
    await expect(dying).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(await waiting).toBe(2);
    open(gate);
    expect(await held).toBe("released");
  });

  test("a thread that cannot be replaced makes the pool unhealthy until it can be", async () => {
    const poison = join(temporaryDirectory(), "poison");
    const pool = await createPool({ settings: { poison }, maxStartFailures: 2 });
    writeFileSync(poison, "");
    await expect(pool.run("exit", undefined)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    // Waits for the replacement, and is let go when there is none.
    await expect(pool.run("add", { a: 1, b: 1 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    expect(pool.healthy).toBe(false);
    await expect(pool.run("add", { a: 1, b: 1 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    rmSync(poison);
    await until(() => pool.healthy);
    expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
  });

  test("a thread is replaced when the system gives threads again", async () => {
    const pool = await createPool({ maxStartFailures: 2 });
    await withoutThreads(async () => {
      await expect(pool.run("exit", undefined)).rejects.toMatchObject({ code: "UNAVAILABLE" });
      await until(() => !pool.healthy);
    });
    await until(() => pool.healthy);
    expect(await pool.run("add", { a: 1, b: 1 })).toBe(2);
  });
});

describe("life", () => {
  test("one thread has loaded its entry when the pool is created, and another does when a task finds none free", async () => {
    const loaded = join(temporaryDirectory(), "loaded");
    const pool = await createPool({ threads: 2, settings: { loaded } });
    expect(readFileSync(loaded, "utf8")).toBe("x");
    const gate = word();
    const held = [word(), word()].map((started) => pool.run("hold", { started, gate }));
    await until(() => pool.running === 2);
    const third = pool.run("add", { a: 1, b: 1 });
    open(gate);
    expect(await Promise.all([...held, third])).toEqual(["released", "released", 2]);
    expect(readFileSync(loaded, "utf8")).toBe("xx");
  });

  test("a further thread that cannot be started makes the pool unhealthy until it can be, and keeps no task", async () => {
    const poison = join(temporaryDirectory(), "poison");
    const pool = await createPool({ threads: 2, settings: { poison }, maxStartFailures: 2 });
    writeFileSync(poison, "");
    const gate = word();
    const held = pool.run("hold", { started: word(), gate });
    const waiting = pool.run("add", { a: 1, b: 1 });
    await until(() => !pool.healthy);
    open(gate);
    expect(await Promise.all([held, waiting])).toEqual(["released", 2]);
    rmSync(poison);
    await until(() => pool.healthy);
  });

  test("a thread loads that part of piscina alone that runs it", async () => {
    const pool = await createPool();
    const files = (await pool.run("loadedFiles", undefined)).filter((file) => file.includes("/piscina/"));
    expect(files.map((file) => basename(file)).toSorted()).toEqual(["common.js", "symbols.js", "worker.js"]);
  });

  test("a pool whose entry cannot be loaded is refused with the reason", async () => {
    const poison = join(temporaryDirectory(), "poison");
    writeFileSync(poison, "");
    await expect(createPool({ threads: 2, settings: { poison } })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/^the threads of .* cannot be started: .*poisoned/u) as string,
      cause: { message: expect.stringContaining("poisoned") as string },
    });
    await expect(createPool({ entry: new URL("./no-such-file.js", import.meta.url) })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
  });

  test("stop lets running and waiting tasks finish, and refuses new ones", async () => {
    const pool = await createPool({ stopGraceMs: 60_000 });
    const started = word();
    const gate = word();
    const held = pool.run("hold", { started, gate });
    const waiting = pool.run("add", { a: 1, b: 1 });
    await isSet(started);
    const stopped = pool.stop();
    await expect(pool.run("add", { a: 1, b: 1 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    open(gate);
    expect(await Promise.all([held, waiting])).toEqual(["released", 2]);
    await stopped;
  });

  test("stop ends threads whose tasks do not, and rejects those tasks", async () => {
    const pool = await createPool({ stopGraceMs: 1 });
    const started = word();
    const stuck = pool.run("spinForever", started);
    const waiting = pool.run("add", { a: 1, b: 1 });
    const outcomes = Promise.allSettled([stuck, waiting]);
    await isSet(started);
    await pool.stop();
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "UNAVAILABLE" } });
      expect(outcome).not.toMatchObject({ reason: expect.any(ThreadDiedError) as unknown });
    }
  });
});

describe("memory", () => {
  test("is not kept for tasks that have ended", async () => {
    const pool = await createPool({});
    const run = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        await pool.run("add", { a: i, b: 1 });
      }
    };
    await run(3000);
    const before = heapBytes();
    await run(10_000);
    // 100 bytes for each would be a leak; what V8 keeps of its own is not for each.
    expect(heapBytes() - before).toBeLessThan(1_000_000);
  });
});
