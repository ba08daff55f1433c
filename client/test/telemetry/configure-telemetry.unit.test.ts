import { DiagLogLevel, diag } from "@opentelemetry/api";
import { expect, it, onTestFinished, vi } from "vitest";

import { configureTelemetry } from "../../src/telemetry/configure-telemetry.js";

it("starts with resource attributes that are not percent-encoded, and says that they are left out", async () => {
  const error = vi.fn<(message: string) => void>();
  const ignored = (): void => undefined;
  const logger = { error, warn: ignored, info: ignored, debug: ignored, verbose: ignored };
  diag.setLogger(logger, { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true });
  onTestFinished(() => diag.disable());
  const env = { SVC_TELEMETRY_URL: "http://127.0.0.1:1", OTEL_RESOURCE_ATTRIBUTES: "share=50%" };
  const telemetry = await configureTelemetry({ env });
  onTestFinished(() => telemetry.shutdown().catch(ignored));
  expect(error).toHaveBeenCalledWith("OTEL_RESOURCE_ATTRIBUTES is left out: it is not percent-encoded");
});
