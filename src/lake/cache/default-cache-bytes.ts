/** The size of a cache on a disk where none is set. */
import { statfs } from "node:fs/promises";

const mostBytes = 10 * 2 ** 30;

/** 10 GiB, or half of what the disk of a directory has free where that is less. */
export async function defaultCacheBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return Math.min(mostBytes, Math.floor((bavail * bsize) / 2));
}
