/** What every command of `telemetry` is given, and how it ends. */
import type { Command } from "commander";

import type { Environment } from "./settings.js";
import type { Terminal } from "./terminal.js";

/** Exit codes of every command. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** A mistake in how a command was called; the message is one sentence. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The surroundings of a command. */
export interface CommandContext {
  readonly env: Environment;
  readonly terminal: Terminal;
  /** The user's home directory. */
  readonly homeDirectory: string;
  readonly workingDirectory: string;
  readonly version: string;
}

/** Gives a command its flags and what it does; see `runs`. */
export type Define = (command: Command, runs: Runs, context: CommandContext) => void;

/** Makes a command run `work`, which gives the exit code. */
export type Runs = (command: Command, work: (args: readonly string[]) => Promise<number>) => void;
