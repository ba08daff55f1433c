/** Clients that open a result and do not read it: they keep a place only for as long as nobody wants it. */
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";

import { connectReader, type FlightReader } from "../../bench/load/flight-reader.js";
import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { until } from "../helpers/until.js";

const large = "SELECT i, repeat('x', 200) AS s FROM range(1000000000) t(i)";
const places = 2;

let t: TestAnalytics;
let stalled: FlightReader;
let other: FlightReader;
let third: FlightReader;

beforeAll(async () => {
  t = await startTestAnalytics({ SVC_QUERY_MAX_CONCURRENT: String(places) }, undefined, {
    stalledMs: 2000,
  });
  const address = `127.0.0.1:${t.port}`;
  const connectAs = async (name: string): Promise<FlightReader> => {
    const { key } = await mintAnalyticsKey(t.sql, { name, createdBy: "test" });
    return connectReader(address, key);
  };
  stalled = connectReader(address, t.key);
  other = await connectAs("other");
  third = await connectAs("third");
});

afterAll(async () => {
  stalled.close();
  other.close();
  third.close();
  await t.stop();
});

async function gauge(name: string): Promise<number> {
  const text = await t.metrics.text();
  return Number(new RegExp(`^${name} (?<n>[0-9.]+)`, "mu").exec(text)?.groups?.["n"] ?? "-1");
}

/** Opens a result without end and takes its first message. */
async function open(reader: FlightReader): Promise<{
  readonly resume: () => void;
  readonly failed: Promise<Partial<ServiceError>>;
}> {
  const stream = await reader.open(large);
  const failed = new Promise<Partial<ServiceError>>((resolve) => stream.on("error", resolve));
  await new Promise<void>((resolve) => {
    stream.once("data", () => {
      stream.pause();
      resolve();
    });
  });
  // It reads on, some 20 MB a second, which leaves the others a core.
  const resume = (): void => {
    stream.on("data", () => {
      stream.pause();
      setTimeout(() => stream.resume(), 50);
    });
    stream.resume();
  };
  return { resume, failed };
}

it("give one up to each who waits, and are told why; the others keep theirs", async () => {
  const streams = [await open(stalled), await open(stalled)];
  await until(async () => (await gauge("query_running")) === places);
  expect((await other.read("SELECT 7")).bytes).toBeGreaterThan(0);
  expect(await gauge("query_running")).toBe(places - 1);
  for (const { resume } of streams) {
    resume();
  }
  const first = await Promise.race(streams.map(async ({ failed }, i) => ({ i, error: await failed })));
  expect(first.error).toMatchObject({
    code: status.UNAVAILABLE,
    details: expect.stringMatching(/Nothing of the result was read for 2 seconds/u) as unknown,
  });
  // The one that reads again keeps its place, although somebody waits for longer than the limit.
  const kept = streams[1 - first.i];
  const busy = await open(third);
  await Promise.all(Array.from({ length: 3 }, () => other.read("SELECT 8")));
  expect(await Promise.race([kept?.failed, Promise.resolve("runs")])).toBe("runs");
  busy.resume();
  expect((await busy.failed).code).toBe(status.UNAVAILABLE);
});
