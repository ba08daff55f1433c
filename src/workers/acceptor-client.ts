/**
 * The main thread's side of one acceptor thread: hands its requests to the batcher and their results
 * back, answers its questions, and replaces it when it dies.
 *
 * States: starting -> listening -> draining -> closed; a thread that ends before `close` was said is
 * started again after a second, on the same addresses. What it had in flight is lost with its connections;
 * results that come in for it are dropped.
 *
 * Node.js aborts the process when a thread ends while uWebSockets.js has a socket open in it. So a thread closes its
 * sockets before it ends, after an uncaught exception too, and when the process exits the main thread waits for that.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";

import type { Authenticator } from "../auth/authenticator.js";
import type { KeyHourUsage } from "../auth/keys/usage-counts.js";
import type { IngestResult, IngestSink, PendingRequest } from "../ingest/request.js";
import { eachRequest, type RequestBatch, writeResults } from "../ingest/request-words.js";
import type { HealthProbes } from "../routes/http/health.js";
import type { AcceptorApi, AcceptorAuth, AcceptorHost, AcceptorSettings, HostState } from "../routes/otlp/acceptor.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { Channel } from "../runtime/threads/channel.js";

/** Options of {@link startAcceptor}. */
interface AcceptorOptions extends Omit<AcceptorSettings, "auth" | "closed" | "metricsContentType"> {
  readonly sink: IngestSink;
  readonly authenticator: Authenticator;
  /** Called for every thread, because a handle serves one. */
  readonly shareAuth: () => AcceptorAuth;
  readonly probes: HealthProbes;
  /** Told every second, and before the end, what keys were used for. */
  readonly onUsage: (usages: readonly KeyHourUsage[]) => void;
  readonly logger: Logger;
  /** The thread's entry file, which a test gives a defect. Default: acceptor-thread.js beside this file. */
  readonly entry?: URL;
}

/** One acceptor, over all the threads that it takes. */
export interface Acceptor extends Component {
  /** False while the thread is down. */
  readonly healthy: boolean;
  /** Takes no more connections and resolves when every open request is answered. */
  drain(): Promise<void>;
}

const statePollMs = 100;
const restartDelayMs = 1000;
/** How long an exiting process waits for a thread to close its sockets. */
const exitPatienceMs = 1000;

/**
 * Starts an acceptor and waits until it listens.
 * @throws ServiceError UNAVAILABLE when an address cannot be bound, or the thread ended.
 */
export async function startAcceptor(o: AcceptorOptions): Promise<Acceptor> {
  const acceptor = new AcceptorClient(o);
  await acceptor.start();
  return acceptor;
}

/** A request of an acceptor thread as the batcher sees it. */
class RemoteRequest implements PendingRequest {
  readonly buffer: SharedArrayBuffer;
  readonly offset: number;
  readonly length: number;
  readonly code: number;
  readonly audience: string | null;
  readonly sinceMs = performance.now();
  readonly #id: number;
  readonly #thread: AcceptorThread;

  constructor(
    thread: AcceptorThread,
    buffer: SharedArrayBuffer,
    id: number,
    offset: number,
    length: number,
    code: number,
    audience: string | null,
  ) {
    this.#thread = thread;
    this.buffer = buffer;
    this.#id = id;
    this.offset = offset;
    this.length = length;
    this.code = code;
    this.audience = audience;
  }

  answer(result: IngestResult): void {
    this.#thread.result(this.#id, result);
  }
}

/** One thread; it is replaced as a whole. */
class AcceptorThread {
  /** Rejects when the thread cannot listen, which ends it, or has ended. */
  readonly listening: Promise<void>;
  readonly exited: Promise<void>;
  readonly #o: AcceptorOptions;
  readonly #worker: Worker;
  readonly #thread: Channel<AcceptorHost, AcceptorApi>;
  /** Of this turn of the event loop, and the ids of their requests. */
  #results: IngestResult[] = [];
  #ids: number[] = [];
  #arena: SharedArrayBuffer | null = null;
  #state: HostState | null = null;
  readonly #poll: NodeJS.Timeout;
  readonly #closed = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #onProcessExit = (): void => {
    this.close();
    Atomics.wait(this.#closed, 0, 0, exitPatienceMs);
  };

