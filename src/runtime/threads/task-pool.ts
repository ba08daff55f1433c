/** Work on other threads behind types: piscina, with supervision, cancellation and errors that keep their meaning. */

import type { ResourceLimits, TransferListItem } from "node:worker_threads";

import { atMost } from "../at-most.js";
import { ServiceError, fromErrorRecord } from "../errors.js";
import type { Component } from "../lifecycle.js";
import type { Logger } from "../log/log.js";
import { type Metrics, durationBucketsSeconds } from "../metrics.js";
import { Ring } from "../collections/ring.js";
import type { AnswerOf, ArgumentOf, Asked, TaskContract } from "./api.js";
import { TaskThread } from "./task-thread.js";

/** What a pool is made of. */
export interface TaskPoolOptions<Settings> {
  /** In log lines, errors and the `pool` label of metrics. */
  readonly name: string;
  /** The thread entry file; its default export comes from `serveTasks`. */
  readonly entry: URL;
  /** Most threads, at least 1. One is started at once, each further one when tasks need it. */
  readonly threads: number;
  /** Most tasks that may wait for a thread; further ones reject with OVERLOADED. Default 1000. */
  readonly maxQueue?: number;
  /** Tasks that one thread runs at the same time, for methods that mostly wait. Default 1. */
  readonly concurrentTasksPerWorker?: number;
  /**
   * False (default): an idle thread sleeps on an atomic, which makes a round trip cheapest, but whatever
   * the method left running (timers, I/O, native callbacks) pauses between tasks. True: the thread's
   * event loop runs all the time; needed when a method leaves work behind.
   */
  readonly idleEventLoop?: boolean;
  /** What each thread opens its methods with; cloned once per thread. */
  readonly settings: Settings;
  /** Heap limits of a thread; one that exceeds them dies and is replaced. */
  readonly resourceLimits?: ResourceLimits;
  /** How long a cancelled task may go on before its thread is terminated, in milliseconds. Default 2000. */
  readonly cancelGraceMs?: number;
  /** How long `stop` waits for tasks in milliseconds before it terminates the threads. Default 10000. */
  readonly stopGraceMs?: number;
  /** Failed attempts in a row to start a thread after which the pool is unhealthy. Default 3. */
  readonly maxStartFailures?: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Options of one task. */
interface RunOptions {
  /**
   * Gives the task up. While it waits it is removed from the queue; while it runs the method's `cancelled()` turns
   * true, and its thread is terminated if it is still busy after `cancelGraceMs`. The promise rejects with CANCELLED,
   * but not before the thread has released the argument, so memory shared with it may be reused afterwards.
   */
  readonly signal?: AbortSignal;
  /** Buffers and ports to move to the thread instead of copying them. */
  readonly transfer?: readonly TransferListItem[];
}

interface Task {
  readonly method: string;
  readonly argument: unknown;
  readonly transfer: readonly TransferListItem[] | undefined;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: ServiceError) => void;
  onAbort: (() => void) | null;
}

/**
 * States of a task: waiting -> running -> settled, or waiting -> settled. Tasks wait here, in order,
 * and are handed to a thread only when it is up and has a free place, so nothing ever waits inside
 * piscina. Each thread is a piscina of its own (see TaskThread), because one that dies is then
 * replaced, with a delay between attempts, without touching its neighbours.
 *
 * A thread costs CPU to start and memory to keep. So there are no more than tasks have needed at a time: one more is
 * started, and stays, when a task finds none free.
 *
 * A task whose thread dies rejects with a ThreadDiedError; it is not run again, since it may be the cause.
 * While no thread is up tasks wait, unless the pool is unhealthy: then they reject with UNAVAILABLE.
 */
export class TaskPool<Api> implements Component {
  readonly name: string;
  readonly threads: number;
  readonly #options: TaskPoolOptions<unknown>;
  readonly #perThread: number;
  readonly #workers: TaskThread[] = [];
  readonly #waiting: Ring<Task>;
  readonly #flags: Int32Array;
  readonly #freeSlots: number[] = [];
  readonly #runSeconds: { observe(value: number): void };
  readonly #onDeath: () => void;
  readonly #removeCollector: () => void;
  #running = 0;
  #stopping: Promise<void> | null = null;
  #onIdle: (() => void) | null = null;

