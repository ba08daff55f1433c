import { connect, createServer, type Server, type Socket } from "node:net";
import { once } from "node:events";

import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { connectReader } from "../../bench/load/flight-reader.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { endless } from "../helpers/query/endless.js";

const large = "SELECT i, repeat('x', 200) AS s FROM range(1000000000) t(i)";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics({
    SVC_QUERY_MAX_CONCURRENT: "4",
    SVC_QUERY_TIMEOUT_SECONDS: "120",
  });
});

afterAll(async () => {
  await t.stop();
});

/** A way to the server that can be cut off without a word of gRPC. */
async function cuttable(port: number): Promise<{
  readonly address: string;
  readonly cut: () => void;
  readonly close: () => Promise<void>;
}> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => sockets.delete(socket));
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new Error("no port");
  }
  const cut = (): void => {
    for (const socket of sockets) {
      socket.resetAndDestroy();
    }
  };
  return {
    address: `127.0.0.1:${address.port}`,
    cut,
    close: async () => {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}

describe("a client that vanishes", () => {
  it.each([
    ["before the first batch", endless, 0],
    ["in the middle of a result", large, 3],
  ])("%s gives its place back", async (_when, sql, messages) => {
    const way = await cuttable(t.server.address.port);
    const reader = connectReader(way.address, t.key);
    try {
      const stream = await reader.open(sql);
      let seen = 0;
      const failed = new Promise<{ code?: number }>((resolve) => stream.on("error", resolve));
      await new Promise<void>((resolve) => {
        stream.on("data", () => {
          if (++seen === messages) {
            stream.pause();
            resolve();
          }
        });
        if (messages === 0) {
          void t.untilGauge("query_running", 1).then(resolve);
        }
      });
      expect(await t.gauge("query_running")).toBe(1);
      way.cut();
      stream.resume();
      expect((await failed).code).toBe(status.UNAVAILABLE);
      await t.untilGauge("query_running", 0);
      const direct = connectReader(`127.0.0.1:${t.server.address.port}`, t.key);
      expect((await direct.read("SELECT 1")).bytes).toBeGreaterThan(0);
      direct.close();
    } finally {
      reader.close();
      await way.close();
    }
  });
});

describe("a client that stops reading", () => {
  it("holds nothing but its place, and loses that at the deadline", async () => {
    const server = await startTestAnalytics({
      SVC_QUERY_MAX_CONCURRENT: "4",
      SVC_QUERY_TIMEOUT_SECONDS: "10",
    });
    const address = `127.0.0.1:${server.server.address.port}`;
    const readers = [connectReader(address, server.key), connectReader(address, server.key)];
    const other = connectReader(address, server.key);
    try {
      const streams = await Promise.all(readers.map((reader) => reader.open(large)));
      const failed = streams.map((stream) => new Promise((resolve) => stream.on("error", resolve)));
      for (const stream of streams) {
        stream.once("data", () => {
          stream.pause();
        });
      }
      await server.untilGauge("query_running", 2);
      // Neither of them has the thread.
      expect((await other.read("SELECT 1")).bytes).toBeGreaterThan(0);
      await server.untilGauge("query_running", 0);
      // What was on the way when the deadline passed is bounded by the transport's windows and two batches.
      expect(await server.gauge("flight_result_bytes_total")).toBeLessThan(64 << 20);
      for (const stream of streams) {
        stream.resume();
      }
      for (const error of await Promise.all(failed)) {
        expect(error).toMatchObject({ code: status.DEADLINE_EXCEEDED });
      }
    } finally {
      for (const reader of [...readers, other]) {
        reader.close();
      }
      await server.stop();
    }
  });
});
