/**
 * The main thread's side of one acceptor thread: hands its requests to the batcher and their results
 * back, answers its questions, and replaces it when it dies.
 *
 * States: starting -> listening -> draining -> closed; a thread that ends before `close` was said is
 * started again after a second, on the same port. What it had in flight is lost with its connections;
 * results that come in for it are dropped.
 *
 * Node.js aborts the process when a thread ends while uWebSockets.js has a socket open in it. So a
 * thread closes its sockets before it ends, after an uncaught exception too, and when the process
 * exits the main thread waits for that.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";

import type { Authenticator } from "../auth/authenticator.js";
import type { KeyHourUsage } from "../auth/keys/usage-counts.js";
import type { IngestResult, IngestSink, PendingRequest } from "../ingest/request.js";
import { fromErrorRecord, ServiceError, toErrorRecord } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import {
  type AcceptorAuth,
  type AcceptorWorkerData,
  type FromAcceptor,
  HANDOVER_WORDS,
  type Question,
  type QuestionAnswer,
  ResultWriter,
  type ToAcceptor,
} from "./acceptor-messages.js";

/** What the acceptor may ask, beside credentials. */
export interface AcceptorProbes {
  readonly health: () => string | null;
  readonly ready: () => Promise<string | null>;
  readonly metrics: () => Promise<string>;
}

/** Options of {@link startAcceptor}. */
export interface AcceptorOptions extends Omit<AcceptorWorkerData, "auth" | "closed"> {
  readonly sink: IngestSink;
  readonly authenticator: Authenticator;
  /** Called for every thread, because a handle serves one. */
  readonly shareAuth: () => AcceptorAuth;
  readonly probes: AcceptorProbes;
  /** Told every second, and before the end, what keys were used for. */
  readonly onUsage: (usages: readonly KeyHourUsage[]) => void;
  readonly logger: Logger;
}

/** One acceptor, over all the threads that it takes. */
export interface Acceptor extends Component {
  readonly port: number;
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
 * @throws ServiceError what the thread failed with, or UNAVAILABLE when it ended.
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
  readonly #id: number;
  readonly #thread: AcceptorThread;

  constructor(
    thread: AcceptorThread,
    arena: SharedArrayBuffer,
    words: Float64Array,
    at: number,
    audiences: readonly string[],
  ) {
    this.#thread = thread;
    this.buffer = arena;
    this.#id = words[at] ?? 0;
    this.offset = words[at + 1] ?? 0;
    this.length = words[at + 2] ?? 0;
    this.code = words[at + 3] ?? 0;
    this.audience = audiences[words[at + 4] ?? -1] ?? null;
  }

  answer(result: IngestResult): void {
    this.#thread.result(this.#id, result);
  }
}

/** One thread; it is replaced as a whole. */
class AcceptorThread {
  readonly worker: Worker;
  readonly listening: Promise<number>;
  readonly exited: Promise<void>;
  readonly drained: Promise<void>;
  readonly #o: AcceptorOptions;
  readonly #results = new ResultWriter();
  #state: { accepting: boolean; problem: string | null } | null = null;
  readonly #poll: NodeJS.Timeout;
  readonly #closed = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #onProcessExit = (): void => {
    this.post({ kind: "close" });
    Atomics.wait(this.#closed, 0, 0, exitPatienceMs);
  };

