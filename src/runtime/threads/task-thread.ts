/** One supervised thread of a task pool. */

import type { ResourceLimits, TransferListItem } from "node:worker_threads";

import { Piscina } from "piscina";

import { ServiceError } from "../errors.js";
import type { Logger } from "../log/log.js";
import type { Outcome } from "./api.js";
import type { TaskRequest, TaskWorkerData } from "./task-worker.js";

/** What a {@link TaskThread} is made of; see TaskPoolOptions. */
interface TaskThreadOptions {
  readonly pool: string;
  readonly entry: URL;
  readonly workerData: TaskWorkerData;
  readonly concurrentTasks: number;
  readonly idleEventLoop: boolean;
  readonly resourceLimits: ResourceLimits | undefined;
  readonly maxStartFailures: number;
  readonly logger: Logger;
  /** Called when the thread died without being told to. */
  readonly onDeath: () => void;
  /** Called when the thread came up, went down or became unhealthy. */
  readonly onChange: () => void;
}

/** The thread of a task died before it was done, perhaps of it. */
export class ThreadDiedError extends ServiceError {
  constructor(message: string, cause?: unknown) {
    super("UNAVAILABLE", message, { cause, retryAfterSeconds: 1 });
  }
}

/** What became of a task: the method's answer, or the thread's end. */
type TaskOutcome = Outcome<unknown> | { readonly kind: "lost"; readonly error: ServiceError };

const firstDelayMs = 50;
const maxDelayMs = 5000;

/**
 * States: starting -> up -> down -> starting ..., and from each -> stopped.
 *
 * - starting: a piscina with one thread exists and a probe is on its way; when it is answered the
 *   thread is up. When the thread dies first, the start has failed.
 * - up: tasks may be run.
 * - down: the thread died or failed to start; piscina is thrown away. The next start follows at
 *   once after a death, and after a doubling delay after a failed start.
 *
 * piscina would replace a dead thread by itself, but gives up after a failed start and then leaves
 * tasks waiting without an error; therefore a piscina lives exactly as long as its one thread.
 */
export class TaskThread {
  readonly #o: TaskThreadOptions;
  #piscina: Piscina<TaskRequest, Outcome<unknown>> | null = null;
  #up = false;
  #busy = 0;
  #stopped = false;
  #startFailures = 0;
  #retry: NodeJS.Timeout | undefined;
  #ending: Promise<void> = Promise.resolve();

  constructor(o: TaskThreadOptions) {
    this.#o = o;
  }

  /** Whether tasks can be run now. */
  get up(): boolean {
    return this.#up;
  }

  /** Tasks that run on the thread. */
  get busy(): number {
    return this.#busy;
  }

  /** False after `maxStartFailures` failed starts in a row. */
  get healthy(): boolean {
    return this.#startFailures < this.#o.maxStartFailures;
  }

  /** Starts the thread for the first time; rejects, and does not try again, when that fails. */
  async firstStart(): Promise<void> {
    const failure = await this.#attempt();
    if (failure !== null) {
      throw failure;
    }
  }

  /** Starts the thread beside others that are up; tries again, as after a death, when that fails. */
  start(): void {
    void this.#restart();
  }

