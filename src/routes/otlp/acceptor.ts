/** A front end on a thread of its own: the module that src/workers/acceptor-thread.ts runs. */

import { setImmediate as turn } from "node:timers/promises";
import type { MessagePort } from "node:worker_threads";

import {
  type AuthOutcome,
  type Authenticator,
  anonymousAuthenticator,
  looksLikeJwt,
} from "../../auth/authenticator.js";
import { bearerTokenStart } from "../../auth/bearer.js";
import { openKeyAuthenticator } from "../../auth/keys/key-authenticator.js";
import { UsageCounts } from "../../auth/keys/usage-counts.js";
import type { IngestSink, PendingRequest } from "../../ingest/request.js";
import { Arena } from "../../runtime/threads/arena.js";
import { fromErrorRecord } from "../../runtime/errors.js";
import { createLogger, createSilentLogger } from "../../runtime/log/log.js";
import {
  type AcceptorWorkerData,
  type FromAcceptor,
  type Question,
  type QuestionAnswer,
  readResults,
  type ToAcceptor,
} from "../../workers/acceptor-messages.js";
import type { AcceptorModule } from "../../workers/acceptor-thread.js";
import type { HealthProbes } from "../http/health.js";
import { FrontCounters } from "./counters.js";
import { OtlpFront } from "./front.js";
import { listenOtlp } from "./listener.js";

/** Questions to the main thread that wait for their answer. */
class MainThread {
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, (answer: QuestionAnswer) => void>();
  #nextId = 0;

  constructor(port: MessagePort) {
    this.#port = port;
  }

  post(message: FromAcceptor, transfer: ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transfer);
  }

  async text(question: Question): Promise<string | null> {
    const answer = await this.#ask(question);
    if (answer.kind === "error") throw fromErrorRecord(answer.error);
    return answer.kind === "text" ? answer.text : null;
  }

  async outcome(authorization: string): Promise<AuthOutcome> {
    const answer = await this.#ask({ kind: "authenticate", authorization });
    return answer.kind === "outcome"
      ? answer.outcome
      : { kind: "unavailable", retryAfterSeconds: 1 };
  }

  settle(id: number, answer: QuestionAnswer): void {
    this.#waiting.get(id)?.(answer);
    this.#waiting.delete(id);
  }

  #ask(question: Question): Promise<QuestionAnswer> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.post({ kind: "question", id, question });
    });
  }
}

/** Hands requests to the main thread, those of one turn of the event loop in one message. */
class RemoteSink implements IngestSink {
  accepting = true;
  readonly #main: MainThread;
  readonly #pending = new Map<number, PendingRequest>();
  #nextId = 0;
  #words: number[] = [];
  #audiences: string[] = [];

  constructor(main: MainThread) {
    this.#main = main;
  }

  submit(request: PendingRequest): void {
    if (this.#words.length === 0) {
      setImmediate(() => {
        this.#flush();
      });
    }
    const id = this.#nextId++;
    this.#pending.set(id, request);
    const { offset, length, code, audience } = request;
    this.#words.push(id, offset, length, code, audience === null ? -1 : this.#audience(audience));
  }

  results(message: Extract<ToAcceptor, { kind: "results" }>): void {
    readResults(message, (id, result) => {
      const request = this.#pending.get(id);
      this.#pending.delete(id);
      request?.answer(result);
    });
  }

  #audience(audience: string): number {
    const known = this.#audiences.lastIndexOf(audience);
    return known === -1 ? this.#audiences.push(audience) - 1 : known;
  }

  #flush(): void {
    const words = Float64Array.from(this.#words);
    const audiences = this.#audiences;
    this.#words = [];
    this.#audiences = [];
    this.#main.post({ kind: "requests", words, audiences }, [words.buffer]);
  }
}

function openAuthenticator(data: AcceptorWorkerData, main: MainThread): Authenticator {
  const { auth } = data;
  // The main thread has logged its warning already.
  if (auth.kind === "anonymous") return anonymousAuthenticator(createSilentLogger());
  const keys = openKeyAuthenticator(auth.handle);
  if (!auth.oidc) return keys;
  const isToken = (authorization: string): boolean => {
    const start = bearerTokenStart(authorization);
    return start >= 0 && looksLikeJwt(authorization, start);
  };
  return {
    name: "acceptor-authenticator",
    authenticateNow: (authorization) =>
      isToken(authorization) ? null : keys.authenticateNow(authorization),
    authenticate: (authorization) =>
      isToken(authorization) ? main.outcome(authorization) : keys.authenticate(authorization),
    stop: () => keys.stop(),
  };
}

const usageEveryMs = 1000;

/** Where this module is, for the thread that runs it. */
export const acceptorModule = import.meta.url;

/** See {@link AcceptorModule}. */
export const runAcceptor: AcceptorModule["runAcceptor"] = async (data, port) => {
  const logger = createLogger({ level: data.logLevel, service: "acceptor" });
  const main = new MainThread(port);
  const sink = new RemoteSink(main);
  const arena = new Arena(data.arenaBytes);
  const authenticator = openAuthenticator(data, main);
  let problem: string | null = null;
  const probes: HealthProbes = {
    health: () => problem,
    ready: () => main.text({ kind: "ready" }),
    metrics: async () => (await main.text({ kind: "metrics" })) ?? "",
    metricsContentType: data.metricsContentType,
  };
  const usage = new UsageCounts();
  const sendUsage = (): void => {
    const usages = usage.take();
    if (usages.length > 0) main.post({ kind: "usage", usages });
  };
  setInterval(sendUsage, usageEveryMs).unref();
  const front = new OtlpFront({
    arena,
    authenticator,
    sink,
    counters: new FrontCounters(data.counters),
    usage,
    maxBodyBytes: data.maxBodyBytes,
    bodyTimeoutMs: data.bodyTimeoutMs,
    logger,
  });
  const drain = async (): Promise<void> => {
    await listener.drain();
    sendUsage();
    main.post({ kind: "drained" });
  };
  const close = async (): Promise<void> => {
    await listener.stop();
    await authenticator.stop();
    // libuv closes the sockets in its next turn; until then the thread must not end.
    await turn();
    await turn();
    main.post({ kind: "closed" });
    Atomics.store(data.closed, 0, 1);
    Atomics.notify(data.closed, 0);
  };
  process.once("uncaughtException", (error) => {
    logger.fatal({ err: error }, "an acceptor thread met a defect and closes");
    void close();
  });
  port.on("message", (message: ToAcceptor) => {
    switch (message.kind) {
      case "results":
        sink.results(message);
        break;
      case "answer":
        main.settle(message.id, message.answer);
        break;
      case "state":
        sink.accepting = message.accepting;
        problem = message.problem;
        break;
      case "drain":
        void drain();
        break;
      case "close":
        void close();
        break;
    }
  });
  const { host } = data;
  const listener = await listenOtlp({
    driver: "uws",
    maxConnections: data.maxConnections,
    host,
    port: data.port,
    shared: true,
    front,
    probes,
    logger,
  });
  main.post({ kind: "listening", port: listener.address.port, arena: arena.buffer });
};
