/** What callers send before they are answered is bounded, and of unknown ones nothing is kept. */
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import net from "node:net";
import { gzipSync } from "node:zlib";

import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type Authenticator, type AuthOutcome, invalidToken } from "../../../src/auth/authenticator.js";
import { anonymousPrincipal } from "../../../src/auth/principal.js";
import { type FlightServer, startFlightServer } from "../../../src/routes/flight/server.js";
import { createFlightService } from "../../../src/routes/flight/service.js";
import { systemClock } from "../../../src/runtime/clock.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { callHead, endHeaders, frame, frameType, opening } from "../../helpers/http/http2-frames.js";
import { until } from "../../helpers/until.js";
import { createTappedLogger } from "../../helpers/cleartext/cleartext-tap.js";

const metrics = createMetrics();
let server: FlightServer;
/** Lets calls wait for the rest of their message for half a second. */
let impatient: FlightServer;
let session: ClientHttp2Session;

beforeAll(async () => {
  const known: AuthOutcome = { kind: "ok", principal: anonymousPrincipal };
  const authenticator: Authenticator = {
    name: "one caller",
    authenticateNow: () => null,
    authenticate: (authorization) =>
      Promise.resolve(["Bearer known", "Bearer other"].includes(authorization) ? known : invalidToken),
    stop: () => Promise.resolve(),
  };
  const start = (o: { readonly messageMs?: number } = {}): Promise<FlightServer> =>
    startFlightServer({
      host: "127.0.0.1",
      port: 0,
      tls: null,
      maxConnections: 100,
      drainMs: () => 0,
      ...o,
      logger: createTappedLogger(),
      service: createFlightService({
        authenticator,
        queries: null as never,
        ticketSecret: Buffer.alloc(32),
        ticketsShared: false,
        ticketLifeMs: 1000,
        timeoutMs: 3600_000,
        clock: systemClock,
        logger: createTappedLogger(),
        metrics,
      }),
    });
  [server, impatient] = await Promise.all([start(), start({ messageMs: 500 })]);
  session = connect(`http://127.0.0.1:${server.address.port}`);
});

afterAll(async () => {
  session.destroy();
  await Promise.all([server.stop(), impatient.stop()]);
});

