/** Objects to fetch before anybody asks for them: what a request says of them, and the queue that they wait in. */
import type { ByteRange } from "../lake/store/object-store.js";
import { ServiceError } from "../runtime/errors.js";
import type { Logger } from "../runtime/log/log.js";
import { isObject } from "telemetry-service-client/shared/is-object";
import type { ObjectCache } from "./object-cache.js";
import type { ObjectCacheCounts } from "./object-cache-counts.js";

/** A line of a request. */
interface PrefetchItem {
  readonly key: string;
  /** Bytes of the object, as its caller knows it. One of another size is not fetched. */
  readonly size: number;
  /** Null: the whole object. */
  readonly ranges: readonly ByteRange[] | null;
}

/** What a request may hold. */
export const prefetchLimits = { bodyBytes: 1 << 20, lines: 10_000, ranges: 100 } as const;

const parallel = 2;
const maxWaiting = 10_000;

/**
 * Reads NDJSON, a line `{"key", "size", "ranges"?: [{"start", "length"}, ...]}` for each object; empty lines are skipped.
 * @throws ServiceError BAD_REQUEST that names the line; PAYLOAD_TOO_LARGE for too many lines
 */
export function parsePrefetch(body: Uint8Array): PrefetchItem[] {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch (error) {
    throw new ServiceError("BAD_REQUEST", "the body is not UTF-8", { cause: error });
  }
  const lines = text.split("\n");
  if (lines.length > prefetchLimits.lines + 1) {
    throw new ServiceError("PAYLOAD_TOO_LARGE", `the body has more than ${prefetchLimits.lines} lines`);
  }
  return lines.flatMap((line, i) => {
    if (line.trim() === "") {
      return [];
    }
    const item = itemOf(line);
    if (item === null) {
      throw new ServiceError(
        "BAD_REQUEST",
        `line ${i + 1} is not {"key": text, "size": bytes, "ranges"?: [{"start": byte, "length": bytes}, ...]} within the object`,
      );
    }
    return [item];
  });
}

function itemOf(line: string): PrefetchItem | null {
  let document: unknown;
  try {
    document = JSON.parse(line);
  } catch {
    // The caller says which line, and what a line has to be.
    return null;
  }
  if (!isObject(document)) {
    return null;
  }
  const { key, size, ranges = null, ...unknown } = document;
  if (typeof key !== "string" || !isCount(size) || Object.keys(unknown).length > 0) {
    return null;
  }
  if (ranges === null) {
    return { key, size, ranges };
  }
  if (!Array.isArray(ranges) || ranges.length > prefetchLimits.ranges) {
    return null;
  }
  const read = ranges.map((range: unknown) => rangeOf(range, size));
  return read.every((range) => range !== null) ? { key, size, ranges: read } : null;
}

function rangeOf(range: unknown, size: number): ByteRange | null {
  if (!isObject(range)) {
    return null;
  }
  const { start, length, ...unknown } = range;
  const isWithin = isCount(start) && isCount(length) && length > 0 && start + length <= size;
  return isWithin && Object.keys(unknown).length === 0 ? { start, length } : null;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** Fetches what it is given, a few at a time, in turns with those who ask now. */
export class PrefetchQueue {
  readonly #cache: ObjectCache;
  readonly #counts: ObjectCacheCounts;
  readonly #logger: Logger;
  readonly #waiting: PrefetchItem[] = [];
  readonly #stopping = new AbortController();
  #running = 0;

  constructor(cache: ObjectCache, counts: ObjectCacheCounts, logger: Logger) {
    this.#cache = cache;
    this.#counts = counts;
    this.#logger = logger;
  }

  /** Takes an object; false when too many wait. */
  add(item: PrefetchItem): boolean {
    if (this.#waiting.length >= maxWaiting || this.#stopping.signal.aborted) {
      this.#counts.prefetches.inc({ result: "dropped" });
      return false;
    }
    this.#waiting.push(item);
    if (this.#running < parallel) {
      this.#running++;
      void this.#run();
    }
    return true;
  }

  stop(): void {
    this.#waiting.length = 0;
    this.#stopping.abort(new ServiceError("CANCELLED"));
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    for (let item = this.#waiting.shift(); item !== undefined; item = this.#waiting.shift()) {
      try {
        this.#counts.prefetches.inc({ result: await this.#fetch(item) });
      } catch (error) {
        this.#counts.prefetches.inc({ result: "failed" });
        this.#logger.debug({ err: error }, "an object could not be fetched ahead");
      }
    }
    this.#running--;
  }

  async #fetch({ key, size, ranges }: PrefetchItem): Promise<"fetched" | "other size"> {
    const { signal } = this.#stopping;
    const object = await this.#cache.describe(key, signal);
    if (object.bytes !== size) {
      return "other size";
    }
    for (const { start, length } of ranges ?? [{ start: 0, length: size }]) {
      await this.#cache.warm(object, start, start + length, signal);
    }
    return "fetched";
  }
}
