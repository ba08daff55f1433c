/**
 * The front end of ingestion for one thread: `POST /v1/{logs,metrics,traces}` (OTLP/HTTP), also below
 * `/ingestion/otlp`; or the calls of OTLP/gRPC (`grpc/`).
 *
 * A request is judged in this order, each step before the next one costs anything: framing, path,
 * method, credential, content type, content coding, announced size, room. Only then is its body read, into
 * the arena, and handed to the sink when it is complete.
 */
import type { AuthOutcome, Authenticator } from "../../auth/authenticator.js";
import {
  type BodyEncoding,
  codeIsOwnTelemetry,
  codeSignal,
  type IngestResult,
  type IngestSink,
  requestCode,
} from "../../ingest/request.js";
import type { UsageCounts } from "../../auth/keys/usage-counts.js";
import type { Logger } from "../../runtime/log/log.js";
import type { OtlpFormat, OtlpSignal } from "../../wire/otlp/rpc-status.js";
import type { FrontCounters } from "./counters.js";
import { answerNow, writeLastAnswer } from "../http/answer.js";
import type { RequestHead } from "../http/request-head.js";
import { type HttpHandler, type HttpReply, type HttpRequest, keepReadingEveryMs, remoteAddress } from "../http/seam.js";
import type { BodyMemory } from "./body-memory.js";
import { encodingOf, formatOf } from "./content.js";
import { isPreflight, withCors } from "./cors.js";
import { Exchange, type ExchangeHost, overloaded } from "./exchange.js";
import { RefusalLog } from "./refusal-log.js";
import { notFoundAnswer, type Refusal, refusalAnswer, httpStatusOf } from "./responses.js";

/** Options of {@link OtlpFront}. */
export interface OtlpFrontOptions {
  /** Paths and what they take. */
  readonly paths: readonly (readonly [string, OtlpSignal])[];
  readonly memory: BodyMemory;
  /** Whether this front tells how full the memory is; false: another front, with which it shares it. */
  readonly ownsMemory: boolean;
  readonly authenticator: Pick<Authenticator, "authenticateNow" | "authenticate">;
  readonly sink: IngestSink;
  readonly counters: FrontCounters;
  /** Told of every answered body that came with an API key. */
  readonly usage: UsageCounts;
  /** Largest body as sent (`SVC_OTLP_MAX_BODY_BYTES`). */
  readonly maxBodyBytes: number;
  /** Longest time from the head of a request to the end of its body (`SVC_OTLP_BODY_TIMEOUT_SECONDS`). */
  readonly bodyTimeoutMs: number;
  /** Whose pages may send (`SVC_INGESTION_CORS_ORIGINS`). */
  readonly corsOrigins: readonly string[];
  readonly logger: Logger;
}

/** The paths of OTLP/HTTP: what senders use by default, and our own. */
export const httpRoutes: readonly (readonly [string, OtlpSignal])[] = ["", "/ingestion/otlp"].flatMap((prefix) => [
  [`${prefix}/v1/logs`, 1] as const,
  [`${prefix}/v1/metrics`, 2] as const,
  [`${prefix}/v1/traces`, 3] as const,
]);

/** What a browser asks first. */
const notLetIn = "this path takes POST; SVC_INGESTION_CORS_ORIGINS says which origins' pages may send";

/** A body that is still coming in when the server stops gets this long. */
const drainBodyMs = 3000;

const stopping: Refusal = {
  code: "UNAVAILABLE",
  message: "the server is stopping; try again",
  retryAfterSeconds: 1,
  close: true,
};
/** Transient, so not 408: OTLP senders drop what is refused with a 4xx. */
const late: Refusal = {
  code: "UNAVAILABLE",
  message: "the body did not arrive in time; try again",
  retryAfterSeconds: 1,
  close: true,
};

/** See the head of this file. */
export class OtlpFront implements ExchangeHost {
  readonly memory: BodyMemory;
  readonly maxBodyBytes: number;
  readonly #options: OtlpFrontOptions;
  readonly #refusals: RefusalLog;
  /** Exchanges whose body or credential is awaited, in order of arrival. */
  readonly #reading = new Set<Exchange>();
  readonly #sweep: NodeJS.Timeout;
  #bodyTimeoutMs: number;
  #open = 0;
  #draining = false;
  #onDrained: (() => void) | null = null;
  #lastKeepReadingMs = 0;

