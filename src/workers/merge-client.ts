/** The typed client of the merge thread. */
import { setMaxListeners } from "node:events";

import type { MergeEngineLimits } from "../lake/merge/merge-engine.js";
import type { MergedPartition, MergeRequest } from "../lake/merge/merge.js";
import type { Merger, MergerOptions, TaskRequest } from "../lake/merge/merger.js";
import type { RetentionPolicy } from "../lake/retention/retention-policy.js";
import type { TrimResult } from "../lake/rewrite/trim.js";
import { underSignals } from "telemetry-service-client/shared/abort";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { TaskPool } from "../runtime/threads/task-pool.js";

/** What the merge thread is opened with, and offers. */
export interface MergeThread {
  readonly settings: MergerOptions;
  readonly methods: Merger;
}

/** What the pool is made of. Fewer threads of DuckDB are used when memory does not suffice. */
interface MergePoolOptions extends Omit<MergerOptions, "limits">, MergeEngineLimits {
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Merges that may wait for the thread; further ones are refused with OVERLOADED. */
const maxQueue = 16;
/** A cancelled merge is interrupted at once; its thread is only killed when that has not helped for so long. */
const cancelGraceMs = 30_000;

/**
 * Merges partitions in a thread of its own, one call after the other. The thread starts with the first
 * call: most servers of a group never merge.
 */
export class MergePool implements Component {
  readonly name = "merge-pool";
  readonly #options: MergePoolOptions;
  #starting: Promise<TaskPool<Merger>> | null = null;
  #pool: TaskPool<Merger> | null = null;
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
  merge(request: MergeRequest, signal: AbortSignal): Promise<readonly MergedPartition[]> {
    return this.#do(signal, (pool, either) => pool.run("merge", request, { signal: either }));
  }

  /** Does a task of an administrator. @throws ServiceError as `merge`, and as `runTask` in src/lake/check/lake-tasks.ts */
  task(request: TaskRequest, signal: AbortSignal): Promise<void> {
    return this.#do(signal, (pool, either) => pool.run("task", request, { signal: either }));
  }

  /** Takes rows that have overstayed out of objects. @throws ServiceError as `merge` */
  trim(policy: RetentionPolicy, signal: AbortSignal): Promise<TrimResult> {
    return this.#do(signal, (pool, either) => pool.run("trim", policy, { signal: either }));
  }

  async #do<T>(signal: AbortSignal, work: (pool: TaskPool<Merger>, either: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#stopping.signal.aborted) {
      throw new ServiceError("UNAVAILABLE", "the server is stopping");
    }
    this.#starting ??= this.#start();
    const pool = await this.#starting;
    return underSignals([signal, this.#stopping.signal], (either) => work(pool, either));
  }

  /** Interrupts the running merge, then ends the thread and its engine process. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#starting?.catch(() => undefined); // the caller of `merge` has the error
    // The engine of a thread that was killed finds the end of its stream, and ends by itself.
    const resting = this.#pool?.run("rest", undefined).catch(() => undefined);
    await this.#pool?.stop();
    await resting;
  }

  async #start(): Promise<TaskPool<Merger>> {
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

function startPool(o: MergePoolOptions): Promise<TaskPool<Merger>> {
  const { connectionString, objectStoreUri, cpuPercent } = o;
  const { tempDirectory, memoryLimitBytes, maxTempBytes, threads } = o;
  return TaskPool.create<MergeThread>({
    name: "merge",
    entry: new URL("./merge-thread.js", import.meta.url),
    threads: 1,
    maxQueue,
    // An engine is left behind, which ends after a while.
    idleEventLoop: true,
    settings: {
      connectionString,
      objectStoreUri,
      cpuPercent,
      limits: { tempDirectory, memoryLimitBytes, maxTempBytes, threads },
    },
    cancelGraceMs,
    logger: o.logger,
    metrics: o.metrics,
  });
}
