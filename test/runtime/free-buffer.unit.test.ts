import { expect, test } from "vitest";

import { freeBuffer } from "../../src/runtime/free-buffer.js";

const KiB = 1024;

test("the memory of a large buffer is gone at once", () => {
  const buffers = Array.from({ length: 64 }, () => Buffer.from(new ArrayBuffer(KiB * KiB)));
  const held = process.memoryUsage().arrayBuffers;
  for (const buffer of buffers) {
    freeBuffer(buffer);
  }
  // A collection may free memory of others meanwhile.
  expect(held - process.memoryUsage().arrayBuffers).toBeGreaterThanOrEqual(64 * KiB * KiB);
  expect(buffers.map((buffer) => buffer.byteLength)).toEqual(buffers.map(() => 0));
});

test("small ones, parts of larger ones and shared memory stay", () => {
  const large = new ArrayBuffer(64 * KiB);
  const kept = [
    new Uint8Array(KiB),
    new Uint8Array(large, 0, 32 * KiB),
    new Uint8Array(large, 32 * KiB),
    Buffer.from("of the pool"),
    new Uint8Array(new SharedArrayBuffer(64 * KiB)),
  ];
  const lengths = kept.map((bytes) => bytes.byteLength);
  for (const bytes of kept) {
    freeBuffer(bytes);
  }
  expect(kept.map((bytes) => bytes.byteLength)).toEqual(lengths);
});
