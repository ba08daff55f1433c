/** Calls of OTLP/gRPC that are wrong, slow or of somebody else, over bare HTTP/2 where no gRPC library would make them. */
import { randomBytes } from "node:crypto";
import { deflateSync, gzipSync } from "node:zlib";

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { generateKeyString } from "../../../src/auth/key-string.js";
import { answerOf, framed, grpcPaths, GrpcConnection, zstdOf } from "../../helpers/otlp/otlp-grpc.js";
import { startHeaderProxy } from "../../helpers/http/http2-header-proxy.js";
import { freshMark, message, protobufLogs, protobufSpan } from "../../helpers/otlp/otlp-bodies.js";
import { startTestIngestion, type TestIngestion } from "../../helpers/servers/ingest-server.js";
import { until } from "../../helpers/until.js";

const maxBodyBytes = 1024 * 1024;
const maxInflatedBytes = 4 * 1024 * 1024;

const invalidArgument = 3;
const resourceExhausted = 8;
const unimplemented = 12;
const unavailable = 14;
const unauthenticated = 16;

let t: TestIngestion;
let connection: GrpcConnection;

beforeAll(async () => {
  t = await startTestIngestion({
    environment: {
      SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0",
      SVC_OTLP_MAX_BODY_BYTES: String(maxBodyBytes),
      SVC_OTLP_MAX_INFLATED_BYTES: String(maxInflatedBytes),
      SVC_OTLP_BODY_TIMEOUT_SECONDS: "1.5",
      SVC_INGESTION_ARENA_BYTES: String(8 * 1024 * 1024),
    },
  });
  connection = new GrpcConnection(t.grpcUrl ?? "", t.key);
});

afterAll(async () => {
  connection.close();
  await t.stop();
});

/** Whatever a test sent: the server goes on over the same connection, and has let go of every byte. */
afterEach(async () => {
  await until(async () => {
    const open = await t.metric("ingestion_open_requests");
    return open === 0 && (await t.metric("ingestion_arena_used_bytes")) === 0;
  });
  const next = await connection.call(grpcPaths.logs, framed(protobufLogs(freshMark())));
  if (next.code !== 0) {
    throw new Error(`harm was done: the next call ended with ${next.code}: ${next.text}`);
  }
});

const stored = (mark: string): Promise<unknown[]> =>
  t.rows("log_entries", `select 1 as found from t where msg like '${mark}%'`);

describe("compressed messages", () => {
  test.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["zstd", zstdOf],
  ] as const)("%s is taken", async (coding, compress) => {
    const mark = freshMark();
    const message = compress(protobufLogs(mark, 3));
    expect(await connection.call(grpcPaths.logs, framed(message, 1), { "grpc-encoding": coding })).toMatchObject({
      code: 0,
    });
    expect(await stored(mark)).toHaveLength(3);
  });

  test("a message that is not compressed is taken, whatever grpc-encoding says", async () => {
    const mark = freshMark();
    const answer = await connection.call(grpcPaths.logs, framed(protobufLogs(mark)), { "grpc-encoding": "gzip" });
    expect(answer.code).toBe(0);
    expect(await stored(mark)).toHaveLength(1);
  });

  test.each(["br", "snappy", "gzip, gzip"])("%s is UNIMPLEMENTED, with the codings that are taken", async (coding) => {
    const answer = await connection.call(grpcPaths.logs, framed(Buffer.from("x"), 1), { "grpc-encoding": coding });
    expect(answer).toMatchObject({ code: unimplemented, retrySeconds: null });
    expect(answer.headers["grpc-accept-encoding"]).toBe("identity,gzip,deflate,zstd");
  });

  test.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["zstd", zstdOf],
  ] as const)(
    "a %s message that inflates beyond the limit is RESOURCE_EXHAUSTED for good",
    async (coding, compress) => {
      // zstdOf does not make it smaller.
      const limit = coding === "zstd" ? maxBodyBytes : maxInflatedBytes;
      const bomb = compress(message(1, [Buffer.alloc(limit + 1024)]));
      const answer = await connection.call(grpcPaths.logs, framed(bomb, 1), { "grpc-encoding": coding });
      expect(answer).toMatchObject({ code: resourceExhausted, retrySeconds: null });
    },
  );

  test.each(["gzip", "deflate", "zstd"])("noise called %s is INVALID_ARGUMENT", async (coding) => {
    const answer = await connection.call(grpcPaths.logs, framed(randomBytes(4096), 1), { "grpc-encoding": coding });
    expect(answer).toMatchObject({ code: invalidArgument, retrySeconds: null });
  });
});

