/**
 * Values bound by clients that keep using the statement's first handle, as in Flight SQL before DoPut
 * could answer with a new one. The new handle holds the values, and any server serves it; for clients
 * that ignore it, this server remembers it.
 */
import { createHash } from "node:crypto";

/**
 * Most bytes of handles that are remembered. Beyond them the caller with the most gives up the one that he has not used
 * for the longest.
 */
const maxBytes = 32 << 20;
/** What a small handle counts for, which bounds their number. */
const leastBytes = 3 << 10;

interface Bound {
  readonly handle: Uint8Array;
  readonly caller: string;
}

/** Handles with values by the handle that was prepared. */
export class BoundStatements {
  /** The last one was used last. */
  readonly #bound = new Map<string, Bound>();
  /** Of each caller. */
  readonly #bytes = new Map<string, number>();
  #totalBytes = 0;

  /** The handle that holds the values, or the given one where nothing was bound. */
  resolve(handle: Uint8Array): Uint8Array {
    const key = keyOf(handle);
    const bound = this.#bound.get(key);
    if (bound === undefined) {
      return handle;
    }
    this.#bound.delete(key);
    this.#bound.set(key, bound);
    return bound.handle;
  }

  /** @param caller whose statement it is */
  set(caller: string, handle: Uint8Array, bound: Uint8Array): void {
    this.delete(handle);
    this.#bound.set(keyOf(handle), { handle: bound, caller });
    this.#count(caller, sizeOf(bound));
    while (this.#totalBytes > maxBytes) {
      this.#forgetOne();
    }
  }

  delete(handle: Uint8Array): void {
    this.#forget(keyOf(handle));
  }

  #forgetOne(): void {
    let most = "";
    for (const [caller, bytes] of this.#bytes) {
      if (bytes > (this.#bytes.get(most) ?? 0)) {
        most = caller;
      }
    }
    for (const [key, { caller }] of this.#bound) {
      if (caller === most) {
        this.#forget(key);
        return;
      }
    }
  }

  #forget(key: string): void {
    const bound = this.#bound.get(key);
    if (bound !== undefined) {
      this.#bound.delete(key);
      this.#count(bound.caller, -sizeOf(bound.handle));
    }
  }

  #count(caller: string, bytes: number): void {
    const own = (this.#bytes.get(caller) ?? 0) + bytes;
    if (own > 0) {
      this.#bytes.set(caller, own);
    } else {
      this.#bytes.delete(caller);
    }
    this.#totalBytes += bytes;
  }
}

function sizeOf({ length }: Uint8Array): number {
  return Math.max(length, leastBytes);
}

function keyOf(handle: Uint8Array): string {
  return createHash("sha256").update(handle).digest("base64");
}
