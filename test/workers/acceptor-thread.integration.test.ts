/** One acceptor thread by itself, with a sink of the test's. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

import { afterEach, expect, test } from "vitest";

import { anonymousAuthenticator } from "../../src/auth/authenticator.js";
import type { IngestResult, PendingRequest } from "../../src/ingest/request.js";
import type { HostState } from "../../src/routes/otlp/acceptor.js";
import { FrontCounters } from "../../src/routes/otlp/counters.js";
import { loadUws } from "../../src/routes/http/uws.js";
import type { Logger } from "../../src/runtime/log/log.js";
import { type Acceptor, startAcceptor } from "../../src/workers/acceptor-client.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { createRecordingLogger } from "../helpers/auth/auth-fixture.js";
import { freePort } from "../helpers/free-port.js";
import { withoutThreads } from "../helpers/no-threads.js";
import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { until } from "../helpers/until.js";

let acceptor: Acceptor | null = null;

afterEach(async () => {
  await acceptor?.drain();
  await acceptor?.stop();
  acceptor = null;
});

async function start(
  answer: (request: PendingRequest) => IngestResult,
  o: { readonly state?: HostState; readonly entry?: URL; readonly port?: number; readonly logger?: Logger } = {},
): Promise<{ readonly port: number; readonly acceptor: Acceptor }> {
  await loadUws();
  // As the server does: an acceptor is given the port it is to share, or it could not be replaced.
  const port = o.port ?? (await freePort());
  const state = o.state ?? { obstacle: null, problem: null };
  acceptor = await startAcceptor({
    onUsage: () => undefined,
    ...(o.entry === undefined ? {} : { entry: o.entry }),
    addresses: [{ host: "127.0.0.1", port, option: "SVC_INGESTION_LISTEN" }],
    corsOrigins: [],
    arenaBytes: 1024 * 1024,
    maxBodyBytes: 100_000,
    bodyTimeoutMs: 5000,
    maxConnections: 100,
    counters: new FrontCounters().buffer,
    logLevel: "silent",
    sink: {
      get obstacle() {
        return state.obstacle;
      },
      submit: (request) => {
        request.answer(answer(request));
      },
    },
    authenticator: anonymousAuthenticator(createTappedLogger()),
    shareAuth: () => ({ kind: "anonymous" }),
    probes: {
      health: () => state.problem,
      ready: () => Promise.resolve("not yet"),
      metrics: () => Promise.resolve("some_metric 1\n"),
      metricsContentType: "text/plain",
    },
    logger: o.logger ?? createTappedLogger(),
  });
  return { port, acceptor };
}

const stored = {
  kind: "stored",
  records: 1,
  rejected: 0,
  rejectedReason: null,
  droppedAttributes: 0,
} as const;

async function post(port: number, body: Buffer): Promise<Response> {
  return await fetch(`http://127.0.0.1:${port}/ingestion/otlp/v1/logs`, {
    method: "POST",
    headers: { "content-type": "application/x-protobuf" },
    body,
  });
}

test("bodies cross in shared memory, and every kind of result comes back as its response", async () => {
  const seen: Buffer[] = [];
  const results: IngestResult[] = [
    stored,
    { ...stored, rejected: 2, rejectedReason: "why" },
    { kind: "failed", code: "BAD_REQUEST", message: "broken" },
    { kind: "failed", code: "PAYLOAD_TOO_LARGE", message: "inflated" },
    { kind: "unavailable", retryAfterSeconds: 7, reason: "its disk is full" },
    { kind: "internal", requestId: "id-1" },
  ];
  const { port } = await start(({ buffer, offset, length }) => {
    seen.push(Buffer.from(new Uint8Array(buffer, offset, length)));
    return results[seen.length - 1] ?? stored;
  });
  const responses: { status: number; body: string; retryAfter: string | null }[] = [];
  const bodies = results.map((_, i) => protobufLogs(`mark ${i}`, i + 1));
  for (const body of bodies) {
    const response = await post(port, body);
    responses.push({
      status: response.status,
      body: await response.text(),
      retryAfter: response.headers.get("retry-after"),
    });
  }
  expect(seen).toEqual(bodies);
  expect(responses.map((r) => r.status)).toEqual([200, 200, 400, 413, 503, 500]);
  expect(responses[1]?.body).toContain("why");
  expect(responses[2]?.body).toContain("broken");
  expect(responses[3]?.body).toContain("inflated");
  expect(responses[4]?.retryAfter).toBe("7");
  expect(responses[4]?.body).toContain("its disk is full");
  expect(responses[5]?.body).toContain("id-1");
});

test("health, readiness and metrics come from the main thread", async () => {
  const state = { obstacle: null, problem: null as string | null };
  const { port } = await start(() => stored, { state });
  const url = `http://127.0.0.1:${port}`;
  expect((await fetch(`${url}/health`)).status).toBe(200);
  state.problem = "the lake is dry";
  await expect.poll(async () => (await fetch(`${url}/health`)).text()).toContain("the lake is dry");
  expect(await (await fetch(`${url}/metrics`)).text()).toBe("some_metric 1\n");
  state.problem = null;
  await expect.poll(async () => (await fetch(`${url}/ready`)).text()).toContain("not yet");
});

test("while the sink accepts nothing, bodies are refused before they are read", async () => {
  const state = { obstacle: "its disk is full", problem: null };
  const { port } = await start(() => stored, { state });
  const answer = async (): Promise<readonly [number, string]> => {
    const { status, ...response } = await post(port, protobufLogs("x")).then(async (r) => ({
      status: r.status,
      text: await r.text(),
    }));
    return [status, response.text];
  };
  await expect.poll(answer).toEqual([503, expect.stringContaining("its disk is full")]);
});

test("a thread that meets a defect closes its sockets, and another one takes its port", async () => {
  const entry = new URL("../helpers/servers/dying-acceptor.js", import.meta.url);
  const { port, acceptor: started } = await start(() => stored, { entry });
  expect((await post(port, protobufLogs("x"))).status).toBe(200);
  expect((await fetch(`http://127.0.0.1:${port}/boom`)).status).toBe(404);
  await expect.poll(() => started.healthy).toBe(false);
  await expect.poll(() => started.healthy).toBe(true);
  expect((await post(port, protobufLogs("x"))).status).toBe(200);
});

test("a thread is replaced when the system gives threads again", async () => {
  const entry = new URL("../helpers/servers/dying-acceptor.js", import.meta.url);
  const { logger, lines } = createRecordingLogger();
  const { port, acceptor: started } = await start(() => stored, { entry, logger });
  await withoutThreads(async () => {
    await fetch(`http://127.0.0.1:${port}/boom`);
    await until(() => lines.some(({ msg }) => msg === "an acceptor thread could not be started; trying again"));
    expect(started.healthy).toBe(false);
  });
  await expect.poll(() => started.healthy, { timeout: 10_000 }).toBe(true);
  expect((await post(port, protobufLogs("x"))).status).toBe(200);
});

test("a thread that ends before it listens is UNAVAILABLE to whoever started it", async () => {
  const entry = new URL("data:text/javascript,process.exit(3)");
  await expect(start(() => stored, { entry })).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: "an acceptor thread ended",
  });
});

test("a thread whose port is taken says so, and ends", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const starting = start(() => stored, { port });
  await expect(starting).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining(`cannot listen on 127.0.0.1:${port}`) as string,
  });
  await until(() => !process.getActiveResourcesInfo().includes("MessagePort"));
  server.close();
});
