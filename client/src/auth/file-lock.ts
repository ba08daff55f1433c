/** One process at a time, by a file beside the one that they share. */
import { randomUUID } from "node:crypto";
import { link, mkdir, open, rename, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** Longer than a refresh may take; a lock of that age was left by a process that was killed. */
const defaultStaleMs = 30_000;
const retryMs = 40;

/** A lock file as it was read; no two locks are equal. */
interface Lock {
  readonly content: string;
  /** Milliseconds since the Unix epoch, by the clock of the file system. */
  readonly mtimeMs: number;
}

/**
 * Runs `work` while no other process does so under the same file.
 * @param o.signal ends the wait, not `work`
 * @param o.staleMs age at which a lock counts as left behind. Default 30 s.
 * @throws AbortError with the signal
 */
export async function underFileLock<T>(
  file: string,
  work: () => Promise<T>,
  o: { readonly signal?: AbortSignal | undefined; readonly staleMs?: number } = {},
): Promise<T> {
  const { signal, staleMs = defaultStaleMs } = o;
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const mine = `${process.pid} ${randomUUID()}`;
  let met: { readonly lock: Lock; readonly sinceMs: number } | null = null;
  while (!(await create(file, mine))) {
    const lock = await read(file);
    if (lock !== null) {
      const nowMs = performance.now();
      if (met === null || !isSame(met.lock, lock)) {
        met = { lock, sinceMs: nowMs };
      }
      // Of a time in the future only a clock that runs on tells the age.
      if (Date.now() - lock.mtimeMs > staleMs || nowMs - met.sinceMs > staleMs) {
        await removeStale(file, lock);
      }
    }
    await delay(retryMs, undefined, signal === undefined ? {} : { signal });
  }
  try {
    return await work();
  } finally {
    // Who took long was found stale, and the lock may be somebody else's by now.
    if ((await read(file))?.content === mine) {
      await rm(file, { force: true });
    }
  }
}

async function create(file: string, content: string): Promise<boolean> {
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      await handle.writeFile(content);
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    return unless(error, "EEXIST", false);
  }
}

/** Null without a file. */
async function read(file: string): Promise<Lock | null> {
  try {
    const handle = await open(file);
    try {
      const { mtimeMs } = await handle.stat();
      return { content: await handle.readFile("utf8"), mtimeMs };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return unless(error, "ENOENT", null);
  }
}

/**
 * Removes `stale`, by a name of its own first: of two that find it stale, one fails there. What comes away may be the
 * lock of a third, made after the other had removed `stale`; that one is put back.
 */
export async function removeStale(file: string, stale: Lock): Promise<void> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch (error) {
    return unless(error, "ENOENT", undefined);
  }
  try {
    const found = await read(aside);
    if (found !== null && !isSame(found, stale)) {
      await link(aside, file);
    }
  } catch (error) {
    unless(error, "EEXIST", undefined);
  } finally {
    await rm(aside, { force: true });
  }
}

function isSame(a: Lock, b: Lock): boolean {
  return a.content === b.content && a.mtimeMs === b.mtimeMs;
}

/** `value` for a file system's error of this code; any other is thrown on. */
function unless<T>(error: unknown, code: string, value: T): T {
  if ((error as NodeJS.ErrnoException).code === code) {
    return value;
  }
  throw error;
}
