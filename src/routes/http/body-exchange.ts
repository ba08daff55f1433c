/**
 * A request whose body is collected in memory, and whether its client is still there.
 *
 * A response must not be touched once it was ended or its client left. Of a request whose caller is not
 * known yet only the first part is taken, and the rest waits in the socket until `resume`.
 */
import { atMost } from "../../runtime/at-most.js";
import { ServiceError } from "../../runtime/errors.js";
import { closesEarly, type HttpAnswer, statusLine, whenParsed, writeAnswer } from "./answer.js";
import type { RequestHead } from "./request-head.js";
import { answerTimeoutMs, bytesOf, type HttpReply, keepReadingEveryMs, restartReadTimer } from "./seam.js";

/** What became of a body. */
type BodyOutcome =
  | { readonly kind: "complete"; readonly bytes: Uint8Array }
  | { readonly kind: "refused"; readonly error: ServiceError }
  | { readonly kind: "aborted" };

/** Longest time for a body, and between two parts of one that is read in parts. */
const bodyTimeoutMs = 30_000;

/** Longest time for all parts of one that is read in parts. */
const partsTimeoutMs = 600_000;

/** Most that is given to a driver at once of an answer whose length is not known. */
const pieceBytes = 64 * 1024;

/** See the head of this file. */
export class BodyExchange {
  readonly #reply: HttpReply;
  readonly #head: boolean;
  #cutOff: boolean;
  readonly #last: boolean;
  readonly #chunks: Buffer[] = [];
  readonly #maxBytes: number;
  #bytes = 0;
  #paused = false;
  #known = false;
  #over = false;
  #aborted = false;
  #outcome: BodyOutcome | null = null;
  #onOutcome: ((outcome: BodyOutcome) => void) | null = null;
  #onWritable: (() => void) | null = null;
  /** The body is read in parts. */
  #streams = false;
  #onPart: (() => void) | null = null;
  readonly #left = new AbortController();

  /**
   * Takes over a response, from within its handler.
   * @param maxBytes of the body; 0: it is dropped. @param isHead the method is HEAD.
   */
  constructor(reply: HttpReply, head: RequestHead, maxBytes: number, isHead: boolean) {
    this.#reply = reply;
    this.#maxBytes = maxBytes;
    this.#head = isHead;
    this.#cutOff = closesEarly(head);
    this.#last = head.lastOfConnection;
    reply.onAborted(() => {
      this.#over = true;
      this.#aborted = true;
      this.#left.abort();
      this.#settle({ kind: "aborted" });
      this.#onWritable?.();
    });
    if (maxBytes === 0) {
      return;
    }
    reply.onData((chunk, isLast) => {
      this.#data(chunk, isLast);
    });
    if (head.expectsContinue) {
      this.#pause();
    }
  }

  /** True when there is nobody left to answer. */
  get over(): boolean {
    return this.#over;
  }

  /** Aborted when the client leaves before its answer was ended. */
  get left(): AbortSignal {
    return this.#left.signal;
  }

  /** The caller is known: the rest of the body may come in. */
  resume(): void {
    this.#known = true;
    if (!this.#paused || this.#over) {
      return;
    }
    this.#paused = false;
    this.#reply.resume();
  }

