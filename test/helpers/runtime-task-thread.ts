/** A thread entry for the tests of the task pool: every way a task can end. */

import { writeFileSync } from "node:fs";

import { ServiceError } from "../../src/runtime/errors.js";
import { defineTask, taskWorkerData, transferred } from "../../src/runtime/threads/task-worker.js";

/** What the tests ask of the thread. */
export type TestTask =
  | { readonly do: "add"; readonly a: number; readonly b: number }
  | { readonly do: "worker-data" }
  | { readonly do: "is-cancelled" }
  | { readonly do: "fail-known" }
  | { readonly do: "fail-unknown" }
  | { readonly do: "exit" }
  | { readonly do: "throw-later" }
  | { readonly do: "exhaust-heap" }
  | { readonly do: "unclonable-result" }
  | { readonly do: "spin-until-cancelled"; readonly started: Int32Array }
  | { readonly do: "spin-forever"; readonly started: Int32Array }
  | { readonly do: "wait"; readonly barrier: Int32Array; readonly parties: number }
  | { readonly do: "hold"; readonly started: Int32Array; readonly gate: Int32Array }
  | { readonly do: "make-bytes"; readonly length: number }
  | { readonly do: "first-byte"; readonly bytes: Uint8Array };

interface TestData {
  /** A file whose existence keeps the thread from starting. */
  readonly poison?: string;
  readonly value?: unknown;
  /** Where the thread writes that it was loaded. */
  readonly loaded?: string;
}

const data = (taskWorkerData() ?? {}) as TestData;
if (data.loaded !== undefined) {
  writeFileSync(data.loaded, "x", { flag: "a" });
}
if (data.poison !== undefined) {
  const { existsSync } = await import("node:fs");
  if (existsSync(data.poison)) {
    throw new Error("poisoned");
  }
}

/** Marks the start for the test, which waits on it. */
function announce(started: Int32Array): void {
  Atomics.store(started, 0, 1);
  Atomics.notify(started, 0);
}

export default defineTask<TestTask, unknown>(async (task, context) => {
  switch (task.do) {
    case "add":
      return task.a + task.b;
    case "worker-data":
      return data.value;
    case "is-cancelled":
      return context.cancelled();
    case "fail-known":
      throw new ServiceError("CONFLICT", "it exists already", {
        cause: new RangeError("inner"),
        retryAfterSeconds: 7,
      });
    case "fail-unknown":
      throw new SyntaxError("unexpected thing");
    case "exit":
      // oxlint-disable-next-line unicorn/no-process-exit -- how a thread ends that a library kills
      process.exit(3);
    case "throw-later":
      setTimeout(() => {
        throw new Error("uncaught");
      }, 0);
      return await new Promise(() => undefined);
    case "exhaust-heap": {
      const hoard: number[][] = [];
      for (;;) {
        hoard.push(Array.from({ length: 10_000 }, (_, i) => i + Math.random()));
      }
    }
    case "unclonable-result":
      return () => undefined;
    case "spin-until-cancelled":
      announce(task.started);
      while (!context.cancelled()) {
        // Busy on purpose: a handler in the middle of its work.
      }
      throw new ServiceError("CANCELLED");
    case "spin-forever":
      announce(task.started);
      for (;;) {
        // Busy on purpose: a handler that never asks.
      }
    case "wait":
      Atomics.add(task.barrier, 0, 1);
      while (Atomics.load(task.barrier, 0) < task.parties) {
        await new Promise((resolve) => {
          setTimeout(resolve, 1);
        });
      }
      return "met";
    case "hold":
      announce(task.started);
      Atomics.wait(task.gate, 0, 0);
      return "released";
    case "make-bytes": {
      const bytes = new Uint8Array(task.length).fill(1);
      return transferred(bytes, [bytes.buffer]);
    }
    case "first-byte":
      return task.bytes[0];
  }
});
