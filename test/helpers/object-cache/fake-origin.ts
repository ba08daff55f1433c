/** An origin in memory that counts what it is asked for, and waits or fails when it is told to. */
import type { Origin } from "../../../src/object-cache/origin.js";
import { ServiceError } from "../../../src/runtime/errors.js";

export interface FakeOrigin extends Origin {
  readonly objects: Map<string, Uint8Array>;
  /** `size key` and `read key start length`, in order. */
  readonly asked: string[];
  /** Runs before an answer; what it throws is the answer. */
  before: (asked: string, signal: AbortSignal) => Promise<void>;
  /** Bytes of each part. */
  partBytes: number;
}

export function fakeOrigin(): FakeOrigin {
  const contentOf = (key: string): Uint8Array => {
    const content = origin.objects.get(key);
    if (content === undefined) {
      throw new ServiceError("NOT_FOUND", "gone");
    }
    return content;
  };
  const origin: FakeOrigin = {
    objects: new Map(),
    asked: [],
    before: () => Promise.resolve(),
    partBytes: 300_000,
    async size(key, signal) {
      const asked = `size ${key}`;
      origin.asked.push(asked);
      await origin.before(asked, signal);
      return contentOf(key).length;
    },
    async read(key, { start, length }, onBytes, signal) {
      const asked = `read ${key} ${start} ${length}`;
      origin.asked.push(asked);
      await origin.before(asked, signal);
      const end = Math.min(start + length, contentOf(key).length);
      for (let at = start; at < end; at += origin.partBytes) {
        await onBytes(contentOf(key).subarray(at, Math.min(end, at + origin.partBytes)), at);
      }
    },
    probe: () => Promise.resolve(),
  };
  return origin;
}