  /** Runs a task; call it only while {@link up}. Never rejects. */
  async run(
    slot: number,
    method: string,
    argument: unknown,
    transfer: readonly TransferListItem[] | undefined,
  ): Promise<TaskOutcome> {
    const piscina = this.#piscina;
    if (piscina === null) {
      return { kind: "lost", error: unavailable(`a thread of ${this.#o.pool} is down`) };
    }
    this.#busy++;
    try {
      const task = { kind: "run", slot, method, argument } as const;
      return await (transfer === undefined
        ? piscina.run(task)
        : piscina.run(task, { transferList: transferListOf(transfer) }));
    } catch (error) {
      if (error instanceof Error && error.name === "DataCloneError") {
        // The argument could not be posted; the thread never saw it.
        return {
          kind: "lost",
          error: new ServiceError("INTERNAL", "a task's argument cannot be sent to a thread", {
            cause: error,
          }),
        };
      }
      this.#died(piscina, error);
      // Until the thread has really ended it may still read memory shared with the argument.
      await this.#ending;
      const message = `a thread of ${this.#o.pool} died`;
      return { kind: "lost", error: this.#stopped ? unavailable(message) : new ThreadDiedError(message, error) };
    } finally {
      if (piscina === this.#piscina) {
        this.#busy--;
      }
    }
  }

  /** Gives the thread up; its tasks are lost, and it is replaced. */
  terminate(reason: string): void {
    const piscina = this.#piscina;
    if (piscina !== null) {
      this.#died(piscina, new Error(reason));
    }
  }

  /** Ends the thread; it cannot be started again. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    const piscina = this.#piscina;
    this.#piscina = null;
    this.#up = false;
    await piscina?.destroy();
    await this.#ending;
  }

  /** One start. Returns null when the thread is up, else why it is not. Never rejects. */
  async #attempt(): Promise<Error | null> {
    const o = this.#o;
    let failure: Error | null = null;
    const piscina = new Piscina<TaskRequest, Outcome<unknown>>({
      filename: o.entry.href,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: Infinity,
      concurrentTasksPerWorker: o.concurrentTasks,
      atomics: o.idleEventLoop ? "disabled" : "sync",
      workerData: o.workerData,
      recordTiming: false,
      ...(o.resourceLimits === undefined ? {} : { resourceLimits: o.resourceLimits }),
    });
    this.#piscina = piscina;
    this.#busy = 0;
    // An error outside of a task. The thread's end follows; this only keeps the reason.
    piscina.on("error", (error: Error) => {
      failure = error;
    });
    const ended = new Promise<void>((resolve) => {
      piscina.on("workerDestroy", () => {
        // Not within piscina's own handling of the event, which has yet to fail the thread's tasks.
        setImmediate(() => {
          resolve();
          if (this.#piscina === piscina && this.#up) {
            this.#died(piscina, failure);
          }
        });
      });
    });
    let probe: Promise<unknown>;
    try {
      probe = piscina.run({ kind: "probe" });
    } catch (error) {
      // The system gives no thread. There is nothing to destroy but the task, which would fail with nobody to hear it.
      this.#piscina = null;
      return error instanceof Error ? error : new Error("no thread", { cause: error });
    }
    const started = await Promise.race([
      probe.then(
        () => true,
        (error: unknown) => {
          failure ??= error instanceof Error ? error : null;
          return false;
        },
      ),
      ended.then(() => false),
    ]);
    if (this.#piscina !== piscina) {
      return new ServiceError("UNAVAILABLE", `${o.pool} has stopped`);
    }
    if (!started) {
      this.#discard(piscina);
      return failure ?? new Error("the thread ended while it started");
    }
    this.#up = true;
    this.#startFailures = 0;
    o.onChange();
    return null;
  }

  /** Brings the thread up, waiting longer after every failure. */
  async #restart(): Promise<void> {
    const failure = await this.#attempt();
    if (failure === null || this.#stopped) {
      return;
    }
    this.#startFailures++;
    this.#o.logger.error(
      { pool: this.#o.pool, err: failure, failuresInARow: this.#startFailures },
      "a thread cannot be started; trying again",
    );
    this.#o.onChange();
    const delayMs = Math.min(maxDelayMs, firstDelayMs * 2 ** (this.#startFailures - 1));
    this.#retry = setTimeout(() => void this.#restart(), delayMs);
    this.#retry.unref();
  }

  #died(piscina: Piscina<TaskRequest, Outcome<unknown>>, reason: unknown): void {
    if (this.#piscina !== piscina) {
      return; // another task of the same thread has reported it
    }
    this.#discard(piscina);
    if (this.#stopped) {
      return;
    }
    this.#o.logger.error({ pool: this.#o.pool, err: reason }, "a thread died and is replaced");
    this.#o.onDeath();
    void this.#restart();
  }

  #discard(piscina: Piscina<TaskRequest, Outcome<unknown>>): void {
    this.#piscina = null;
    this.#up = false;
    this.#ending = Promise.allSettled([this.#ending, piscina.destroy()]).then(() => undefined);
  }
}

function unavailable(message: string): ServiceError {
  return new ServiceError("UNAVAILABLE", message, { retryAfterSeconds: 1 });
}

/** piscina takes a mutable array and its own name for the same type. */
function transferListOf(transfer: readonly TransferListItem[]): TransferListItem[] {
  return [...transfer];
}
