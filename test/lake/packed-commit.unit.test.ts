import { randomUUID } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { SegmentCommit, Signal } from "../../src/lake/catalogue-rows.js";
import { packCommit, unpackCommit } from "../../src/lake/packed-commit.js";

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const stream = fc.record({
  streamId: fc.uuid(),
  processId: fc.uuid(),
  audience: fc.option(fc.string()),
  signal: fc.constantFrom<Signal>(1, 2, 3),
});
const times = fc.oneof(fc.tuple(int64, int64), fc.constant([null, null] as const));

const commit = fc
  .uniqueArray(stream, { minLength: 1, maxLength: 5, selector: ({ streamId }) => streamId })
  .chain((streams) => {
    const block = fc.record({
      blockId: fc.uuid(),
      of: fc.constantFrom(...streams),
      times,
      rowCount: fc.nat(),
      payloadBytes: fc.nat(),
    });
    return fc.array(block).map((blocks): SegmentCommit => ({
      processes: streams.map(({ processId }) => ({ processId, columns: "{}" })),
      streams,
      blocks: blocks.map(({ of, times: [beginTimeNs, endTimeNs], ...rest }) => ({
        ...of,
        ...rest,
        beginTimeNs,
        endTimeNs,
      })),
      partitions: [],
    }));
  });

describe("a packed commit", () => {
  test("is the same after its way to another thread", () => {
    fc.assert(
      fc.property(commit, (given) => {
        expect(unpackCommit(structuredClone(packCommit(given)))).toEqual(given);
      }),
    );
  });

  test("holds no block of a stream that it lacks", () => {
    const [blockId, streamId, processId] = [randomUUID(), randomUUID(), randomUUID()];
    const block = { blockId, streamId, processId, audience: null, signal: 1, rowCount: 1, payloadBytes: 1 } as const;
    const lost = { ...block, beginTimeNs: null, endTimeNs: null };
    expect(() => packCommit({ processes: [], streams: [], blocks: [lost], partitions: [] })).toThrow(RangeError);
  });
});
