/** Reads through an object cache: whatever the cache does, they give what the store holds. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import * as fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { type CacheClient, createCacheClient } from "../../src/lake/cache-client/cache-client.js";
import { type CachedReads, createCachedReads } from "../../src/lake/cache-client/cached-reads.js";
import type { ByteRange, RemoteObjects } from "../../src/lake/store/object-store.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { freePort } from "../helpers/free-port.js";
import { until } from "../helpers/until.js";
import { never } from "../helpers/never.js";

const logger = createTappedLogger();
const content = randomBytes(300_000);
const target = "/cache/obj/t/audience=a/x.parquet";
const apiKey = "a-key-of-the-cache";
/** For caches that answer, however busy the machine is. */
const patient = { connectMs: 20_000, firstByteMs: 20_000, slowMs: 20_000 };
/** For those that fall silent. */
const brief = { ...patient, firstByteMs: 2000, slowMs: 400 };

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** The answer that is right, so far as nothing of it is replaced. */
function answerWith(
  o: {
    status?: number;
    headers?: Record<string, string>;
    send?: (body: Buffer, response: ServerResponse) => void;
  } = {},
): Answer {
  return (request, response) => {
    const said = /^bytes=(\d+)-(\d+)$/u.exec(request.headers.range ?? "");
    const [start, end] = said === null ? [0, content.length] : [Number(said[1]), Number(said[2]) + 1];
    const body = content.subarray(start, end);
    response.writeHead(o.status ?? (said === null ? 200 : 206), {
      "content-length": String(body.length),
      ...(said === null ? {} : { "content-range": `bytes ${start}-${end - 1}/${content.length}` }),
      ...o.headers,
    });
    const send = o.send ?? ((bytes, to) => to.end(bytes));
    send(body, response);
  };
}

let server: Server;
let answer: Answer;
let asked = 0;
let client: CacheClient;
let reads: CachedReads;
let metrics: Metrics;
let nowMs = 0;
/** What the store was asked for. */
let stored: (ByteRange | null)[] = [];

