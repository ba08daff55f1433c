/** What an encode thread does, without the thread. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { crc32, deflateSync, gzipSync } from "node:zlib";

import { compress, init } from "@bokuweb/zstd-wasm";
import { describe, expect, test } from "vitest";

import { BatchEncoder, type EncodedObjects, toEncodeBatch, toEncodedBatch } from "../../src/ingest/encode-batch.js";
import { JsonTranscoder } from "../../src/ingest/body/json-transcoder.js";
import { type BodyEncoding, type PendingRequest, requestCode } from "../../src/ingest/request.js";
import { ServiceError } from "../../src/runtime/errors.js";
import type { ObjectStore } from "../../src/lake/store/object-store.js";
import { slack } from "../../src/wire/protobuf-reader.js";
import { collectGarbage } from "../helpers/heap.js";
import { receivedAt } from "../helpers/lake/segment.js";
import { oneLog } from "../helpers/otlp/otlp-build.js";
import { jsonLogs, protobufLogs, protobufSpan } from "../helpers/otlp/otlp-bodies.js";
import { until } from "../helpers/until.js";

await init();

/** Objects in memory, by their paths; `refuses` says which put fails, and how. */
function memoryStore(
  refuses: (puts: number) => Error | null = () => null,
): ObjectStore & { readonly objects: Map<string, Buffer> } {
  const objects = new Map<string, Buffer>();
  let puts = 0;
  return {
    uri: "memory:",
    objects,
    put: (path, chunks) => {
      const error = refuses(++puts);
      if (error !== null) {
        return Promise.reject(error);
      }
      objects.set(path, Buffer.concat(chunks));
      return Promise.resolve();
    },
    remove: (path) => {
      objects.delete(path);
      return Promise.resolve();
    },
    putParts: () => Promise.reject(new Error("not needed")),
    size: () => Promise.reject(new Error("not needed")),
    list: () => {
      throw new Error("nobody lists");
    },
    probe: () => Promise.resolve(),
    probeReads: () => Promise.resolve(),
    localPath: () => null,
    remote: null,
  };
}

const logs = requestCode(1, "protobuf", "identity");
const traces = requestCode(3, "protobuf", "identity");

/** Bodies one after the other in an arena of their own each. */
function request(body: Uint8Array, code = logs, audience: string | null = "team-a"): PendingRequest {
  const buffer = new SharedArrayBuffer(body.length + 3);
  new Uint8Array(buffer).set(body, 3);
  return { buffer, offset: 3, length: body.length, code, audience, sinceMs: 0, answer: () => undefined };
}

function encoderOf(store: ObjectStore, maxInflatedBytes = 1024 * 1024): BatchEncoder {
  return new BatchEncoder(store, { maxInflatedBytes, maxDepth: 100, compression: "none", batchBytes: 8 << 20 });
}

function encode(
  encoder: BatchEncoder,
  requests: readonly PendingRequest[],
  excluded: ReadonlySet<string> = new Set(),
): Promise<EncodedObjects> {
  return encoder.encode(toEncodeBatch(requests, excluded, receivedAt));
}

test("each request has its result, and each audience and table its object", async () => {
  const store = memoryStore();
  const span = protobufSpan("call", Buffer.alloc(16, 1));
  const requests = [
    request(protobufLogs("one", 2)),
    request(Buffer.from([0xff])),
    request(protobufLogs("two", 1), logs, null),
    request(span, traces),
    request(protobufLogs("three", 3)),
  ];
  const objects = await encode(encoderOf(store), requests);
  const encoded = toEncodedBatch(objects);
  const { commit } = encoded;
  expect(requests.map((_, index) => encoded.result(index))).toMatchObject([
    { kind: "stored", records: 2, rejected: 0, rejectedReason: null, droppedAttributes: 0 },
    { kind: "failed", code: "BAD_REQUEST" },
    { kind: "stored", records: 1 },
    { kind: "stored", records: 1 },
    { kind: "stored", records: 3 },
  ]);
  const written = commit.partitions.map(({ viewSet, audience, rowCount }) => ({
    viewSet,
    audience,
    rowCount,
  }));
  expect(written).toHaveLength(3);
  expect(written).toEqual(
    expect.arrayContaining([
      { viewSet: "log_entries", audience: "team-a", rowCount: 5 },
      { viewSet: "spans", audience: "team-a", rowCount: 1 },
      { viewSet: "log_entries", audience: null, rowCount: 1 },
    ]),
  );
  expect(new Map(commit.partitions.map(({ path, fileBytes, checksum }) => [path, [fileBytes, checksum]]))).toEqual(
    new Map([...store.objects].map(([path, bytes]) => [path, [bytes.length, crc32(bytes)]])),
  );
  expect(commit.blocks).toHaveLength(4);
  const good = requests.filter((_, index) => index !== 1);
  expect(objects.inflatedBytes).toBe(good.reduce((sum, { length }) => sum + length, 0));
});

