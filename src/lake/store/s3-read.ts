/** Reading objects of an S3 store: what breaks off goes on where it stopped, and whole objects prove their checksum. */
import type { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { crc32 } from "node:zlib";

import type { GetObjectCommandOutput } from "@aws-sdk/client-s3";

import { abortReason, ServiceError } from "../../runtime/errors.js";
import { type ByteRange, DamagedObject, type OnBytes } from "./object-store.js";
import { checksumText, type S3Access } from "./s3-client.js";
import { foreignAnswer, isNoSuchKey, statusOf } from "./s3-errors.js";

/** Answers that may break off one after the other without a byte of progress. */
const maxFruitless = 4;
const isShorter = "an object of the object store is shorter than when it was stored";
/** What has to come in so many times the longest silence; less comes to nobody's end. */
const leastBytes = 64 << 10;
const patience = 4;
const wrongChecksum = "an object of the object store is damaged: its checksum is not that of its bytes";

/**
 * Reads an object or a range of it. Errors are the SDK's, or ServiceError: CANCELLED (or what `signal` was aborted
 * with), NOT_FOUND, DamagedObject.
 */
export async function readObject(
  access: S3Access,
  path: string,
  range: ByteRange | null,
  onBytes: OnBytes,
  signal: AbortSignal,
  size?: number,
): Promise<void> {
  /** One behind the last byte; null until the first answer to a request for the whole object. */
  let end = range === null ? null : range.start + range.length;
  let at = range?.start ?? 0;
  let crc = 0;
  let expected: string | null = null;
  const pace = new Pace(patience * access.timing.answerMs);
  for (let fruitless = 0; end === null || at < end;) {
    const before = at;
    let taking: "answer" | "bytes" | "sink" = "answer";
    let body: Readable | undefined;
    try {
      const whole = at === 0 && range === null;
      const { answer, body: found, checksum } = await ask(access, path, { at, end, whole }, signal);
      body = found;
      end = checkedEnd(answer, at, end, size);
      if (whole) {
        expected = checksum;
      }
      taking = "bytes";
      pace.wait();
      for await (const chunk of body as AsyncIterable<Uint8Array>) {
        signal.throwIfAborted();
        pace.came(chunk.length);
        if (range === null) {
          crc = crc32(chunk, crc);
        }
        taking = "sink";
        await onBytes(chunk, at);
        taking = "bytes";
        pace.wait();
        at += chunk.length;
      }
      if (at < (end ?? 0)) {
        throw new RangeError("an answer of the object store was cut off");
      }
    } catch (error) {
      const failure = failureOf(error, signal);
      if (failure !== null) {
        throw failure;
      }
      fruitless = at > before ? 0 : fruitless + 1;
      // The SDK has repeated a request that was not answered; a body, or a checksum, may be right the next time.
      if (taking !== "bytes" || fruitless >= maxFruitless || error instanceof ServiceError) {
        throw isMismatch(error) ? new DamagedObject(wrongChecksum, { cause: error }) : error;
      }
      await wait(50 * 2 ** fruitless * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined);
    } finally {
      // One that was not read keeps its connection.
      body?.destroy();
    }
  }
  if (expected !== null && checksumText(crc) !== expected) {
    throw new DamagedObject(wrongChecksum);
  }
}

/** Asks for what lies from `at` to before `end`, or to the object's own end; with its checksum for a whole object. */
async function ask(
  { sdk, client, bucket, prefix }: S3Access,
  path: string,
  { at, end, whole }: { readonly at: number; readonly end: number | null; readonly whole: boolean },
  signal: AbortSignal,
): Promise<{ readonly answer: GetObjectCommandOutput; readonly body: Readable; readonly checksum: string | null }> {
  const answer = await client.send(
    new sdk.GetObjectCommand({
      Bucket: bucket,
      Key: `${prefix}${path}`,
      ...(at === 0 && end === null ? {} : { Range: `bytes=${at}-${end === null ? "" : end - 1}` }),
      ...(whole ? { ChecksumMode: "ENABLED" as const } : {}),
    }),
    { abortSignal: signal },
  );
  const { ChecksumCRC32, ChecksumType } = answer;
  const body = answer.Body as Readable;
  // It proves a checksum of its own, and is ended with `signal` even when it is not read: nobody might hear it fail.
  body.on("error", () => undefined);
  const checksum = ChecksumType === "COMPOSITE" ? null : (ChecksumCRC32 ?? null);
  return { answer, body, checksum };
}

/** What a read has failed with for good; null where asking again may help. */
function failureOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) {
    return abortReason(signal);
  }
  if (isNoSuchKey(error)) {
    return new ServiceError("NOT_FOUND", "an object is gone from the object store", { cause: error });
  }
  return statusOf(error) === 416 ? new DamagedObject(isShorter, { cause: error }) : null;
}