beforeEach(async () => {
  answer = answerWith();
  asked = 0;
  stored = [];
  nowMs = 0;
  server = createServer((request, response) => {
    asked++;
    const isRight = request.headers.authorization === `Bearer ${apiKey}` && request.url === target;
    (isRight ? answer : answerWith({ status: 400 }))(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await connectTo((server.address() as AddressInfo).port);
});

afterEach(async () => {
  await reads.stop();
  server.close();
  server.closeAllConnections();
});

async function connectTo(port: number, timing = patient): Promise<void> {
  client = await createCacheClient(`http://127.0.0.1:${port}/cache/`, apiKey, timing);
  metrics = createMetrics();
  const remote: RemoteObjects = {
    async read(_path, range, onBytes) {
      stored.push(range);
      const { start, length } = range ?? { start: 0, length: content.length };
      for (let at = start; at < start + length; at += 10_000) {
        await onBytes(content.subarray(at, Math.min(start + length, at + 10_000)), at);
      }
    },
    putFile: () => Promise.reject(new Error("not needed")),
    verify: () => Promise.resolve(),
  };
  reads = createCachedReads({ remote, client, monotonicMs: () => nowMs, logger, metrics });
}

/** Reads on with little patience. */
async function hurry(): Promise<void> {
  await reads.stop();
  await connectTo((server.address() as AddressInfo).port, brief);
}

async function read(range: ByteRange | null, size?: number, signal = never): Promise<Buffer> {
  const parts: Buffer[] = [];
  let next = range?.start ?? 0;
  await reads.read(
    "t/audience=a/x.parquet",
    range,
    (bytes, at) => {
      expect(at).toBe(next);
      next += bytes.length;
      parts.push(Buffer.from(bytes));
      return Promise.resolve();
    },
    signal,
    size,
  );
  return Buffer.concat(parts);
}

const results = async (): Promise<Record<string, number>> => {
  const found = (await metrics.text()).matchAll(/^object_cache_client_reads_total\{result="(\w+)"\} (\d+)$/gmu);
  return Object.fromEntries(Array.from(found, ([, result = "", n]) => [result, Number(n)]));
};

/** Sends so many bytes and then does something else than to go on. */
const after = (bytes: number, then: (response: ServerResponse) => void) => (body: Buffer, response: ServerResponse) => {
  response.write(body.subarray(0, bytes), () => {
    then(response);
  });
};

const part = { start: 1000, length: 200_000 };

it("come from the cache, whole and in ranges", async () => {
  expect((await read(null)).equals(content)).toBe(true);
  expect((await read(null, content.length)).equals(content)).toBe(true);
  expect((await read(part, content.length)).equals(content.subarray(1000, 201_000))).toBe(true);
  expect([stored, await results()]).toEqual([[], { whole: 3 }]);
});

it.each([
  ["500", answerWith({ status: 500 }), "failed"],
  ["503", answerWith({ status: 503 }), "failed"],
  ["401", answerWith({ status: 401 }), "failed"],
  ["403", answerWith({ status: 403 }), "declined"],
  ["404", answerWith({ status: 404 }), "declined"],
  ["416", answerWith({ status: 416 }), "failed"],
  ["302", answerWith({ status: 302, headers: { location: "http://127.0.0.1:1/" } }), "failed"],
  ["another status of success", answerWith({ status: 203 }), "failed"],
  ["another range", answerWith({ headers: { "content-range": `bytes 1001-201000/${content.length}` } }), "failed"],
  ["no range", answerWith({ status: 200 }), "failed"],
  ["an object of another size", answerWith({ headers: { "content-range": "bytes 1000-200999/300001" } }), "failed"],
  ["another length", answerWith({ headers: { "content-length": "100" } }), "failed"],
  ["an encoded body", answerWith({ headers: { "content-encoding": "gzip" } }), "failed"],
  ["a closed connection", (request: IncomingMessage) => request.socket.destroy(), "failed"],
  ["no HTTP", (request: IncomingMessage) => request.socket.end("SSH-2.0-x\r\n"), "failed"],
  ["half a body", answerWith({ send: after(50_000, (response) => response.destroy()) }), "resumed"],
  ["nothing", () => undefined, "failed", hurry],
  ["a head and nothing else", answerWith({ send: (_body, response) => response.flushHeaders() }), "failed", hurry],
  ["half a body and then nothing", answerWith({ send: after(50_000, () => undefined) }), "resumed", hurry],
] as const)("come from the store when the cache answers with %s", async (_name, wrong: Answer, result, before?) => {
  await before?.();
  answer = wrong;
  expect((await read(part, content.length)).equals(content.subarray(1000, 201_000))).toBe(true);
  expect(await results()).toEqual({ [result]: 1 });
  expect(stored).toHaveLength(1);
  const [range] = stored;
  expect((range?.start ?? 0) + (range?.length ?? 0)).toBe(201_000);
  expect((range?.start ?? 0) > 1000).toBe(result === "resumed");
});

it.each([
  [
    "whose size is known",
    content.length,
    { start: expect.any(Number) as number, length: expect.any(Number) as number },
  ],
  ["whose size is not known", undefined, null],
] as const)("go on where a whole object broke off, %s", async (_name, size, range) => {
  answer = answerWith({ send: after(123_456, (response) => response.destroy()) });
  expect((await read(null, size)).equals(content)).toBe(true);
  expect(stored).toEqual([range]);
});

it("come from the store when the cache has an object of another size", async () => {
  answer = answerWith({
    headers: { "content-length": String(content.length - 1) },
    send: (body, response) => response.end(body.subarray(1)),
  });
  expect((await read(null, content.length)).equals(content)).toBe(true);
  expect(await results()).toEqual({ failed: 1 });
});

it("come from the store when nobody listens", async () => {
  await reads.stop();
  await connectTo(await freePort());
  expect((await read(part)).equals(content.subarray(1000, 201_000))).toBe(true);
  expect(await results()).toEqual({ failed: 1 });
});

it("ask no more after five failures, and try again after a while", async () => {
  answer = answerWith({ status: 500 });
  for (let i = 0; i < 8; i++) {
    expect((await read(part)).length).toBe(part.length);
  }
  expect([asked, await results()]).toEqual([5, { failed: 5, skipped: 3 }]);
  expect(await metrics.text()).toContain("object_cache_client_open 1");
  nowMs = 9999;
  await read(part);
  expect(asked).toBe(5);
  nowMs = 10_000;
  await read(part);
  await read(part);
  expect(asked).toBe(6);
  nowMs = 20_000;
  answer = answerWith();
  await read(part);
  await read(part);
  expect([asked, (await results())["whole"]]).toEqual([8, 2]);
  expect(await metrics.text()).toContain("object_cache_client_open 0");
});

it("say why they ask no more, and what to change when it is the key", async () => {
  const warn = vi.spyOn(logger, "warn");
  answer = answerWith({ status: 401 });
  for (let i = 0; i < 6; i++) {
    await read(part);
  }
  expect(warn.mock.calls).toEqual([
    [
      {
        err: expect.objectContaining({
          message: expect.stringContaining("SVC_OBJECT_CACHE_API_KEY") as string,
        }) as Error,
      },
      expect.stringContaining("without it for a while"),
    ],
  ]);
  warn.mockRestore();
});

it("ask on when the cache only declines", async () => {
  answer = answerWith({ status: 404 });
  for (let i = 0; i < 8; i++) {
    await read(part);
  }
  expect([asked, await results()]).toEqual([8, { declined: 8 }]);
});

it("end with their caller, and with who takes the bytes; neither is the cache's failure", async () => {
  for (let i = 0; i < 6; i++) {
    const leaving = new AbortController();
    answer = () => {
      leaving.abort(new ServiceError("CANCELLED", "left"));
    };
    await expect(read(part, undefined, leaving.signal)).rejects.toThrow("left");
  }
  answer = answerWith();
  const full = (): Promise<void> => Promise.reject(new RangeError("the disk is full"));
  for (let i = 0; i < 6; i++) {
    await expect(reads.read("t/audience=a/x.parquet", part, full, never)).rejects.toThrow("the disk is full");
  }
  expect(stored).toEqual([]);
  expect((await read(part)).length).toBe(part.length);
  expect(await results()).toEqual({ whole: 1 });
});

it("give up a cache that trickles, and go on from the store", async () => {
  await hurry();
  const send = (body: Buffer, response: ServerResponse): void => {
    let at = 0;
    const trickle = setInterval(() => {
      response.write(body.subarray(at, ++at));
    }, brief.slowMs / 4);
    response.on("close", () => clearInterval(trickle));
  };
  answer = answerWith({ send });
  expect((await read(part)).equals(content.subarray(1000, 201_000))).toBe(true);
  expect(await results()).toEqual({ resumed: 1 });
});

it("wait for a slow taker longer than for a slow cache", async () => {
  await hurry();
  let late = true;
  const parts: Uint8Array[] = [];
  await reads.read(
    "t/audience=a/x.parquet",
    part,
    async (bytes) => {
      if (late) {
        late = false;
        const beganMs = performance.now();
        await until(() => performance.now() - beganMs > brief.slowMs * 2);
      }
      parts.push(Buffer.from(bytes));
    },
    never,
  );
  expect(Buffer.concat(parts).equals(content.subarray(1000, 201_000))).toBe(true);
  expect(await results()).toEqual({ whole: 1 });
});

it("give what the store holds, wherever the cache breaks off", async () => {
  const places = fc.record({
    start: fc.nat(content.length - 1),
    length: fc.nat(content.length),
    cut: fc.nat(content.length + 10_000),
    known: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(places, async ({ start, length, cut, known }) => {
      const range = { start, length: Math.max(1, Math.min(length, content.length - start)) };
      const send = (body: Buffer, response: ServerResponse): void => {
        if (cut >= body.length) {
          response.end(body);
        } else {
          after(cut, () => response.destroy())(body, response);
        }
      };
      answer = answerWith({ send });
      nowMs += 20_000;
      const bytes = await read(range, known ? content.length : undefined);
      expect(bytes.equals(content.subarray(start, start + range.length))).toBe(true);
    }),
    { numRuns: 60 },
  );
});