test("rows of the catalogue come sorted by their ids, so that the main thread need not do it", async () => {
  const requests = Array.from({ length: 50 }, (_, i) => request(protobufLogs("one", 1), logs, `team-${i}`));
  const { commit } = toEncodedBatch(await encode(encoderOf(memoryStore()), requests));
  for (const ids of [
    commit.processes.map(({ processId }) => processId),
    commit.streams.map(({ streamId }) => streamId),
    commit.blocks.map(({ blockId }) => blockId),
  ]) {
    expect(ids).toHaveLength(50);
    expect(ids).toEqual(ids.toSorted());
  }
});

describe("bodies that are larger than they claim", () => {
  const codeOf = (encoding: BodyEncoding): number => requestCode(1, "protobuf", encoding);
  const body = protobufLogs("mark", 400_000);
  const empty = gzipSync(Buffer.alloc(0));
  const small = request(protobufLogs("small"), logs, "quiet");

  test.each([
    ["deflate", deflateSync(body)],
    ["gzip", Buffer.concat([gzipSync(body), empty])],
    ["gzip", Buffer.concat([gzipSync(body), empty]).subarray(0, -1)],
  ] as const)("close the batch, and their audience is named (%s)", async (encoding, packed) => {
    expect(body.length).toBeGreaterThan(8 << 20);
    const encoder = encoderOf(memoryStore(), 64 << 20);
    const hidden = request(packed, codeOf(encoding));
    const objects = await encode(encoder, [small, hidden, hidden, small]);
    const encoded = toEncodedBatch(objects);
    expect([0, 2, 3].map((index) => encoded.result(index).kind)).toEqual(["stored", "unavailable", "unavailable"]);
    expect(objects.underclaims).toEqual([{ audience: "team-a", factor: expect.any(Number) }]);
    expect(objects.underclaims[0]?.factor).toBeGreaterThan(body.length / packed.length / 1.01);
  });

  test("and those that are not name nobody", async () => {
    const whole = Buffer.from(compress(protobufLogs("mark", 10)));
    const requests = [small, request(gzipSync(body), codeOf("gzip")), request(whole, codeOf("zstd"))];
    const objects = await encode(encoderOf(memoryStore(), 64 << 20), requests);
    expect(objects.underclaims).toEqual([]);
    // A large object has its checksum once it is merged.
    const sums = toEncodedBatch(objects).commit.partitions.map(({ checksum }) => checksum);
    expect(sums).toEqual(expect.arrayContaining([null, expect.any(Number)]));
    expect(objects.inflatedBytes).toBeGreaterThan(body.length);
  });
});

describe("what a large body took is given back with its batch", () => {
  const text = oneLog({ attributes: [{ key: "a", value: { stringValue: "\u0001".repeat(15 << 20) } }] });
  const logsInJson = jsonLogs("x".repeat(1000), 14_000).subarray(0, -1);
  const unknownInJson = Buffer.from(JSON.stringify({ unknown: "x".repeat(15 << 20) }));
  test.each([
    // Six times as long in JSON, it was 90 MiB in a builder of 128.
    ["text", "failed", request(gzipSync(text), requestCode(1, "protobuf", "gzip"))],
    ["records in JSON that breaks off", "failed", request(logsInJson, requestCode(1, "json", "identity"))],
    ["JSON that nobody knows", "stored", request(unknownInJson, requestCode(1, "json", "identity"))],
    ["JSON in gzip", "stored", request(gzipSync(unknownInJson), requestCode(1, "json", "gzip"))],
    ["JSON in zstd", "stored", request(compress(unknownInJson), requestCode(1, "json", "zstd"))],
  ])("%s, though nothing makes the collector run", async (_name, kind, large) => {
    const encoder = encoderOf(memoryStore(), 16 << 20);
    collectGarbage();
    const before = process.memoryUsage().arrayBuffers;
    const encoded = toEncodedBatch(await encode(encoder, [large]));
    expect(encoded.result(0)).toMatchObject({ kind });
    // zlib's pieces wait for the collector.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 << 20);
    // From Node.js 22 on, it counts what it frees a little later.
    await until(() => {
      collectGarbage();
      return process.memoryUsage().arrayBuffers - before < 4 << 20;
    }, 5000);
    const again = toEncodedBatch(await encode(encoder, [request(protobufLogs("one", 2))]));
    expect(again.result(0)).toMatchObject({ kind: "stored", records: 2 });
  });
});

