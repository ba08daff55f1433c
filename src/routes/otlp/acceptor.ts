/**
 * A front end on a thread of its own: it has its own arena, hands its requests to the main thread and gets their
 * results back, those of one turn of the event loop in one message.
 *
 * States: made -> listening -> drained -> closed; it may be closed in each. Node.js aborts the process when a thread
 * ends while uWebSockets.js has a socket open in it. So it says `closed` once it has none, and its thread is ended
 * then.
 */
import { setImmediate as turn } from "node:timers/promises";

import {
  type AuthOutcome,
  type Authenticator,
  anonymousAuthenticator,
  looksLikeJwt,
} from "../../auth/authenticator.js";
import { bearerTokenStart } from "../../auth/bearer.js";
import { type KeyAuthenticatorHandle, openKeyAuthenticator } from "../../auth/keys/key-authenticator.js";
import { type KeyHourUsage, UsageCounts } from "../../auth/keys/usage-counts.js";
import type { IngestSink, PendingRequest } from "../../ingest/request.js";
import { eachResult, type RequestBatch, type ResultBatch, writeRequests } from "../../ingest/request-words.js";
import { createLogger, createSilentLogger, type Logger } from "../../runtime/log/log.js";
import { Arena } from "../../runtime/threads/arena.js";
import { Channel, type ChannelPort } from "../../runtime/threads/channel.js";
import { BodyMemory } from "./body-memory.js";
import { FrontCounters } from "./counters.js";
import { httpRoutes, OtlpFront } from "./front.js";
import { listenOtlp, type OtlpAddress, type OtlpListener } from "./listener.js";

/** How an acceptor checks credentials. */
export type AcceptorAuth =
  | { readonly kind: "anonymous" }
  /** @property oidc tokens that look like JWTs are asked of the main thread. */
  | { readonly kind: "keys"; readonly handle: KeyAuthenticatorHandle; readonly oidc: boolean };

/** What an acceptor is made of. */
export interface AcceptorSettings {
  readonly addresses: readonly OtlpAddress[];
  /** `SVC_INGESTION_CORS_ORIGINS` */
  readonly corsOrigins: readonly string[];
  readonly arenaBytes: number;
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  readonly maxConnections: number;
  readonly auth: AcceptorAuth;
  /** Memory of the counters, which outlives the thread. */
  readonly counters: SharedArrayBuffer;
  readonly logLevel: string;
  readonly metricsContentType: string;
  /** One word, set to 1 and notified once every socket of the thread is closed. */
  readonly closed: Int32Array;
}

/** What the main thread knows of itself, and an acceptor goes by. */
export interface HostState {
  /** See {@link IngestSink.obstacle}. */
  readonly obstacle: string | null;
  /** What `/health` says; null: all is well. */
  readonly problem: string | null;
}

/** What an acceptor offers the main thread. */
export interface AcceptorApi {
  /** Starts to listen. The bodies of all requests are in `arena`. @throws ServiceError as `listenOtlp` */
  listen(): Promise<{ readonly addresses: readonly OtlpAddress[]; readonly arena: SharedArrayBuffer }>;
  results(batch: ResultBatch): void;
  state(state: HostState): void;
  /** Takes no more connections; answers when every open request is answered and `usage` was told. */
  drain(): Promise<void>;
  /** Closes every socket, and tells `closed`. */
  close(): void;
}

/** What the main thread offers an acceptor. */
export interface AcceptorHost {
  /** A request's source is the id under which its result is expected. */
  requests(batch: RequestBatch): void;
  /** What keys were used for since the last one. */
  usage(usage: { readonly usages: readonly KeyHourUsage[] }): void;
  /** No socket is open any more; the thread may be terminated. */
  closed(): void;
  ready(): Promise<string | null>;
  metrics(): Promise<string>;
  authenticate(authorization: string): Promise<AuthOutcome>;
}

type MainThread = Channel<AcceptorApi, AcceptorHost>;

const usageEveryMs = 1000;

/** See the head of this file. */
export class OtlpAcceptor implements AcceptorApi {
  readonly #o: AcceptorSettings;
  readonly #logger: Logger;
  readonly #main: MainThread;
  readonly #sink: RemoteSink;
  readonly #arena: Arena;
  readonly #authenticator: Authenticator;
  readonly #usage = new UsageCounts();
  readonly #usageTimer: NodeJS.Timeout;
  #problem: string | null = null;
  #listening: Promise<OtlpListener> | null = null;

