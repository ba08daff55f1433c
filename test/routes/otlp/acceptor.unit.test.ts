/** An acceptor on the thread of its test, which plays the main thread. */
import { MessageChannel } from "node:worker_threads";

import { afterEach, expect, test } from "vitest";

import { eachRequest, type RequestBatch, requestCount, writeResults } from "../../../src/ingest/request-words.js";
import { type AcceptorApi, type AcceptorHost, OtlpAcceptor } from "../../../src/routes/otlp/acceptor.js";
import { FrontCounters } from "../../../src/routes/otlp/counters.js";
import { Channel } from "../../../src/runtime/threads/channel.js";
import { protobufLogs } from "../../helpers/otlp/otlp-bodies.js";
import { until } from "../../helpers/until.js";

const stored = {
  kind: "stored",
  records: 1,
  rejected: 0,
  rejectedReason: null,
  droppedAttributes: 0,
} as const;

const batches: RequestBatch[] = [];
let stop: () => Promise<void> = () => Promise.resolve();
afterEach(async () => {
  await stop();
  batches.length = 0;
});

/** It is held by its port alone, as on a thread of its own. */
function open(host = "127.0.0.1"): Channel<AcceptorHost, AcceptorApi> {
  const { port1, port2 } = new MessageChannel();
  const closed = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  void new OtlpAcceptor(
    {
      addresses: [{ host, port: 0, option: "SVC_INGESTION_LISTEN" }],
      corsOrigins: [],
      arenaBytes: 1024 * 1024,
      maxBodyBytes: 100_000,
      bodyTimeoutMs: 5000,
      maxConnections: 10,
      auth: { kind: "anonymous" },
      counters: new FrontCounters().buffer,
      logLevel: "silent",
      metricsContentType: "text/plain",
      closed,
    },
    port2,
  );
  const acceptor = new Channel<AcceptorHost, AcceptorApi>(port1, "the acceptor", {
    requests: (batch) => batches.push(batch),
    usage: () => undefined,
    closed: () => {
      port1.close();
    },
    ready: () => Promise.resolve("not yet"),
    metrics: () => Promise.reject(new Error("out of order")),
    authenticate: () => Promise.reject(new Error("nobody has a token")),
  });
  stop = async () => {
    acceptor.tell({ kind: "close" });
    await until(() => Atomics.load(closed, 0) === 1);
  };
  return acceptor;
}

async function start(): Promise<{
  readonly acceptor: Channel<AcceptorHost, AcceptorApi>;
  readonly url: string;
  readonly arena: SharedArrayBuffer;
}> {
  const acceptor = open();
  const { addresses, arena } = await acceptor.ask("listen", undefined);
  return { acceptor, url: `http://127.0.0.1:${addresses[0]?.port ?? 0}`, arena };
}

/** The ids of the requests that were handed over so far. */
function takeIds(): number[] {
  const ids: number[] = [];
  for (const batch of batches.splice(0)) {
    eachRequest(batch, (id) => ids.push(id));
  }
  return ids;
}

function post(url: string, body: Buffer): Promise<Response> {
  return fetch(`${url}/ingestion/otlp/v1/logs`, {
    method: "POST",
    headers: { "content-type": "application/x-protobuf" },
    body,
  });
}

test("a request is handed over by its place in the arena, and answered under its id", async () => {
  const { acceptor, url, arena } = await start();
  const body = protobufLogs("mark");
  const responses = [post(url, body), post(url, body)];
  await until(() => batches.reduce((sum, batch) => sum + requestCount(batch), 0) === 2);
  for (const batch of batches) {
    eachRequest(batch, (_id, offset, length, _code, audience) => {
      expect(Buffer.from(new Uint8Array(arena, offset, length))).toEqual(body);
      expect(audience).toBeNull();
    });
  }
  acceptor.tell(writeResults(takeIds(), [stored, { kind: "unavailable", retryAfterSeconds: 7 }]));
  const statuses = (await Promise.all(responses)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
});

test("a drain waits for open requests, ends their connections, and takes no new one", async () => {
  const { acceptor, url } = await start();
  const responses = [post(url, protobufLogs("mark")), post(url, protobufLogs("mark"))];
  await until(() => batches.reduce((sum, batch) => sum + requestCount(batch), 0) === 2);
  let drained = false;
  const draining = acceptor.ask("drain", undefined).then(() => {
    drained = true;
    return undefined;
  });
  const refused = (): Promise<boolean> =>
    fetch(`${url}/health`, { headers: { connection: "close" } }).then(
      () => false,
      () => true,
    );
  await until(refused);
  expect(drained).toBe(false);
  acceptor.tell(writeResults(takeIds(), [stored, { kind: "unavailable", retryAfterSeconds: 7 }]));
  const answers = (await Promise.all(responses)).map(
    ({ status, headers }) => [status, headers.get("connection")] as const,
  );
  expect(new Map(answers)).toEqual(
    new Map([
      [200, "close"],
      [503, "close"],
    ]),
  );
  await draining;
});

test("it goes by what the main thread says of itself, and serves on when that cannot answer", async () => {
  const { acceptor, url } = await start();
  const health = async (): Promise<string> => (await fetch(`${url}/health`)).text();
  acceptor.tell({ kind: "state", obstacle: "its disk is full", problem: "the lake is dry" });
  await expect.poll(health).toContain("the lake is dry");
  const refused = await post(url, protobufLogs("mark"));
  expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining("its disk is full")]);
  acceptor.tell({ kind: "state", obstacle: null, problem: null });
  await expect.poll(health).not.toContain("the lake is dry");
  expect(await (await fetch(`${url}/ready`)).text()).toContain("not yet");
  expect((await fetch(`${url}/metrics`)).status).toBe(500);
});

test("whoever asked hears that an address cannot be bound, and can close it then", async () => {
  // Of a network that no machine is in.
  const acceptor = open("203.0.113.1");
  await expect(acceptor.ask("listen", undefined)).rejects.toMatchObject({ code: "UNAVAILABLE" });
});
