/**
 * The HTTP side of the object cache: `GET` and `HEAD /obj/{key}`, and `POST /prefetch`.
 *
 * A request is judged in this order: framing, path, method, caller, key, prefix. So nobody without a key learns
 * anything of objects.
 */
import { randomUUID } from "node:crypto";

import type { Counter, Histogram } from "prom-client";

import type { Keyring } from "../../auth/keyring.js";
import type { ObjectCache } from "../../object-cache/object-cache.js";
import { parsePrefetch, prefetchLimits, type PrefetchQueue } from "../../object-cache/prefetch.js";
import { errorCatalogue, ServiceError, toServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { createRareWarning, type RareWarning } from "../../runtime/log/rare-warnings.js";
import { durationBucketsSeconds, type Metrics } from "../../runtime/metrics.js";
import { answerNow, errorAnswer, type HttpAnswer, jsonType, writeLastAnswer } from "../http/answer.js";
import { BodyExchange } from "../http/body-exchange.js";
import type { RequestHead } from "../http/request-head.js";
import type { HttpHandler, HttpReply, HttpRequest } from "../http/seam.js";
import { type AskedFields, select } from "../http/conditions.js";
import { checkKey, isAllowed, keyOfPath, objectPrefix } from "./keys.js";

/** Options of {@link ObjectCacheFront}. */
interface ObjectCacheFrontOptions {
  readonly cache: ObjectCache;
  readonly prefetch: PrefetchQueue;
  readonly keyring: Keyring;
  /** Directories whose objects are handed out; null: all. */
  readonly prefixes: readonly string[] | null;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

type Method = "GET" | "HEAD" | "POST";

/** Answers under way, each of which may hold a block of its own. */
const maxReads = 256;
/**
 * A caller has at most so many times as many answers as are free: four fifths of all when it is alone, less when others
 * have many, too. Some are always left for whoever comes next: one that reads slowly gives none back for a long time.
 */
const readsPerFree = 4;
const nosniff = ["X-Content-Type-Options", "nosniff"] as const;

/** Answers requests until it is drained. */
export class ObjectCacheFront {
  readonly handler: HttpHandler = {
    handle: (reply, request, head) => this.#handle(reply, request, head),
    malformed: (reply, _request, head) => {
      writeLastAnswer(reply, refusalAnswer(new ServiceError("BAD_REQUEST", head.framingProblem ?? "")));
      this.#requests.inc({ operation: "none", status: 400 });
    },
  };
  readonly #o: ObjectCacheFrontOptions;
  readonly #warn: RareWarning;
  readonly #requests: Counter;
  readonly #seconds: Histogram;
  readonly #sentBytes: Counter;
  #reads = 0;
  /** By caller. */
  readonly #readsOf = new Map<string, number>();
  #open = 0;
  #draining = false;
  #onDrained: (() => void) | null = null;

  constructor(o: ObjectCacheFrontOptions) {
    this.#o = o;
    this.#warn = createRareWarning(o.logger);
    const { metrics } = o;
    this.#requests = metrics.counter("object_cache_requests_total", "Requests answered", ["operation", "status"]);
    this.#seconds = metrics.histogram(
      "object_cache_request_seconds",
      "Time from the head of a request to the end of its answer",
      durationBucketsSeconds,
      ["operation"],
    );
    this.#sentBytes = metrics.counter("object_cache_sent_bytes_total", "Bytes of objects that were sent");
  }

  /** Refuses new requests and resolves when every open one is answered. */
  async drain(): Promise<void> {
    this.#draining = true;
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve;
      });
    }
  }

  #refuse(
    reply: HttpReply,
    request: HttpRequest,
    head: RequestHead,
    error: ServiceError,
    more: HttpAnswer["headers"] = [],
  ): void {
    const refusal = refusalAnswer(error);
    answerNow(reply, request, head, { ...refusal, headers: [...refusal.headers, ...more] });
    this.#requests.inc({ operation: "none", status: error.httpStatus });
  }

  #handle(reply: HttpReply, request: HttpRequest, head: RequestHead): void {
    const path = request.getUrl();
    const method = request.getCaseSensitiveMethod();
    const isObject = path.startsWith(objectPrefix);
    if (!isObject && path !== "/prefetch") {
      this.#refuse(reply, request, head, new ServiceError("NOT_FOUND", "no such path"));
      return;
    }
    const allowed: readonly string[] = isObject ? ["GET", "HEAD"] : ["POST"];
    if (!allowed.includes(method)) {
      const names = allowed.join(", ");
      const refusal = new ServiceError("METHOD_NOT_ALLOWED", `this path takes ${names}`);
      this.#refuse(reply, request, head, refusal, [["Allow", names]]);
      return;
    }
    const holder = this.#o.keyring.holderOf(head.authorization);
    if (holder === null) {
      this.#refuse(reply, request, head, new ServiceError("UNAUTHENTICATED", "invalid token"));
      return;
    }
    if (isObject && (head.chunked || head.contentLength > 0)) {
      this.#refuse(reply, request, head, new ServiceError("BAD_REQUEST", "this path takes no body"));
      return;
    }
    const asked = {
      range: request.getHeader("range"),
      ifRange: request.getHeader("if-range"),
      ifMatch: request.getHeader("if-match"),
      ifNoneMatch: request.getHeader("if-none-match"),
    };
    const exchange = new BodyExchange(reply, head, isObject ? 0 : prefetchLimits.bodyBytes, method === "HEAD");
    void this.#run(exchange, method as Method, isObject ? path : null, asked, holder, head.contentEncoding);
  }

  /** Never rejects. */
  async #run(
    exchange: BodyExchange,
    method: Method,
    path: string | null,
    asked: AskedFields,
    holder: string,
    encoding: string,
  ): Promise<void> {
    const startedMs = performance.now();
    const operation = path === null ? "prefetch" : method.toLowerCase();
    let status = 499;
    this.#open++;
    try {
      status =
        path === null
          ? await this.#takePrefetch(exchange, encoding, holder)
          : await this.#sendObject(exchange, method, keyOfPath(path), asked, holder);
    } catch (error) {
      const failure = failureOf(error, exchange);
      status = failure.httpStatus;
      const requestId = randomUUID();
      if (failure.code === "INTERNAL") {
        this.#o.logger.error({ err: error, requestId, holder }, "a request failed");
      } else if (failure.code === "UNAVAILABLE" && !this.#draining) {
        this.#warn("", { err: error, holder }, "an object could not be read");
      }
      exchange.answer(this.#closing(refusalAnswer(failure, requestId)));
    } finally {
      this.#requests.inc({ operation, status });
      this.#seconds.observe({ operation }, (performance.now() - startedMs) / 1000);
      this.#open--;
      if (this.#open === 0) {
        this.#onDrained?.();
      }
    }
  }

  #closing<A extends Omit<HttpAnswer, "body">>(answer: A): A {
    return this.#draining ? { ...answer, close: true } : answer;
  }

  #checkCapacity(holder: string): void {
    if (this.#draining) {
      throw new ServiceError("UNAVAILABLE", "the server is stopping", { retryAfterSeconds: 1 });
    }
    if ((this.#readsOf.get(holder) ?? 0) >= readsPerFree * (maxReads - this.#reads)) {
      throw new ServiceError("OVERLOADED", undefined, { retryAfterSeconds: 1 });
    }
  }

  /** @returns the status that was sent */
  async #sendObject(
    exchange: BodyExchange,
    method: Method,
    key: string,
    asked: AskedFields,
    holder: string,
  ): Promise<number> {
    if (!isAllowed(key, this.#o.prefixes)) {
      throw new ServiceError("FORBIDDEN", "objects there are not handed out");
    }
    this.#checkCapacity(holder);
    this.#countRead(holder, 1);
    try {
      const object = await this.#o.cache.describe(key, exchange.left);
      const etag = `"${object.id}-${object.bytes.toString(16)}"`;
      const selection = select(asked, etag, object.bytes, method === "GET");
      const headers = [nosniff, ["ETag", etag], ["Accept-Ranges", "bytes"], ["Cache-Control", "no-store"]] as const;
      if (selection.status === 416) {
        const refusal = refusalAnswer(
          new ServiceError("RANGE_NOT_SATISFIABLE", `the object has ${object.bytes} bytes`),
        );
        const fields = [...headers, jsonType, ["Content-Range", `bytes */${object.bytes}`]] as const;
        exchange.answer(this.#closing({ ...refusal, headers: fields }));
        return 416;
      }
      if (!("start" in selection)) {
        exchange.answer(this.#closing({ status: selection.status, headers, body: "" }));
        return selection.status;
      }
      const { status, start, end } = selection;
      const answer = this.#closing({
        status,
        headers: [
          ...headers,
          ["Content-Type", "application/octet-stream"],
          ...(status === 206 ? ([["Content-Range", `bytes ${start}-${end - 1}/${object.bytes}`]] as const) : []),
        ],
      });
      if (method === "HEAD" || end === start) {
        exchange.answer({ ...answer, body: "", bodyBytes: end - start });
        return status;
      }
      const parts = this.#o.cache.read(object, start, end, exchange.left, holder);
      if (!(await exchange.streamSized(answer, end - start, parts))) {
        return 499;
      }
      this.#sentBytes.inc(end - start);
      return status;
    } finally {
      this.#countRead(holder, -1);
    }
  }

  #countRead(holder: string, one: 1 | -1): void {
    this.#reads += one;
    const own = (this.#readsOf.get(holder) ?? 0) + one;
    if (own === 0) {
      this.#readsOf.delete(holder);
    } else {
      this.#readsOf.set(holder, own);
    }
  }

  async #takePrefetch(exchange: BodyExchange, encoding: string, holder: string): Promise<number> {
    if (!["", "identity"].includes(encoding.toLowerCase())) {
      throw new ServiceError("UNSUPPORTED_MEDIA_TYPE", "the body must not be encoded");
    }
    this.#checkCapacity(holder);
    exchange.resume();
    const outcome = await exchange.body();
    if (outcome.kind === "aborted") {
      return 499;
    }
    if (outcome.kind === "refused") {
      throw outcome.error;
    }
    const counts = { queued: 0, forbidden: 0, dropped: 0 };
    const items = parsePrefetch(outcome.bytes);
    for (const { key } of items) {
      checkKey(key);
    }
    for (const item of items) {
      if (!isAllowed(item.key, this.#o.prefixes)) {
        counts.forbidden++;
      } else if (this.#o.prefetch.add(item)) {
        counts.queued++;
      } else {
        counts.dropped++;
      }
    }
    exchange.answer(this.#closing({ status: 202, headers: [jsonType, nosniff], body: JSON.stringify(counts) }));
    return 202;
  }
}

/** What ended a request. Who is still there was not the one who cancelled. */
function failureOf(error: unknown, { left }: BodyExchange): ServiceError {
  const failure = toServiceError(error);
  return failure.code === "CANCELLED" && !left.aborted
    ? new ServiceError("UNAVAILABLE", errorCatalogue.UNAVAILABLE.publicMessage, { cause: error })
    : failure;
}

function refusalAnswer(error: ServiceError, requestId = ""): HttpAnswer {
  return errorAnswer(
    error,
    requestId,
    error.httpStatus === 401 ? [nosniff, ["WWW-Authenticate", "Bearer"]] : [nosniff],
  );
}
