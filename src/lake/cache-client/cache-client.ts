/** Reads of an object cache over HTTP, given up as soon as they are slow or not what was asked for. */
import type { Pool } from "undici";

import { followSignals } from "telemetry-service-client/shared/abort";
import type { ByteRange, OnBytes } from "../store/object-store.js";

/** Milliseconds. */
interface CacheTiming {
  readonly connectMs: number;
  /** From the start of a request to the first byte of its body. */
  readonly firstByteMs: number;
  /** The longest that {@link windowBytes} of a body, or its rest, may take. */
  readonly slowMs: number;
}

/** A cache that is near answers within a millisecond or so; what takes longer than this is slower than the store. */
const defaultCacheTiming: CacheTiming = { connectMs: 50, firstByteMs: 500, slowMs: 2000 };
/** A cache that sends fewer of these in a time is slower than any store. */
const windowBytes = 256 << 10;

/** The cache did not give what it was asked for. */
export class CacheFailure extends Error {
  /** The cache is well, but has no such object, or does not hand it out. */
  readonly declined: boolean;

  constructor(message: string, o?: { readonly declined?: boolean; readonly cause?: unknown }) {
    super(message, o);
    this.declined = o?.declined ?? false;
  }
}

/** Asks an object cache. */
export interface CacheClient {
  /**
   * Hands over the bytes of an object, or of a range of it, in order.
   * @param size of the whole object, where it is known
   * @throws CacheFailure; what `onBytes` throws
   */
  read(key: string, range: ByteRange | null, onBytes: OnBytes, signal: AbortSignal, size?: number): Promise<void>;
  close(): Promise<void>;
}

const maxConnections = 64;

/** A client of the cache at `uri`, which may have a path. It connects to nothing. */
export async function createCacheClient(
  uri: string,
  apiKey: string,
  timing: CacheTiming = defaultCacheTiming,
): Promise<CacheClient> {
  const { Pool: UndiciPool } = await import("undici");
  const { origin, pathname } = new URL(uri);
  const base = pathname.replace(/\/+$/u, "");
  const pool = new UndiciPool(origin, {
    connections: maxConnections,
    connect: { timeout: timing.connectMs },
    // Both are bounded here.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  return {
    read: (key, range, onBytes, signal, size) =>
      readObject(pool, `${base}/obj/${key}`, apiKey, timing, range, onBytes, signal, size),
    close: () => pool.destroy(),
  };
}

async function readObject(
  pool: Pool,
  path: string,
  apiKey: string,
  timing: CacheTiming,
  range: ByteRange | null,
  onBytes: OnBytes,
  signal: AbortSignal,
  size: number | undefined,
): Promise<void> {
  const { controller, release } = followSignals([signal]);
  const patience = new Patience(timing, (sentence) => {
    controller.abort(new CacheFailure(sentence));
  });
  const sink: { failure: { readonly error: unknown } | null } = { failure: null };
  try {
    const response = await pool.request({
      method: "GET",
      path,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(range === null ? {} : { range: `bytes=${range.start}-${range.start + range.length - 1}` }),
      },
      signal: controller.signal,
    });
    let expected: number;
    try {
      expected = expectedLength(response.statusCode, response.headers, range, size);
    } catch (error) {
      // Small, and the connection can be used again; or not, and it is closed.
      await response.body.dump().catch(() => undefined);
      throw error;
    }
    let received = 0;
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      received += chunk.length;
      if (received > expected) {
        throw new CacheFailure("the object cache sent more than it was asked for");
      }
      patience.working(chunk.length);
      try {
        await onBytes(chunk, (range?.start ?? 0) + received - chunk.length);
      } catch (error) {
        sink.failure = { error };
        throw error;
      }
      patience.waiting();
    }
    if (received < expected) {
      throw new CacheFailure("an answer of the object cache was cut off");
    }
  } catch (error) {
    if (sink.failure !== null) {
      throw sink.failure.error;
    }
    const { reason } = controller.signal as { reason: unknown };
    const failure = reason instanceof CacheFailure ? reason : error;
    throw failure instanceof CacheFailure
      ? failure
      : new CacheFailure("the object cache cannot be reached, or broke off", { cause: error });
  } finally {
    patience.end();
    release();
  }
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Bytes of the body. @throws CacheFailure when it is not what was asked for */
function expectedLength(status: number, headers: Headers, range: ByteRange | null, size: number | undefined): number {
  if (status === 404 || status === 403) {
    throw new CacheFailure(`the object cache answers ${status}`, { declined: true });
  }
  if (status === 401) {
    throw new CacheFailure("the object cache does not know the key: check SVC_OBJECT_CACHE_API_KEY");
  }
  if (status !== (range === null ? 200 : 206)) {
    throw new CacheFailure(`the object cache answers ${status}`);
  }
  const length = Number(headers["content-length"] ?? Number.NaN);
  if (!Number.isSafeInteger(length) || headers["content-encoding"] !== undefined) {
    throw new CacheFailure("the object cache does not say how long its answer is");
  }
  if (range === null) {
    if (size !== undefined && length !== size) {
      throw new CacheFailure("the object cache has an object of another size");
    }
    return length;
  }
  const last = range.start + range.length - 1;
  const said = /^bytes (?<first>\d+)-(?<last>\d+)\/(?<size>\d+)$/u.exec(String(headers["content-range"]))?.groups;
  const isAsked =
    Number(said?.["first"]) === range.start &&
    Number(said?.["last"]) === last &&
    (size === undefined || Number(said?.["size"]) === size) &&
    length === range.length;
  if (!isAsked) {
    throw new CacheFailure("the object cache answers with another range");
  }
  return length;
}

/**
 * How long a read waits for the cache: for the first bytes, and then for a window of bytes after the other. The time that
 * its own taker takes does not count.
 */
class Patience {
  readonly #timing: CacheTiming;
  readonly #giveUp: (sentence: string) => void;
  #timer: NodeJS.Timeout;
  /** Bytes that have come in this window, and how long they were waited for. */
  #bytes = 0;
  #waitedMs = 0;
  #waitingSinceMs = 0;

  constructor(timing: CacheTiming, giveUp: (sentence: string) => void) {
    this.#timing = timing;
    this.#giveUp = giveUp;
    this.#timer = setTimeout(() => {
      giveUp(`the object cache sent nothing for ${timing.firstByteMs} ms`);
    }, timing.firstByteMs);
  }

  /** Something has come, and is being taken. */
  working(bytes: number): void {
    clearTimeout(this.#timer);
    this.#bytes += bytes;
    if (this.#bytes >= windowBytes) {
      this.#bytes = 0;
      this.#waitedMs = 0;
    } else if (this.#waitingSinceMs > 0) {
      this.#waitedMs += performance.now() - this.#waitingSinceMs;
    }
  }

  /** The next is waited for. */
  waiting(): void {
    const { slowMs } = this.#timing;
    this.#waitingSinceMs = performance.now();
    this.#timer = setTimeout(
      () => {
        this.#giveUp(`the object cache sent ${this.#bytes} bytes in ${slowMs} ms`);
      },
      Math.max(0, slowMs - this.#waitedMs),
    );
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
