/**
 * Thread entry of the merge pool: one merge at a time, with a DuckDB and a database session of its own
 * that both end with it. It logs nothing: what goes wrong travels to the front as an error with its causes.
 */
import { fileURLToPath } from "node:url";

import { connect } from "../db/sql.js";
import { mergePartitions } from "../lake/merge/merge.js";
import { openObjectStore } from "../lake/store/open-store.js";
import { systemClock } from "../runtime/clock.js";
import { createSilentLogger } from "../runtime/log/log.js";
import { defineTask, taskWorkerData } from "../runtime/threads/task-worker.js";
import type { MergeAnswer, MergeTask, MergeWorkerData } from "./merge-messages.js";

const { connectionString, objectStoreUri, limits } = taskWorkerData() as MergeWorkerData;
const store = await openObjectStore(objectStoreUri);
const root = fileURLToPath(objectStoreUri).replace(/\/+$/u, "");

/** One holds the lock, one asks beside it. */
const maxConnections = 2;

export default defineTask<MergeTask, MergeAnswer>(async (request, task) => {
  const sql = connect({
    connectionString,
    maxConnections,
    applicationName: "telemetry-merge",
    logger: createSilentLogger(),
  });
  try {
    const cancelled = (): boolean => task.cancelled();
    const context = { sql, store, root, limits, clock: systemClock, cancelled };
    return await mergePartitions(context, request);
  } finally {
    await sql.end({ timeout: 5 });
  }
});
