/**
 * Loaded before an engine that is profiled. An engine ends by `_exit` once its thread has ended, which would lose the
 * profile of its main thread.
 */
import { isMainThread } from "node:worker_threads";

if (isMainThread) {
  process.on("worker", (worker) => {
    worker.prependOnceListener("exit", () => {
      process.exit(0);
    });
  });
}
