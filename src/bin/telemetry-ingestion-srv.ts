#!/usr/bin/env node
/** `telemetry-ingestion-srv`: the ingestion server as a process of its own. */

import { processEnvironment } from "../runtime/config/environment.js";
import { ConfigError } from "../runtime/config/parse-options.js";
import { parseCommandLine } from "../runtime/config/parse.js";
import { installSignalHandlers, Scope } from "../runtime/lifecycle.js";
import { startIngestionProcess } from "../servers/ingestion-process.js";
import { createProcessTelemetry } from "../servers/telemetry/process-telemetry.js";
import { serviceVersion } from "../runtime/version.js";

const program = {
  name: "telemetry-ingestion-srv",
  version: serviceVersion(),
  summary: "Takes telemetry over OTLP/HTTP and stores it in the lake.",
};

async function main(): Promise<void> {
  const line = parseCommandLine("ingestion", program, process.argv.slice(2), processEnvironment());
  if (line.kind === "print") {
    process.stdout.write(line.text);
    return;
  }
  const { config } = line;
  const telemetry = createProcessTelemetry({ ...config, service: program.name });
  const { logger, metrics, span } = telemetry;
  for (const warning of line.warnings) logger.warn(warning);
  const scope = new Scope(program.name, logger);
  installSignalHandlers({
    scope,
    graceMs: config.shutdownGracePeriodSeconds * 1000,
    logger,
    exit: (code) => process.exit(code),
  });
  try {
    await startIngestionProcess(scope, { config, logger, metrics, span });
    await telemetry.report(scope, null);
  } catch (error) {
    await scope.stop().catch(() => undefined); // logged there; the first error is the one to report
    throw error;
  }
}

try {
  await main();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(`${program.name}: ${message}\n`);
  process.exit(error instanceof ConfigError ? 2 : 1);
}