describe("credentials", () => {
  test.each([
    ["none", { authorization: null }],
    ["an unknown key", { authorization: "Bearer svk_nonsense" }],
    ["another scheme", { authorization: "Basic abc" }],
  ] as const)("%s is UNAUTHENTICATED", async (_, fields) => {
    const answer = await connection.call(grpcPaths.traces, framed(protobufLogs(freshMark())), fields);
    expect(answer).toMatchObject({ code: unauthenticated, retrySeconds: null });
    expect(answer.text).not.toBe("");
  });

  test("two are UNAUTHENTICATED: which of them counts would depend on who reads them", async () => {
    const proxy = await startHeaderProxy(Number(new URL(t.grpcUrl ?? "").port), "authorization", "Bearer other");
    const doubled = new GrpcConnection(`http://127.0.0.1:${proxy.port}`, t.key);
    expect((await doubled.call(grpcPaths.logs, framed(protobufLogs(freshMark())))).code).toBe(unauthenticated);
    doubled.close();
    await proxy.stop();
  });
});

describe("envelopes", () => {
  test.each([
    ["no message", Buffer.alloc(0), "no message"],
    ["half a prefix", Buffer.from([0, 0, 0]), "no message"],
    ["a truncated message", framed(Buffer.alloc(100)).subarray(0, 50), "45 bytes that announced 100"],
    ["two messages", Buffer.concat([framed(Buffer.alloc(0)), framed(Buffer.alloc(0))]), "more than one"],
    ["a first byte of 7", framed(Buffer.alloc(4), 7), "neither 0 nor 1"],
    ["a compressed message of no coding", framed(Buffer.alloc(4), 1), "grpc-encoding"],
    ["a message that is not protobuf", framed(Buffer.from([0x0a, 0x7f, 0x00])), ""],
  ])("%s is INVALID_ARGUMENT", async (_, bytes, text) => {
    const answer = await connection.call(grpcPaths.logs, bytes);
    expect(answer).toMatchObject({ code: invalidArgument, retrySeconds: null });
    expect(answer.text).toContain(text);
  });

  test("a truncated message counts once, as what its sender is told", async () => {
    const count = (code: number): Promise<number> =>
      t.metric("ingestion_requests_total", `signal="traces",code="${code}",protocol="grpc"`);
    const before = [await count(400), await count(499)];
    await connection.call(grpcPaths.traces, framed(Buffer.alloc(100)).subarray(0, 50));
    await until(async () => (await count(400)) > (before[0] ?? 0));
    expect([await count(400), await count(499)]).toEqual([(before[0] ?? 0) + 1, before[1]]);
  });

  test("a message over the limit is RESOURCE_EXHAUSTED before a byte of it is sent", async () => {
    const stream = connection.begin(grpcPaths.logs);
    stream.write(framed(Buffer.alloc(maxBodyBytes + 1)).subarray(0, 5));
    expect(await answerOf(stream)).toMatchObject({ code: resourceExhausted, retrySeconds: null });
  });

  test("a message in pieces, prefix and all, is one message", async () => {
    const mark = freshMark();
    const stream = connection.begin(grpcPaths.logs);
    const answer = answerOf(stream);
    for (const byte of framed(protobufLogs(mark, 2))) {
      stream.write(Buffer.from([byte]));
    }
    stream.end();
    expect((await answer).code).toBe(0);
    expect(await stored(mark)).toHaveLength(2);
  });

  test("an empty message is answered with an empty one", async () => {
    expect(await connection.call(grpcPaths.metrics, framed(Buffer.alloc(0)))).toMatchObject({
      code: 0,
      body: framed(Buffer.alloc(0)),
    });
  });

  test("rejected records are reported in partial_success and the rest is kept", async () => {
    const name = freshMark();
    const spans = [protobufSpan(`${name} good`, Buffer.alloc(16, 5)), protobufSpan(`${name} bad`, Buffer.alloc(9, 5))];
    const answer = await connection.call(grpcPaths.traces, framed(Buffer.concat(spans)));
    expect(answer.code).toBe(0);
    const response = answer.body.subarray(5);
    expect(answer.body.readUInt32BE(1)).toBe(response.length);
    // ExportTraceServiceResponse.partial_success (1), rejected_spans (1) = 1, error_message (2).
    expect([response[0], ...response.subarray(2, 5)]).toEqual([0x0a, 0x08, 1, 0x12]);
    expect(await t.rows("spans", `select name from t where name like '${name}%'`)).toEqual([{ name: `${name} good` }]);
  });
});

