/** Merges and rewrites, each with database sessions of its own that end with it, and one DuckDB for those in a row. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { connect } from "../../db/sql.js";
import { systemClock } from "../../runtime/clock.js";
import { createSilentLogger } from "../../runtime/log/log.js";
import { runTask } from "../check/lake-tasks.js";
import type { RetentionPolicy } from "../retention/retention-policy.js";
import { trim, type TrimResult } from "../rewrite/trim.js";
import { openObjectStore } from "../store/open-store.js";
import { CpuShare } from "./cpu-share.js";
import { type MergeEngineLimits, MergeEngines } from "./merge-engine.js";
import { type MergeContext, type MergedPartition, mergePartitions, type MergeRequest } from "./merge.js";
import { stepLimitsFor } from "./merge-plan.js";

/** What a merger works with. */
export interface MergerOptions {
  /** Of the telemetry database. Secret; never logged. */
  readonly connectionString: string;
  readonly objectStoreUri: string;
  readonly limits: MergeEngineLimits;
  /** Share of the machine's CPUs that merging and trimming may use; null: as much as they like. */
  readonly cpuPercent: number | null;
}

/** Which task to do. */
export interface TaskRequest {
  readonly taskId: string;
  /** `SVC_UNSTAMPED_AUDIENCE` */
  readonly unstampedAudience: string;
}

type Cancelled = Pick<MergeContext, "cancelled">;

/** Does one call after the other. */
export interface Merger {
  /** @throws ServiceError as `mergePartitions` in merge.ts */
  merge(request: MergeRequest, context: Cancelled): Promise<readonly MergedPartition[]>;
  /** @throws ServiceError as `runTask` in ../check/lake-tasks.ts */
  task(request: TaskRequest, context: Cancelled): Promise<void>;
  /** @throws ServiceError as `trim` in ../rewrite/trim.ts */
  trim(policy: RetentionPolicy, context: Cancelled): Promise<TrimResult>;
  /** Ends the engine process that is kept for the next call. */
  rest(): Promise<void>;
}

/** One holds the lock, one asks beside it. */
const maxConnections = 2;
/** Each of DuckDB's threads sorts and writes on its own, and needs memory for it. */
const memoryPerThread = 512 << 20;
const maxStepObjects = 200;

/** Opens a merger. It logs nothing: what goes wrong is thrown. @throws ServiceError when there is no such store. */
export async function openMerger(o: MergerOptions): Promise<Merger> {
  const store = await openObjectStore(o.objectStoreUri);
  const root =
    store.remote === null
      ? fileURLToPath(o.objectStoreUri).replace(/\/+$/u, "")
      : join(o.limits.tempDirectory, "objects");
  const { memoryLimitBytes, threads } = o.limits;
  const limits = {
    ...o.limits,
    threads: Math.max(1, Math.min(threads, Math.floor(memoryLimitBytes / memoryPerThread))),
    step: stepLimitsFor(memoryLimitBytes),
    objects: maxStepObjects,
  };
  const engines = new MergeEngines(limits);
  const { cpuPercent } = o;
  const share =
    cpuPercent === null
      ? null
      : new CpuShare({ percent: cpuPercent, cpus: availableParallelism(), clock: systemClock });
  const within = async <T>({ cancelled }: Cancelled, work: (context: MergeContext) => Promise<T>): Promise<T> => {
    const sql = connect({
      connectionString: o.connectionString,
      maxConnections,
      applicationName: "telemetry-merge",
      logger: createSilentLogger(),
      keepAlive: true,
    });
    try {
      return await work({ sql, store, root, limits, engines, clock: systemClock, cancelled });
    } finally {
      await sql.end({ timeout: 5 });
    }
  };
  const shared = (context: MergeContext): MergeContext => (share === null ? context : { ...context, share });
  return {
    merge: (request, call) => within(call, (context) => mergePartitions(shared(context), request)),
    task: ({ taskId, unstampedAudience }, call) =>
      within(call, (context) => runTask({ ...context, unstampedAudience }, taskId)),
    rest: () => engines.stop(),
    trim: (policy, call) => within(call, (context) => trim(shared(context), policy)),
  };
}
