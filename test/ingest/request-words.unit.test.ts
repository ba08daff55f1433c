import { expect, test } from "vitest";

import type { IngestResult, PendingRequest } from "../../src/ingest/request.js";
import {
  eachRequest,
  eachResult,
  requestCount,
  resultReader,
  writeRequests,
  writeResults,
} from "../../src/ingest/request-words.js";

const buffer = new SharedArrayBuffer(8);

function request(n: number, audience: string | null): PendingRequest {
  return {
    buffer,
    offset: 4096 * n,
    length: 10 + n,
    code: n % 64,
    audience,
    sinceMs: 0,
    answer: () => undefined,
  };
}

test("requests are read as they were written, with the audiences named once each", () => {
  // Beyond 32 bits, where arenas may reach.
  const far = 2 ** 40;
  const audiences = ["a", "a", null, "b", "a", "b", null, null, "c"];
  const requests = audiences.map((audience, n) => ({ ...request(n, audience), offset: far + n }));
  const batch = structuredClone(writeRequests(requests, (_, index) => 100 + index));
  expect(batch.audiences).toEqual(["a", "b", "c"]);
  expect(requestCount(batch)).toBe(requests.length);
  const read: unknown[] = [];
  eachRequest(batch, (...numbers) => read.push(numbers));
  expect(read).toEqual(
    requests.map(({ offset, length, code, audience }, n) => [100 + n, offset, length, code, audience]),
  );
});

test("a batch of nothing is nothing", () => {
  const batch = writeRequests([], () => 0);
  expect(requestCount(batch)).toBe(0);
  eachRequest(batch, () => {
    throw new Error("a request");
  });
});

const stored = {
  kind: "stored",
  records: 3,
  rejected: 2,
  rejectedReason: "why",
  droppedAttributes: 1,
} as const;
const results: readonly IngestResult[] = [
  stored,
  { ...stored, rejectedReason: null, records: 2 ** 40 },
  { kind: "failed", code: "BAD_REQUEST", message: "broken" },
  { kind: "failed", code: "PAYLOAD_TOO_LARGE", message: "inflated" },
  { kind: "unavailable", retryAfterSeconds: 7 },
  { kind: "unavailable", retryAfterSeconds: 7, reason: "its disk is full" },
  { kind: "internal", requestId: "id-1" },
  { kind: "internal", requestId: "" },
];

test("results of every kind are read as they were written, in order and by their place", () => {
  const ids = results.map((_, index) => 1000 - index);
  const batch = structuredClone(writeResults(ids, results));
  const read: unknown[] = [];
  eachResult(batch, (id, result) => read.push([id, result]));
  expect(read).toEqual(results.map((result, index) => [ids[index], result]));
  const at = resultReader(batch);
  expect(results.map((_, index) => at(index))).toEqual(results);
});

test("a place that a batch does not have is a fault of the caller", () => {
  expect(() => resultReader(writeResults([1], [stored]))(1)).toThrow(RangeError);
});
