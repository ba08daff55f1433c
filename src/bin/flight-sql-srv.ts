#!/usr/bin/env node
/** `flight-sql-srv`: the analytics server as a process of its own. */

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { markAtOnce } from "../runtime/collector.js";
import { processEnvironment } from "../runtime/config/environment.js";
import { ConfigError } from "../runtime/config/parse-options.js";
import { parseCommandLine } from "../runtime/config/parse.js";
import { ServiceError } from "../runtime/errors.js";
import { installSignalHandlers, Scope } from "../runtime/lifecycle.js";
import { serviceVersion } from "../runtime/version.js";
import { startAnalyticsServer } from "../servers/analytics.js";
import { createProcessTelemetry } from "../servers/telemetry/process-telemetry.js";

const program = {
  name: "flight-sql-srv",
  version: serviceVersion(),
  summary: "Answers SQL over Arrow Flight SQL.",
};

async function main(): Promise<void> {
  const line = parseCommandLine("analytics", program, process.argv.slice(2), processEnvironment());
  if (line.kind === "print") {
    process.stdout.write(line.text);
    return;
  }
  const { config } = line;
  // Not in the monolith: ingestion fills heaps of its own, and was no faster with it.
  markAtOnce();
  const telemetry = createProcessTelemetry({ ...config, service: program.name });
  const { logger, metrics, span } = telemetry;
  for (const warning of line.warnings) logger.warn(warning);
  const connectionString = config.sqlConnectionString;
  if (connectionString === null) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "SVC_SQL_CONNECTION_STRING must name the telemetry database; the ingestion server or the monolith creates it.",
    );
  }
  const scope = new Scope(program.name, logger);
  installSignalHandlers({
    scope,
    graceMs: config.shutdownGracePeriodSeconds * 1000,
    logger,
    exit: (code) => process.exit(code),
  });
  const dataDirectory = resolve(config.dataDir);
  try {
    await scope.start("analytics server", () =>
      startAnalyticsServer({
        config,
        connectionString,
        objectStoreUri: config.objectStoreUri ?? pathToFileURL(resolve(dataDirectory, "lake")).href,
        logger,
        metrics,
        span,
      }),
    );
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
