/**
 * Objects in a bucket of S3, or of a store that speaks its protocol. s3-put.ts says how they are created once,
 * s3-read.ts how they are read.
 */
import { randomUUID } from "node:crypto";

import { underSignals } from "telemetry-service-client/shared/abort";
import { abortReason, ServiceError } from "../../runtime/errors.js";
import { SingleFlight } from "../../runtime/single-flight.js";
import {
  type ByteRange,
  checkPath,
  DamagedObject,
  type ObjectStore,
  type OnBytes,
  probeDirectory,
  type RemoteObjects,
  type StoredObject,
  type Written,
} from "./object-store.js";
import { parseS3Uri } from "./s3-address.js";
import { defaultTiming, openS3Client, type S3Access, type S3Timing } from "./s3-client.js";
import { foreignAnswer, isNoSuchKey, statusOf, storeError } from "./s3-errors.js";
import { putBytes, putFile, putStream, uploadBytes } from "./s3-put.js";
import { readObject, sizeOfObject } from "./s3-read.js";

/** What a probe reads: an object that earlier versions left, one without bytes, or none. Each is an answer. */
const readProbe = `${probeDirectory}/ready`;
/** A good result of a probe holds for so long, since each is a request that is paid for. */
const probeHoldsMs = 5000;
const notImplemented = 501;
const conditions = [
  ["If-None-Match", putBytes],
  ["If-None-Match where an upload in parts is completed", uploadBytes],
] as const;

/**
 * Opens the bucket that an `s3:` URI names; s3-address.ts says how. It connects to nothing.
 * @throws ServiceError NOT_CONFIGURED
 */
export async function openS3Store(uri: string, timing: S3Timing = defaultTiming): Promise<ObjectStore> {
  return new S3Store(uri, await openS3Client(parseS3Uri(uri), timing));
}

class S3Store implements ObjectStore, RemoteObjects {
  readonly uri: string;
  readonly #access: S3Access;
  readonly #probe = new HeldProbe(() => this.#probeOnce());
  readonly #readProbe = new HeldProbe(() => this.#probeReadsOnce());
  /** The object of a probe that could not be removed; the next one is not stored before it is gone. */
  #left: string | null = null;

  constructor(uri: string, access: S3Access) {
    this.uri = uri;
    this.#access = access;
  }

  get remote(): RemoteObjects {
    return this;
  }

