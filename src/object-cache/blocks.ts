/** Objects are kept in blocks of one size, counted from 0. The last block of an object is shorter. */
import { createHash } from "node:crypto";

/** Bytes of a block. */
export const blockBytes = 1 << 20;

/** An object as the cache knows it. */
export interface CachedObject {
  /** Its path in the object store. */
  readonly key: string;
  /** Stands for the key in names of files. */
  readonly id: string;
  readonly bytes: number;
}

/** A block, without its content. */
export interface Block {
  readonly objectId: string;
  readonly index: number;
  /** Of the whole object. */
  readonly objectBytes: number;
}

/** Where the cache can be stopped in the middle of a fill, so that tests can end the process there. */
export type FillPoint = "fetch begun" | "block fetched" | "file opened" | "file written" | "file named";

/** The id of a key: 160 bits, so that no two keys share one. */
export function objectIdOf(key: string): string {
  return createHash("sha256").update(key).digest("hex").slice(0, 40);
}

/** A block within the tiers. */
export function blockName({ objectId, index }: Pick<Block, "objectId" | "index">): string {
  return `${objectId}.${index}`;
}

/** Bytes of a block of an object. */
export function lengthOfBlock({ objectBytes, index }: Pick<Block, "objectBytes" | "index">): number {
  return Math.min(blockBytes, objectBytes - index * blockBytes);
}

/** How many blocks an object has. */
export function blockCount(objectBytes: number): number {
  return Math.ceil(objectBytes / blockBytes);
}