/** How fast bytes come while they are waited for; the time of their taker does not count. */
class Pace {
  readonly #ms: number;
  #fromMs = 0;
  #waitedMs = 0;
  #bytes = 0;

  constructor(ms: number) {
    this.#ms = ms;
  }

  wait(): void {
    this.#fromMs = performance.now();
  }

  /** @throws ServiceError UNAVAILABLE when too few have come for too long */
  came(bytes: number): void {
    this.#waitedMs += performance.now() - this.#fromMs;
    this.#bytes += bytes;
    this.wait();
    if (this.#waitedMs < this.#ms) {
      return;
    }
    if (this.#bytes < leastBytes) {
      throw new ServiceError("UNAVAILABLE", "the object store cannot be read: it is too slow");
    }
    this.#waitedMs = 0;
    this.#bytes = 0;
  }
}

/**
 * One behind the last byte that is wanted, as an answer has it.
 * @throws DamagedObject when the store says that the object has another size; ServiceError UNAVAILABLE for what the store
 *   would not say of any object
 */
function checkedEnd(
  { ETag, ContentEncoding, ContentLength: length, ContentRange }: GetObjectCommandOutput,
  at: number,
  end: number | null,
  size: number | undefined,
): number {
  // A page of something between has no ETag; what has compressed an answer says so.
  if (ETag === undefined || length === undefined || /gzip|deflate|br|zstd/iu.test(ContentEncoding ?? "")) {
    throw foreignAnswer("be read");
  }
  const range = /^bytes (?<first>\d+)-(?<last>\d+)\/(?<total>\d+)$/u.exec(ContentRange ?? "")?.groups;
  // Some stores answer a range that is all of an object with the object.
  const total = ContentRange === undefined && at === 0 ? length : Number(range?.["total"]);
  const [first, last] = range === undefined ? [0, total - 1] : [Number(range["first"]), Number(range["last"])];
  if (first !== at || last - first + 1 !== length || !(last < total)) {
    throw foreignAnswer("be read");
  }
  if (size !== undefined && total !== size) {
    throw new DamagedObject("an object of the object store has another size than when it was stored");
  }
  if (end !== null && total < end) {
    throw new DamagedObject(isShorter);
  }
  if (end !== null && last !== end - 1) {
    throw foreignAnswer("be read");
  }
  return last + 1;
}

/** Whether the SDK's own proof failed. The bytes of a small object are lost with it. */
function isMismatch(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Checksum mismatch");
}

/** Bytes of an object. Errors as {@link readObject}. */
export async function sizeOfObject(
  { sdk, client, bucket, prefix }: S3Access,
  path: string,
  signal: AbortSignal,
): Promise<number> {
  try {
    const { ContentLength } = await client.send(
      new sdk.HeadObjectCommand({ Bucket: bucket, Key: `${prefix}${path}` }),
      { abortSignal: signal },
    );
    if (ContentLength === undefined) {
      throw foreignAnswer("be read");
    }
    return ContentLength;
  } catch (error) {
    if (statusOf(error) === 404) {
      throw new ServiceError("NOT_FOUND", "an object is gone from the object store", { cause: error });
    }
    throw error;
  }
}
