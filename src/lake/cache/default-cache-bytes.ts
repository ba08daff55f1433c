/** The size of a cache on a disk where none is set. */
import { readdir, stat, statfs } from "node:fs/promises";
import path from "node:path";

const mostBytes = 10 * 2 ** 30;

/**
 * 10 GiB, or half of what the disk of a directory has free where that is less. What the directory itself holds counts as
 * free, so that a cache which has filled its half is not halved by a restart.
 */
export async function defaultCacheBytes(directory: string, freeBytes = freeBytesOf): Promise<number> {
  return Math.min(mostBytes, Math.floor(((await freeBytes(directory)) + (await heldBytes(directory))) / 2));
}

async function freeBytesOf(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

async function heldBytes(directory: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) {
      // Nobody else should remove one at this moment; if somebody does, it holds nothing.
      const { size } = await stat(path.join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }));
      bytes += size;
    }
  }
  return bytes;
}
