/** The object store behind the cache, for reading alone. */
import { createReadStream } from "node:fs";

import type { ByteRange, ObjectStore, OnBytes } from "../lake/store/object-store.js";
import { abortReason, ServiceError } from "../runtime/errors.js";

/** Where objects come from. Errors are those of ObjectStore. */
export interface Origin {
  /** @throws ServiceError NOT_FOUND */
  size(key: string, signal: AbortSignal): Promise<number>;
  /** Hands a range over in order; `size` is that of the whole object. */
  read(key: string, range: ByteRange, onBytes: OnBytes, signal: AbortSignal, size: number): Promise<void>;
  /** Rejects when objects cannot be read at present. It writes nothing. */
  probe(): Promise<void>;
}

const readBytes = 1 << 20;

/** The store as an origin. */
export function originOf(store: ObjectStore): Origin {
  const { remote } = store;
  const size = (key: string, signal: AbortSignal): Promise<number> => store.size(key, signal);
  if (remote === null) {
    return {
      size,
      read: (key, range, onBytes, signal) => readFileRange(store.localPath(key) ?? "", range, onBytes, signal),
      probe: () => store.probeReads(),
    };
  }
  return {
    size,
    read: (key, range, onBytes, signal, bytes) => remote.read(key, range, onBytes, signal, bytes),
    probe: () => store.probeReads(),
  };
}

async function readFileRange(
  file: string,
  { start, length }: ByteRange,
  onBytes: OnBytes,
  signal: AbortSignal,
): Promise<void> {
  let at = start;
  try {
    const parts = createReadStream(file, { start, end: start + length - 1, highWaterMark: readBytes, signal });
    for await (const part of parts as AsyncIterable<Uint8Array>) {
      await onBytes(part, at);
      at += part.length;
    }
  } catch (error) {
    if (signal.aborted) {
      throw abortReason(signal);
    }
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR")) {
      throw new ServiceError("NOT_FOUND", "an object is gone from the object store", { cause: error });
    }
    throw error instanceof ServiceError
      ? error
      : new ServiceError("UNAVAILABLE", "the object store cannot be read", { cause: error });
  }
}
