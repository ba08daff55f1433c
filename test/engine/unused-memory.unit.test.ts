import { existsSync } from "node:fs";

import { expect, it } from "vitest";

import { loadTrim } from "../../src/engine/unused-memory.js";
import { freeBuffer } from "../../src/runtime/free-buffer.js";

const megabyte = 1 << 20;
const isGlibc = process.platform === "linux" && !existsSync("/etc/alpine-release");

/** Buffers that came and went, with some between them that stay. */
function use(): readonly Uint8Array[] {
  // glibc serves buffers of this size from its heap once one of it was freed.
  freeBuffer(new Uint8Array(2 * megabyte));
  const made = Array.from({ length: 300 }, () => new Uint8Array(megabyte).fill(1));
  for (const [at, buffer] of made.entries()) {
    if (at % 10 !== 9) {
      freeBuffer(buffer);
    }
  }
  return made.filter((_, at) => at % 10 === 9);
}

it.runIf(isGlibc)("gives back what freed buffers took", () => {
  const stays = use();
  const before = process.memoryUsage.rss();
  loadTrim()();
  expect(before - process.memoryUsage.rss()).toBeGreaterThan(100 * megabyte);
  expect(stays).toHaveLength(30);
});
