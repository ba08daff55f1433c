/** What drivers of the HTTP seam do with clients that take nothing of their answers, over raw sockets. */
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { expect, test } from "vitest";

import { answerNow } from "../../../src/routes/http/answer.js";
import { BodyExchange } from "../../../src/routes/http/body-exchange.js";
import type { HttpHandler, HttpListener } from "../../../src/routes/http/seam.js";
import { drivers, startListener } from "../../helpers/http/http-listener.js";
import { RawConnection } from "../../helpers/http/raw-http.js";
import { until } from "../../helpers/until.js";

const body = Buffer.alloc(64 << 20, "x");
const maxConnections = 6;
const head = { status: 200, headers: [] } as const;

async function* parts(): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += 1 << 20) {
    yield await Promise.resolve(body.subarray(at, at + (1 << 20)));
  }
}

const handle: HttpHandler["handle"] = (reply, request, requestHead) => {
  const path = request.getUrl();
  if (path === "/whole") {
    answerNow(reply, request, requestHead, { ...head, body });
    return;
  }
  const exchange = new BodyExchange(reply, requestHead, 0, false);
  if (path === "/later") {
    // An answer may take its time: what the client has not been sent it cannot take.
    setTimeout(() => exchange.answer({ ...head, body: "late" }), 40_000);
    return;
  }
  const sent = path === "/sized" ? exchange.streamSized(head, body.length, parts()) : exchange.stream(head, parts());
  sent.catch(() => undefined);
};

function ask(port: number, path: string): Socket {
  const socket = connect({ host: "127.0.0.1", port });
  socket.on("error", () => undefined);
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  return socket;
}

/** Bytes that a client gets which begins to read now. */
async function rest(socket: Socket): Promise<number> {
  let received = 0;
  socket.on("data", (chunk: Buffer) => {
    received += chunk.length;
  });
  socket.resume();
  await until(() => received > body.length || socket.closed);
  return received;
}

async function expectLetGo(listener: HttpListener, sockets: Socket[]): Promise<void> {
  const { port } = listener.address;
  const kinds = ["/whole", "/sized", "/stream"];
  const later = await RawConnection.open(port);
  later.send("GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  sockets.push(...kinds.map((kind) => ask(port, kind)));
  // Of a whole answer uWebSockets.js waits ten seconds.
  const patient = ["/sized", "/stream"].map((kind) => ask(port, kind));
  sockets.push(...patient);
  await sleep(15_000);
  for (const received of await Promise.all(patient.map(rest))) {
    expect(received).toBeGreaterThan(body.length);
  }
  for (const socket of patient) {
    socket.destroy();
  }
  await until(() => later.responses.length > 0);
  expect(later.responses[0]?.body.toString()).toBe("late");
  later.close();
  // As many as there may be find room: the others have gone.
  const fresh: RawConnection[] = [];
  await until(async () => {
    const connection = await RawConnection.open(port);
    connection.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await until(() => connection.closed || connection.responses.length > 0);
    fresh.push(...(connection.closed ? [] : [connection]));
    return fresh.length === maxConnections;
  }, 30_000);
  for (const connection of fresh) {
    connection.close();
  }
}

test.concurrent.each(drivers)(
  "%s lets go of clients that take nothing, and waits for others half a minute",
  async (driver) => {
    const listener = await startListener(driver, handle, maxConnections);
    const sockets: Socket[] = [];
    try {
      await expectLetGo(listener, sockets);
      expect(listener.driver).toBe(driver);
    } finally {
      for (const socket of sockets) {
        socket.destroy();
      }
      await listener.stop();
    }
  },
);
