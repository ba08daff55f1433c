/** Whatever is read, damaged, restarted and evicted in whatever order: what comes is what the origin holds. */
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { mkdtemp, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import * as fc from "fast-check";
import { expect, it } from "vitest";

import { blockBytes } from "../../src/object-cache/blocks.js";
import { ObjectCache } from "../../src/object-cache/object-cache.js";
import { createObjectCacheCounts } from "../../src/object-cache/object-cache-counts.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { fakeOrigin } from "../helpers/object-cache/fake-origin.js";
import { never } from "../helpers/never.js";

// Many read at once.
setMaxListeners(0, never);
const ttlMs = 1000;
const sizes = [0, blockBytes, 6 * blockBytes, 2 * blockBytes + 1];
const contents = sizes.map((size) => randomBytes(size));

const place = fc.double({ min: 0, max: 1, noNaN: true });
const reading = fc.record({
  kind: fc.constant("read" as const),
  object: fc.nat(sizes.length - 1),
  from: place,
  to: place,
  leaves: fc.boolean(),
});
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("reads" as const),
      reads: fc.array(reading, { minLength: 1, maxLength: 6 }),
    }),
  },
  fc.constant({ kind: "restart" } as const),
  fc.constant({ kind: "origin fails once" } as const),
  fc.record({ kind: fc.constant("damage" as const), shorter: fc.boolean() }),
  fc.record({ kind: fc.constant("time" as const), ms: fc.nat(ttlMs) }),
);
const world = fc.record({
  memory: fc.constantFrom(0, blockBytes, 3 * blockBytes, 64 * blockBytes),
  disk: fc.constantFrom(null, 2 * blockBytes, 64 * blockBytes),
  partBytes: fc.constantFrom(100_000, blockBytes, 5 * blockBytes),
  steps: fc.array(step, { minLength: 5, maxLength: 25, size: "max" }),
});

it("gives what the origin holds", async () => {
  await fc.assert(
    fc.asyncProperty(world, async ({ memory, disk, partBytes, steps }) => {
      const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-object-cache-"));
      const origin = fakeOrigin();
      origin.partBytes = partBytes;
      for (const [i, content] of contents.entries()) {
        origin.objects.set(`t/${i}`, content);
      }
      let nowMs = 0;
      let fails = 0;
      origin.before = async () => {
        await Promise.resolve();
        if (fails > 0) {
          fails--;
          throw new ServiceError("UNAVAILABLE", "down");
        }
      };
      const open = (): Promise<ObjectCache> =>
        ObjectCache.open({
          origin,
          memoryBytes: memory,
          disk: disk === null ? null : { directory, maxBytes: disk },
          ttlMs,
          monotonicMs: () => nowMs,
          counts: createObjectCacheCounts(createMetrics()),
          logger: createTappedLogger(),
        });
      let cache = await open();
      const read = async ({
        object,
        from,
        to,
        leaves,
      }: typeof reading extends fc.Arbitrary<infer R> ? R : never): Promise<void> => {
        const content = contents[object] ?? Buffer.alloc(0);
        const [start, end] = [from, to].map((at) => Math.round(at * content.length)).toSorted((a, b) => a - b);
        const described = await cache.describe(`t/${object}`, never);
        expect(described.bytes).toBe(content.length);
        let at = start ?? 0;
        for await (const part of cache.read(described, at, end ?? 0, never)) {
          expect(Buffer.compare(part, content.subarray(at, at + part.length))).toBe(0);
          at += part.length;
          if (leaves) {
            return;
          }
        }
        expect(at).toBe(end);
      };
      const unexplained: unknown[] = [];
      /** The origin may have failed for a block that is read later. */
      let couldFail = false;
      const explain = (outcome: PromiseSettledResult<void>): unknown[] => {
        const error: unknown = outcome.status === "rejected" ? outcome.reason : null;
        const isDown = couldFail && error instanceof ServiceError && error.code === "UNAVAILABLE";
        return error === null || isDown ? [] : [error];
      };
      try {
        for (const one of steps) {
          switch (one.kind) {
            case "reads": {
              const outcomes = await Promise.allSettled(one.reads.map(read));
              unexplained.push(...outcomes.flatMap((outcome) => explain(outcome)));
              break;
            }
            case "restart":
              await cache.stop();
              cache = await open();
              break;
            case "origin fails once":
              fails++;
              couldFail = true;
              break;
            case "time":
              nowMs += one.ms;
              cache.sweep();
              break;
            case "damage": {
              await cache.idle();
              const files = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((entry) =>
                entry.isFile(),
              );
              // Of half of them.
              for (const file of files.filter((_, i) => i % 2 === 0)) {
                const name = path.join(file.parentPath, file.name);
                // One that is being removed may be gone.
                const found = await stat(name).catch(() => null);
                if (found !== null) {
                  await (
                    one.shorter ? truncate(name, found.size >> 1) : writeFile(name, randomBytes(found.size))
                  ).catch(() => undefined);
                }
              }
              break;
            }
          }
          expect(unexplained).toEqual([]);
          expect(cache.memoryBytes).toBeLessThanOrEqual(memory);
          expect(cache.diskBytes).toBeLessThanOrEqual(disk ?? 0);
        }
      } finally {
        await cache.stop();
        await rm(directory, { recursive: true, force: true });
      }
    }),
    { numRuns: 60 },
  );
}, 120_000);
