/** What strangers may send to each kind of listener, under each driver, and what becomes of it. */
import { readFile } from "node:fs/promises";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { startHealthServer } from "../../src/routes/http/health.js";
import type { HttpDriver } from "../../src/routes/http/seam.js";
import { createTappedLogger } from "../helpers/cleartext-tap.js";
import { type FramingCase, framingProblem, type FramingTarget } from "../helpers/framing.js";
import { chunkedBodies, codings, lengths } from "../helpers/framing-bodies.js";
import { connections, smuggling } from "../helpers/framing-connections.js";
import { uwsDiffers } from "../helpers/framing-differences.js";
import { fields, hosts, requestLines } from "../helpers/framing-heads.js";
import { drivers } from "../helpers/http-listener.js";
import { startTestIngestion, type TestIngestion } from "../helpers/ingest-server.js";
import {
  type Identities,
  startIdentities,
  startTestWeb,
  type TestWeb,
} from "../helpers/web-server.js";

const cases: readonly FramingCase[] = [
  ...requestLines,
  ...fields,
  ...hosts,
  ...lengths,
  ...codings,
  ...chunkedBodies,
  ...connections,
  ...smuggling,
];
const listeners = ["OTLP", "web", "health"] as const;
type Listening = Record<(typeof listeners)[number], { port: number; target: FramingTarget }>;

const running = new Map<HttpDriver, Listening>();
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  const identities: Identities = await startIdentities();
  stops.push(() => identities.stop());
  const cookie = await identities.cookie("ada@example.com");
  let ingestion: TestIngestion | undefined;
  let web: TestWeb | undefined;
  for (const driver of drivers) {
    const environment = { SVC_HTTP_DRIVER: driver };
    const otlp = await startTestIngestion({
      environment,
      ...(ingestion === undefined ? {} : { beside: ingestion }),
    });
    ingestion ??= otlp;
    stops.unshift(() => otlp.stop());
    const admin = await startTestWeb({
      identities,
      environment,
      ...(web === undefined ? {} : { beside: web }),
    });
    web ??= admin;
    stops.unshift(() => admin.stop());
    const health = await startHealthServer({
      driver,
      host: "127.0.0.1",
      port: 0,
      maxConnections: 1000,
      probes: {
        health: () => null,
        ready: () => Promise.resolve(null),
        metrics: () => Promise.resolve("up 1\n"),
        metricsContentType: "text/plain; version=0.0.4",
      },
      logger: createTappedLogger(),
    });
    stops.unshift(() => health.stop());
    running.set(driver, {
      OTLP: {
        port: otlp.port,
        target: {
          path: "/ingestion/otlp/v1/logs",
          fields: [`Authorization: Bearer ${otlp.key}`, "Content-Type: application/json"],
          body: `{${" ".repeat(15)}}`,
          ok: 200,
          early: false,
        },
      },
      web: {
        port: admin.server.address.port,
        target: {
          path: "/api/groups",
          fields: [`Cookie: ${cookie}`, "Content-Type: application/json"],
          body: '{"name":"admins"}',
          ok: 200,
          early: false,
        },
      },
      health: {
        port: health.address.port,
        target: { path: "/health", fields: [], body: `{${" ".repeat(15)}}`, ok: 405, early: true },
      },
    });
  }
});

afterAll(async () => {
  for (const stop of stops) await stop();
});

const atOnce = 16;

describe.concurrent.each(drivers)("%s", (driver) => {
  test.concurrent.each(listeners)(
    "%s: whatever comes in ends as it may",
    async (kind) => {
      const at = running.get(driver)?.[kind];
      if (at === undefined) throw new Error("no listener");
      const waiting = [...cases];
      const doubtful: FramingCase[] = [];
      const problemOf = (tried: FramingCase): Promise<string | null> =>
        framingProblem(at.port, at.target, driver, tried);
      const work = async (): Promise<void> => {
        for (let tried = waiting.shift(); tried !== undefined; tried = waiting.shift()) {
          if ((await problemOf(tried)) !== null) doubtful.push(tried);
        }
      };
      await Promise.all(Array.from({ length: atOnce }, work));
      // A busy machine may have let a connection sit idle for too long, so what counts is how it goes alone.
      const problems: string[] = [];
      for (const tried of doubtful) problems.push((await problemOf(tried)) ?? "");
      expect(problems.filter((problem) => problem !== "")).toEqual([]);
    },
    120_000,
  );
});

test("SECURITY.md names every class of difference of uws", async () => {
  // Compiled, this file is dist/test/integration/http-framing.test.js.
  const text = await readFile(new URL("../../../SECURITY.md", import.meta.url), "utf8");
  const words = text.replaceAll(/\s+/g, " ");
  for (const { why } of Object.values(uwsDiffers)) expect(words).toContain(why);
});
