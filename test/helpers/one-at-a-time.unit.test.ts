import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, it } from "vitest";

import { oneAtATime } from "./one-at-a-time.js";

const directory = mkdtempSync(path.join(tmpdir(), "one-at-a-time-"));
const file = path.join(directory, "lock");
afterAll(() => {
  rmSync(directory, { recursive: true });
});

it("lets one work after another, and the next one after a failure", async () => {
  let working = 0;
  const work = async (): Promise<number> => {
    expect(++working).toBe(1);
    await new Promise(setImmediate);
    return working--;
  };
  const failing = oneAtATime(file, () => Promise.reject(new RangeError("no")));
  await expect(failing).rejects.toThrow(RangeError);
  expect(await Promise.all([oneAtATime(file, work), oneAtATime(file, work), oneAtATime(file, work)])).toEqual([
    1, 1, 1,
  ]);
  expect(existsSync(file)).toBe(false);
});

it("does not wait for a process that has ended", async () => {
  writeFileSync(file, String(spawnSync(process.execPath, ["-e", ""]).pid));
  expect(await oneAtATime(file, () => Promise.resolve("done"))).toBe("done");
});