describe("calls of something else", () => {
  test.each([
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Import",
    "/v1/logs",
  ])("%s is UNIMPLEMENTED", async (path) => {
    expect((await connection.call(path, framed(Buffer.alloc(0)))).code).toBe(unimplemented);
  });

  test.each([
    ["JSON", { "content-type": "application/grpc+json" }],
    ["another method of HTTP", { ":method": "PUT" }],
  ])("%s is UNIMPLEMENTED", async (_, fields) => {
    const answer = await connection.call(grpcPaths.logs, framed(protobufLogs(freshMark())), fields);
    expect(answer.code).toBe(unimplemented);
  });

  test("a request of HTTP/2 that is no call gets 415", async () => {
    const { headers } = await connection.call(grpcPaths.logs, Buffer.alloc(1), {
      "content-type": "application/x-protobuf",
    });
    expect(headers[":status"]).toBe(415);
  });
});

describe("slow and vanishing clients", () => {
  test.each([
    ["nothing behind the head", Buffer.alloc(0)],
    ["a part of the prefix", Buffer.from([0])],
    ["a part of the message", framed(Buffer.alloc(100_000)).subarray(0, 10_000)],
  ])("%s is UNAVAILABLE with RetryInfo, and pins next to nothing", async (_, bytes) => {
    const stream = connection.begin(grpcPaths.logs);
    stream.write(bytes);
    const answer = answerOf(stream);
    await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBe(bytes.length > 5 ? 12_288 : 0);
    expect(await answer).toMatchObject({ code: unavailable, retrySeconds: 1 });
  });

  test("a client that leaves in the middle of its message leaves nothing behind", async () => {
    const gone = 'code="499",protocol="grpc"';
    const before = await t.metric("ingestion_requests_total", gone);
    const stream = connection.begin(grpcPaths.logs);
    stream.on("error", () => undefined);
    stream.write(framed(Buffer.alloc(100_000)).subarray(0, 50_000));
    await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBeGreaterThan(49_000);
    stream.close(8);
    const other = new GrpcConnection(t.grpcUrl ?? "", t.key);
    other.begin(grpcPaths.logs).write(framed(Buffer.alloc(100_000)).subarray(0, 60_000));
    await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBeGreaterThan(59_000);
    other.close();
    await expect.poll(() => t.metric("ingestion_requests_total", gone)).toBe(before + 2);
  });
});

test("messages beyond the arena get UNAVAILABLE with RetryInfo, and nobody else loses anything", async () => {
  const holders = Array.from({ length: 9 }, () => {
    const stream = connection.begin(grpcPaths.logs);
    stream.write(framed(Buffer.alloc(maxBodyBytes)).subarray(0, -1));
    return stream;
  });
  const refused = await Promise.any(holders.map(answerOf));
  expect(refused).toMatchObject({ code: unavailable, retrySeconds: 1 });
  for (const holder of holders) {
    holder.close(8);
  }
});

test("more calls at once than a connection may have wait for their turn", async () => {
  const marks = Array.from({ length: 250 }, freshMark);
  const answers = await Promise.all(marks.map((mark) => connection.call(grpcPaths.logs, framed(protobufLogs(mark)))));
  expect(answers.every(({ code }) => code === 0)).toBe(true);
});

test("calls are counted as requests, by protocol", async () => {
  const count = (labels: string): Promise<number> => t.metric("ingestion_requests_total", labels);
  const stored = 'signal="metrics",code="200",protocol="grpc"';
  const refused = 'signal="metrics",code="401",protocol="grpc"';
  const before = [await count(stored), await count(refused)];
  await connection.call(grpcPaths.metrics, framed(Buffer.alloc(0)));
  await connection.call(grpcPaths.metrics, framed(Buffer.alloc(0)), { authorization: null });
  expect([await count(stored), await count(refused)]).toEqual(before.map((n) => n + 1));
});

test("calls whose keys turn out to be unknown leave nothing behind, however many a connection makes", async () => {
  const large = framed(Buffer.alloc(250_000));
  // More than a connection may have at a time.
  for (let round = 0; round < 10; round++) {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => {
        const stream = connection.begin(grpcPaths.logs, { authorization: `Bearer ${generateKeyString()}` });
        stream.write(large);
        return answerOf(stream);
      }),
    );
    expect(new Set(answers.map(({ code }) => code))).toEqual(new Set([unauthenticated]));
  }
});

test("a message that the memory for messages could never hold is too large, not too early", async () => {
  const small = await startTestIngestion({
    environment: { SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0", SVC_INGESTION_ARENA_BYTES: String(4 * 1024 * 1024) },
  });
  const other = new GrpcConnection(small.grpcUrl ?? "", small.key);
  try {
    const answer = await other.call(grpcPaths.logs, framed(Buffer.alloc(5 * 1024 * 1024)));
    expect(answer).toMatchObject({ code: resourceExhausted, retrySeconds: null });
  } finally {
    other.close();
    await small.stop();
  }
});
