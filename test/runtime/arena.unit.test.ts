import { Worker } from "node:worker_threads";

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { Arena } from "../../src/runtime/threads/arena.js";

const page = 4096;

describe("arena", () => {
  test("rounds up to pages and counts them", () => {
    const arena = new Arena(8 * page);
    const first = arena.allocate(1);
    expect(arena.usedBytes).toBe(page);
    const second = arena.allocate(page + 1);
    expect(arena.usedBytes).toBe(3 * page);
    arena.free(first);
    arena.free(second);
    expect(arena.usedBytes).toBe(0);
  });

  test("says -1 when there is no room and has the whole room again after everything was freed", () => {
    const arena = new Arena(16 * page);
    const offsets = Array.from({ length: 16 }, () => arena.allocate(page));
    expect(arena.allocate(1)).toBe(-1);
    for (const offset of offsets) {
      arena.free(offset);
    }
    expect(arena.allocate(17 * page)).toBe(-1);
    expect(arena.allocate(Number.MAX_SAFE_INTEGER)).toBe(-1);
    expect(arena.allocate(16 * page)).toBe(0);
  });

  test("names the option when there is not that much memory", () => {
    expect(() => new Arena(0x3fff_ffff * page)).toThrow(
      expect.objectContaining({
        code: "NOT_CONFIGURED",
        message: expect.stringContaining("lower SVC_INGESTION_ARENA_BYTES") as string,
      }) as Error,
    );
  });

  test("joins freed neighbours whichever is freed first", () => {
    for (const order of [
      [0, 1, 2],
      [2, 1, 0],
      [0, 2, 1],
      [1, 0, 2],
    ]) {
      const arena = new Arena(3 * page);
      const offsets = [arena.allocate(page), arena.allocate(page), arena.allocate(page)];
      for (const i of order) {
        arena.free(offsets[i] ?? -1);
      }
      expect(arena.allocate(3 * page)).toBe(0);
    }
  });

  test("refuses to free what is not allocated: twice, in the middle, off a page, out of range", () => {
    const arena = new Arena(8 * page);
    const offset = arena.allocate(3 * page);
    for (const wrong of [offset + page, offset + 1, 8 * page, -page, Number.NaN]) {
      expect(() => {
        arena.free(wrong);
      }).toThrow(RangeError);
    }
    arena.free(offset);
    expect(() => {
      arena.free(offset);
    }).toThrow(RangeError);
    expect(arena.usedBytes).toBe(0);
  });

  test("grows in place into free pages, and moves with its contents when they are taken", () => {
    const arena = new Arena(8 * page);
    const first = arena.allocate(page);
    arena.bytes.fill(7, first, first + page);
    expect(arena.grow(first, page, 2 * page)).toBe(first);
    const second = arena.allocate(page);
    expect(second).toBe(first + 2 * page);
    const moved = arena.grow(first, 2 * page, 3 * page);
    expect(moved).not.toBe(first);
    expect(arena.bytes.subarray(moved, moved + page).every((byte) => byte === 7)).toBe(true);
    expect(arena.usedBytes).toBe(4 * page);
    expect(arena.grow(moved, 3 * page, 9 * page)).toBe(-1);
    expect(arena.usedBytes).toBe(4 * page);
  });

  test("gives pages back when it shrinks", () => {
    const arena = new Arena(4 * page);
    const offset = arena.allocate(4 * page);
    expect(arena.grow(offset, 4 * page, 10)).toBe(offset);
    expect(arena.usedBytes).toBe(page);
    expect(arena.allocate(3 * page)).toBe(page);
  });

  test("write copies exactly the source, wherever it lies and whatever surrounds it", () => {
    const arena = new Arena(64 * 1024);
    const offset = arena.allocate(8192);
    arena.bytes.fill(0xee);
    const memory = Uint8Array.from({ length: 4200 }, (_, index) => index & 0xff);
    for (const [from, length, to] of [
      [0, 1, 0],
      [3, 17, 5],
      [1, 4097, 100],
    ] as const) {
      const source = memory.subarray(from, from + length);
      arena.write(offset + to, source);
      expect(Buffer.from(arena.bytes.slice(offset + to, offset + to + length))).toEqual(Buffer.from(source));
      expect(arena.bytes[offset + to + length]).toBe(0xee);
      arena.bytes.fill(0xee);
    }
  });

  test("another thread reads what was written", async () => {
    const arena = new Arena(2 * page);
    const offset = arena.allocate(5);
    arena.bytes.set([1, 2, 3, 4, 5], offset);
    const reader = new Worker(
      `const { parentPort, workerData } = require("node:worker_threads");
       const bytes = new Uint8Array(workerData.buffer, workerData.offset, 5);
       parentPort.postMessage(bytes.reduce((a, b) => a + b, 0));`,
      { eval: true, workerData: { buffer: arena.buffer, offset } },
    );
    const sum = await new Promise((resolve) => {
      reader.once("message", resolve);
    });
    await reader.terminate();
    expect(sum).toBe(15);
  });
});