  constructor(o: AcceptorOptions, port: number) {
    this.#o = o;
    const auth = o.shareAuth();
    const data: AcceptorWorkerData = {
      module: o.module,
      host: o.host,
      port,
      arenaBytes: o.arenaBytes,
      maxBodyBytes: o.maxBodyBytes,
      bodyTimeoutMs: o.bodyTimeoutMs,
      maxConnections: o.maxConnections,
      auth,
      counters: o.counters,
      logLevel: o.logLevel,
      metricsContentType: o.metricsContentType,
      closed: this.#closed,
    };
    this.worker = new Worker(new URL("./acceptor-thread.js", import.meta.url), {
      name: "acceptor",
      workerData: data,
      transferList: auth.kind === "keys" ? [auth.handle.port] : [],
    });
    let onListening: (port: number) => void = () => undefined;
    let onFailed: (error: ServiceError) => void = () => undefined;
    let onDrained: () => void = () => undefined;
    this.listening = new Promise((resolve, reject) => {
      onListening = resolve;
      onFailed = reject;
    });
    this.drained = new Promise((resolve) => {
      onDrained = resolve;
    });
    let arena: SharedArrayBuffer | null = null;
    this.worker.on("message", (message: FromAcceptor) => {
      switch (message.kind) {
        case "listening":
          arena = message.arena;
          onListening(message.port);
          break;
        case "failed":
          onFailed(fromErrorRecord(message.error));
          break;
        case "requests":
          if (arena !== null) this.#submit(arena, message.words, message.audiences);
          break;
        case "question":
          void this.#answer(message.id, message.question);
          break;
        case "usage":
          o.onUsage(message.usages);
          break;
        case "drained":
          onDrained();
          break;
        case "closed":
          void this.worker.terminate();
          break;
      }
    });
    this.worker.on("error", (error) => {
      o.logger.error({ err: error }, "an acceptor thread failed");
    });
    this.exited = new Promise((resolve) => {
      this.worker.once("exit", () => {
        clearInterval(this.#poll);
        process.off("exit", this.#onProcessExit);
        onFailed(new ServiceError("UNAVAILABLE", "an acceptor thread ended"));
        onDrained();
        resolve();
      });
    });
    this.#poll = setInterval(() => {
      this.#sendState();
    }, statePollMs);
    this.#poll.unref();
    process.once("exit", this.#onProcessExit);
    this.#sendState();
  }

  post(message: ToAcceptor): void {
    this.worker.postMessage(message, []);
  }

  /** Results of one turn leave in one message. */
  result(id: number, result: IngestResult): void {
    if (this.#results.empty) {
      setImmediate(() => {
        this.post(this.#results.take());
      });
    }
    this.#results.push(id, result);
  }

  #submit(arena: SharedArrayBuffer, words: Float64Array, audiences: readonly string[]): void {
    for (let at = 0; at < words.length; at += HANDOVER_WORDS) {
      this.#o.sink.submit(new RemoteRequest(this, arena, words, at, audiences));
    }
  }

  #sendState(): void {
    const { accepting } = this.#o.sink;
    const problem = this.#o.probes.health();
    if (this.#state?.accepting === accepting && this.#state.problem === problem) return;
    this.#state = { accepting, problem };
    this.post({ kind: "state", accepting, problem });
  }

  /** Never rejects. */
  async #answer(id: number, question: Question): Promise<void> {
    let answer: QuestionAnswer;
    try {
      answer = await this.#ask(question);
    } catch (error) {
      answer = { kind: "error", error: toErrorRecord(error) };
    }
    this.post({ kind: "answer", id, answer });
  }

  async #ask(question: Question): Promise<QuestionAnswer> {
    switch (question.kind) {
      case "ready":
        return { kind: "text", text: await this.#o.probes.ready() };
      case "metrics":
        return { kind: "text", text: await this.#o.probes.metrics() };
      case "authenticate":
        return {
          kind: "outcome",
          outcome: await this.#o.authenticator.authenticate(question.authorization),
        };
    }
  }
}

class AcceptorClient implements Acceptor {
  readonly name = "acceptor";
  readonly #o: AcceptorOptions;
  #thread: AcceptorThread;
  #port: number;
  #up = false;
  #closing = false;

  constructor(o: AcceptorOptions) {
    this.#o = o;
    this.#port = o.port;
    this.#thread = new AcceptorThread(o, o.port);
  }

  get port(): number {
    return this.#port;
  }

  get healthy(): boolean {
    return this.#up;
  }

  async start(): Promise<void> {
    this.#port = await this.#thread.listening;
    this.#up = true;
    void this.#watch();
  }

  async drain(): Promise<void> {
    this.#closing = true;
    this.#thread.post({ kind: "drain" });
    await this.#thread.drained;
  }

  async stop(): Promise<void> {
    this.#closing = true;
    this.#thread.post({ kind: "close" });
    await this.#thread.exited;
  }

  /** Replaces the thread for as long as nobody closes the acceptor. Never rejects. */
  async #watch(): Promise<void> {
    for (;;) {
      await this.#thread.exited;
      this.#up = false;
      if (this.#closing) return;
      this.#o.logger.error("an acceptor thread ended; starting another one");
      await sleep(restartDelayMs, undefined, { ref: false });
      if (this.#closing) return;
      this.#thread = new AcceptorThread(this.#o, this.#port);
      try {
        await this.#thread.listening;
        this.#up = true;
      } catch (error) {
        this.#o.logger.error({ err: error }, "an acceptor thread could not be started");
      }
    }
  }
}