  constructor(o: AcceptorSettings, port: ChannelPort) {
    this.#o = o;
    this.#logger = createLogger({ level: o.logLevel, service: "acceptor" });
    this.#main = new Channel<AcceptorApi, AcceptorHost>(port, "the main thread", this);
    this.#sink = new RemoteSink(this.#main);
    this.#arena = new Arena(o.arenaBytes);
    this.#authenticator = openAuthenticator(o.auth, this.#main);
    this.#usageTimer = setInterval(() => {
      this.#sendUsage();
    }, usageEveryMs);
    this.#usageTimer.unref();
  }

  async listen(): ReturnType<AcceptorApi["listen"]> {
    const o = this.#o;
    const front = new OtlpFront({
      paths: httpRoutes,
      memory: new BodyMemory(this.#arena),
      ownsMemory: true,
      authenticator: this.#authenticator,
      sink: this.#sink,
      counters: new FrontCounters(o.counters),
      usage: this.#usage,
      maxBodyBytes: o.maxBodyBytes,
      bodyTimeoutMs: o.bodyTimeoutMs,
      corsOrigins: o.corsOrigins,
      logger: this.#logger,
    });
    this.#listening = listenOtlp({
      driver: "uws",
      http2Hint: () => "", // this driver does not tell of HTTP/2
      maxConnections: o.maxConnections,
      addresses: o.addresses,
      shared: true,
      front,
      probes: {
        health: () => this.#problem,
        ready: () => this.#main.ask("ready", undefined),
        metrics: () => this.#main.ask("metrics", undefined),
        metricsContentType: o.metricsContentType,
      },
      logger: this.#logger,
    });
    const { addresses } = await this.#listening;
    return { addresses, arena: this.#arena.buffer };
  }

  results(batch: ResultBatch): void {
    this.#sink.results(batch);
  }

  state({ obstacle, problem }: HostState): void {
    this.#sink.obstacle = obstacle;
    this.#problem = problem;
  }

  async drain(): Promise<void> {
    const listener = await this.#listening;
    await listener?.drain();
    this.#sendUsage();
  }

  close(): void {
    void this.#close();
  }

  /** Closes because of a defect, whatever was under way. */
  fail(error: unknown): void {
    this.#logger.fatal({ err: error }, "an acceptor thread met a defect and closes");
    this.close();
  }

  async #close(): Promise<void> {
    clearInterval(this.#usageTimer);
    const listener = await this.#listening?.catch(() => null); // whoever had it listen has the error
    await listener?.stop();
    await this.#authenticator.stop();
    // libuv closes the sockets in its next turn; until then the thread must not end.
    await turn();
    await turn();
    this.#main.tell({ kind: "closed" });
    Atomics.store(this.#o.closed, 0, 1);
    Atomics.notify(this.#o.closed, 0);
  }

  #sendUsage(): void {
    const usages = this.#usage.take();
    if (usages.length > 0) {
      this.#main.tell({ kind: "usage", usages });
    }
  }
}

/** Hands requests to the main thread, those of one turn of the event loop in one message. */
class RemoteSink implements IngestSink {
  obstacle: string | null = null;
  readonly #main: MainThread;
  readonly #pending = new Map<number, PendingRequest>();
  #turn: PendingRequest[] = [];
  #nextId = 0;

  constructor(main: MainThread) {
    this.#main = main;
  }

  submit(request: PendingRequest): void {
    if (this.#turn.length === 0) {
      setImmediate(() => {
        this.#flush();
      });
    }
    this.#turn.push(request);
    this.#pending.set(this.#nextId++, request);
  }

  results(batch: ResultBatch): void {
    eachResult(batch, (id, result) => {
      const request = this.#pending.get(id);
      this.#pending.delete(id);
      request?.answer(result);
    });
  }

  #flush(): void {
    const firstId = this.#nextId - this.#turn.length;
    const batch = writeRequests(this.#turn, (_, index) => firstId + index);
    this.#turn = [];
    this.#main.tell(batch, [batch.words.buffer]);
  }
}

function openAuthenticator(auth: AcceptorAuth, main: MainThread): Authenticator {
  // The main thread has logged its warning already.
  if (auth.kind === "anonymous") {
    return anonymousAuthenticator(createSilentLogger());
  }
  const keys = openKeyAuthenticator(auth.handle);
  if (!auth.oidc) {
    return keys;
  }
  const isToken = (authorization: string): boolean => {
    const start = bearerTokenStart(authorization);
    return start >= 0 && looksLikeJwt(authorization, start);
  };
  return {
    name: "acceptor-authenticator",
    authenticateNow: (authorization) => (isToken(authorization) ? null : keys.authenticateNow(authorization)),
    authenticate: (authorization) =>
      isToken(authorization) ? main.ask("authenticate", authorization) : keys.authenticate(authorization),
    stop: () => keys.stop(),
  };
}
