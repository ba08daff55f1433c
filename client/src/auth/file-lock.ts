/** One process at a time, by a file beside the one that they share. */
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** Longer than a refresh may take; a lock of that age was left by a process that was killed. */
const staleMs = 30_000;
const retryMs = 40;

/** Runs `work` while no other process does so under the same file. */
export async function underFileLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const mine = `${process.pid} ${Math.random()}`;
  while (!(await create(file, mine))) {
    await removeStale(file);
    await delay(retryMs);
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function create(file: string, content: string): Promise<boolean> {
  try {
    const handle = await open(file, "wx", 0o600);
    await handle.writeFile(content);
    await handle.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") {
      return false;
    }
    throw error;
  }
}

async function removeStale(file: string): Promise<void> {
  try {
    const { mtimeMs } = await stat(file);
    if (Date.now() - mtimeMs > staleMs) {
      // By a name of its own first: of two that find it stale, one fails here.
      const aside = `${file}.${process.pid}.stale`;
      await rename(file, aside);
      await rm(aside, { force: true });
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
      throw error;
    }
  }
}
