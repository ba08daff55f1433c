/**
 * Values bound by clients that keep using the statement's first handle, as in Flight SQL before DoPut
 * could answer with a new one. The new handle holds the values, and any server serves it; for clients
 * that ignore it, this server remembers it.
 */
import { createHash } from "node:crypto";

/** Most handles, and most bytes of handles, that are remembered; the least recently bound go first. */
const maxHandles = 10_000;
const maxBytes = 32 << 20;

/** Handles with values by the handle that was prepared. */
export class BoundStatements {
  readonly #handles = new Map<string, Uint8Array>();
  #bytes = 0;

  /** The handle that holds the values, or the given one where nothing was bound. */
  resolve(handle: Uint8Array): Uint8Array {
    return this.#handles.get(keyOf(handle)) ?? handle;
  }

  set(handle: Uint8Array, bound: Uint8Array): void {
    this.delete(handle);
    this.#handles.set(keyOf(handle), bound);
    this.#bytes += bound.length;
    for (const [oldest, { length }] of this.#handles) {
      if (this.#handles.size <= maxHandles && this.#bytes <= maxBytes) {
        break;
      }
      this.#handles.delete(oldest);
      this.#bytes -= length;
    }
  }

  delete(handle: Uint8Array): void {
    const key = keyOf(handle);
    this.#bytes -= this.#handles.get(key)?.length ?? 0;
    this.#handles.delete(key);
  }
}

function keyOf(handle: Uint8Array): string {
  return createHash("sha256").update(handle).digest("base64");
}
