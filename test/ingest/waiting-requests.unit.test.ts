import { deflateSync, gzipSync } from "node:zlib";

import { compress, init } from "@bokuweb/zstd-wasm";
import * as fc from "fast-check";
import { beforeAll, expect, test } from "vitest";

import { claimedBytes } from "../../src/ingest/claimed-bytes.js";
import { type BodyEncoding, type PendingRequest, requestCode } from "../../src/ingest/request.js";
import { WaitingRequests } from "../../src/ingest/waiting-requests.js";

const buffer = new SharedArrayBuffer(0);

const request = (audience: string | null, length: number): PendingRequest => ({
  audience,
  buffer,
  offset: 0,
  length,
  code: 1,
  sinceMs: 0,
  answer: () => {},
});

/** With its body in shared memory, behind something else. */
function compressed(body: Uint8Array, encoding: BodyEncoding): PendingRequest {
  const memory = new SharedArrayBuffer(body.length + 3);
  new Uint8Array(memory).set(body, 3);
  const code = requestCode(1, "protobuf", encoding);
  return { ...request("loud", body.length), buffer: memory, offset: 3, code };
}

beforeAll(() => init());

function queueOf(requests: readonly PendingRequest[]): WaitingRequests {
  const queue = new WaitingRequests();
  for (const each of requests) {
    queue.add(each);
  }
  return queue;
}

const bytesOf = (requests: readonly PendingRequest[]): number => requests.reduce((sum, { length }) => sum + length, 0);

test("who has little is in the next batch, whatever another has waiting", () => {
  const flood = Array.from({ length: 1000 }, () => request("loud", 150_000));
  const few = Array.from({ length: 20 }, () => request("quiet", 3000));
  const queue = queueOf([...flood, ...few]);
  const batch = queue.take(8_000_000, 8192);
  expect(batch.filter(({ audience }) => audience === "quiet")).toEqual(few);
  expect(bytesOf(batch)).toBeGreaterThan(7_800_000);
});

test("audiences that have more than fits get as many bytes each, however large their requests are", () => {
  const queue = queueOf(
    ["a", "b", "c"].flatMap((audience, index) =>
      Array.from({ length: 4000 }, () => request(audience, [1000, 30_000, 200_000][index] ?? 0)),
    ),
  );
  const sums = new Map<string | null, number>();
  for (let round = 0; round < 5; round++) {
    for (const { audience, length } of queue.take(2_000_000, 8192)) {
      sums.set(audience, (sums.get(audience) ?? 0) + length);
    }
  }
  // Within a turn and a request.
  const [least = 0, , most = 0] = [...sums.values()].sort((one, other) => one - other);
  expect(most - least).toBeLessThan(264_000);
});

test("every request leaves once, those of an audience in order, in batches within both limits", () => {
  const requests = fc.array(
    fc
      .tuple(fc.constantFrom("a", "b", "c", null), fc.integer({ min: 0, max: 300_000 }))
      .map(([audience, length]) => request(audience, length)),
    { maxLength: 200 },
  );
  fc.assert(
    fc.property(requests, requests, fc.integer({ min: 1, max: 1_000_000 }), fc.integer({ min: 1, max: 50 }), (...o) => {
      const [first, later, maxBytes, maxRequests] = o;
      const queue = queueOf(first);
      const taken: PendingRequest[] = [];
      const check = (batch: readonly PendingRequest[]): void => {
        expect(batch.length).toBeGreaterThan(0);
        expect(batch.length).toBeLessThanOrEqual(maxRequests);
        expect(batch.length === 1 || bytesOf(batch) <= maxBytes).toBe(true);
        taken.push(...batch);
      };
      if (first.length > 0) {
        check(queue.take(maxBytes, maxRequests));
      }
      for (const each of later) {
        queue.add(each);
      }
      while (queue.count > 0) {
        check(queue.take(maxBytes, maxRequests));
      }
      expect(queue.bytes).toBe(0);
      expect(queue.take(maxBytes, maxRequests)).toEqual([]);
      const sent = [...first, ...later];
      for (const audience of ["a", "b", "c", null]) {
        const of = (all: readonly PendingRequest[]): PendingRequest[] => all.filter((r) => r.audience === audience);
        expect(of(taken).every((each, index) => each === of(sent)[index])).toBe(true);
      }
      expect(taken.length).toBe(sent.length);
    }),
  );
});

test("what is compressed counts by what it inflates to", () => {
  const packed = gzipSync(Buffer.alloc(7_000_000, 32));
  const flood = Array.from({ length: 8 }, () => compressed(packed, "gzip"));
  const few = Array.from({ length: 20 }, () => request("quiet", 3000));
  const queue = queueOf([...flood, ...few]);
  expect(packed.length).toBeLessThan(10_000);
  expect(queue.take(8_000_000, 8192)).toEqual([...few, flood[0]]);
  expect(queue.take(8_000_000, 8192)).toEqual([flood[1]]);
});

test("what was found to be larger than it claims counts for more, until batches have shown that it no longer is", () => {
  const packed = deflateSync(Buffer.alloc(7_000_000, 32));
  const flood = Array.from({ length: 8 }, () => compressed(packed, "deflate"));
  const few = Array.from({ length: 20 }, () => request("quiet", 3000));
  const queue = queueOf(flood);
  queue.learn({ audience: "loud", factor: 7_000_000 / packed.length });
  for (const each of few) {
    queue.add(each);
  }
  expect(queue.take(8_000_000, 8192)).toEqual([...few, flood[0]]);
  // Nothing was found since: half as large, and again.
  expect(queue.take(8_000_000, 8192)).toEqual(flood.slice(1, 3));
  expect(queue.take(8_000_000, 8192)).toEqual(flood.slice(3, 7));
  queue.learn({ audience: "loud", factor: 2 });
  queue.add(request("loud", 3_000_000));
  queue.add(request("loud", 3_000_000));
  // What is not compressed is as large as it says.
  expect(queue.take(8_000_000, 8192)).toHaveLength(3);
});

test.each([0, 200, 300, 70_000, 5_000_000])("a body of %i bytes says so when it is compressed", (bytes) => {
  const body = Buffer.alloc(bytes, "telemetry ");
  const gzip = gzipSync(body);
  expect(claimedBytes(compressed(gzip, "gzip"))).toBe(Math.max(bytes, gzip.length));
  const zstd = compress(body);
  expect(claimedBytes(compressed(zstd, "zstd"))).toBe(Math.max(bytes, zstd.length));
  expect(claimedBytes(compressed(gzip, "deflate"))).toBe(gzip.length);
  expect(claimedBytes(compressed(body, "identity"))).toBe(bytes);
});

test("any bytes have a size between their own and a bound", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 40 }),
      fc.constantFrom("gzip", "zstd"),
      fc.boolean(),
      (bytes, coding, magic) => {
        const body = magic ? Buffer.concat([Buffer.from("28b52ffd", "hex"), bytes]) : bytes;
        const claimed = claimedBytes(compressed(body, coding));
        expect(claimed).toBeGreaterThanOrEqual(body.length);
        expect(claimed).toBeLessThanOrEqual(64 * 2 ** 20);
      },
    ),
  );
});