  async put(path: string, chunks: readonly Uint8Array[]): Promise<void> {
    checkPath(path);
    // Copied before anything is waited for: the memory of chunks may be used again.
    const body = Buffer.concat(chunks);
    try {
      await putBytes(this.#access, path, body);
    } catch (error) {
      throw storeError("be written", error);
    }
  }

  async putParts(path: string, parts: AsyncIterable<Uint8Array>): Promise<number> {
    checkPath(path);
    // A failure of the parts is their own.
    const own: { failure: unknown } = { failure: null };
    async function* watched(): AsyncGenerator<Uint8Array> {
      try {
        yield* parts;
      } catch (error) {
        own.failure = error;
        throw error;
      }
    }
    try {
      return (await putStream(this.#access, path, watched())).fileBytes;
    } catch (error) {
      throw own.failure ?? storeError("be written", error);
    }
  }

  async putFile(path: string, file: string): Promise<Written> {
    checkPath(path);
    try {
      return await putFile(this.#access, path, file);
    } catch (error) {
      throw storeError("be written", error);
    }
  }

  async read(
    path: string,
    range: ByteRange | null,
    onBytes: OnBytes,
    signal: AbortSignal,
    size?: number,
  ): Promise<void> {
    checkPath(path);
    // A failure of who takes the bytes is its own: a full disk is no failure of the store.
    const own: { failure: unknown } = { failure: null };
    const take: OnBytes = async (bytes, at) => {
      try {
        await onBytes(bytes, at);
      } catch (error) {
        own.failure = error;
        throw error;
      }
    };
    try {
      await readObject(this.#access, path, range, take, signal, size);
    } catch (error) {
      throw error === own.failure ? error : storeError("be read", error);
    }
  }

  async size(path: string, signal: AbortSignal): Promise<number> {
    checkPath(path);
    const { timing } = this.#access;
    try {
      return await underSignals([signal, AbortSignal.timeout(timing.smallMs)], (either) =>
        sizeOfObject(this.#access, path, either),
      );
    } catch (error) {
      throw signal.aborted ? abortReason(signal) : storeError("be read", error);
    }
  }

  async remove(path: string): Promise<void> {
    checkPath(path);
    try {
      await this.#delete(path, this.#access.timing.smallMs);
    } catch (error) {
      // Some stores say so; there is nothing to remove. A bucket that is not there is no such answer.
      if (!isNoSuchKey(error)) {
        throw storeError("remove an object", error);
      }
    }
  }

  async *list(directory: string): AsyncGenerator<StoredObject> {
    const { sdk, client, bucket, prefix, timing } = this.#access;
    const start = directory.replace(/\/$/u, "");
    if (start !== "") {
      checkPath(start);
    }
    let token: string | undefined;
    do {
      let page;
      try {
        page = await client.send(
          new sdk.ListObjectsV2Command({
            Bucket: bucket,
            Prefix: start === "" ? prefix : `${prefix}${start}/`,
            ContinuationToken: token,
          }),
          { abortSignal: AbortSignal.timeout(timing.putMs) },
        );
      } catch (error) {
        throw storeError("be listed", error);
      }
      for (const { Key, Size, LastModified } of page.Contents ?? []) {
        // What ends with a slash is a directory that some tools make.
        if (Key !== undefined && LastModified !== undefined && !Key.endsWith("/")) {
          yield { path: Key.slice(prefix.length), bytes: Size ?? 0, modifiedMs: LastModified.getTime() };
        }
      }
      const next = page.IsTruncated === true ? page.NextContinuationToken : undefined;
      if (page.IsTruncated === true && (next === undefined || next === token)) {
        throw foreignAnswer("be listed");
      }
      token = next;
    } while (token !== undefined);
  }

  probe(): Promise<void> {
    return this.#probe.run();
  }

  probeReads(): Promise<void> {
    return this.#readProbe.run();
  }

  localPath(path: string): null {
    checkPath(path);
    return null;
  }

  async verify(): Promise<void> {
    const access = this.#quick;
    const path = `${probeDirectory}/${randomUUID()}`;
    const other = Buffer.from("another one");
    let ignored: string | undefined;
    try {
      await putBytes(access, path, Buffer.from("one"));
      for (const [condition, store] of conditions) {
        if (ignored === undefined && !(await refuses(store(access, path, other)))) {
          ignored = condition;
        }
      }
      await this.#delete(path, access.timing.smallMs);
    } catch (error) {
      throw statusOf(error) === notImplemented
        ? unconditional("The object store has no If-None-Match")
        : storeError("be used", error);
    }
    if (ignored !== undefined) {
      throw unconditional(`The object store ignores ${ignored}: it replaces an object that exists`);
    }
  }

  /** What storing an object needs, and nothing less: a store may write, and refuse conditions. */
  async #probeOnce(): Promise<void> {
    const access = this.#quick;
    try {
      await this.#removeProbe();
      this.#left = `${probeDirectory}/${randomUUID()}`;
      await putBytes(access, this.#left, Buffer.from("probe")).catch(async (error: unknown) => {
        // It may be there all the same.
        await this.#removeProbe().catch(() => undefined);
        throw error;
      });
      await this.#removeProbe();
    } catch (error) {
      throw storeError("be written", error);
    }
  }

  /** A read and not a look for its size: to that a bucket that is not there answers as one without the object. */
  async #probeReadsOnce(): Promise<void> {
    const signal = AbortSignal.timeout(this.#access.timing.probeMs);
    try {
      await this.read(readProbe, { start: 0, length: 1 }, () => Promise.resolve(), signal);
    } catch (error) {
      if (signal.aborted) {
        throw storeError("be read", signal.reason);
      }
      if (!(error instanceof DamagedObject || (error instanceof ServiceError && error.code === "NOT_FOUND"))) {
        throw error;
      }
    }
  }

  async #removeProbe(): Promise<void> {
    if (this.#left !== null) {
      await this.#delete(this.#left, this.#quick.timing.smallMs);
      this.#left = null;
    }
  }

  /** For those who wait for a verdict, not for an object. */
  get #quick(): S3Access {
    const { timing } = this.#access;
    return { ...this.#access, timing: { ...timing, putMs: timing.probeMs, smallMs: timing.probeMs } };
  }

  async #delete(path: string, ms: number): Promise<void> {
    const { sdk, client, bucket, prefix } = this.#access;
    await client.send(new sdk.DeleteObjectCommand({ Bucket: bucket, Key: `${prefix}${path}` }), {
      abortSignal: AbortSignal.timeout(ms),
    });
  }
}

/** A probe whose good result holds for a while. */
class HeldProbe {
  readonly #flight: SingleFlight<void>;
  #goodAtMs = Number.NEGATIVE_INFINITY;

  constructor(once: () => Promise<void>) {
    this.#flight = new SingleFlight(async () => {
      await once();
      this.#goodAtMs = performance.now();
    });
  }

  async run(): Promise<void> {
    if (performance.now() - this.#goodAtMs >= probeHoldsMs) {
      await this.#flight.run();
    }
  }
}

/** Whether an object was left alone that has the name of another one. */
async function refuses(put: Promise<void>): Promise<boolean> {
  try {
    await put;
    return false;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "CONFLICT") {
      return true;
    }
    throw error;
  }
}

function unconditional(what: string): ServiceError {
  return new ServiceError(
    "NOT_CONFIGURED",
    `${what}, so it could lose telemetry. Upgrade it to a version with conditional writes, or use another one.`,
  );
}