  constructor(o: OtlpFrontOptions) {
    this.#options = o;
    this.memory = o.memory;
    // One that no arena could hold would be asked for again and again.
    this.maxBodyBytes = Math.min(o.maxBodyBytes, o.memory.arena.sizeBytes);
    this.#refusals = new RefusalLog(o.logger);
    this.#bodyTimeoutMs = o.bodyTimeoutMs;
    this.#sweep = setInterval(
      () => {
        this.#sweepReading();
      },
      Math.max(50, Math.min(1000, o.bodyTimeoutMs / 4)),
    );
    this.#sweep.unref();
    this.#updateGauges();
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** The routes by path. */
  get routes(): Map<string, HttpHandler> {
    return new Map(this.#options.paths.map(([path, signal]) => [path, this.#handler(signal)]));
  }

  /** Answers 404 on every path that nobody else has claimed. */
  get fallback(): HttpHandler {
    return this.#handler(null);
  }

  /** Refuses new requests and resolves when every open one is answered; bodies that still come in get a short time. */
  async drain(): Promise<void> {
    this.#draining = true;
    const nowMs = performance.now();
    this.#bodyTimeoutMs = Math.min(this.#bodyTimeoutMs, drainBodyMs);
    for (const exchange of this.#reading) {
      exchange.sinceMs = nowMs;
    }
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve;
      });
    }
    clearInterval(this.#sweep);
    this.#updateGauges();
  }

  complete(exchange: Exchange): void {
    this.#reading.delete(exchange);
    this.#options.sink.submit(exchange);
  }

  answered(exchange: Exchange, result: IngestResult): void {
    const seconds = (performance.now() - exchange.sinceMs) / 1000;
    const { counters, usage } = this.#options;
    counters.answered(codeSignal(exchange.code), exchange.length, seconds, result);
    if (exchange.keyId !== null) {
      usage.add(exchange.keyId, exchange.length, result.kind === "stored" ? result.records : 0);
    }
  }

  ended(exchange: Exchange, status: number): void {
    this.#reading.delete(exchange);
    this.#options.counters.request(codeSignal(exchange.code), status);
    this.#open--;
    this.#updateGauges();
    if (this.#open === 0) {
      this.#onDrained?.();
    }
  }

  refused(exchange: Exchange, reply: HttpReply, refusal: Refusal): void {
    this.#logExchange(exchange, reply, httpStatusOf(refusal), refusal.message);
  }

  refusedRecords(exchange: Exchange, reply: HttpReply, o: { rejected: number; rejectedReason: string | null }): void {
    this.#logExchange(exchange, reply, 200, `${o.rejected} records: ${o.rejectedReason ?? ""}`);
  }

  #logExchange({ code }: Exchange, reply: HttpReply, status: number, reason: string): void {
    const path = this.#options.paths.find(([, signal]) => signal === codeSignal(code))?.[0] ?? "";
    this.#log(reply, path, status, reason, codeIsOwnTelemetry(code));
  }

  /** Logs a sender that was refused before its request got here. */
  refusedOutside(status: number, reason: string, path: string, from: string): void {
    this.#refusals.add(status, reason, path, () => from);
  }

  #handler(signal: OtlpSignal | null): HttpHandler {
    const handler: HttpHandler = {
      handle: (reply, request, head) => {
        this.#handle(reply, request, head, signal);
      },
      malformed: (reply, request, head) => {
        const message = head.framingProblem ?? "";
        this.#log(reply, request.getUrl(), 400, message, head.ownTelemetry);
        const refusal: Refusal = { code: "BAD_REQUEST", message };
        writeLastAnswer(reply, refusalAnswer(formatOf(head) ?? "json", refusal, true));
        this.#options.counters.request(signal ?? 0, 400);
      },
    };
    return withCors(handler, this.#options.corsOrigins);
  }

  #handle(reply: HttpReply, request: HttpRequest, head: RequestHead, signal: OtlpSignal | null): void {
    const method = request.getCaseSensitiveMethod();
    const format = formatOf(head);
    if (signal === null) {
      this.#log(reply, request.getUrl(), 404, "no such path", head.ownTelemetry);
      answerNow(reply, request, head, notFoundAnswer(format ?? "json", this.#draining));
      this.#options.counters.request(0, 404);
      return;
    }
    if (method !== "POST") {
      const message = isPreflight(request) ? notLetIn : "this path takes POST";
      this.#refuseNow(reply, request, head, signal, { code: "METHOD_NOT_ALLOWED", message });
      return;
    }
    const outcome = this.#options.authenticator.authenticateNow(head.authorization);
    if (outcome !== null && outcome.kind !== "ok") {
      this.#refuseNow(reply, request, head, signal, refusalOf(outcome));
      return;
    }
    const encoding = encodingOf(head);
    const audience = outcome === null ? null : outcome.principal.audience;
    const refusal = this.#judge(head, format, encoding, audience);
    if (outcome !== null && refusal !== null) {
      this.#refuseNow(reply, request, head, signal, refusal);
      return;
    }
    this.#open++;
    const exchange = new Exchange(this, reply, {
      code: requestCode(signal, format ?? "json", encoding ?? "identity", head.ownTelemetry),
      announcedBytes: head.contentLength,
      chunked: head.chunked,
      last: head.lastOfConnection,
      expectsContinue: head.expectsContinue,
      audience,
      keyId: outcome === null ? null : outcome.principal.keyId,
      authorized: outcome !== null,
      nowMs: performance.now(),
    });
    this.#reading.add(exchange);
    if (outcome === null) {
      void this.#lookUp(exchange, head.authorization, refusal);
    }
  }

  /** What is wrong with a request apart from its credential. */
  #judge(
    head: RequestHead,
    format: OtlpFormat | null,
    encoding: BodyEncoding | null,
    audience: string | null,
  ): Refusal | null {
    if (format === null) {
      return {
        code: "UNSUPPORTED_MEDIA_TYPE",
        message: "Content-Type takes application/x-protobuf or application/json",
      };
    }
    if (encoding === null) {
      return {
        code: "UNSUPPORTED_MEDIA_TYPE",
        message: "Content-Encoding takes identity, gzip, deflate or zstd; so does grpc-encoding",
      };
    }
    if (head.contentLength > this.maxBodyBytes) {
      return {
        code: "PAYLOAD_TOO_LARGE",
        message: `the body is larger than ${this.maxBodyBytes} bytes`,
      };
    }
    if (this.#draining) {
      return stopping;
    }
    const { memory, sink } = this.#options;
    if (sink.obstacle !== null) {
      return { code: "UNAVAILABLE", message: sink.obstacle, retryAfterSeconds: 1 };
    }
    return memory.admits(audience, Math.max(head.contentLength, 1), 0) ? null : overloaded;
  }

  /** The credential is not in memory. What else is wrong is said only to whom it may concern. Never rejects. */
  async #lookUp(exchange: Exchange, authorization: string, refusal: Refusal | null): Promise<void> {
    let outcome: AuthOutcome;
    try {
      outcome = await this.#options.authenticator.authenticate(authorization);
    } catch (error) {
      this.#options.logger.error({ err: error }, "an authenticator failed");
      outcome = { kind: "unavailable", retryAfterSeconds: 1 };
    }
    if (outcome.kind !== "ok") {
      exchange.refuse(refusalOf(outcome));
    } else if (refusal !== null) {
      exchange.refuse(refusal);
    } else {
      exchange.authorize(outcome.principal.audience, outcome.principal.keyId);
    }
  }

  #refuseNow(reply: HttpReply, request: HttpRequest, head: RequestHead, signal: OtlpSignal, refusal: Refusal): void {
    const status = httpStatusOf(refusal);
    this.#log(reply, request.getUrl(), status, refusal.message, head.ownTelemetry);
    const close = refusal.close === true || this.#draining;
    const answer = refusalAnswer(formatOf(head) ?? "json", refusal, close);
    answerNow(reply, request, head, answer);
    this.#options.counters.request(signal, status);
  }

  /** Tells the operator about a sender that will not get its data in. */
  #log(reply: HttpReply, path: string, status: number, reason: string, ownTelemetry: boolean): void {
    // Overload and outages have metrics and lines of their own.
    if (status >= 500) {
      return;
    }
    this.#refusals.add(status, reason, path, () => remoteAddress(reply), ownTelemetry);
  }

  #sweepReading(): void {
    const nowMs = performance.now();
    const keepReading = nowMs - this.#lastKeepReadingMs >= keepReadingEveryMs;
    if (keepReading) {
      this.#lastKeepReadingMs = nowMs;
    }
    for (const exchange of this.#reading) {
      if (nowMs - exchange.sinceMs < this.#bodyTimeoutMs) {
        if (keepReading) {
          exchange.keepReading();
        }
      } else if (!exchange.bodyComplete) {
        exchange.refuse(this.#draining ? stopping : late);
      }
    }
    this.#updateGauges();
  }

  #updateGauges(): void {
    const { memory, ownsMemory, counters } = this.#options;
    const { arena } = memory;
    counters.gauges(ownsMemory ? arena.usedBytes : 0, ownsMemory ? arena.sizeBytes : 0, this.#open);
  }
}

function refusalOf(outcome: Exclude<AuthOutcome, { kind: "ok" }>): Refusal {
  return outcome.kind !== "unavailable"
    ? {
        code: outcome.kind === "rejected" ? "UNAUTHENTICATED" : "FORBIDDEN",
        message: outcome.message,
      }
    : {
        code: "UNAVAILABLE",
        message: "credentials cannot be checked now; try again",
        retryAfterSeconds: outcome.retryAfterSeconds,
      };
}
