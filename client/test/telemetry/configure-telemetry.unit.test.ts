import { DiagLogLevel, diag, trace } from "@opentelemetry/api";
import { logs } from "@opentelemetry/api-logs";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";

import { configureTelemetry } from "../../src/telemetry/configure-telemetry.js";

/** What OpenTelemetry is told to report as an error. */
function reported() {
  const error = vi.fn<(message: string) => void>();
  const ignored = (): void => undefined;
  const logger = { error, warn: ignored, info: ignored, debug: ignored, verbose: ignored };
  diag.setLogger(logger, { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true });
  onTestFinished(() => diag.disable());
  return error;
}

it("starts with resource attributes that are not percent-encoded, and says that they are left out", async () => {
  const error = reported();
  const env = { SVC_TELEMETRY_URL: "http://127.0.0.1:1", OTEL_RESOURCE_ATTRIBUTES: "share=50%" };
  const telemetry = await configureTelemetry({ env });
  onTestFinished(() => telemetry.shutdown());
  expect(error).toHaveBeenCalledWith("OTEL_RESOURCE_ATTRIBUTES is left out: it is not percent-encoded");
});

it("flushes and ends although its server refuses the key, and says so in short", async () => {
  const error = reported();
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(401).end("x".repeat(17_000));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const telemetry = await configureTelemetry({ url, env: {} });
  const say = (): void => {
    trace.getTracer("test").startSpan("span").end();
    logs.getLogger("test").emit({ body: "text" });
  };
  say();
  await telemetry.flush();
  expect(error).toHaveBeenCalledWith("telemetry was not sent: Unauthorized (401)");
  error.mockClear();
  say();
  await telemetry.shutdown();
  expect(error).toHaveBeenCalledWith("telemetry was not sent: Unauthorized (401)");
  // Nothing is left of it, so that another may be set up.
  expect(trace.getTracer("test").startSpan("span").isRecording()).toBe(false);
});
