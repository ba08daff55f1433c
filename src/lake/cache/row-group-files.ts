/**
 * A part of a large object as a file: the row groups that hold wanted times. The file has their bytes at their places in
 * the object, holes (which take no room) between, and a footer that names no other row group. So a reader cannot tell it
 * from a smaller object, and never meets a hole.
 */
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

import {
  type FilePart,
  footerLength,
  footerOf,
  magic,
  type ParsedFooter,
  parseFooter,
  tailBytes,
} from "../parquet/row-groups.js";
import type { NeededObject } from "./lake-files.js";
import { checksumOfHandle } from "../store/checksum.js";
import type { WantedFile } from "./disk-cache.js";

/** Reads a part of an object. */
export type ReadPart = (
  part: FilePart,
  onBytes: (bytes: Uint8Array, at: number) => Promise<void>,
  signal: AbortSignal,
) => Promise<void>;

/** Holes smaller than this are read with what is around them: a request costs more. */
const smallHole = 128 << 10;
/** Row groups of a merged object, and what a footer says of each. */
const rowsPerGroup = 61_440;
const footerBytesPerGroup = 8 << 10;
const leastFooterBytes = 16 << 10;
/** Of an object that is wanted nearly whole, the whole is fetched, since others will want it. */
const nearlyWhole = 0.75;

/** How much of an object's end its footer takes, as a guess; more is read when it was too little. Roll-ups have few columns. */
function guessFooterBytes({ rowCount, fileBytes }: Pick<NeededObject, "rowCount" | "fileBytes">): number {
  return Math.min(fileBytes, leastFooterBytes + Math.ceil((rowCount ?? 0) / rowsPerGroup) * footerBytesPerGroup);
}

/** What has to be known of an object to find its footer. */
type FooterOwner = Pick<NeededObject, "path" | "fileBytes" | "rowCount">;

/** The footer of an object, with the bytes that end a file. @throws RangeError when it has none; what `read` throws */
export async function readFooter(object: FooterOwner, read: ReadPart, signal: AbortSignal): Promise<Buffer> {
  const { fileBytes } = object;
  const guess = guessFooterBytes(object);
  const end = await readWhole(read, { start: fileBytes - guess, length: guess }, signal);
  const needed = footerLength(end) + tailBytes;
  if (needed > fileBytes) {
    throw new RangeError("a footer is longer than its object");
  }
  if (needed <= end.length) {
    return end.subarray(end.length - needed);
  }
  const missing = { start: fileBytes - needed, length: needed - end.length };
  return Buffer.concat([await readWhole(read, missing, signal), end]);
}

/** What {@link readFooter} gives as a file. */
export function footerFile(object: FooterOwner, footer: (signal: AbortSignal) => Promise<Buffer>): WantedFile {
  return {
    key: `${object.path}~footer`,
    bytes: guessFooterBytes(object),
    fill: async (handle, signal) => {
      await handle.writeFile(await footer(signal));
      return checksumOfHandle(handle, signal);
    },
  };
}

async function readWhole(read: ReadPart, part: FilePart, signal: AbortSignal): Promise<Buffer> {
  const buffer = Buffer.alloc(part.length);
  await read(
    part,
    (bytes, at) => {
      buffer.set(bytes, at - part.start);
      return Promise.resolve();
    },
    signal,
  );
  return buffer;
}

/** The footer in the bytes of {@link footerFile}. */
export function parseFooterFile(bytes: Uint8Array): ParsedFooter {
  return parseFooter(bytes.subarray(0, bytes.length - tailBytes));
}

/** Row groups that may hold a row of the wanted times, by their places in the footer. */
export function groupsWithin(
  { groups }: Pick<ParsedFooter, "groups">,
  { minTimeNs, maxTimeNs }: NeededObject["wanted"],
): number[] {
  return groups.flatMap(({ times }, index) => {
    const outside =
      times !== null &&
      ((minTimeNs !== undefined && times.max < minTimeNs) || (maxTimeNs !== undefined && times.min > maxTimeNs));
    return outside ? [] : [index];
  });
}

/**
 * Some row groups of an object as a file; null when they are nearly all of it.
 * @param footer gives the object's footer when the file has to be made
 */
export function rowGroupFile(
  { path, fileBytes }: NeededObject,
  groups: ParsedFooter["groups"],
  kept: readonly number[],
  footer: (signal: AbortSignal) => Promise<ParsedFooter>,
  read: ReadPart,
): WantedFile | null {
  const parts = joinedParts(kept.flatMap((index) => groups[index]?.parts ?? []));
  const footerBytes = leastFooterBytes + kept.length * footerBytesPerGroup;
  const bytes = parts.reduce((sum, { length }) => sum + length, footerBytes);
  if (bytes > fileBytes * nearlyWhole) {
    return null;
  }
  const name = createHash("sha256").update(kept.join()).digest("hex").slice(0, 24);
  return {
    key: `${path}~${name}`,
    bytes,
    fill: async (handle, signal) => {
      const whole = await footer(signal);
      await handle.write(magic, 0, magic.length, 0);
      const write = (chunk: Uint8Array, at: number): Promise<void> => writeAt(handle, chunk, at);
      for (const part of parts) {
        await read(part, write, signal);
      }
      const end = Math.max(magic.length, ...parts.map(({ start, length }) => start + length));
      await writeAt(handle, footerOf(whole, kept), end);
      return checksumOfHandle(handle, signal);
    },
  };
}

/** Writes all of some bytes at a place. */
export async function writeAt(handle: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    done += (await handle.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  }
}

/** Parts in order, those next to each other as one. */
function joinedParts(parts: readonly FilePart[]): FilePart[] {
  const joined: FilePart[] = [];
  for (const part of parts.toSorted((a, b) => a.start - b.start)) {
    const last = joined.at(-1);
    if (last === undefined || part.start - (last.start + last.length) > smallHole) {
      joined.push(part);
    } else {
      const end = Math.max(last.start + last.length, part.start + part.length);
      joined[joined.length - 1] = { start: last.start, length: end - last.start };
    }
  }
  return joined;
}
