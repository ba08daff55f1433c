/** A thread entry for the tests of the task pool: every way a task can end. */

import { existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

import { ServiceError } from "../../src/runtime/errors.js";
import { serveTasks } from "../../src/runtime/threads/task-worker.js";

/** What the tests ask of the thread. */
export interface TestApi {
  add(numbers: { readonly a: number; readonly b: number }): Promise<number>;
  settings(): Promise<TestSettings>;
  /** Files of CommonJS packages that the thread has loaded. */
  loadedFiles(): Promise<readonly string[]>;
  isCancelled(): Promise<boolean>;
  failKnown(): Promise<void>;
  failUnknown(): Promise<void>;
  exit(): Promise<void>;
  throwLater(): Promise<void>;
  exhaustHeap(): Promise<void>;
  uncloneableAnswer(): Promise<unknown>;
  spinUntilCancelled(started: Int32Array): Promise<void>;
  spinForever(started: Int32Array): Promise<void>;
  meet(o: { readonly barrier: Int32Array; readonly parties: number }): Promise<string>;
  hold(o: { readonly started: Int32Array; readonly gate: Int32Array }): Promise<string>;
  makeBytes(length: number): Promise<Uint8Array>;
  firstByte(bytes: Uint8Array): Promise<number>;
}

/** How the tests open it. */
export interface TestSettings {
  /** A file whose existence keeps the thread from starting. */
  readonly poison?: string;
  readonly value?: unknown;
  /** Where the thread writes that it was opened. */
  readonly loaded?: string;
}

/** Both. */
export interface TestThread {
  readonly settings: TestSettings;
  readonly methods: TestApi;
}

/** Marks the start for the test, which waits on it. */
function announce(started: Int32Array): void {
  Atomics.store(started, 0, 1);
  Atomics.notify(started, 0);
}

export default await serveTasks<TestThread>((settings) => {
  if (settings.loaded !== undefined) {
    writeFileSync(settings.loaded, "x", { flag: "a" });
  }
  if (settings.poison !== undefined && existsSync(settings.poison)) {
    throw new Error("poisoned");
  }
  return {
    add: ({ a, b }) => a + b,
    settings: () => settings,
    loadedFiles: () => Object.keys(createRequire(import.meta.url).cache),
    isCancelled: (_, { cancelled }) => cancelled(),
    failKnown: () => {
      throw new ServiceError("CONFLICT", "it exists already", {
        cause: new RangeError("inner"),
        retryAfterSeconds: 7,
      });
    },
    failUnknown: () => {
      throw new SyntaxError("unexpected thing");
    },
    exit: () => {
      // oxlint-disable-next-line unicorn/no-process-exit -- how a thread ends that a library kills
      process.exit(3);
    },
    throwLater: () => {
      setTimeout(() => {
        throw new Error("uncaught");
      }, 0);
      return new Promise(() => undefined);
    },
    exhaustHeap: () => {
      const hoard: number[][] = [];
      for (;;) {
        hoard.push(Array.from({ length: 10_000 }, (_, i) => i + Math.random()));
      }
    },
    uncloneableAnswer: () => () => undefined,
    spinUntilCancelled: (started, { cancelled }) => {
      announce(started);
      while (!cancelled()) {
        // Busy on purpose: a method in the middle of its work.
      }
      throw new ServiceError("CANCELLED");
    },
    spinForever: (started) => {
      announce(started);
      for (;;) {
        // Busy on purpose: a method that never asks.
      }
    },
    meet: async ({ barrier, parties }) => {
      Atomics.add(barrier, 0, 1);
      while (Atomics.load(barrier, 0) < parties) {
        await new Promise((resolve) => {
          setTimeout(resolve, 1);
        });
      }
      return "met";
    },
    hold: ({ started, gate }) => {
      announce(started);
      Atomics.wait(gate, 0, 0);
      return "released";
    },
    makeBytes: (length) => new Uint8Array(length).fill(1),
    firstByte: (bytes) => bytes[0] ?? -1,
  };
});
