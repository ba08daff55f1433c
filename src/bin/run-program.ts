/** What every server program does around its own start. */

import { processEnvironment } from "../runtime/config/environment.js";
import { ConfigError } from "../runtime/config/parse-options.js";
import { type Config, parseCommandLine } from "../runtime/config/parse.js";
import { installSignalHandlers, Scope } from "../runtime/lifecycle.js";
import { serviceVersion } from "../runtime/version.js";
import { startFailure } from "../servers/stores.js";
import { createProcessTelemetry, type ProcessTelemetry } from "../servers/telemetry/process-telemetry.js";

/** The roles with a program of their own. */
type ServerRole = "ingestion" | "analytics" | "web" | "maintenance" | "object-cache" | "monolith";

/** What a program hands to its start. */
export interface Start<R extends ServerRole> {
  readonly config: Config<R>;
  /** Stopped on a signal, and when the start fails. */
  readonly scope: Scope;
  readonly telemetry: ProcessTelemetry;
  readonly version: string;
}

/** A server program. */
export interface ServerProgram<R extends ServerRole> {
  readonly role: R;
  readonly name: string;
  /** One sentence on what it does, for `--help`. */
  readonly summary: string;
  /** Text to print instead of starting; null: start. What it throws ends the process with its message. */
  print?(config: Config<R>): Promise<string | null>;
  /** Resolves when it serves. What it throws ends the process with its message. */
  start(o: Start<R>): Promise<void>;
}

/** Runs it; the process exits with 2 for a wrong configuration and with 1 for a failed start. */
export async function runProgram<R extends ServerRole>(program: ServerProgram<R>): Promise<void> {
  try {
    await run(program);
  } catch (error) {
    process.stderr.write(`${program.name}: ${startFailure(error)}\n`);
    process.exit(error instanceof ConfigError ? 2 : 1);
  }
}

async function run<R extends ServerRole>(program: ServerProgram<R>): Promise<void> {
  const { name, summary } = program;
  const version = serviceVersion();
  const line = parseCommandLine(program.role, { name, version, summary }, process.argv.slice(2), processEnvironment());
  if (line.kind === "print") {
    process.stdout.write(line.text);
    return;
  }
  const { config } = line;
  const text = (await program.print?.(config)) ?? null;
  if (text !== null) {
    process.stdout.write(text);
    return;
  }
  // A disk that is full, or a reader that is gone, ends no server.
  process.stdout.on("error", () => undefined);
  process.stderr.on("error", () => undefined);
  const telemetry = createProcessTelemetry({ ...config, service: name });
  const { logger } = telemetry;
  for (const warning of line.warnings) {
    logger.warn(warning);
  }
  const scope = new Scope(name, logger);
  installSignalHandlers({
    scope,
    graceMs: config.shutdownGracePeriodSeconds * 1000,
    logger,
    exit: (code) => process.exit(code),
  });
  try {
    await program.start({ config, scope, telemetry, version });
  } catch (error) {
    await scope.stop().catch(() => undefined); // logged there; the first error is the one to report
    throw error;
  }
}
