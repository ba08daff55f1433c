#!/usr/bin/env node
/** `analytics-web-srv`: the web server as a process of its own. */

import { processEnvironment } from "../runtime/config/environment.js";
import { ConfigError } from "../runtime/config/parse-options.js";
import { parseCommandLine } from "../runtime/config/parse.js";
import { installSignalHandlers, Scope } from "../runtime/lifecycle.js";
import { serviceVersion } from "../runtime/version.js";
import { createProcessTelemetry } from "../servers/telemetry/process-telemetry.js";
import { startWebServer } from "../servers/web.js";

const program = {
  name: "analytics-web-srv",
  version: serviceVersion(),
  summary: "Administers keys, grants and groups over HTTP.",
};

async function main(): Promise<void> {
  const line = parseCommandLine("web", program, process.argv.slice(2), processEnvironment());
  if (line.kind === "print") {
    process.stdout.write(line.text);
    return;
  }
  const { config } = line;
  const telemetry = createProcessTelemetry({ ...config, service: program.name });
  const { logger, metrics } = telemetry;
  for (const warning of line.warnings) logger.warn(warning);
  const scope = new Scope(program.name, logger);
  installSignalHandlers({
    scope,
    graceMs: config.shutdownGracePeriodSeconds * 1000,
    logger,
    exit: (code) => process.exit(code),
  });
  try {
    const connectionString = config.sqlConnectionString;
    await scope.start("web server", () =>
      startWebServer({ config, connectionString, logger, metrics }),
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
