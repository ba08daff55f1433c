/** A handshake comes before anybody is known, so it may not take as long as a query. */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

import { Client, credentials, Metadata, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";

import { anonymousAuthenticator } from "../../../src/auth/authenticator.js";
import { type FlightServer, startFlightServer } from "../../../src/routes/flight/server.js";
import { createFlightService } from "../../../src/routes/flight/service.js";
import { createManualClock } from "../../helpers/manual-clock.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { createTappedLogger } from "../../helpers/cleartext/cleartext-tap.js";

const clock = createManualClock();
const metrics = createMetrics();
let server: FlightServer;
let client: Client;

beforeAll(async () => {
  const logger = createTappedLogger();
  server = await startFlightServer({
    host: "127.0.0.1",
    port: 0,
    tls: null,
    maxConnections: 100,
    drainMs: () => 1000,
    logger,
    service: createFlightService({
      authenticator: anonymousAuthenticator(logger),
      queries: null as never,
      ticketSecret: Buffer.alloc(32),
      ticketsShared: false,
      ticketLifeMs: 1000,
      timeoutMs: 3600_000,
      clock,
      logger,
      metrics,
    }),
  });
  client = new Client(`127.0.0.1:${server.address.port}`, credentials.createInsecure());
});

afterAll(async () => {
  client.close();
  await server.stop();
});

const same = (bytes: Buffer): Buffer => bytes;

function open(options = {}) {
  const path = "/arrow.flight.protocol.FlightService/Handshake";
  return client.makeBidiStreamRequest(path, same, same, new Metadata(), options);
}

async function outcomes(): Promise<string[]> {
  const text = await metrics.text();
  return Array.from(
    text.matchAll(/flight_calls_total\{method="Handshake",outcome="(?<outcome>\w+)"\} 1\n/gu),
    ({ groups }) => groups?.["outcome"] ?? "",
  );
}

it("a handshake is answered by its first message, and is counted", async () => {
  const call = open();
  call.write(Buffer.alloc(0));
  const answers: Buffer[] = [];
  for await (const answer of call) {
    answers.push(answer as Buffer);
  }
  expect(answers).toHaveLength(1);
  expect(await outcomes()).toEqual(["OK"]);
});

it("a handshake that sends nothing ends with DEADLINE_EXCEEDED", async () => {
  const call = open();
  const ended = new Promise<number | undefined>((resolve) => {
    call.on("error", (error: Error & { readonly code?: number }) => {
      resolve(error.code);
    });
  });
  call.resume();
  // Until the server has the call, and with it a timer.
  const timer = setInterval(() => {
    clock.advance(10_000);
  }, 20);
  expect(await ended).toBe(status.DEADLINE_EXCEEDED);
  clearInterval(timer);
  expect(await outcomes()).toEqual(["OK", "DEADLINE_EXCEEDED"]);
});

it("a handshake with a credential in its metadata is answered before it sends anything", async () => {
  const metadata = new Metadata();
  // Without padding, as Go writes it.
  metadata.set("authorization", `Basic ${Buffer.from("any:key").toString("base64").replace(/=+$/u, "")}`);
  const call = client.makeBidiStreamRequest("/arrow.flight.protocol.FlightService/Handshake", same, same, metadata);
  const [header] = (await once(call, "metadata")) as [Metadata];
  expect(header.get("authorization")).toEqual(["Bearer key"]);
  const answers: Buffer[] = [];
  for await (const answer of call) {
    answers.push(answer as Buffer);
  }
  expect(answers.map(String)).toEqual([expect.stringContaining("key")]);
});

it("a call with a deadline of a month has that long", async () => {
  const call = open({ deadline: Date.now() + 30 * 86_400_000 });
  await delay(100);
  call.write(Buffer.alloc(0));
  const answers: Buffer[] = [];
  for await (const answer of call) {
    answers.push(answer as Buffer);
  }
  expect(answers).toHaveLength(1);
});
