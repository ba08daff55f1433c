/** A system that gives no more threads. */
import { syncBuiltinESMExports } from "node:module";
import workerThreads from "node:worker_threads";

/** Has `new Worker` throw what it throws when the system refuses, in this process, while `work` runs. */
export async function withoutThreads(work: () => Promise<void>): Promise<void> {
  const { Worker } = workerThreads;
  workerThreads.Worker = function refuse(): never {
    throw Object.assign(new Error("Worker initialization failure: EAGAIN"), { code: "ERR_WORKER_INIT_FAILED" });
  } as unknown as typeof Worker;
  syncBuiltinESMExports();
  try {
    await work();
  } finally {
    workerThreads.Worker = Worker;
    syncBuiltinESMExports();
  }
}
