/** The typed client of the merge thread. */
import { setMaxListeners } from "node:events";

import type { MergedPartition, MergeRequest } from "../lake/merge/merge.js";
import { underSignals } from "../runtime/abort.js";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { TaskPool } from "../runtime/threads/task-pool.js";
import type { MergeAnswer, MergeTask, MergeWorkerData } from "./merge-messages.js";

/** What the pool is made of; see {@link MergeWorkerData}. */
export interface MergePoolOptions {
  /** Of the telemetry database. */
  readonly connectionString: string;
  readonly objectStoreUri: string;
  /** Absolute path for what does not fit into memory. */
  readonly tempDirectory: string;
  /** Memory of DuckDB; a step takes as many rows as fit into it. */
  readonly memoryLimitBytes: number;
  readonly maxTempBytes: number;
  /** Threads of DuckDB, at least 1; fewer when memory does not suffice. */
  readonly threads: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Merges that may wait for the thread; further ones are refused with OVERLOADED. */
const maxQueue = 16;
/** A cancelled merge is interrupted at once; its thread is only killed when that has not helped for so long. */
const cancelGraceMs = 30_000;
/**
 * Memory that goes to the row group being written, whatever is sorted, and what each row takes beside it while it is
 * sorted: all its text is laid out row by row then, with the process's, which a file holds once for many rows.
 * Steps that do not fit go through the disk: a log record costs 4.6 to 11 us then instead of 3.3.
 */
const baseBytes = 256 << 20;
const sortBytesPerRow = 1024;
const minStepRows = 61_440;
/** Each of DuckDB's threads sorts and writes on its own, and needs memory for it. */
const memoryPerThread = 512 << 20;
/** Bytes of objects that a step takes. */
export const maxStepBytes = 256 << 20;
const maxStepSources = 1000;
const maxStepObjects = 200;

/**
 * Merges partitions in a thread of its own, one call after the other. The thread starts with the first
 * call: most servers of a group never merge.
 */
export class MergePool implements Component {
  readonly name = "merge-pool";
  readonly #options: MergePoolOptions;
  #starting: Promise<TaskPool<MergeTask, MergeAnswer>> | null = null;
  #pool: TaskPool<MergeTask, MergeAnswer> | null = null;
  readonly #stopping = new AbortController();

  constructor(o: MergePoolOptions) {
    this.#options = o;
    // Every waiting merge listens to it.
    setMaxListeners(maxQueue + 1, this.#stopping.signal);
  }

  /** False while the thread cannot be replaced. */
  get healthy(): boolean {
    return this.#pool?.healthy ?? true;
  }

  /**
   * Merges; an aborted signal interrupts it.
   * @throws ServiceError as `mergePartitions` in src/lake/merge/merge.ts; UNAVAILABLE when the thread cannot be
   *   started, and after `stop`
   */
  async merge(request: MergeRequest, signal: AbortSignal): Promise<readonly MergedPartition[]> {
    if (this.#stopping.signal.aborted)
      throw new ServiceError("UNAVAILABLE", "the server is stopping");
    this.#starting ??= this.#start();
    const pool = await this.#starting;
    return underSignals([signal, this.#stopping.signal], (either) =>
      pool.run(request, { signal: either }),
    );
  }

  /** Interrupts the running merge, then ends the thread. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#starting?.catch(() => undefined); // the caller of `merge` has the error
    await this.#pool?.stop();
  }

  async #start(): Promise<TaskPool<MergeTask, MergeAnswer>> {
    try {
      const pool = await startPool(this.#options);
      this.#pool = pool;
      return pool;
    } catch (error) {
      this.#starting = null;
      throw error;
    }
  }
}

/** Rows that a step takes when DuckDB may use so much memory. */
export function stepRowsFor(memoryLimitBytes: number): number {
  return Math.max(minStepRows, Math.floor((memoryLimitBytes - baseBytes) / sortBytesPerRow));
}

function startPool(o: MergePoolOptions): Promise<TaskPool<MergeTask, MergeAnswer>> {
  const { connectionString, objectStoreUri, tempDirectory } = o;
  const { memoryLimitBytes, maxTempBytes } = o;
  const threads = Math.max(1, Math.min(o.threads, Math.floor(memoryLimitBytes / memoryPerThread)));
  const workerData: MergeWorkerData = {
    connectionString,
    objectStoreUri,
    limits: {
      tempDirectory,
      memoryLimitBytes,
      maxTempBytes,
      threads,
      step: {
        rows: stepRowsFor(memoryLimitBytes),
        bytes: maxStepBytes,
        sources: maxStepSources,
      },
      objects: maxStepObjects,
    },
  };
  return TaskPool.create<MergeTask, MergeAnswer>({
    name: "merge",
    entry: new URL("./merge-thread.js", import.meta.url),
    threads: 1,
    maxQueue,
    workerData,
    cancelGraceMs,
    logger: o.logger,
    metrics: o.metrics,
  });
}