  /** Resolves when the body is here, or will not be: UNAVAILABLE when it takes too long. */
  async body(): Promise<BodyOutcome> {
    if (this.#maxBytes === 0) {
      return { kind: "complete", bytes: new Uint8Array(0) };
    }
    if (this.#outcome !== null) {
      return this.#outcome;
    }
    const settled = new Promise<BodyOutcome>((resolve) => {
      this.#onOutcome = resolve;
    });
    const outcome = await this.#inTime(settled, bodyTimeoutMs);
    if (outcome !== null) {
      return outcome.value;
    }
    const late: BodyOutcome = { kind: "refused", error: this.#late() };
    this.#chunks.length = 0;
    this.#settle(late);
    return late;
  }

  /**
   * The body in parts as they come, instead of {@link body}. What a slow reader has not taken stays in the socket.
   * @throws ServiceError PAYLOAD_TOO_LARGE; UNAVAILABLE when nothing comes; CANCELLED when the client has left
   */
  async *parts(): AsyncGenerator<Uint8Array> {
    this.#streams = true;
    const endMs = performance.now() + partsTimeoutMs;
    for (;;) {
      const part = this.#chunks.shift();
      if (part !== undefined) {
        yield part;
        continue;
      }
      const outcome = this.#outcome;
      if (outcome?.kind === "complete") {
        return;
      }
      if (outcome !== null) {
        throw outcome.kind === "refused" ? outcome.error : new ServiceError("CANCELLED");
      }
      const arrived = new Promise<void>((resolve) => {
        this.#onPart = resolve;
      });
      this.resume();
      const leftMs = Math.max(0, endMs - performance.now());
      if ((await this.#inTime(arrived, Math.min(bodyTimeoutMs, leftMs))) === null) {
        throw this.#late();
      }
    }
  }

  /** Waits for what the client sends; null when it takes too long. */
  async #inTime<T>(arrived: Promise<T>, ms: number): Promise<{ readonly value: T } | null> {
    const keepReading = setInterval(() => {
      if (!this.#over && !this.#paused) {
        restartReadTimer(this.#reply);
      }
    }, keepReadingEveryMs);
    try {
      return await atMost(arrived, ms);
    } finally {
      clearInterval(keepReading);
    }
  }

  /** The client gets no more time for what is left of its body. */
  #late(): ServiceError {
    this.#cutOff = true;
    return new ServiceError("UNAVAILABLE", "the body comes too slowly; try again", { retryAfterSeconds: 1 });
  }

  /** Ends the response, if there is still somebody to read it. */
  answer(answer: HttpAnswer): void {
    if (this.#over) {
      return;
    }
    this.#over = true;
    whenParsed(this.#last, () => {
      if (!this.#aborted) {
        writeAnswer(this.#reply, this.#closing(answer), this.#head);
      }
    });
  }

  /**
   * Answers with parts that come one after another; the next one is asked for when the client has taken
   * those before it. Leaves the iteration when the client leaves.
   * @returns whether everything was sent. @throws what the iteration throws; CANCELLED when the client takes nothing for
   *   `answerTimeoutMs`. The connection is cut then, because nothing else tells a client that a response is not whole.
   */
  async stream(answer: Omit<HttpAnswer, "body">, parts: AsyncIterable<Uint8Array>): Promise<boolean> {
    if (this.#over) {
      return false;
    }
    if (this.#head) {
      this.answer({ ...answer, body: "" });
      return true;
    }
    const { status, headers, close } = this.#closing({ ...answer, body: "" });
    this.#watchRoom();
    let begun = false;
    try {
      for await (const part of piecesOf(parts)) {
        if (this.#gone()) {
          return false;
        }
        let room = true;
        this.#reply.cork(() => {
          if (!begun) {
            this.#begin(status, headers);
          }
          begun = true;
          room = this.#reply.write(part);
        });
        if (!room) {
          await this.#roomInTime();
        }
        if (this.#gone()) {
          return false;
        }
      }
    } catch (error) {
      this.#cut(begun);
      throw error;
    }
    if (this.#gone()) {
      return false;
    }
    this.#over = true;
    this.#reply.cork(() => {
      if (!begun) {
        this.#begin(status, headers);
      }
      this.#reply.end(undefined, close || this.#last);
    });
    return true;
  }

  /** Answers with a body of `totalBytes`, which must be above 0, as {@link stream}. */
  async streamSized(
    answer: Omit<HttpAnswer, "body">,
    totalBytes: number,
    parts: AsyncIterable<Uint8Array>,
  ): Promise<boolean> {
    this.#watchRoom();
    let sent = 0;
    let begun = false;
    try {
      for await (const part of parts) {
        const end = sent + part.length;
        while (sent < end) {
          if (this.#gone()) {
            return false;
          }
          const rest = part.subarray(part.length - (end - sent));
          const { room, ended } = this.#writeSized(begun ? null : answer, rest, totalBytes);
          begun = true;
          sent = ended ? end : this.#reply.getWriteOffset();
          if (ended) {
            this.#over = true;
          } else if (!room) {
            await this.#roomInTime();
          }
        }
      }
    } catch (error) {
      this.#cut(begun);
      throw error;
    }
    return sent === totalBytes;
  }

  #watchRoom(): void {
    this.#reply.onWritable(() => {
      this.#onWritable?.();
      return true;
    });
  }

  /** Ends the connection of a response that has begun and will not be whole. */
  #cut(begun: boolean): void {
    if (begun && !this.#gone()) {
      this.#over = true;
      this.#reply.close();
    }
  }

  /** @param answer null when its head was written */
  #writeSized(
    answer: Omit<HttpAnswer, "body"> | null,
    part: Uint8Array,
    totalBytes: number,
  ): { readonly room: boolean; readonly ended: boolean } {
    let result: readonly [boolean, boolean] = [false, false];
    this.#reply.cork(() => {
      if (answer !== null) {
        this.#begin(answer.status, answer.headers);
      }
      result = this.#reply.tryEnd(part, totalBytes);
    });
    return { room: result[0], ended: result[1] };
  }

  /** What an abort may have changed while something was awaited. */
  #gone(): boolean {
    return this.#over;
  }

  #begin(status: number, headers: HttpAnswer["headers"]): void {
    this.#reply.writeStatus(statusLine(status));
    for (const [name, value] of headers) {
      this.#reply.writeHeader(name, value);
    }
  }

  /**
   * Waits for room for as long as a client may take nothing, which is longer than uWebSockets.js would.
   * @throws ServiceError CANCELLED
   */
  async #roomInTime(): Promise<void> {
    const timer = setInterval(() => {
      if (!this.#gone()) {
        restartReadTimer(this.#reply);
      }
    }, keepReadingEveryMs);
    try {
      if ((await atMost(this.#writable(), answerTimeoutMs)) === null) {
        throw new ServiceError("CANCELLED", "the client takes nothing");
      }
    } finally {
      clearInterval(timer);
    }
  }

  #writable(): Promise<void> {
    return new Promise((resolve) => {
      this.#onWritable = () => {
        this.#onWritable = null;
        resolve();
      };
    });
  }

  #closing(answer: HttpAnswer): HttpAnswer {
    const unread = this.#cutOff && this.#outcome?.kind !== "complete";
    return unread || this.#paused || this.#last ? { ...answer, close: true } : answer;
  }

  #data(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    if (this.#over || this.#outcome !== null) {
      return;
    }
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#maxBytes) {
      this.#chunks.length = 0;
      this.#settle({ kind: "refused", error: bodyTooLarge(this.#maxBytes) });
      return;
    }
    // Copied: the memory is the driver's.
    this.#chunks.push(Buffer.from(bytesOf(chunk)));
    if (isLast) {
      this.#settle({ kind: "complete", bytes: this.#streams ? new Uint8Array(0) : Buffer.concat(this.#chunks) });
    } else if ((this.#streams || !this.#known) && !this.#paused) {
      this.#pause();
    }
    this.#onPart?.();
  }

  #pause(): void {
    this.#paused = true;
    this.#reply.pause();
  }

  #settle(outcome: BodyOutcome): void {
    if (this.#outcome !== null) {
      return;
    }
    this.#outcome = outcome;
    this.#onOutcome?.(outcome);
    this.#onPart?.();
  }
}

/** PAYLOAD_TOO_LARGE with the limit in it. */
export function bodyTooLarge(maxBytes: number): ServiceError {
  return new ServiceError("PAYLOAD_TOO_LARGE", `the body is larger than ${maxBytes} bytes`);
}

/** Cuts large parts up: a driver keeps a copy of what a slow client has not taken of a piece. */
async function* piecesOf(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const part of parts) {
    for (let from = 0; from < part.length; from += pieceBytes) {
      yield part.subarray(from, from + pieceBytes);
    }
  }
}
