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
export interface GateThreadOptions {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Heap of a thread. Default 1024: 30 MB of JSON, which have most of the nodes that a tree may have, take 250 to 500. */
  readonly maxHeapMb?: number;
}

/**
 * Gates each work on a thread that is started for it: it leaves no memory behind, and is given up at once. Works are as
 * rare as large statements are, and as few at a time as inspections.
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
      const died = error instanceof ServiceError && error.code === "UNAVAILABLE";
      throw died ? new ServiceError("BAD_REQUEST", "The query is too large.", { cause: error }) : error;
    } finally {
      await pool.stop();
    }
  };
}
