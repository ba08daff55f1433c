/**
 * One request of the web server on its way: its body, and whether its client is still there.
 *
 * uWebSockets.js forgets a response once it was ended or its client left; it must not be touched
 * after that. Of a request whose caller is not known yet only the first chunk is taken, and the rest
 * waits in the socket until `resume`.
 */
import type { HttpResponse } from "uWebSockets.js";

import { ServiceError } from "../../runtime/errors.js";
import { closesEarly } from "../otlp/exchange.js";
import { type WebResponse, writeResponse } from "./responses.js";

/** What became of a body. */
export type BodyOutcome =
  | { readonly kind: "complete"; readonly bytes: Uint8Array }
  | { readonly kind: "refused"; readonly error: ServiceError }
  | { readonly kind: "aborted" };

/** See the head of this file. */
export class WebExchange {
  readonly #response: HttpResponse;
  readonly #head: boolean;
  readonly #cutOff: boolean;
  readonly #chunks: Buffer[] = [];
  readonly #maxBytes: number;
  #bytes = 0;
  #paused = false;
  #known = false;
  #over = false;
  #outcome: BodyOutcome | null = null;
  #onOutcome: ((outcome: BodyOutcome) => void) | null = null;

  /** Takes over a response, from within its route handler. @param o.maxBytes of the body; 0: it is dropped. */
  constructor(
    response: HttpResponse,
    o: {
      readonly maxBytes: number;
      readonly contentLength: number;
      readonly chunked: boolean;
      readonly head: boolean;
    },
  ) {
    this.#response = response;
    this.#maxBytes = o.maxBytes;
    this.#head = o.head;
    this.#cutOff = closesEarly(o.chunked, o.contentLength);
    response.onAborted(() => {
      this.#over = true;
      this.#settle({ kind: "aborted" });
    });
    if (o.maxBytes > 0) {
      response.onData((chunk, isLast) => {
        this.#data(chunk, isLast);
      });
    }
  }

  /** True when there is nobody left to answer. */
  get over(): boolean {
    return this.#over;
  }

  /** The caller is known: the rest of the body may come in. */
  resume(): void {
    this.#known = true;
    if (!this.#paused || this.#over) return;
    this.#paused = false;
    this.#response.resume();
  }

  /** Resolves when the body is here, or will not be. */
  body(): Promise<BodyOutcome> {
    if (this.#maxBytes === 0) {
      return Promise.resolve({ kind: "complete", bytes: new Uint8Array(0) });
    }
    if (this.#outcome !== null) return Promise.resolve(this.#outcome);
    return new Promise((resolve) => {
      this.#onOutcome = resolve;
    });
  }

  /** Ends the response, if there is still somebody to read it. */
  answer(answer: WebResponse): void {
    if (this.#over) return;
    this.#over = true;
    const unread = this.#cutOff && this.#outcome?.kind !== "complete";
    writeResponse(
      this.#response,
      unread || this.#paused ? { ...answer, close: true } : answer,
      this.#head,
    );
  }

  /** `chunk` is only valid during the call. */
  #data(chunk: ArrayBuffer, isLast: boolean): void {
    if (this.#over || this.#outcome !== null) return;
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#maxBytes) {
      this.#chunks.length = 0;
      this.#settle({ kind: "refused", error: bodyTooLarge(this.#maxBytes) });
      return;
    }
    this.#chunks.push(Buffer.from(new Uint8Array(chunk)));
    if (isLast) {
      const bytes = Buffer.concat(this.#chunks);
      this.#settle({ kind: "complete", bytes });
    } else if (!this.#known && !this.#paused) {
      this.#paused = true;
      this.#response.pause();
    }
  }

  #settle(outcome: BodyOutcome): void {
    if (this.#outcome !== null) return;
    this.#outcome = outcome;
    this.#onOutcome?.(outcome);
  }
}

/** PAYLOAD_TOO_LARGE with the limit in it. */
export function bodyTooLarge(maxBytes: number): ServiceError {
  return new ServiceError("PAYLOAD_TOO_LARGE", `the body is larger than ${maxBytes} bytes`);
}
