/**
 * A process that sends one part of a shop over keep-alive connections, and prints how many records were taken, as
 * JSON. Started by load.ts.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { HttpConnection } from "../load/http-connection.js";
import type { ShopRequest } from "./otlp.js";
import { type Counts, sendShop, type Shop } from "./shop.js";

const { values } = parseArgs({
  options: {
    url: { type: "string" },
    authorization: { type: "string" },
    shop: { type: "string" },
    part: { type: "string" },
    parts: { type: "string" },
    connections: { type: "string", default: "8" },
  },
});

const url = new URL(values.url ?? "");
const shop = JSON.parse(values.shop ?? "", (key, value: unknown) =>
  key === "beginNs" ? BigInt(String(value)) : value,
) as Shop;

const taken: Counts = { logs: 0, metrics: 0, traces: 0 };
const lost = (error: Error): void => {
  throw error;
};
const connections = await Promise.all(
  Array.from({ length: Number(values.connections) }, () => HttpConnection.open(url.hostname, Number(url.port), lost)),
);
const idle = [...connections];
/** Wakes who waits for an idle connection. */
let wake: (() => void) | null = null;

async function free(): Promise<HttpConnection> {
  for (;;) {
    // In turn, because the server closes a connection that stays idle.
    const connection = idle.shift();
    if (connection !== undefined) {
      return connection;
    }
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

function attempt(connection: HttpConnection, { signal, body }: ShopRequest): Promise<number> {
  const head = Buffer.from(
    `POST /ingestion/otlp/v1/${signal} HTTP/1.1\r\nHost: ${url.host}\r\nAuthorization: ${values.authorization ?? ""}\r\n` +
      `Content-Type: application/x-protobuf\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  return new Promise((resolve) => {
    connection.send(head, body, resolve);
  });
}

async function deliver(connection: HttpConnection, request: ShopRequest): Promise<void> {
  for (;;) {
    const status = await attempt(connection, request);
    if (status === 200) {
      break;
    }
    if (status !== 503) {
      throw new Error(`the server answers ${status}`);
    }
    await sleep(50);
  }
  taken[request.signal] += request.records;
  idle.push(connection);
  wake?.();
}

const deliveries = new Set<Promise<void>>();
await sendShop(shop, Number(values.part), Number(values.parts), async (request) => {
  const delivery = deliver(await free(), request);
  deliveries.add(delivery);
  void delivery.then(() => deliveries.delete(delivery));
});
await Promise.all(deliveries);
for (const connection of connections) {
  connection.close();
}
console.log(JSON.stringify(taken));
