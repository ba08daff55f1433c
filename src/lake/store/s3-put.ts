/**
 * Creating objects, never replacing them: `If-None-Match: *`, also where a large object is completed from parts.
 *
 * A request may be repeated although it had worked, because its answer was lost; then it meets its own object. So a
 * refusal is a success when the object is as large as the new one and has its checksum.
 */
import { createReadStream } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { crc32 } from "node:zlib";

import { ServiceError } from "../../runtime/errors.js";
import type { Written } from "./object-store.js";
import { checksumText, type S3Access } from "./s3-client.js";
import { foreignAnswer, statusOf } from "./s3-errors.js";

/** Larger objects are stored in parts of this size, so many at a time. */
export const partBytes = 16 << 20;
const parallelParts = 3;
/** How often a store may say that another request for the same key is under way. */
const maxConflicts = 5;

/** The bytes of a new object, in pieces of {@link partBytes} and a last one. */
type Pieces = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Stores bytes as a new object. */
export async function putBytes(access: S3Access, key: string, body: Uint8Array): Promise<void> {
  await create(access, key, () => piecesOf(body));
}

/** The same as an upload in parts, however small the object. */
export async function uploadBytes(access: S3Access, key: string, body: Uint8Array): Promise<void> {
  await create(access, key, () => piecesOf(body), "always in parts");
}

function* piecesOf(body: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at === 0 || at < body.length; at += partBytes) {
    yield body.subarray(at, at + partBytes);
  }
}

/** Stores a file as a new object. */
export function putFile(access: S3Access, key: string, file: string): Promise<Written> {
  return create(access, key, () => inPieces(createReadStream(file, { highWaterMark: 1 << 20 })));
}

/** Stores what comes in parts as a new object. */
export function putStream(access: S3Access, key: string, parts: AsyncIterable<Uint8Array>): Promise<Written> {
  let taken = false;
  return create(access, key, () => {
    if (taken) {
      throw new TypeError("what comes in parts cannot be read twice");
    }
    taken = true;
    return inPieces(parts);
  });
}

/** Gathers parts of any size. */
async function* inPieces(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let piece = Buffer.allocUnsafe(partBytes);
  let bytes = 0;
  for await (const part of parts) {
    for (let at = 0; at < part.length;) {
      const taken = Math.min(part.length - at, partBytes - bytes);
      piece.set(part.subarray(at, at + taken), bytes);
      at += taken;
      bytes += taken;
      if (bytes === partBytes) {
        yield piece;
        // The one before is still on its way.
        piece = Buffer.allocUnsafe(partBytes);
        bytes = 0;
      }
    }
  }
  yield piece.subarray(0, bytes);
}

/** What is known of an object once its last piece was read. */
interface Facts {
  bytes: number;
  checksum: number;
  /** Every piece was read, and sent. */
  complete: boolean;
}

/** @param pieces gives the same bytes whenever it is called */
async function create(
  access: S3Access,
  key: string,
  pieces: () => Pieces,
  way: "whole if small" | "always in parts" = "whole if small",
): Promise<Written> {
  for (let conflicts = 0; ; conflicts++) {
    const facts: Facts = { bytes: 0, checksum: 0, complete: false };
    const body = counted(pieces(), facts);
    try {
      await send(access, key, body, facts, way === "always in parts");
      return { fileBytes: facts.bytes, checksum: facts.checksum };
    } catch (error) {
      const status = statusOf(error);
      if (status === 409 && conflicts < maxConflicts) {
        await wait(50 * 2 ** conflicts * (0.5 + Math.random()));
        continue;
      }
      // 404: the upload in parts is over, because it has been completed.
      if (!facts.complete || (status !== 412 && status !== 404)) {
        throw error;
      }
      const same = await isStored(access, key, facts);
      if (same === "no") {
        throw new ServiceError("CONFLICT", "another object has this name", { cause: error });
      }
      if (same === "missing") {
        throw error;
      }
      return { fileBytes: facts.bytes, checksum: facts.checksum };
    } finally {
      // Else a file that was not read to its end stays open.
      await body.return(undefined);
    }
  }
}

async function* counted(pieces: Pieces, facts: Facts): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    facts.bytes += piece.length;
    facts.checksum = crc32(piece, facts.checksum);
    yield piece;
  }
}

async function send(
  access: S3Access,
  key: string,
  pieces: AsyncGenerator<Uint8Array>,
  facts: Facts,
  inParts: boolean,
): Promise<void> {
  const first = await pieces.next();
  const second = await pieces.next();
  const body = first.done === true ? new Uint8Array(0) : first.value;
  if (second.done === true && !inParts) {
    facts.complete = true;
    await putWhole(access, key, body, facts.checksum);
  } else {
    await putInParts(access, key, second.done === true ? [body] : [body, second.value], pieces, facts);
  }
}

