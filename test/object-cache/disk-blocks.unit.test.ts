/** Blocks that come and go while they are being written. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { expect, it, onTestFinished, vi } from "vitest";

import { blockBytes, blockName, objectIdOf } from "../../src/object-cache/blocks.js";
import { DiskBlocks } from "../../src/object-cache/disk-blocks.js";
import { createObjectCacheCounts } from "../../src/object-cache/object-cache-counts.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { until } from "../helpers/until.js";

async function open(at: Parameters<typeof DiskBlocks.open>[0]["at"], logger = createTappedLogger()) {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-disk-blocks-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const metrics = createMetrics();
  const { disk } = await DiskBlocks.open({
    directory,
    maxBytes: 1 << 20,
    counts: createObjectCacheCounts(metrics),
    logger,
    onEvicted: () => undefined,
    at,
  });
  return { directory, disk, metrics };
}

it("keeps a block that was removed while it was written, and has come again", async () => {
  const held: (() => void)[] = [];
  const { disk, metrics } = await open((point) =>
    point === "file named" && held.length === 0 ? new Promise<void>((resolve) => held.push(resolve)) : undefined,
  );
  const bytes = Buffer.from("a block");
  const block = { objectId: objectIdOf("a/x"), index: 0, objectBytes: bytes.length };
  const name = blockName(block);
  disk.write(block, bytes);
  await until(() => held.length > 0);
  disk.remove(name);
  disk.write(block, bytes);
  await until(() => disk.bytes > 0);
  held[0]?.();
  await disk.idle();
  expect(await disk.read(name)).toEqual(bytes);
  expect(await metrics.text()).toContain("object_cache_damaged_blocks_total 0");
  await disk.stop();
});

it("goes on writing when somebody removes its directory", async () => {
  const { directory, disk, metrics } = await open(() => undefined);
  const bytes = Buffer.from("a block");
  const write = async (index: number): Promise<string> => {
    const block = { objectId: objectIdOf("a/x"), index, objectBytes: index * blockBytes + bytes.length };
    disk.write(block, bytes);
    await disk.idle();
    return blockName(block);
  };
  await write(0);
  await rm(directory, { recursive: true });
  expect(await disk.read(await write(1))).toEqual(bytes);
  expect(await metrics.text()).toContain("object_cache_unwritten_blocks_total 0");
  await disk.stop();
});

it.each(["ENOSPC", "EDQUOT"])("makes room on a disk that others have filled (%s), and says so once", async (code) => {
  // There is room for three.
  const full = async (point: string): Promise<void> => {
    const names = await readdir(directory, { recursive: true, withFileTypes: true });
    if (point === "file opened" && names.filter((name) => name.isFile()).length > 3) {
      throw Object.assign(new Error("no room"), { code });
    }
  };
  const logger = createTappedLogger();
  const warn = vi.spyOn(logger, "warn");
  const { directory, disk, metrics } = await open(full, logger);
  const bytes = Buffer.from("a block");
  const names: string[] = [];
  for (let index = 0; index < 6; index++) {
    const block = { objectId: objectIdOf("a/x"), index, objectBytes: index * blockBytes + bytes.length };
    names.push(blockName(block));
    disk.write(block, bytes);
    await disk.idle();
  }
  expect(names.map((name) => disk.has(name))).toEqual([false, false, false, true, true, true]);
  expect(await metrics.text()).toContain("object_cache_unwritten_blocks_total 0");
  expect(warn.mock.calls.map(([, message]) => message)).toEqual([expect.stringMatching(/^others fill the disk/u)]);
  await disk.stop();
});
