/** What every command of `telemetry` is. */
import type { Environment } from "../runtime/config/parse-options.js";
import type { Terminal } from "./terminal.js";

/** Exit codes of every command. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** What a command is given. */
export interface CommandContext {
  readonly argv: readonly string[];
  readonly env: Environment;
  readonly terminal: Terminal;
  /** The user's home directory. */
  readonly homeDirectory: string;
  readonly workingDirectory: string;
  readonly version: string;
}

/** One command of `telemetry`. */
export interface Command {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** Runs it and gives the exit code; a thrown ConfigError is a mistake in how it was called. */
  run(context: CommandContext): Promise<number>;
}
