/**
 * Gives the memory of a large buffer back at once, where many are made and soon forgotten.
 *
 * V8 counts the memory behind buffers towards its limits: a few dozen megabytes of them, however short-lived, cause a
 * full collection of a heap that holds next to nothing. Freed at once, they cause none, and the allocator hands out
 * the same memory, which is in the caches still, for the next one.
 */
import { MessageChannel } from "node:worker_threads";

/** For less the collector is cheaper. */
const worthBytes = 8192;

type Detach = (buffer: ArrayBuffer) => void;

let detach: Detach | null = null;

/** What counts as huge for {@link freeHuge}. */
const hugeBytes = 8 * 1024 * 1024;

/**
 * The same for what is huge only: with smaller buffers freed as well, records took 8% longer to decode, and 25% in JSON
 * (measured).
 */
export function freeHuge(bytes: ArrayBufferView): void {
  if (bytes.byteLength > hugeBytes) {
    freeBuffer(bytes);
  }
}

/**
 * Frees the memory of `bytes`, which nobody may use any more; does nothing for a part of a larger buffer, or a small
 * one.
 */
export function freeBuffer(bytes: ArrayBufferView): void {
  const { buffer } = bytes;
  if (bytes.byteLength >= worthBytes && bytes.byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) {
    detach ??= createDetach();
    detach(buffer);
  }
}

/** What is sent through a closed port has left its sender, and reaches nobody. */
function createDetach(): Detach {
  if ("transfer" in ArrayBuffer.prototype) {
    // Node.js 22 and later; the typings are those of Node.js 20.
    return (buffer) => (buffer as ArrayBuffer & { transfer(length: number): unknown }).transfer(0);
  }
  const { port1, port2 } = new MessageChannel();
  port1.close();
  port2.close();
  return (buffer) => {
    port1.postMessage(null, [buffer]);
  };
}