test("small JSON is transcoded in the same memory as the last", () => {
  const transcoder = new JsonTranscoder(100);
  const memoryOf = (body: Buffer): Uint8Array => {
    const bytes = Buffer.alloc(body.length + slack);
    body.copy(bytes);
    const memory = transcoder.transcode(1, bytes, 0, body.length).bytes;
    transcoder.release();
    return memory;
  };
  const first = memoryOf(jsonLogs("one", 20_000));
  expect(first.length).toBeGreaterThan(512 << 10);
  expect(memoryOf(jsonLogs("two"))).toBe(first);
  const large = memoryOf(jsonLogs("x".repeat(1000), 12_000));
  expect(large).toHaveLength(0);
  expect(memoryOf(jsonLogs("three")).length).toBeLessThan(first.length);
});

test("blocks that are committed already are left out, and their requests are stored all the same", async () => {
  const store = memoryStore();
  const encoder = encoderOf(store);
  const requests = [request(protobufLogs("one")), request(protobufLogs("two"))];
  const { commit } = toEncodedBatch(await encode(encoder, requests));
  store.objects.clear();
  const ids = new Set(commit.blocks.map(({ blockId }) => blockId));
  const again = toEncodedBatch(await encode(encoder, requests, ids));
  expect(again.commit).toMatchObject({ blocks: [], partitions: [] });
  expect(again.result(1)).toMatchObject({ kind: "stored", records: 0 });
  expect(store.objects.size).toBe(0);
});

test("what does not fit into a segment is unavailable for a moment", async () => {
  // A segment holds four times what one body may.
  const body = protobufLogs("x".repeat(900));
  const requests = Array.from({ length: 12 }, () => request(body));
  const objects = await encode(encoderOf(memoryStore(), body.length), requests);
  const encoded = toEncodedBatch(objects);
  expect(encoded.result(0)).toMatchObject({ kind: "stored" });
  expect(encoded.result(11)).toEqual({ kind: "unavailable", retryAfterSeconds: 1 });
});

test("objects of several audiences are stored at the same time, some of them and not all", async () => {
  const store = memoryStore();
  let [running, most] = [0, 0];
  const among = new Set<boolean | undefined>();
  const slow: ObjectStore = {
    ...store,
    put: async (path, chunks, isAmong) => {
      among.add(isAmong);
      most = Math.max(most, ++running);
      await store.put(path, chunks);
      await nextTurn();
      running--;
    },
  };
  const encoder = encoderOf(slow);
  await encode(encoder, [request(protobufLogs("alone"))]);
  expect([most, [...among]]).toEqual([1, [false]]);
  among.clear();
  const requests = Array.from({ length: 50 }, (_, i) => request(protobufLogs(`of ${i}`), logs, `team-${i}`));
  const { commit } = toEncodedBatch(await encode(encoder, requests));
  expect([most, [...among]]).toEqual([8, [true]]);
  // Each was encoded before the memory was used for the next.
  const written = commit.partitions.map(({ path }) => [path, crc32(store.objects.get(path) ?? "")]);
  expect(written).toEqual(commit.partitions.map(({ path, checksum }) => [path, checksum]));
  expect(store.objects.size).toBe(51);
});

test("when an object cannot be written, those before it are removed again", async () => {
  const requests = [request(protobufLogs("one")), request(protobufLogs("two"), logs, "team-b")];
  const cause = new TypeError("out of order");
  const broken = memoryStore((puts) => (puts === 2 ? cause : null));
  await expect(encode(encoderOf(broken), requests)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    cause,
  });
  expect(broken.objects.size).toBe(0);
  const error = new ServiceError("UNAVAILABLE", "no space left");
  const full = memoryStore((puts) => (puts === 2 ? error : null));
  await expect(encode(encoderOf(full), requests)).rejects.toBe(error);
  expect(full.objects.size).toBe(0);
});
