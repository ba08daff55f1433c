/** What a listener of OTLP/gRPC grants one connection, with a sink that answers when its test says so. */
import { once } from "node:events";
import net from "node:net";
import { setTimeout } from "node:timers/promises";

import { afterEach, beforeEach, expect, test } from "vitest";

import { anonymousAuthenticator } from "../../../src/auth/authenticator.js";
import { UsageCounts } from "../../../src/auth/keys/usage-counts.js";
import type { PendingRequest } from "../../../src/ingest/request.js";
import { FrontCounters } from "../../../src/routes/otlp/counters.js";
import { OtlpFront } from "../../../src/routes/otlp/front.js";
import {
  grpcRoutes,
  listenOtlpGrpc,
  maxStreams,
  type OtlpGrpcListener,
} from "../../../src/routes/otlp/grpc/listener.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { BodyMemory } from "../../../src/routes/otlp/body-memory.js";
import { Arena } from "../../../src/runtime/threads/arena.js";
import {
  callHead,
  endHeaders,
  endStreamAndHeaders,
  frame,
  frameType,
  opening,
} from "../../helpers/http/http2-frames.js";
import { framed, GrpcConnection, grpcPaths } from "../../helpers/otlp/otlp-grpc.js";
import { until } from "../../helpers/until.js";

const stored = { kind: "stored", records: 0, rejected: 0, rejectedReason: null, droppedAttributes: 0 } as const;
const message = framed(Buffer.alloc(0));
/** Long enough for a machine that is busy with something else in between. */
const idleMs = 1000;

let listener: OtlpGrpcListener;
let submitted: PendingRequest[] = [];

beforeEach(async () => {
  submitted = [];
  const logger = createSilentLogger();
  const front = new OtlpFront({
    paths: grpcRoutes,
    memory: new BodyMemory(new Arena(1024 * 1024)),
    ownsMemory: true,
    authenticator: anonymousAuthenticator(logger),
    sink: { obstacle: null, submit: (request) => submitted.push(request) },
    counters: new FrontCounters(undefined, "grpc"),
    usage: new UsageCounts(),
    maxBodyBytes: 100_000,
    bodyTimeoutMs: 5000,
    corsOrigins: [],
    logger,
  });
  listener = await listenOtlpGrpc({
    host: "127.0.0.1",
    port: 0,
    tls: null,
    maxConnections: 10,
    idleMs,
    bodyTimeoutMs: 5000,
    front,
    httpHint: "",
    logger,
  });
});

afterEach(async () => {
  await listener.stop();
});

test("a connection that makes no calls ends with a farewell", async () => {
  const connection = new GrpcConnection(`http://127.0.0.1:${listener.address.port}`, "");
  const openedMs = performance.now();
  const [code] = (await once(connection.session, "goaway")) as [number];
  expect(code).toBe(0);
  expect(performance.now() - openedMs).toBeGreaterThan(idleMs / 2);
  await until(() => connection.session.destroyed);
});

test("a connection stays while it goes on calling, and while a call is under way", async () => {
  const connection = new GrpcConnection(`http://127.0.0.1:${listener.address.port}`, "");
  const beganMs = performance.now();
  let left = false;
  connection.session.once("goaway", () => (left = true));
  while (performance.now() - beganMs < 2 * idleMs) {
    const answer = connection.call(grpcPaths.logs, message);
    await until(() => submitted.length > 0);
    submitted.pop()?.answer(stored);
    expect((await answer).code).toBe(0);
  }
  expect(left).toBe(false);
  const first = connection.call(grpcPaths.logs, message);
  const last = connection.call(grpcPaths.logs, message);
  await until(() => submitted.length === 2);
  await setTimeout(2 * idleMs);
  submitted.shift()?.answer(stored);
  expect((await first).code).toBe(0);
  await setTimeout(2 * idleMs);
  expect(left).toBe(false);
  submitted.pop()?.answer(stored);
  expect((await last).code).toBe(0);
  await until(() => left);
  await until(() => connection.session.destroyed);
});

