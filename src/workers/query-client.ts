/** The typed client of the query threads. */
import { MessageChannel, type MessagePort } from "node:worker_threads";

import type { QueryBackend, QueryStream } from "../query/backend.js";
import type { EngineOptions } from "../query/engine.js";
import type { MatchContext, MatchResult } from "../query/denials.js";
import type { Executable, InspectOptions, Inspection } from "../query/inspect.js";
import type { ResultLimits } from "../query/batcher.js";
import type { QueryOutcome, QuerySources } from "../query/run.js";
import { fromErrorRecord, ServiceError, toServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { TaskPool } from "../runtime/task-pool.js";
import type {
  QueryAnswer,
  QueryControl,
  QueryMessage,
  QueryTask,
  QueryWorkerData,
} from "./query-messages.js";

/** What the pool is made of; limits of {@link EngineOptions} hold for each thread. */
export interface QueryPoolOptions extends EngineOptions, Partial<ResultLimits> {
  /** Threads of the pool, at least 1. */
  readonly poolThreads: number;
  /** Queries that may be open on one thread, slow readers included. */
  readonly queriesPerThread: number;
  /** Queries that may wait; further ones are refused with OVERLOADED. */
  readonly maxQueue: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** A cancelled query is interrupted at once; its thread is only killed when that has not helped for so long. */
const cancelGraceMs = 30_000;

/** What the process may grow beyond the limits of all engines while a query runs: results under way, requests. */
const slackBytes = 500 << 20;

/** The embedded {@link QueryBackend}: DuckDB in piscina threads. */
export class QueryPool implements QueryBackend, Component {
  readonly name = "query-pool";
  readonly #pool: TaskPool<QueryTask, QueryAnswer>;
  readonly #open = new Set<Inbox>();

  /** Starts the threads. @throws ServiceError UNAVAILABLE when they cannot be started */
  static async start(o: QueryPoolOptions): Promise<QueryPool> {
    const workerData: QueryWorkerData = {
      lakeDirectory: o.lakeDirectory,
      tempDirectory: o.tempDirectory,
      memoryLimitBytes: o.memoryLimitBytes,
      maxTempBytes: o.maxTempBytes,
      threads: o.threads,
      maxResultRows: o.maxResultRows ?? 0,
      maxResultBytes: o.maxResultBytes ?? 0,
      maxGrowthBytes: o.memoryLimitBytes * o.poolThreads + slackBytes,
    };
    const pool = await TaskPool.create<QueryTask, QueryAnswer>({
      name: "query",
      entry: new URL("./query-thread.js", import.meta.url),
      threads: o.poolThreads,
      concurrentTasksPerWorker: o.queriesPerThread,
      maxQueue: o.maxQueue,
      workerData,
      cancelGraceMs,
      closes: true,
      logger: o.logger,
      metrics: o.metrics,
    });
    return new QueryPool(pool);
  }

  private constructor(pool: TaskPool<QueryTask, QueryAnswer>) {
    this.#pool = pool;
  }

  /** False while a thread cannot be replaced. */
  get healthy(): boolean {
    return this.#pool.healthy;
  }

  /** Queries that run. */
  get running(): number {
    return this.#pool.running;
  }

  async inspect(
    sql: string,
    signal?: AbortSignal,
    options: InspectOptions = {},
  ): Promise<Inspection> {
    const answer = await this.#pool.run(
      { kind: "inspect", sql, options },
      signal === undefined ? {} : { signal },
    );
    if (answer.kind !== "inspection") throw unexpected();
    return answer.inspection;
  }

  async match(
    expressions: readonly string[],
    context: MatchContext,
    signal: AbortSignal,
  ): Promise<readonly MatchResult[]> {
    const answer = await this.#pool.run({ kind: "match", expressions, context }, { signal });
    if (answer.kind !== "matches") throw unexpected();
    return answer.results;
  }

  run(query: Executable, sources: QuerySources, signal: AbortSignal): QueryStream {
    const { port1, port2 } = new MessageChannel();
    const inbox = new Inbox(port1, signal);
    this.#open.add(inbox);
    const ended = this.#pool
      .run({ kind: "run", query, sources, port: port2 }, { signal, transfer: [port2] })
      .then((answer): QueryOutcome => {
        if (answer.kind !== "ended") throw unexpected();
        const { summary, error } = answer;
        if (error === null) return { summary, failure: null };
        const failure = signal.aborted ? cancelled(signal) : fromErrorRecord(error);
        return { summary, failure };
      })
      .finally(() => {
        this.#open.delete(inbox);
      });
    // The iteration reports it; whoever awaits `ended` sees it too.
    void tellFailure(ended, inbox);
    return { ended, [Symbol.asyncIterator]: () => inbox.iterate(ended) };
  }

  /** Gives up what still runs: the protocol in front has drained by now. */
  stop(): Promise<void> {
    for (const inbox of this.#open)
      inbox.cancel(new ServiceError("UNAVAILABLE", "the server is stopping"));
    return this.#pool.stop();
  }
}

async function tellFailure(ended: Promise<QueryOutcome>, inbox: Inbox): Promise<void> {
  try {
    const { failure } = await ended;
    if (failure !== null) inbox.fail(failure);
  } catch (error) {
    inbox.fail(toServiceError(error));
  }
}

function cancelled(signal: AbortSignal): ServiceError {
  return new ServiceError("CANCELLED", undefined, { cause: signal.reason });
}

function unexpected(): ServiceError {
  return new ServiceError("INTERNAL", "a query thread gave the answer to another question");
}

/**
 * Messages of one query on their way to its reader. The end's message and a fulfilled task together are
 * the end.
 */
class Inbox {
  readonly #port: MessagePort;
  readonly #messages: Uint8Array[] = [];
  #closed = false;
  #failure: ServiceError | null = null;
  #wake: () => void = () => undefined;

  constructor(port: MessagePort, signal: AbortSignal) {
    this.#port = port;
    port.on("message", (message: QueryMessage) => {
      if (message.kind === "data") {
        this.#messages.push(message.message);
        this.#wake();
      } else {
        port.close();
        this.#close();
      }
    });
    port.on("close", () => {
      this.#close();
    });
    const abort = (): void => {
      this.cancel(cancelled(signal));
    };
    if (signal.aborted) abort();
    else {
      signal.addEventListener("abort", abort, { once: true });
      port.on("close", () => {
        signal.removeEventListener("abort", abort);
      });
    }
  }

  #close(): void {
    this.#closed = true;
    this.#wake();
  }

  cancel(error: ServiceError): void {
    this.#post({ kind: "cancel" });
    this.fail(error);
  }

  fail(error: ServiceError): void {
    this.#failure ??= error;
    // A task that never reached a thread leaves its port open.
    if (this.#messages.length === 0) this.#port.close();
    this.#wake();
  }

  async *iterate(ended: Promise<QueryOutcome>): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        if (this.#failure !== null) throw this.#failure;
        const message = this.#messages.shift();
        if (message !== undefined) {
          yield message;
          // Asked for the next one: the reader is done with this one.
          this.#post({ kind: "credit" });
        } else if (this.#closed) {
          const { failure } = await ended;
          if (failure !== null) throw failure;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      if (!this.#closed) {
        this.#post({ kind: "cancel" });
        this.#messages.length = 0;
      }
    }
  }

  #post(control: QueryControl): void {
    this.#port.postMessage(control, []);
  }
}
