/**
 * One request on its way: its response, its bytes in the arena, and its state.
 *
 * States: reading -> queued -> done. In `reading` the body comes in, and the look-up of the credential
 * may be under way; both have to be complete before it is queued. From `queued` on the bytes must stay
 * in place until `answer`, even when the client has left, because a worker reads them. The response is
 * never touched once it was ended or aborted: the driver has forgotten it then. The socket may still
 * deliver the rest of a body after an early answer; it is ignored.
 */
import { codeFormat, codeSignal, type IngestResult, type PendingRequest } from "../../ingest/request.js";
import { pageBytes } from "../../runtime/threads/arena.js";
import type { OtlpFormat } from "../../wire/otlp/rpc-status.js";
import { closesEarly, whenParsed, writeAnswer } from "../http/answer.js";
import { bytesOf, type HttpReply, restartReadTimer } from "../http/seam.js";
import type { BodyMemory } from "./body-memory.js";
import type { Refusal } from "./responses.js";
import { refusalAnswer, refusalFor, httpStatusOf, writeExportResponse } from "./responses.js";

type Stored = Extract<IngestResult, { kind: "stored" }>;

/** What an exchange needs of its front end. */
export interface ExchangeHost {
  readonly memory: BodyMemory;
  readonly maxBodyBytes: number;
  /** The server stops: a connection that has its answer ends, so that its client sends nothing more into it. */
  readonly draining: boolean;
  /** The body and the credential are complete: hand the exchange over. */
  complete(exchange: Exchange): void;
  /** The exchange has its answer, or its client is gone. */
  ended(exchange: Exchange, status: number): void;
  /** The exchange is refused; told before the response is written and {@link ended}. */
  refused(exchange: Exchange, reply: HttpReply, refusal: Refusal): void;
  /** Some records of a stored exchange are refused; told as {@link refused}. */
  refusedRecords(exchange: Exchange, reply: HttpReply, result: Stored): void;
  /** A queued exchange has its result; told before {@link ended}. */
  answered(exchange: Exchange, result: IngestResult): void;
}

const noMemory = -1;
/** Counted for a client that has left before its answer. */
const clientLeft = 499;
/** The arena is full, or what is behind it. */
export const overloaded: Refusal = {
  code: "OVERLOADED",
  message: "the server is overloaded; try again later",
  retryAfterSeconds: 1,
};

/** See the head of this file. */
export class Exchange implements PendingRequest {
  readonly buffer: SharedArrayBuffer;
  offset = 0;
  length = 0;
  readonly code: number;
  audience: string | null = null;
  /** The API key of the request, for its usage; null without one. */
  keyId: string | null = null;
  /** `performance.now()` when the head was read; later when the body was complete. */
  sinceMs: number;
  readonly #host: ExchangeHost;
  readonly #response: HttpReply;
  readonly #announcedBytes: number;
  readonly #chunked: boolean;
  readonly #last: boolean;
  #state: "reading" | "queued" | "done" = "reading";
  #aborted = false;
  #authorized: boolean;
  #bodyComplete = false;
  #paused = false;
  /** Bytes held at `offset`; 0: none. */
  #capacity = 0;

  /**
   * Takes over the response of a request whose head was accepted, from within its route handler.
   * @param o.authorized false while the credential is being looked up; see {@link authorize}.
   */
  constructor(
    host: ExchangeHost,
    response: HttpReply,
    o: {
      readonly code: number;
      readonly announcedBytes: number;
      readonly chunked: boolean;
      /** See {@link RequestHead.lastOfConnection}. */
      readonly last: boolean;
      /** The client waits for `100 Continue`, which only an accepted credential brings. */
      readonly expectsContinue: boolean;
      readonly audience: string | null;
      readonly keyId: string | null;
      readonly authorized: boolean;
      readonly nowMs: number;
    },
  ) {
    this.#host = host;
    this.#response = response;
    this.buffer = host.memory.arena.buffer;
    this.code = o.code;
    this.audience = o.audience;
    this.keyId = o.keyId;
    this.sinceMs = o.nowMs;
    this.#announcedBytes = o.announcedBytes;
    this.#chunked = o.chunked;
    this.#last = o.last;
    this.#authorized = o.authorized;
    response.onAborted((status) => {
      this.#abort(status ?? clientLeft);
    });
    response.onData((chunk, isLast) => {
      this.#data(chunk, isLast);
    });
    if (o.expectsContinue && !o.authorized) {
      this.#pause();
    }
  }

  /** True once the whole body is here. */
  get bodyComplete(): boolean {
    return this.#bodyComplete;
  }

  /** The credential was accepted. */
  authorize(audience: string | null, keyId: string | null): void {
    if (this.#state !== "reading") {
      return;
    }
    this.#host.memory.hold(this.audience, -this.#capacity);
    this.#host.memory.hold(audience, this.#capacity);
    this.audience = audience;
    this.keyId = keyId;
    this.#authorized = true;
    this.#resume();
    this.#completeIfReady();
  }