  /**
   * Starts the first thread and waits until it has loaded its entry file.
   * @throws ServiceError UNAVAILABLE when it cannot.
   */
  static async create<C extends TaskContract>(o: TaskPoolOptions<C["settings"]>): Promise<TaskPool<C["methods"]>> {
    const pool = new TaskPool<C["methods"]>(o);
    try {
      await pool.#addThread().firstStart();
    } catch (error) {
      await pool.stop();
      const why = error instanceof Error ? error.message : String(error);
      throw new ServiceError("UNAVAILABLE", `the threads of ${o.name} cannot be started: ${why}`, { cause: error });
    }
    return pool;
  }

  private constructor(o: TaskPoolOptions<unknown>) {
    if (!Number.isInteger(o.threads) || o.threads < 1) {
      throw new RangeError(`a pool takes at least one thread, got ${o.threads}`);
    }
    this.name = o.name;
    this.threads = o.threads;
    this.#options = o;
    this.#perThread = o.concurrentTasksPerWorker ?? 1;
    this.#waiting = new Ring(o.maxQueue ?? 1000);
    const slots = o.threads * this.#perThread;
    this.#flags = new Int32Array(new SharedArrayBuffer(slots * Int32Array.BYTES_PER_ELEMENT));
    for (let slot = slots - 1; slot >= 0; slot--) {
      this.#freeSlots.push(slot);
    }
    const { metrics } = o;
    const labels = { pool: o.name };
    const waiting = metrics.gauge("task_pool_waiting", "Tasks that wait for a thread", ["pool"]);
    const running = metrics.gauge("task_pool_running", "Tasks that run", ["pool"]);
    const up = metrics.gauge("task_pool_threads_up", "Threads that are up", ["pool"]);
    const deaths = metrics.counter("task_pool_thread_deaths_total", "Threads that died", ["pool"]);
    this.#runSeconds = metrics
      .histogram("task_pool_run_seconds", "Time a task ran, its queueing not included", durationBucketsSeconds, [
        "pool",
      ])
      .labels(labels);
    const collect = (): void => {
      waiting.set(labels, this.queued);
      running.set(labels, this.running);
      up.set(labels, this.#workers.filter((worker) => worker.up).length);
    };
    const remove = metrics.onCollect(collect);
    this.#removeCollector = () => {
      remove();
      // There is nothing left of it; what was collected last would stand for good.
      collect();
    };
    this.#onDeath = () => {
      deaths.inc(labels);
    };
  }

  /** Tasks that wait for a thread. */
  get queued(): number {
    return this.#waiting.size;
  }

  /** Tasks that run. */
  get running(): number {
    return this.#running;
  }

  /** False while some thread cannot be replaced (`maxStartFailures` attempts in a row failed); attempts go on. */
  get healthy(): boolean {
    return this.#workers.every((worker) => worker.healthy);
  }

  /**
   * Runs one method on a thread.
   * @throws ServiceError what the method threw (anything else as INTERNAL with its cause); OVERLOADED
   *   when the queue is full; CANCELLED by `signal`; UNAVAILABLE when the thread died or the pool has stopped.
   */
  run<M extends Asked<Api>>(method: M, argument: ArgumentOf<Api, M>, o?: RunOptions): Promise<AnswerOf<Api, M>> {
    return new Promise((resolve, reject) => {
      const signal = o?.signal;
      const task: Task = {
        method,
        argument,
        transfer: o?.transfer,
        signal,
        resolve: resolve as Task["resolve"],
        reject,
        onAbort: null,
      };
      if (signal?.aborted === true) {
        reject(cancelled(signal));
      } else if (this.#stopping !== null) {
        reject(new ServiceError("UNAVAILABLE", `${this.name} has stopped`));
      } else if (this.#waiting.push(task)) {
        if (signal !== undefined) {
          this.#listen(task, signal, () => {
            this.#waiting.remove(task);
            reject(cancelled(signal));
          });
        }
        this.#dispatch();
      } else {
        reject(new ServiceError("OVERLOADED", undefined, { retryAfterSeconds: 1 }));
      }
    });
  }

  /** Refuses new tasks, lets the present ones finish within `stopGraceMs`, then ends the threads. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const graceMs = this.#options.stopGraceMs ?? 10_000;
    if (this.#running > 0 || (this.#waiting.size > 0 && this.#workers.some((worker) => worker.up))) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await atMost(idle, graceMs);
    }
    this.#rejectWaiting(`${this.name} has stopped`);
    await Promise.all(this.#workers.map((worker) => worker.stop()));
    this.#removeCollector();
  }

  /** Hands waiting tasks to free threads, the least busy first. */
  #dispatch(): void {
    while (this.#waiting.size > 0) {
      let free: TaskThread | null = null;
      for (const worker of this.#workers) {
        if (worker.up && worker.busy < this.#perThread && (free === null || worker.busy < free.busy)) {
          free = worker;
        }
      }
      if (free === null) {
        if (!this.#workers.some((worker) => worker.up || worker.healthy)) {
          this.#rejectWaiting(`the threads of ${this.name} cannot be replaced`);
        }
        break;
      }
      void this.#runOn(free, this.#waiting.take());
    }
    // One at a time: what waits may be done before it is up.
    const grows = this.#waiting.size > 0 && this.#stopping === null && this.#workers.length < this.threads;
    if (grows && this.#workers.every((worker) => worker.up)) {
      this.#addThread().start();
    }
    if (this.#running === 0 && this.#waiting.size === 0) {
      this.#onIdle?.();
    }
  }

  #addThread(): TaskThread {
    const o = this.#options;
    const thread = new TaskThread({
      pool: o.name,
      entry: o.entry,
      workerData: { cancelFlags: this.#flags, settings: o.settings },
      concurrentTasks: this.#perThread,
      idleEventLoop: o.idleEventLoop ?? false,
      resourceLimits: o.resourceLimits,
      maxStartFailures: o.maxStartFailures ?? 3,
      logger: o.logger,
      onDeath: this.#onDeath,
      onChange: () => {
        this.#dispatch();
      },
    });
    this.#workers.push(thread);
    return thread;
  }

  /** Never rejects: every outcome goes to the task. */
  async #runOn(worker: TaskThread, task: Task): Promise<void> {
    const slot = this.#freeSlots.pop() ?? 0; // there are as many slots as places on threads
    let graceTimer: NodeJS.Timeout | undefined;
    if (task.signal !== undefined) {
      this.#listen(task, task.signal, () => {
        Atomics.store(this.#flags, slot, 1);
        graceTimer = setTimeout(() => {
          worker.terminate("a cancelled task did not end in time");
        }, this.#options.cancelGraceMs ?? 2000);
        graceTimer.unref();
      });
    }
    this.#running++;
    const startMs = performance.now();
    const outcome = await worker.run(slot, task.method, task.argument, task.transfer);
    this.#runSeconds.observe((performance.now() - startMs) / 1000);
    this.#running--;
    clearTimeout(graceTimer);
    this.#unlisten(task);
    Atomics.store(this.#flags, slot, 0);
    this.#freeSlots.push(slot);
    if (outcome.kind === "ok") {
      task.resolve(outcome.value);
    } else if (task.signal?.aborted === true) {
      task.reject(cancelled(task.signal));
    } else if (outcome.kind === "failed") {
      task.reject(fromErrorRecord(outcome.error));
    } else {
      task.reject(outcome.error);
    }
    this.#dispatch();
  }

  #listen(task: Task, signal: AbortSignal, onAbort: () => void): void {
    this.#unlisten(task);
    task.onAbort = onAbort;
    signal.addEventListener("abort", onAbort, { once: true });
  }

  #unlisten(task: Task): void {
    if (task.onAbort !== null) {
      task.signal?.removeEventListener("abort", task.onAbort);
      task.onAbort = null;
    }
  }

  #rejectWaiting(reason: string): void {
    while (this.#waiting.size > 0) {
      const task = this.#waiting.take();
      this.#unlisten(task);
      task.reject(new ServiceError("UNAVAILABLE", reason));
    }
  }
}

function cancelled(signal: AbortSignal): ServiceError {
  return new ServiceError("CANCELLED", undefined, { cause: signal.reason });
}