test("calls beyond those that a connection may have at a time are refused, also to who ignores the settings", async () => {
  const socket = net.connect(listener.address.port, "127.0.0.1");
  let received: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk) => (received = Buffer.concat([received, chunk])));
  socket.on("error", () => undefined);
  socket.write(opening());
  for (let i = 0; i < maxStreams + 10; i++) {
    socket.write(frame(frameType.headers, endHeaders, 2 * i + 1, callHead(grpcPaths.logs)));
  }
  const refusedStream = 7;
  const resets = (): number[] =>
    framesOf(received).flatMap(({ type, payload }) => (type === frameType.reset ? [...payload] : []));
  await until(() => resets().length >= 4 * 10);
  expect(resets()).toEqual(Array.from({ length: 10 }, () => [0, 0, 0, refusedStream]).flat());
  socket.destroy();
});

test("calls behind the farewell of their client end nothing but their connection", async () => {
  const bytes = Buffer.concat([
    opening(),
    frame(frameType.goaway, 0, 0, Buffer.alloc(8)),
    ...Array.from({ length: 50 }, (_, i) =>
      frame(frameType.headers, endStreamAndHeaders, 2 * i + 1, callHead(grpcPaths.logs)),
    ),
  ]);
  // Where the heap breaks, the process ends sooner or later.
  for (let i = 0; i < 300; i++) {
    const socket = net.connect(listener.address.port, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.resume();
    socket.end(bytes);
    await once(socket, "close");
  }
  const connection = new GrpcConnection(`http://127.0.0.1:${listener.address.port}`, "");
  const answer = connection.call(grpcPaths.logs, message);
  await until(() => submitted.length > 0);
  submitted.pop()?.answer(stored);
  expect((await answer).code).toBe(0);
  connection.close();
});

test("a client that says farewell still gets its answers, and its connection ends", async () => {
  const connection = new GrpcConnection(`http://127.0.0.1:${listener.address.port}`, "");
  const answer = connection.call(grpcPaths.logs, message);
  await until(() => submitted.length > 0);
  connection.session.goaway();
  await setTimeout(50);
  submitted.pop()?.answer(stored);
  expect((await answer).code).toBe(0);
  await until(() => connection.session.destroyed);
});

test("a connection whose messages come in crumbs is ended, however many; one of small messages is not", async () => {
  const socket = net.connect(listener.address.port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.resume();
  const crumb = frame(frameType.data, 0, 1, Buffer.alloc(1));
  const call = [
    frame(frameType.headers, endHeaders, 1, callHead(grpcPaths.logs)),
    frame(frameType.data, 0, 1, Buffer.from([0, 0, 1, 0, 0])),
  ];
  socket.write(Buffer.concat([opening(), ...call, ...Array.from({ length: 5000 }, () => crumb)]));
  await once(socket, "close");
  const connection = new GrpcConnection(`http://127.0.0.1:${listener.address.port}`, "");
  // While a call is under way the connection is not idle, however long a round takes.
  const held = connection.call(grpcPaths.logs, message);
  await until(() => submitted.length === 1);
  const [first] = submitted.splice(0);
  for (let round = 0; round < 100; round++) {
    const answers = Array.from({ length: 50 }, () => connection.call(grpcPaths.logs, message));
    await until(() => submitted.length === 50);
    submitted.splice(0).forEach((request) => request.answer(stored));
    expect((await Promise.all(answers)).every(({ code }) => code === 0)).toBe(true);
  }
  first?.answer(stored);
  expect((await held).code).toBe(0);
  connection.close();
});

function framesOf(bytes: Buffer): { readonly type: number | undefined; readonly payload: Buffer }[] {
  const frames = [];
  for (let at = 0; at + 9 <= bytes.length;) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    frames.push({ type: bytes[at + 3], payload: bytes.subarray(at + 9, end) });
    at = end;
  }
  return frames;
}