interface Block {
  offset: number;
  bytes: number;
  readonly stamp: number;
}

type Step =
  | { readonly kind: "allocate"; readonly bytes: number }
  | { readonly kind: "free"; readonly which: number }
  | { readonly kind: "grow"; readonly which: number; readonly bytes: number };

const sizes = fc.oneof(
  fc.integer({ min: 0, max: 3 * page }),
  fc.integer({ min: 1, max: 60 }).map((pages) => pages * page),
);
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: sizes.map((bytes): Step => ({ kind: "allocate", bytes })) },
    { weight: 3, arbitrary: fc.nat(1000).map((which): Step => ({ kind: "free", which })) },
    {
      weight: 2,
      arbitrary: fc.tuple(fc.nat(1000), sizes).map(([which, bytes]): Step => ({ kind: "grow", which, bytes })),
    },
  ),
  { minLength: 1, maxLength: 120 },
);

/** Pages of the model: which block owns each, or -1. */
function ownersOf(blocks: readonly Block[], pages: number): number[] {
  const owners = Array.from({ length: pages }, () => -1);
  for (const block of blocks) {
    const first = block.offset / page;
    expect(Number.isInteger(first)).toBe(true);
    for (let p = first; p < first + Math.max(1, Math.ceil(block.bytes / page)); p++) {
      expect(owners[p]).toBe(-1); // -1 and not undefined: within the arena and no overlap
      owners[p] = block.stamp;
    }
  }
  return owners;
}

function expectStamped(arena: Arena, offset: number, bytes: number, stamp: number): void {
  const content = arena.bytes.subarray(offset, offset + bytes);
  expect(content.every((byte) => byte === stamp)).toBe(true);
}

function longestFreeRun(owners: readonly number[]): number {
  let longest = 0;
  let run = 0;
  for (const owner of owners) {
    run = owner === -1 ? run + 1 : 0;
    longest = Math.max(longest, run);
  }
  return longest;
}

test("for any sequence of steps: no overlap, no leak, contents kept, and no refusal while a class fits", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), steps, (pages, sequence) => {
      const arena = new Arena(pages * page);
      const blocks: Block[] = [];
      let stamp = 0;
      const refused = (bytes: number): void => {
        // Sizes are rounded up to 1/8 of a power of two; a run longer than that must be found.
        const wanted = Math.max(1, Math.ceil(bytes / page));
        expect(longestFreeRun(ownersOf(blocks, pages))).toBeLessThan(wanted * 1.25);
      };
      for (const step of sequence) {
        if (step.kind === "allocate") {
          const offset = arena.allocate(step.bytes);
          if (offset === -1) {
            refused(step.bytes);
            continue;
          }
          stamp = (stamp + 1) % 251;
          blocks.push({ offset, bytes: step.bytes, stamp });
          arena.bytes.fill(stamp, offset, offset + step.bytes);
        } else if (blocks.length > 0) {
          const index = step.which % blocks.length;
          const block = blocks[index] as Block;
          if (step.kind === "free") {
            arena.free(block.offset);
            blocks.splice(index, 1);
          } else {
            const offset = arena.grow(block.offset, block.bytes, step.bytes);
            if (offset === -1) {
              refused(step.bytes);
              continue;
            }
            const kept = Math.min(block.bytes, step.bytes);
            expectStamped(arena, offset, kept, block.stamp);
            block.offset = offset;
            block.bytes = step.bytes;
            arena.bytes.fill(block.stamp, offset, offset + step.bytes);
          }
        }
        const used = ownersOf(blocks, pages).filter((owner) => owner !== -1).length;
        expect(arena.usedBytes).toBe(used * page);
      }
      for (const block of blocks) {
        expectStamped(arena, block.offset, block.bytes, block.stamp);
        arena.free(block.offset);
      }
      expect(arena.usedBytes).toBe(0);
      expect(arena.allocate(pages * page)).toBe(0);
    }),
    { numRuns: 150 },
  );
});
