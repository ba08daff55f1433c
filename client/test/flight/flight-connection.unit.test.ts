import { Metadata } from "@grpc/grpc-js";
import { once } from "node:events";
import { type Http2Session, type ServerHttp2Stream, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";

import { openFlightCalls } from "../../src/flight/flight-calls.js";
import { encodeData } from "../../src/flight/flight-messages.js";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** One message of gRPC over HTTP/2: not compressed, its length, its bytes. */
function message(text: string): Buffer {
  const data = encodeData({ header: Buffer.from(text), body: new Uint8Array(0) });
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(data.length, 1);
  return Buffer.concat([prefix, data]);
}

/** A server whose answers the test gives by hand: a call comes as its stream. */
async function startServer(port = 0) {
  const server = createServer();
  const call = once(server, "stream") as Promise<[ServerHttp2Stream]>;
  const session = once(server, "session") as Promise<[Http2Session]>;
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const address = server.address() as AddressInfo;
  return { call, session, port: address.port, uri: `grpc://127.0.0.1:${address.port}`, close: () => server.close() };
}

/** A call whose first frame was read. */
async function beginCall(signal: AbortSignal) {
  const { uri, call, session } = await startServer();
  const calls = openFlightCalls({ uri });
  const frames = calls.get({ tickets: [new Uint8Array(1)], metadata: new Metadata() }, signal);
  const first = frames.next();
  const [stream] = await call;
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.write(message("one"));
  expect(String((await first).value?.header)).toBe("one");
  const [opened] = await session;
  return { calls, frames, stream, connectionEnd: once(opened, "close") };
}

it("a call that goes on when the client is closed comes to its end, however late, and the connection with it", async () => {
  const { calls, frames, stream, connectionEnd } = await beginCall(new AbortController().signal);
  calls.close();
  await nextTurn();
  // Longer than the library waits before it asks whether the server is still there.
  vi.advanceTimersByTime(31_000);
  await nextTurn();
  stream.end(message("two"));
  expect(String((await frames.next()).value?.header)).toBe("two");
  expect(await frames.next()).toEqual({ done: true, value: undefined });
  expect(await connectionEnd).toEqual([]);
});

it("a call that was given up does not hold the connection, although nobody reads it on", async () => {
  const controller = new AbortController();
  const { calls, connectionEnd } = await beginCall(controller.signal);
  calls.close();
  controller.abort();
  expect(await connectionEnd).toEqual([]);
});

it("a server that was away for minutes is found again within seconds", async () => {
  const { uri, port, close } = await startServer();
  close();
  const calls = openFlightCalls({ uri });
  onTestFinished(() => calls.close());
  const context = { signal: new AbortController().signal, headers: {} };
  for (let awayMs = 0; awayMs < 140_000; awayMs += 5000) {
    await expect(calls.info(new Uint8Array(0), context)).rejects.toThrow("cannot be reached");
    vi.advanceTimersByTime(5000);
  }
  const { session } = await startServer(port);
  // A little more for the library's jitter.
  vi.advanceTimersByTime(7000);
  await expect(session).resolves.toHaveLength(1);
});
