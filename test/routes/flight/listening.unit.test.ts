/** What an analytics server says when it cannot listen. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";

import { expect, it } from "vitest";

import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { type FlightServerOptions, startFlightServer } from "../../../src/routes/flight/server.js";

const service = { methods: {}, admission: null as never, endCalls: () => undefined };
const options: FlightServerOptions = {
  host: "127.0.0.1",
  port: 0,
  tls: null,
  maxConnections: 2,
  service,
  drainMs: () => 0,
  logger: createSilentLogger(),
};

it("names the option of an address that is taken", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  await expect(startFlightServer({ ...options, port })).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: `cannot listen on 127.0.0.1:${port} for gRPC: the address is in use or not of this machine; set SVC_ANALYTICS_LISTEN to another`,
  });
  other.close();
});

it("cuts connections beyond its limit", async () => {
  const server = await startFlightServer(options);
  const open = async () => {
    const socket = connect(server.address.port, "127.0.0.1");
    socket.on("error", () => undefined);
    // The server speaks first: its settings.
    await Promise.race([once(socket, "data"), once(socket, "close")]);
    return socket;
  };
  const held = [await open(), await open()];
  expect((await open()).destroyed).toBe(true);
  expect(held.map((socket) => socket.destroyed)).toEqual([false, false]);
  for (const socket of held) {
    socket.destroy();
  }
  await server.stop();
});

it("stops at once, though the peer of an idle connection does not close its end", async () => {
  const server = await startFlightServer({ ...options, drainMs: () => 60_000 });
  const socket = connect({ port: server.address.port, host: "127.0.0.1", allowHalfOpen: true });
  await once(socket, "data");
  socket.resume();
  const ended = once(socket, "end");
  await server.stop();
  await ended;
  expect(socket.writable).toBe(true);
  socket.destroy();
});
