/** Memory of messages is used again when they have left as a whole: what is under way to a reader who left stays his. */
import { once } from "node:events";
import http2 from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";

import { Server, type ServerWritableStream } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "vitest";

import { MessageBuffers } from "../../../src/routes/flight/message-buffers.js";
import { flightServiceDefinition } from "../../../src/routes/flight/service.js";
import { until } from "../../helpers/until.js";
import { bindLocally } from "../../helpers/bind-locally.js";

const messageBytes = 1 << 20;
const buffers = new MessageBuffers();
let server: Server;
let session: http2.ClientHttp2Session;
/** What became of the write: Node.js 20 ends it as if it had gone well when the stream has gone, 24 does not. */
let written: boolean;
let cancelled: boolean;
let framed: Buffer;

/** Reads a result of one message within a window of so many bytes. */
async function read(windowBytes: number): Promise<http2.ClientHttp2Stream> {
  const port = await bindLocally(server);
  session = http2.connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: windowBytes } });
  await once(session, "remoteSettings");
  session.setLocalWindowSize(10 * messageBytes);
  const stream = session.request({
    ":method": "POST",
    ":path": "/arrow.flight.protocol.FlightService/DoGet",
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.on("error", () => undefined);
  stream.end(Buffer.alloc(5));
  return stream;
}

beforeEach(() => {
  written = false;
  cancelled = false;
  server = new Server();
  server.addService(flightServiceDefinition, {
    DoGet: (call: ServerWritableStream<Buffer, Buffer>) => {
      call.on("cancelled", () => {
        cancelled = true;
      });
      framed = buffers.framed(Buffer.alloc(messageBytes, 1));
      call.write(framed, () => {
        written = true;
        call.end();
      });
    },
  });
});

afterEach(() => {
  session.destroy();
  server.forceShutdown();
});

it("uses the memory of a message again that was read", async () => {
  const stream = await read(2 * messageBytes);
  stream.resume();
  await until(() => written);
  expect(buffers.framed(Buffer.alloc(messageBytes)).buffer).toBe(framed.buffer);
});

it("leaves the memory of a message alone whose reader left in the middle", async () => {
  const stream = await read(messageBytes / 2);
  // Not read: the rest of the message waits for room in the window.
  await once(stream, "readable");
  expect(written).toBe(false);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await until(() => cancelled);
  await sleep(50);
  expect(buffers.framed(Buffer.alloc(messageBytes)).buffer).not.toBe(framed.buffer);
});
