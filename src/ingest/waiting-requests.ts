/**
 * Requests that wait for a batch, in turns by audience: when they do not all fit one, each audience gets as many bytes
 * of it as the others, or all that it has. So one whose senders overload the server waits behind itself.
 *
 * Deficit round robin (Shreedhar and Varghese, 1995) within a batch.
 */
import { expectedBytes, type Underclaim } from "./claimed-bytes.js";
import type { PendingRequest } from "./request.js";

/** Bytes, inflated, that an audience may add to a batch at its turn; what it does not use it has more the next time. */
const turnBytes = 64 * 1024;

/** Requests of an audience; those before `head` have left. */
interface Line {
  requests: PendingRequest[];
  head: number;
  /** Bytes, inflated, that it may take before the next is served. */
  credit: number;
}

/** See the head of this file. */
export class WaitingRequests {
  /** In the order of their next turns. */
  readonly #lines = new Map<string | null, Line>();
  /** By how much compressed bodies are larger than they claim, of audiences of which that is known. */
  readonly #factors = new Map<string | null, number>();
  #count = 0;
  #bytes = 0;

  /** Requests that wait. */
  get count(): number {
    return this.#count;
  }

  /** Bytes of their bodies, as sent. */
  get bytes(): number {
    return this.#bytes;
  }

  add(request: PendingRequest): void {
    let line = this.#lines.get(request.audience);
    if (line === undefined) {
      line = { requests: [], head: 0, credit: turnBytes };
      this.#lines.set(request.audience, line);
    }
    line.requests.push(request);
    this.#count++;
    this.#bytes += request.length;
  }

  /** The audience's next compressed bodies count for so much more; each of its batches halves that. */
  learn({ audience, factor }: Underclaim): void {
    this.#factors.set(audience, Math.max(factor, this.#factors.get(audience) ?? 1));
  }

  /**
   * Takes the next batch: as many requests as fit, and at least one when there is one.
   * @param maxBytes of their bodies, inflated ({@link expectedBytes})
   */
  take(maxBytes: number, maxRequests: number): PendingRequest[] {
    const batch: PendingRequest[] = [];
    // As sent, and inflated.
    let bytes = 0;
    let size = 0;
    // A line that is put behind the others is visited again.
    for (const [audience, line] of this.#lines) {
      const factor = this.#factors.get(audience) ?? 1;
      let next = line.requests[line.head];
      for (; next !== undefined; next = line.requests[++line.head]) {
        const itsSize = expectedBytes(next, factor);
        if (itsSize > line.credit) {
          break;
        }
        if (batch.length === maxRequests || (batch.length > 0 && size + itsSize > maxBytes)) {
          this.#left(batch, bytes);
          return batch;
        }
        batch.push(next);
        bytes += next.length;
        size += itsSize;
        line.credit -= itsSize;
      }
      this.#lines.delete(audience);
      if (next !== undefined) {
        line.credit += turnBytes;
        if (line.head > line.requests.length / 2) {
          line.requests = line.requests.slice(line.head);
          line.head = 0;
        }
        this.#lines.set(audience, line);
      }
    }
    this.#left(batch, bytes);
    return batch;
  }

  #left(batch: readonly PendingRequest[], bytes: number): void {
    this.#count -= batch.length;
    this.#bytes -= bytes;
    if (this.#factors.size === 0) {
      return;
    }
    for (const audience of new Set(batch.map((request) => request.audience))) {
      const half = (this.#factors.get(audience) ?? 1) / 2;
      if (half > 1) {
        this.#factors.set(audience, half);
      } else {
        this.#factors.delete(audience);
      }
    }
  }
}