async function putWhole(
  { sdk, client, bucket, prefix, timing }: S3Access,
  path: string,
  body: Uint8Array,
  crc: number,
): Promise<void> {
  const command = new sdk.PutObjectCommand({
    Bucket: bucket,
    Key: `${prefix}${path}`,
    Body: body,
    ContentLength: body.length,
    IfNoneMatch: "*",
    ChecksumCRC32: checksumText(crc),
  });
  checkStored(await client.send(command, { abortSignal: AbortSignal.timeout(timing.putMs) }));
}

/** A store names the version that it has stored; a page of something in front of it does not. */
function checkStored({ ETag }: { readonly ETag?: string | undefined }): void {
  if (ETag === undefined) {
    throw foreignAnswer("be written");
  }
}

async function putInParts(
  access: S3Access,
  path: string,
  begin: readonly Uint8Array[],
  rest: AsyncIterable<Uint8Array>,
  facts: Facts,
): Promise<void> {
  const { sdk, client, bucket, prefix, timing } = access;
  const target = { Bucket: bucket, Key: `${prefix}${path}` };
  const { UploadId } = await client.send(
    new sdk.CreateMultipartUploadCommand({ ...target, ChecksumAlgorithm: "CRC32", ChecksumType: "FULL_OBJECT" }),
    { abortSignal: AbortSignal.timeout(timing.putMs) },
  );
  if (UploadId === undefined) {
    throw foreignAnswer("be written");
  }
  try {
    const parts: Awaited<ReturnType<typeof putPart>>[] = [];
    let bodies = [...begin];
    const sendBodies = async (): Promise<void> => {
      const running = bodies.map((body, i) =>
        putPart(access, { ...target, UploadId, PartNumber: parts.length + i + 1 }, body),
      );
      bodies = [];
      await Promise.allSettled(running);
      parts.push(...(await Promise.all(running)));
    };
    for await (const body of rest) {
      if (bodies.length === parallelParts) {
        await sendBodies();
      }
      if (body.length > 0) {
        bodies.push(body);
      }
    }
    await sendBodies();
    facts.complete = true;
    const completed = await client.send(
      new sdk.CompleteMultipartUploadCommand({
        ...target,
        UploadId,
        MultipartUpload: { Parts: parts },
        IfNoneMatch: "*",
        ChecksumCRC32: checksumText(facts.checksum),
        ChecksumType: "FULL_OBJECT",
      }),
      { abortSignal: AbortSignal.timeout(timing.putMs) },
    );
    checkStored(completed);
  } catch (error) {
    // What stays of an upload that cannot be given up now goes by the bucket's rule for unfinished uploads.
    await client
      .send(new sdk.AbortMultipartUploadCommand({ ...target, UploadId }), {
        abortSignal: AbortSignal.timeout(timing.smallMs),
      })
      .catch(() => undefined);
    throw error;
  }
}

interface PartPlace {
  readonly Bucket: string;
  readonly Key: string;
  readonly UploadId: string;
  readonly PartNumber: number;
}

async function putPart({ sdk, client, timing }: S3Access, place: PartPlace, body: Uint8Array) {
  const ChecksumCRC32 = checksumText(crc32(body));
  const stored = await client.send(new sdk.UploadPartCommand({ ...place, Body: body, ChecksumCRC32 }), {
    abortSignal: AbortSignal.timeout(timing.putMs),
  });
  checkStored(stored);
  return { PartNumber: place.PartNumber, ETag: stored.ETag, ChecksumCRC32 };
}

/** Whether an object is there, and is this one. */
async function isStored(
  { sdk, client, bucket, prefix, timing }: S3Access,
  path: string,
  { bytes, checksum }: Facts,
): Promise<"yes" | "no" | "missing"> {
  const target = { Bucket: bucket, Key: `${prefix}${path}`, ChecksumMode: "ENABLED" } as const;
  const abortSignal = AbortSignal.timeout(timing.putMs);
  try {
    const { ContentLength, ChecksumCRC32, ChecksumType } = await client.send(new sdk.HeadObjectCommand(target), {
      abortSignal,
    });
    if (ContentLength !== bytes) {
      return "no";
    }
    if (ChecksumCRC32 !== undefined && ChecksumType !== "COMPOSITE") {
      return ChecksumCRC32 === checksumText(checksum) ? "yes" : "no";
    }
    // A store that keeps no checksums.
    const { Body } = await client.send(new sdk.GetObjectCommand(target), { abortSignal });
    const stored = (await Body?.transformToByteArray()) ?? new Uint8Array(0);
    return crc32(stored) === checksum ? "yes" : "no";
  } catch (error) {
    if (statusOf(error) === 404) {
      return "missing";
    }
    throw error;
  }
}
