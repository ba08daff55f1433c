import { mkdtemp, readFile, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { removeStale, underFileLock } from "../../src/auth/file-lock.js";

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "file-lock-"));
  file = path.join(directory, "lock");
});
afterEach(() => rm(directory, { recursive: true }));

const nothing = (): Promise<void> => Promise.resolve();

describe("a lock that was left behind", () => {
  it("is removed at once when it is old", async () => {
    await writeFile(file, "1 left");
    await utimes(file, 1, 1);
    await underFileLock(file, nothing);
    expect(await readdir(directory)).toEqual([]);
  });

  it("is removed after as long a wait when its time is in the future", async () => {
    const soon = Date.now() / 1000 + 3600;
    await writeFile(file, "1 left");
    await utimes(file, soon, soon);
    await underFileLock(file, nothing, { staleMs: 100, signal: AbortSignal.timeout(10_000) });
    expect(await readdir(directory)).toEqual([]);
  });

  it("was removed by another process in the meantime, whose own lock stays", async () => {
    await writeFile(file, "2 fresh");
    await removeStale(file, { content: "1 left", mtimeMs: 1000 });
    expect(await readFile(file, "utf8")).toBe("2 fresh");
    expect(await readdir(directory)).toEqual(["lock"]);
  });
});

describe("a lock", () => {
  it("that was taken over while its owner worked is left to the new owner", async () => {
    await underFileLock(file, () => writeFile(file, "2 fresh"));
    expect(await readFile(file, "utf8")).toBe("2 fresh");
  });

  it("is waited for until the signal comes", async () => {
    const controller = new AbortController();
    await underFileLock(file, async () => {
      const waiting = underFileLock(file, nothing, { signal: controller.signal });
      controller.abort();
      await expect(waiting).rejects.toThrow("aborted");
    });
    expect(await readdir(directory)).toEqual([]);
  });

  it("lets one at a time in", async () => {
    let running = 0;
    const most = await Promise.all(
      Array.from({ length: 5 }, () =>
        underFileLock(file, async () => {
          running++;
          await readdir(directory);
          return running--;
        }),
      ),
    );
    expect(most).toEqual([1, 1, 1, 1, 1]);
  });
});
