/** The gate on a thread of its own. */
import type { GatedTrees, GateThread, GateWork } from "../query/backend/gate-trees.js";
import { ServiceError } from "../runtime/errors.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { TaskPool } from "../runtime/threads/task-pool.js";

/** What a gate thread offers. */
export interface GateMethods {
  readonly settings: null;
  readonly methods: { gate(work: GateWork): Promise<readonly GatedTrees[]> };
}

/** What {@link createGateThread} takes. */
interface GateThreadOptions {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Heap of a thread, in MB. Default 1024: the largest trees that pass have 30 MB of JSON and take 250 to 500. */
  readonly maxHeapMb?: number;
}

/**
 * Starts a thread for each large tree: it leaves no memory behind, and can be ended at once. There are never more of them
 * than inspections. @throws ServiceError also BAD_REQUEST when the heap does not suffice; UNAVAILABLE when the thread
 * cannot be started, or dies
 */
export function createGateThread({ maxHeapMb = 1024, ...o }: GateThreadOptions): GateThread {
  return async (work, signal) => {
    const pool = await TaskPool.create<GateMethods>({
      name: "gate",
      entry: new URL("./gate-thread.js", import.meta.url),
      threads: 1,
      settings: null,
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
      cancelGraceMs: 0,
      ...o,
    });
    try {
      return await pool.run("gate", work, { signal });
    } catch (error) {
      throw hadTooLittleHeap(error)
        ? new ServiceError("BAD_REQUEST", "The query is too large.", { cause: error })
        : error;
    } finally {
      await pool.stop();
    }
  };
}

function hadTooLittleHeap(error: unknown): boolean {
  const cause: unknown = error instanceof ServiceError ? error.cause : undefined;
  return cause instanceof Error && "code" in cause && cause.code === "ERR_WORKER_OUT_OF_MEMORY";
}
