/** How large a cache is that was given no size. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { expect, it } from "vitest";

import { defaultCacheBytes } from "../../src/lake/cache/default-cache-bytes.js";

const MiB = 1 << 20;

it("is half of a disk, however much of that half is filled", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-cache-bytes-"));
  const free = (bytes: number) => () => Promise.resolve(bytes);
  expect(await defaultCacheBytes(directory, free(4 * MiB))).toBe(2 * MiB);
  await mkdir(path.join(directory, "objects", "a"), { recursive: true });
  await writeFile(path.join(directory, "objects", "a", "x"), Buffer.alloc(MiB));
  await writeFile(path.join(directory, "objects", "y"), Buffer.alloc(MiB));
  expect(await defaultCacheBytes(directory, free(2 * MiB))).toBe(2 * MiB);
  expect(await defaultCacheBytes(directory, free(1024 * 1024 * MiB))).toBe(10 * 1024 * MiB);
  await rm(directory, { recursive: true });
});
