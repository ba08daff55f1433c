import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ByteCache } from "../../src/ingest/rows/byte-cache.js";

function viewOf(text: string): DataView {
  const { buffer, byteOffset, byteLength } = Buffer.from(text);
  return new DataView(buffer, byteOffset, byteLength);
}

describe("the cache of resources", () => {
  test("finds what was added under the same bytes and salt, or nothing", () => {
    const steps = fc.array(
      fc.record({ salt: fc.integer({ min: 0, max: 2 }), key: fc.string({ maxLength: 9 }), bytes: fc.nat(40) }),
      { maxLength: 200 },
    );
    fc.assert(
      fc.property(steps, (added) => {
        const cache = new ByteCache<string>(4, 200);
        for (const { salt, key, bytes } of added) {
          const view = viewOf(`<${key}>`);
          const end = view.byteLength - 1;
          const known = cache.find(salt, view, 1, end);
          expect([undefined, `${salt} ${key}`]).toContain(known);
          if (known === undefined) {
            cache.add(salt, view, 1, end, `${salt} ${key}`, bytes);
          }
        }
      }),
    );
  });

  const keys = Array.from({ length: 1000 }, (_, i) => viewOf(`resource ${i}`));
  const foundIn = (cache: ByteCache<number>): number[] =>
    keys.flatMap((view, i) => (cache.find(0, view, 0, view.byteLength) === i ? [i] : []));

  test("keeps as much as its memory allows, the newest among it", () => {
    const cache = new ByteCache<number>(4096, 100 * 1024);
    for (const [i, view] of keys.entries()) {
      cache.add(0, view, 0, view.byteLength, i, 1024 - view.byteLength);
      expect(foundIn(cache).length).toBe(Math.min(i + 1, 100));
    }
    expect(foundIn(cache)).toContain(999);
  }, 60_000);

  test("keeps nothing that is larger than its memory", () => {
    const cache = new ByteCache<number>(16, 1024);
    cache.add(0, keys[0]!, 0, keys[0]!.byteLength, 0, 2048);
    cache.add(0, keys[1]!, 0, keys[1]!.byteLength, 1, 10);
    expect(cache.find(0, keys[1]!, 0, keys[1]!.byteLength)).toBe(1);
    expect(cache.find(0, keys[0]!, 0, keys[0]!.byteLength)).toBe(undefined);
  });
});