  #resume(): void {
    if (this.#paused) {
      this.#paused = false;
      this.#response.resume();
    }
  }

  /** See {@link restartReadTimer}. */
  keepReading(): void {
    if (this.#state !== "reading" || this.#bodyComplete || this.#paused) {
      return;
    }
    restartReadTimer(this.#response);
  }

  /** Ends an exchange that is still reading with an error. */
  refuse(refusal: Refusal): void {
    if (this.#state !== "reading") {
      return;
    }
    this.#state = "done";
    this.#release();
    const unread = !this.#bodyComplete && closesEarly({ chunked: this.#chunked, contentLength: this.#announcedBytes });
    // It was, for the credential. The rest of the body is dropped, and what comes behind it is read.
    this.#resume();
    this.#writeRefusal(refusal, unread || refusal.close === true);
    this.#host.ended(this, httpStatusOf(refusal));
  }

  /** Ends a queued exchange with the result of its batch. */
  answer(result: IngestResult): void {
    if (this.#state !== "queued") {
      return;
    }
    this.#state = "done";
    this.#release();
    this.#host.answered(this, result);
    if (this.#aborted) {
      this.#host.ended(this, clientLeft);
    } else if (result.kind === "stored") {
      if (result.rejected > 0) {
        this.#host.refusedRecords(this, this.#response, result);
      }
      this.#response.cork(() => {
        const signal = codeSignal(this.code);
        const close = this.#last || this.#host.draining;
        writeExportResponse(this.#response, this.#format, signal, result, close);
      });
      this.#host.ended(this, 200);
    } else {
      const refusal = refusalFor(result);
      this.#writeRefusal(refusal, this.#host.draining);
      this.#host.ended(this, httpStatusOf(refusal));
    }
  }

  get #format(): OtlpFormat {
    return codeFormat(this.code);
  }

  #writeRefusal(refusal: Refusal, close: boolean): void {
    this.#host.refused(this, this.#response, refusal);
    whenParsed(this.#last, () => {
      if (this.#aborted) {
        return;
      }
      writeAnswer(this.#response, refusalAnswer(this.#format, refusal, close || this.#last));
    });
  }

  /** `chunk` is only valid during the call. */
  #data(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    if (this.#state !== "reading") {
      return;
    }
    const bytes = chunk.byteLength;
    if (bytes > 0) {
      const length = this.length + bytes;
      if (length > this.#host.maxBodyBytes) {
        this.refuse({
          code: "PAYLOAD_TOO_LARGE",
          message: `the body is larger than ${this.#host.maxBodyBytes} bytes`,
        });
        return;
      }
      if (length > this.#capacity && !this.#reserve(length, isLast)) {
        this.refuse(overloaded);
        return;
      }
      this.#host.memory.arena.write(this.offset + this.length, bytesOf(chunk));
      this.length = length;
    }
    if (isLast) {
      this.#bodyComplete = true;
      this.#completeIfReady();
    } else if (!this.#authorized && !this.#paused) {
      // Nobody unknown fills the arena: the rest waits in the socket until the credential is known.
      this.#pause();
    }
  }

  #pause(): void {
    this.#paused = true;
    this.#response.pause();
  }

  /** At most doubles what the client has sent, so that a slow one pins little. */
  #reserve(length: number, isLast: boolean): boolean {
    let wanted = isLast ? length : Math.max(length, this.#capacity * 2);
    if (this.#announcedBytes >= 0) {
      wanted = Math.max(length, Math.min(wanted, this.#announcedBytes));
    }
    return this.#place(wanted) || (wanted > length && this.#place(length));
  }

  #place(bytes: number): boolean {
    const { memory } = this.#host;
    const capacity = Math.max(bytes, pageBytes);
    if (!memory.admits(this.audience, capacity - this.#capacity, this.#capacity)) {
      return false;
    }
    const { arena } = memory;
    const offset = this.#capacity === 0 ? arena.allocate(bytes) : arena.grow(this.offset, this.length, bytes);
    if (offset === noMemory) {
      return false;
    }
    memory.hold(this.audience, capacity - this.#capacity);
    this.offset = offset;
    this.#capacity = capacity;
    return true;
  }

  #completeIfReady(): void {
    if (!this.#bodyComplete || !this.#authorized) {
      return;
    }
    this.#state = "queued";
    this.sinceMs = performance.now();
    this.#host.complete(this);
  }

  #abort(status: number): void {
    this.#aborted = true;
    if (this.#state !== "reading") {
      return;
    } // queued: the answer of the batch ends it
    this.#state = "done";
    this.#release();
    this.#host.ended(this, status);
  }

  #release(): void {
    if (this.#capacity === 0) {
      return;
    }
    const { memory } = this.#host;
    memory.arena.free(this.offset);
    memory.hold(this.audience, -this.#capacity);
    this.#capacity = 0;
  }
}
