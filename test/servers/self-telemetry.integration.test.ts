import { type IncomingMessage, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";

import { otlpExporterConfig } from "telemetry-service-client/otlp";
import { createLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createLogTap, type LogTap } from "../../src/servers/telemetry/log-tap.js";
import { type SelfTelemetry, startSelfTelemetry } from "../../src/servers/telemetry/self-telemetry.js";
import { until } from "../helpers/until.js";

interface Received {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** An OTLP receiver that keeps what it gets; `respond` false leaves every request without an answer. */
async function receiver(respond = true): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      received.push({
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks),
      });
      if (respond) {
        response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
      }
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

function start(
  url: string,
  intervalMs = 60_000,
  exportTimeoutMs = 30_000,
): {
  telemetry: SelfTelemetry;
  tap: LogTap;
  lines: string[];
  logger: ReturnType<typeof createLogger>;
  metrics: ReturnType<typeof createMetrics>;
} {
  const lines: string[] = [];
  const tap = createLogTap({ write: (line) => void lines.push(line) });
  const logger = createLogger({ level: "debug", service: "test", destination: tap.destination });
  const metrics = createMetrics();
  logger.info("before anyone listened");
  const telemetry = startSelfTelemetry({
    exporter: otlpExporterConfig({ telemetryUrl: url, apiKey: "svk_test" }),
    serviceName: "telemetry-test",
    version: "1.2.3",
    metrics,
    logTap: tap,
    logger,
    metricsIntervalMs: intervalMs,
    exportTimeoutMs,
    processStartMs: Date.now(),
  });
  onTestFinished(() => telemetry.stop());
  return { telemetry, tap, lines, logger, metrics };
}

const of = (received: readonly Received[], signal: string): Received[] =>
  received.filter((request) => request.path === `/ingestion/otlp/v1/${signal}`);

describe("self-telemetry", () => {
  it("sends log lines, metrics and spans with the key, each request marked as its own", async () => {
    const { url, received } = await receiver();
    const { telemetry, logger, metrics } = start(url);
    metrics.counter("things_total", "Things").inc(7);
    metrics.histogram("wait_seconds", "Waits", [0.1, 1]).observe(0.5);
    logger.warn({ partition: "p1", err: new RangeError("out of range") }, "something odd");
    telemetry.span({
      name: "query",
      startMs: Date.now() - 5,
      endMs: Date.now(),
      attributes: { rows: 3 },
      error: "no",
    });
    await telemetry.flush();
    expect(received.map((request) => request.path).sort()).toEqual(
      ["logs", "metrics", "traces"].map((signal) => `/ingestion/otlp/v1/${signal}`),
    );
    for (const request of received) {
      expect(request.headers.authorization).toBe("Bearer svk_test");
      expect(request.headers["svc-self-telemetry"]).toBe("1");
      for (const text of ["telemetry-test", "1.2.3"]) {
        expect(request.body.includes(text)).toBe(true);
      }
    }
    const logs = of(received, "logs")[0]?.body ?? Buffer.alloc(0);
    for (const text of ["before anyone listened", "something odd", "p1", "RangeError", "out of range"]) {
      expect(logs.includes(text)).toBe(true);
    }
    const sent = of(received, "metrics")[0]?.body ?? Buffer.alloc(0);
    expect(sent.includes("things_total")).toBe(true);
    expect(sent.includes("wait_seconds")).toBe(true);
    expect(of(received, "traces")[0]?.body.includes("query")).toBe(true);
  });

  it("keeps debug lines and lines about itself out of what it sends", async () => {
    const { url, received } = await receiver();
    const { telemetry, logger } = start(url);
    logger.debug("per batch");
    logger.warn({ selfTelemetry: true }, "about the export");
    await telemetry.flush();
    const logs = of(received, "logs")[0]?.body ?? Buffer.alloc(0);
    expect(logs.includes("before anyone listened")).toBe(true);
    expect(logs.includes("per batch")).toBe(false);
    expect(logs.includes("about the export")).toBe(false);
  });

  it("sends nothing but metrics at their interval when nothing happens", async () => {
    const { url, received } = await receiver();
    const { telemetry } = start(url, 100);
    await telemetry.flush();
    received.length = 0;
    // Takes longer than queued logs and spans wait, unless metrics are sent beside their interval.
    const startMs = performance.now();
    await until(() => of(received, "metrics").length >= 15);
    expect(performance.now() - startMs).toBeGreaterThan(1000);
    expect(of(received, "logs")).toEqual([]);
    expect(of(received, "traces")).toEqual([]);
  });

  it("warns once about many failed exports and goes on", async () => {
    const { url } = await receiver();
    const closed = await new Promise<string>((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo;
        server.close(() => resolve(`http://127.0.0.1:${port}`));
      });
    });
    expect(closed).not.toBe(url);
    const { telemetry, lines, logger } = start(closed, 60_000, 400);
    logger.info("one");
    telemetry.span({ name: "x", startMs: 0, endMs: 1, attributes: {}, error: null });
    await telemetry.flush();
    logger.info("two");
    await telemetry.flush();
    const warnings = lines.filter((line) => line.includes("could not be sent"));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).not.toContain("svk_test");
  });

  it("does not hold a stop up when the receiver never answers", async () => {
    const { url } = await receiver(false);
    const { telemetry, logger } = start(url, 60_000, 180_000);
    logger.info("stuck");
    // The receiver would hold it up for three minutes, and so for longer than a test may take.
    await expect(telemetry.stop()).resolves.toBeUndefined();
  });
});