/** Sends so many bytes of a message of 16 MiB. */
function open(method: string, bytes: number, headers = {}, on = session): ClientHttp2Stream {
  const stream = on.request({
    ":method": "POST",
    ":path": `/arrow.flight.protocol.FlightService/${method}`,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(16 << 20, 1);
  stream.write(prefix);
  stream.write(Buffer.alloc(bytes));
  return stream;
}

it.each([
  ["GetFlightInfo", {}],
  ["DoGet", { authorization: "Bearer made up" }],
  ["DoPut", {}],
  ["DoAction", {}],
  ["Handshake", { authorization: "Bearer made up" }],
])("unknown callers of %s are refused before their message is whole, and counted", async (method, headers) => {
  const stream = open(method, 1000, headers);
  const [answer] = (await once(stream, "response")) as [Record<string, string>];
  expect(Number(answer["grpc-status"])).toBe(status.UNAUTHENTICATED);
  stream.close();
  expect(await metrics.text()).toContain(`flight_calls_total{method="${method}",outcome="UNAUTHENTICATED"} 1\n`);
});

it("unknown callers send no more of a handshake than a name and a token take", async () => {
  const [error] = (await once(open("Handshake", 100_000), "error")) as [Error];
  expect(error.message).toContain("NGHTTP2_ENHANCE_YOUR_CALM");
});

it.each(["GetFlightInfo", "DoGet", "DoAction"])("a call of %s whose message is never whole ends", async (method) => {
  const own = connect(`http://127.0.0.1:${impatient.address.port}`);
  for (const bytes of [0, 1000]) {
    const stream = open(method, bytes, { authorization: "Bearer known" }, own);
    const closed = once(stream, "close");
    const [answer] = (await once(stream, "response")) as [Record<string, string>];
    expect(Number(answer["grpc-status"])).toBe(status.DEADLINE_EXCEEDED);
    expect(answer["grpc-message"]).toBe("The message did not come within 0.5 seconds.");
    // The client has not ended it.
    await closed;
  }
  // One that was refused, and goes on sending.
  const refused = open(method, 1000, {}, own);
  await once(refused, "close");
  expect(own.closed).toBe(false);
  own.destroy();
});

it.each([
  ["Handshake", {}],
  ["GetFlightInfo", { authorization: "Bearer known" }],
  ["DoPut", { authorization: "Bearer known" }],
])("a compressed message of %s is refused and not inflated", async (method, headers) => {
  const stream = session.request({
    ":method": "POST",
    ":path": `/arrow.flight.protocol.FlightService/${method}`,
    "content-type": "application/grpc",
    te: "trailers",
    "grpc-encoding": "gzip",
    ...headers,
  });
  const message = gzipSync(Buffer.alloc(16 << 20));
  const prefix = Buffer.alloc(5, 1);
  prefix.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([prefix, message]));
  const [answer] = (await once(stream, "response")) as [Record<string, string>];
  expect(Number(answer["grpc-status"])).toBe(status.UNIMPLEMENTED);
  expect(decodeURIComponent(answer["grpc-message"] ?? "")).toContain("gzip: send messages uncompressed");
  expect(answer["grpc-accept-encoding"]).toBe("identity");
});

it("a call that has its answer ends, though its client does not", async () => {
  const stream = session.request({
    ":method": "POST",
    ":path": "/arrow.flight.protocol.FlightService/DoPut",
    "content-type": "application/grpc",
    te: "trailers",
    authorization: "Bearer known",
  });
  stream.write(Buffer.alloc(5));
  const closed = once(stream, "close");
  const [answer] = (await once(stream, "response")) as [Record<string, string>];
  expect(Number(answer["grpc-status"])).toBe(status.INVALID_ARGUMENT);
  await closed;
  expect(stream.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
});

it("the call that has sent most ends when all together hold too much", async () => {
  const headers = { authorization: "Bearer known" };
  const small = open("GetFlightInfo", 1000, headers);
  const ended: ClientHttp2Stream[] = [];
  const large = Array.from({ length: 9 }, () => open("DoPut", 15 << 20, headers));
  for (const stream of large) {
    stream.on("error", () => ended.push(stream));
  }
  await until(() => ended.length === 1);
  // The rest of them fits, and is taken.
  await until(() => large.every((stream) => stream.closed || stream.writableLength === 0));
  expect(ended).toHaveLength(1);
  expect(small.closed).toBe(false);
  for (const stream of [small, ...large]) {
    stream.close();
  }
});

it("one caller with many calls does not end the larger call of another, and the system is warned of no leak", async () => {
  const warnings: Error[] = [];
  process.on("warning", (warning) => warnings.push(warning));
  const ended: string[] = [];
  const send = (who: string, bytes: number): ClientHttp2Stream => {
    const stream = open("DoPut", bytes, { authorization: `Bearer ${who}` });
    stream.on("error", () => ended.push(who));
    return stream;
  };
  const small = Array.from({ length: 63 }, () => send("known", 2 << 20));
  await until(() => small.every((stream) => stream.writableLength === 0));
  const large = send("other", 8 << 20);
  await until(() => large.closed || large.writableLength === 0);
  await until(() => ended.length > 0);
  expect(new Set(ended)).toEqual(new Set(["known"]));
  expect(large.closed).toBe(false);
  expect(warnings.map(({ name }) => name)).not.toContain("MaxListenersExceededWarning");
  for (const stream of [large, ...small]) {
    stream.close();
  }
});

it("a connection whose messages come in crumbs is ended", async () => {
  const socket = net.connect(server.address.port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.resume();
  const path = "/arrow.flight.protocol.FlightService/DoPut";
  const call = [
    frame(frameType.headers, endHeaders, 1, callHead(path, "Bearer known")),
    frame(frameType.data, 0, 1, Buffer.from([0, 0, 1, 0, 0])),
  ];
  const crumbs = Array.from({ length: 5000 }, () => frame(frameType.data, 0, 1, Buffer.alloc(1)));
  socket.write(Buffer.concat([opening(), ...call, ...crumbs]));
  await once(socket, "close");
  expect(socket.destroyed).toBe(true);
});
