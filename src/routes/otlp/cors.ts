/**
 * Lets pages of other origins send telemetry (the CORS protocol of the Fetch standard). Handlers are wrapped, so that
 * nothing is done for it where no origin is allowed.
 *
 * Pages of allowed origins may read every answer, errors included. Browsers are never told to send credentials of
 * their own (cookies): a page shows its key in `Authorization`.
 */
import { answerNow } from "../http/answer.js";
import type { HttpHandler, HttpReply, HttpRequest } from "../http/seam.js";

/** How long a browser may go without asking again, in seconds; none keeps an answer for longer than a day. */
const maxAgeSeconds = 7200;

const preflightHeaders: readonly (readonly [string, string])[] = [
  ["Access-Control-Allow-Methods", "POST"],
  ["Access-Control-Allow-Headers", "authorization, content-type, content-encoding"],
  ["Access-Control-Max-Age", String(maxAgeSeconds)],
];

/** Whether a browser asks if a page may send. */
export function isPreflight(request: HttpRequest): boolean {
  return request.getCaseSensitiveMethod() === "OPTIONS" && request.getHeader("access-control-request-method") !== "";
}

/** A handler that answers browsers as well. @param origins exactly as browsers write them; none: `handler` itself. */
export function withCors(handler: HttpHandler, origins: readonly string[]): HttpHandler {
  if (origins.length === 0) {
    return handler;
  }
  const allowed: ReadonlySet<string> = new Set(origins);
  const shared = (reply: HttpReply, request: HttpRequest): HttpReply => {
    const origin = request.getHeader("origin");
    return allowed.has(origin) ? new CorsReply(reply, origin) : reply;
  };
  return {
    handle: (reply, request, head) => {
      const own = shared(reply, request);
      // A browser's question has no body.
      if (own !== reply && isPreflight(request) && !head.chunked && head.contentLength <= 0) {
        answerNow(own, request, head, { status: 204, headers: preflightHeaders, body: "" });
      } else {
        handler.handle(own, request, head);
      }
    },
    malformed: (reply, request, head) => {
      handler.malformed(shared(reply, request), request, head);
    },
  };
}

/** A response that a page of an origin may read: three fields more behind the status. */
class CorsReply implements HttpReply {
  readonly #reply: HttpReply;
  readonly #origin: string;
  #begun = false;

  constructor(reply: HttpReply, origin: string) {
    this.#reply = reply;
    this.#origin = origin;
  }

  writeStatus(status: string): void {
    this.#reply.writeStatus(status);
    this.#begin();
  }

  writeHeader(name: string, value: string): void {
    this.#begin();
    this.#reply.writeHeader(name, value);
  }

  write(chunk: string | Uint8Array): boolean {
    this.#begin();
    return this.#reply.write(chunk);
  }

  end(body?: string | Uint8Array, close?: boolean): void {
    this.#begin();
    this.#reply.end(body, close);
  }

  tryEnd(part: Uint8Array, totalBytes: number): [boolean, boolean] {
    this.#begin();
    return this.#reply.tryEnd(part, totalBytes);
  }

  getWriteOffset(): number {
    return this.#reply.getWriteOffset();
  }

  endWithoutBody(): void {
    this.#begin();
    this.#reply.endWithoutBody();
  }

  onAborted(handler: () => void): void {
    this.#reply.onAborted(handler);
  }

  onData(handler: (chunk: ArrayBuffer | Uint8Array, isLast: boolean) => void): void {
    this.#reply.onData(handler);
  }

  onWritable(handler: () => boolean): void {
    this.#reply.onWritable(handler);
  }

  pause(): void {
    this.#reply.pause();
  }

  resume(): void {
    this.#reply.resume();
  }

  cork(write: () => void): void {
    this.#reply.cork(write);
  }

  getRemoteAddressAsText(): ArrayBuffer {
    return this.#reply.getRemoteAddressAsText();
  }

  close(): void {
    this.#reply.close();
  }

  #begin(): void {
    if (this.#begun) {
      return;
    }
    this.#begun = true;
    this.#reply.writeHeader("Access-Control-Allow-Origin", this.#origin);
    this.#reply.writeHeader("Access-Control-Expose-Headers", "Retry-After");
    this.#reply.writeHeader("Vary", "Origin");
  }
}
