/** Test files run beside each other, and fetch the same programs. */
import { readFile, rm, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { isRunning } from "./run-directory.js";

/** Does `work` while no other process does it under the same file, which is made and removed. */
export async function oneAtATime<T>(file: string, work: () => Promise<T>): Promise<T> {
  while (!(await isMine(file))) {
    await sleep(100);
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function isMine(file: string): Promise<boolean> {
  try {
    await writeFile(file, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      throw error;
    }
    const owner = Number(await readFile(file, "utf8").catch(() => ""));
    // Empty: it is being written, or has gone.
    if (owner > 0 && !isRunning(owner)) {
      await rm(file, { force: true });
    }
    return false;
  }
}
