/** The command line `telemetry`: finds the command, runs it, words what went wrong. */
import { CredentialError } from "telemetry-service-client";
import { FlightSqlError } from "telemetry-service-client";
import { ConfigError } from "../runtime/config/parse-options.js";
import { adminCommands } from "./admin/command.js";
import { type Command, type CommandContext, exitCodes } from "./command.js";
import { queryCommand } from "./query-command.js";
import { escapeControls } from "./formats/text-width.js";

const commands: readonly Command[] = [queryCommand, ...adminCommands];

const usage = `telemetry: queries and administers a telemetry service.

Usage: telemetry <command> [options]

Commands:
${commands.map((command) => `  ${command.name.padEnd(10)} ${command.summary}`).join("\n")}

  telemetry <command> --help   options of a command
  telemetry --version          version
`;

/** Runs one command line, without the program's name, and gives its exit code. Never throws. */
export async function runCli(context: CommandContext): Promise<number> {
  const { terminal } = context;
  const [name, ...argv] = context.argv;
  try {
    if (name === undefined || name === "help" || name === "--help" || name === "-h") {
      (name === undefined ? terminal.stderr : terminal.stdout).write(usage);
      return name === undefined ? exitCodes.usage : exitCodes.ok;
    }
    if (name === "--version") {
      terminal.stdout.write(`telemetry ${context.version}\n`);
      return exitCodes.ok;
    }
    const command = commands.find((candidate) => candidate.name === name);
    if (command === undefined) {
      throw new ConfigError([`${name} is not a command of telemetry; see telemetry --help`]);
    }
    return await command.run({ ...context, argv });
  } catch (error) {
    // DuckDB points at the place in the text on a line of its own.
    const lines = `telemetry: ${sentenceOf(error)}`.split("\n");
    terminal.stderr.write(`${lines.map(escapeControls).join("\n")}\n`);
    return error instanceof ConfigError ? exitCodes.usage : exitCodes.failed;
  }
}

function sentenceOf(error: unknown): string {
  if (error instanceof ConfigError) {
    return error.problems.join("; ");
  }
  if (error instanceof FlightSqlError || error instanceof CredentialError) {
    return error.message;
  }
  return error instanceof Error ? error.message : "the command failed";
}
