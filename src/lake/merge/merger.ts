/** Merges, each with a DuckDB and a database session of its own that end with it. */
import { fileURLToPath } from "node:url";

import { connect } from "../../db/sql.js";
import { systemClock } from "../../runtime/clock.js";
import { createSilentLogger } from "../../runtime/log/log.js";
import { openObjectStore } from "../store/open-store.js";
import type { MergeEngineLimits } from "./merge-engine.js";
import { type MergeContext, type MergedPartition, mergePartitions, type MergeRequest } from "./merge.js";
import { stepLimitsFor } from "./merge-plan.js";

/** What a merger works with. */
export interface MergerOptions {
  /** Of the telemetry database. Secret; never logged. */
  readonly connectionString: string;
  readonly objectStoreUri: string;
  readonly limits: MergeEngineLimits;
}

/** Merges one call after the other. */
export interface Merger {
  /** @throws ServiceError as `mergePartitions` in merge.ts */
  merge(request: MergeRequest, context: Pick<MergeContext, "cancelled">): Promise<readonly MergedPartition[]>;
}

/** One holds the lock, one asks beside it. */
const maxConnections = 2;
/** Each of DuckDB's threads sorts and writes on its own, and needs memory for it. */
const memoryPerThread = 512 << 20;
const maxStepObjects = 200;

/** Opens a merger. It logs nothing: what goes wrong is thrown. @throws ServiceError when there is no such store. */
export async function openMerger(o: MergerOptions): Promise<Merger> {
  const store = await openObjectStore(o.objectStoreUri);
  const root = fileURLToPath(o.objectStoreUri).replace(/\/+$/u, "");
  const { memoryLimitBytes, threads } = o.limits;
  const limits = {
    ...o.limits,
    threads: Math.max(1, Math.min(threads, Math.floor(memoryLimitBytes / memoryPerThread))),
    step: stepLimitsFor(memoryLimitBytes),
    objects: maxStepObjects,
  };
  return {
    async merge(request, { cancelled }) {
      const sql = connect({
        connectionString: o.connectionString,
        maxConnections,
        applicationName: "telemetry-merge",
        logger: createSilentLogger(),
      });
      try {
        const context = { sql, store, root, limits, clock: systemClock, cancelled };
        return await mergePartitions(context, request);
      } finally {
        await sql.end({ timeout: 5 });
      }
    },
  };
}