  constructor(o: AcceptorOptions) {
    this.#o = o;
    const auth = o.shareAuth();
    const settings: AcceptorSettings = {
      addresses: o.addresses,
      corsOrigins: o.corsOrigins,
      arenaBytes: o.arenaBytes,
      maxBodyBytes: o.maxBodyBytes,
      bodyTimeoutMs: o.bodyTimeoutMs,
      maxConnections: o.maxConnections,
      auth,
      counters: o.counters,
      logLevel: o.logLevel,
      metricsContentType: o.probes.metricsContentType,
      closed: this.#closed,
    };
    this.#worker = new Worker(o.entry ?? new URL("./acceptor-thread.js", import.meta.url), {
      name: "acceptor",
      workerData: settings,
      transferList: auth.kind === "keys" ? [auth.handle.port] : [],
    });
    this.#thread = new Channel<AcceptorHost, AcceptorApi>(this.#worker, "an acceptor thread", {
      requests: (batch) => {
        this.#submit(batch);
      },
      usage: ({ usages }) => {
        o.onUsage(usages);
      },
      closed: () => {
        void this.#worker.terminate();
      },
      ready: () => o.probes.ready(),
      metrics: () => o.probes.metrics(),
      authenticate: (authorization) => o.authenticator.authenticate(authorization),
    });
    this.#worker.on("error", (error) => {
      o.logger.error({ err: error }, "an acceptor thread failed");
    });
    this.exited = new Promise((resolve) => {
      this.#worker.once("exit", () => {
        clearInterval(this.#poll);
        process.off("exit", this.#onProcessExit);
        resolve();
      });
    });
    this.#poll = setInterval(() => {
      this.#sendState();
    }, statePollMs);
    this.#poll.unref();
    process.once("exit", this.#onProcessExit);
    this.#sendState();
    this.listening = this.#listen();
  }

  /** Resolves when every open request is answered, or lost with its thread. */
  async drain(): Promise<void> {
    try {
      await this.#thread.ask("drain", undefined);
    } catch (error) {
      this.#o.logger.debug({ err: error }, "an acceptor thread ended before it was drained");
    }
  }

  /** Has the thread close its sockets and end. */
  close(): void {
    this.#thread.tell({ kind: "close" });
  }

  /** Results of one turn leave in one message. */
  result(id: number, result: IngestResult): void {
    if (this.#results.length === 0) {
      setImmediate(() => {
        this.#sendResults();
      });
    }
    this.#results.push(result);
    this.#ids.push(id);
  }

  async #listen(): Promise<void> {
    try {
      const { arena } = await this.#thread.ask("listen", undefined);
      this.#arena = arena;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #submit(batch: RequestBatch): void {
    const arena = this.#arena;
    if (arena === null) {
      throw new Error("an acceptor thread sent requests before it listened");
    }
    eachRequest(batch, (id, offset, length, code, audience) => {
      this.#o.sink.submit(new RemoteRequest(this, arena, id, offset, length, code, audience));
    });
  }

  #sendResults(): void {
    this.#thread.tell(writeResults(this.#ids, this.#results));
    this.#results = [];
    this.#ids = [];
  }

  #sendState(): void {
    const { obstacle } = this.#o.sink;
    const problem = this.#o.probes.health();
    if (this.#state?.obstacle === obstacle && this.#state.problem === problem) {
      return;
    }
    this.#state = { obstacle, problem };
    this.#thread.tell({ kind: "state", obstacle, problem });
  }
}

class AcceptorClient implements Acceptor {
  readonly name = "acceptor";
  readonly #o: AcceptorOptions;
  #thread: AcceptorThread;
  #up = false;
  #closing = false;

  constructor(o: AcceptorOptions) {
    this.#o = o;
    this.#thread = new AcceptorThread(o);
  }

  get healthy(): boolean {
    return this.#up;
  }

  async start(): Promise<void> {
    await this.#thread.listening;
    this.#up = true;
    void this.#watch();
  }

  async drain(): Promise<void> {
    this.#closing = true;
    await this.#thread.drain();
  }

  async stop(): Promise<void> {
    this.#closing = true;
    this.#thread.close();
    await this.#thread.exited;
  }

  /** Replaces the thread for as long as nobody closes the acceptor. Never rejects. */
  async #watch(): Promise<void> {
    for (;;) {
      await this.#thread.exited;
      this.#up = false;
      if (this.#closing) {
        return;
      }
      this.#o.logger.error("an acceptor thread ended; starting another one");
      while (!this.#up) {
        await sleep(restartDelayMs, undefined, { ref: false });
        if (this.#closing) {
          return;
        }
        try {
          // It throws when the system gives no thread.
          this.#thread = new AcceptorThread(this.#o);
          await this.#thread.listening;
          this.#up = true;
        } catch (error) {
          this.#o.logger.error({ err: error }, "an acceptor thread could not be started; trying again");
        }
      }
    }
  }
}
