#!/usr/bin/env node
/** `telemetry-monolith`: several roles in one process. */

import { processEnvironment } from "../runtime/config/environment.js";
import { ConfigError } from "../runtime/config/parse-options.js";
import { parseCommandLine } from "../runtime/config/parse.js";
import { installSignalHandlers, Scope } from "../runtime/lifecycle.js";
import { serviceVersion } from "../runtime/version.js";
import { announcement } from "../servers/announcement.js";
import { startMonolith } from "../servers/monolith.js";
import { createProcessTelemetry } from "../servers/telemetry/process-telemetry.js";

const program = {
  name: "telemetry-monolith",
  version: serviceVersion(),
  summary: "plays several roles of the telemetry service in one process.",
};

async function main(): Promise<void> {
  const line = parseCommandLine("monolith", program, process.argv.slice(2), processEnvironment());
  if (line.kind === "print") {
    process.stdout.write(line.text);
    return;
  }
  const { config } = line;
  const telemetry = createProcessTelemetry({ ...config, service: program.name });
  const { logger } = telemetry;
  for (const warning of line.warnings) logger.warn(warning);
  const scope = new Scope(program.name, logger);
  installSignalHandlers({
    scope,
    graceMs: config.shutdownGracePeriodSeconds * 1000,
    logger,
    exit: (code) => process.exit(code),
  });
  try {
    const monolith = await startMonolith({ config, telemetry, scope });
    logger.info({ roles: monolith.roles.join(","), version: program.version }, "ready");
    if (config.development) {
      process.stdout.write(`\n${announcement(monolith, program.version, process.cwd())}\n`);
    }
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
