/** The command line `telemetry`: finds the command, runs it, words what went wrong. */
import { Command, type CommanderError } from "commander";

import { escapeControls } from "../shared/escape-controls.js";
import { type CommandContext, type Define, type Runs, UsageError, exitCodes } from "./context.js";
import { createOutput } from "./terminal.js";

/** A command; what it does is loaded when it is called. */
interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<Define>;
}

const entries: readonly CommandEntry[] = [
  {
    name: "query",
    summary: "runs a SQL statement and prints its result",
    load: async () => (await import("./query-command.js")).defineQuery,
  },
  {
    name: "tail",
    summary: "prints new log records as they come",
    load: async () => (await import("./tail-command.js")).defineTail,
  },
  {
    name: "trace",
    summary: "shows the spans of a trace as a waterfall",
    load: async () => (await import("./trace-command.js")).defineTrace,
  },
  {
    name: "doctor",
    summary: "tries addresses and credentials and says what is wrong",
    load: async () => (await import("./doctor-command.js")).defineDoctor,
  },
  {
    name: "login",
    summary: "logs you in with a browser and keeps the tokens",
    load: async () => (await import("./login-commands.js")).defineLogin,
  },
  {
    name: "logout",
    summary: "removes the tokens of every profile",
    load: async () => (await import("./login-commands.js")).defineLogout,
  },
  {
    name: "whoami",
    summary: "shows who you are and what you may do",
    load: async () => (await import("./login-commands.js")).defineWhoami,
  },
  {
    name: "setup",
    summary: "mints a key of your own and prints what exporters need",
    load: async () => (await import("./setup-command.js")).defineSetup,
  },
  {
    name: "keys",
    summary: "mints, lists and revokes API keys",
    load: async () => (await import("./admin/command.js")).defineKeys,
  },
  {
    name: "grants",
    summary: "grants and revokes reading and minting of audiences",
    load: async () => (await import("./admin/command.js")).defineGrants,
  },
  {
    name: "groups",
    summary: "manages groups of users, admins among them",
    load: async () => (await import("./admin/command.js")).defineGroups,
  },
  {
    name: "audit",
    summary: "lists who changed what",
    load: async () => (await import("./admin/command.js")).defineAudit,
  },
  {
    name: "usage",
    summary: "sums up what ingestion keys were used for",
    load: async () => (await import("./admin/command.js")).defineUsage,
  },
  {
    name: "denials",
    summary: "manages the rules that refuse queries",
    load: async () => (await import("./admin/command.js")).defineDenials,
  },
  {
    name: "screens",
    summary: "keeps screens of the web application as files",
    load: async () => (await import("./screens/command.js")).defineScreens,
  },
  {
    name: "retention",
    summary: "says how long rows are kept",
    load: async () => (await import("./admin/command.js")).defineRetention,
  },
  {
    name: "erase",
    summary: "erases rows of a service, a process, a trace or with an attribute",
    load: async () => (await import("./admin/command.js")).defineErase,
  },
  {
    name: "lake",
    summary: "checks and repairs what is stored",
    load: async () => (await import("./admin/command.js")).defineLake,
  },
  {
    name: "completion",
    summary: "prints the script with which a shell completes commands",
    load: async () => (await import("./completion-command.js")).defineCompletion,
  },
];

/** What {@link runCli} is given. */
export interface CliOptions extends CommandContext {
  /** Without the program's name. */
  readonly argv: readonly string[];
}

interface Run {
  code: number;
  /** What commander wants to print: help, or the version. */
  help: string;
}

/** Runs one command line and gives its exit code. Never throws. */
export async function runCli({ argv, ...context }: CliOptions): Promise<number> {
  const { stderr } = context.terminal;
  const run: Run = { code: exitCodes.ok, help: "" };
  try {
    try {
      const program = await makeProgram(argv, context, run);
      await program.parseAsync(withComment(argv), { from: "user" });
    } catch (error) {
      if (!isCommanderError(error)) {
        throw error;
      }
      // Help that nobody asked for is wrong usage.
      run.code = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
      const output = createOutput(context.terminal);
      await output.write(run.help);
      await output.flush();
    }
    return run.code;
  } catch (error) {
    if (context.terminal.interrupted.aborted) {
      return exitCodes.interrupted;
    }
    // DuckDB points at the place in the text on a line of its own.
    const lines = `telemetry: ${error instanceof Error ? error.message : "the command failed"}`.split("\n");
    stderr.write(`${lines.map(escapeControls).join("\n")}\n`);
    return error instanceof UsageError ? exitCodes.usage : exitCodes.failed;
  }
}

/** SQL may begin with a comment. No option has white space behind its dashes, but commander takes it for one. */
function withComment(argv: readonly string[]): readonly string[] {
  return argv[0] === "query" ? argv.map((word) => (/^--\s/.test(word) ? ` ${word}` : word)) : argv;
}

/** All commands, and the flags of the one that is called. */
async function makeProgram(argv: readonly string[], context: CommandContext, run: Run): Promise<Command> {
  const { stderr } = context.terminal;
  const program = new Command("telemetry");
  program
    .description("Queries and administers a telemetry service.")
    .version(`telemetry ${context.version}`, "--version", "prints the version")
    .helpOption("-h, --help", "prints this text")
    .helpCommand("help [command]", "prints the help of a command")
    .addHelpText("after", "\nExit codes: 0 done, 1 failed or refused, 2 wrong usage, 130 interrupted.")
    .configureOutput({
      writeOut: (text) => {
        run.help += text;
      },
      writeErr: (text) => stderr.write(text),
      // runCli prints them.
      outputError: () => undefined,
    });
  const runs: Runs = (command, work) => {
    command.action(async () => {
      const { args } = command;
      if (args.includes("")) {
        throw new UsageError(`an argument is empty; see ${pathOf(command)} --help`);
      }
      run.code = await work(args);
    });
  };
  const called = entries.find(({ name }) => name === argv.find((word) => !word.startsWith("-") && word !== "help"));
  for (const { name, summary, load } of entries) {
    const command = program
      .command(name)
      .summary(summary)
      .description(`${capital(summary)}.`);
    // Completion asks about all of them.
    if (called?.name === name || called?.name === "completion") {
      (await load())(command, runs, context);
    }
  }
  throwOwnErrors(program);
  return program;
}

/** Commander's errors as sentences of this program. */
function throwOwnErrors(command: Command): void {
  command.exitOverride((error) => {
    if (error.exitCode === 0 || error.code === "commander.help") {
      throw error;
    }
    const sentence = error.message.replace(/^error: /, "").replaceAll("\n", " ");
    throw new UsageError(`${sentence}; see ${pathOf(command)} --help`);
  });
  for (const inner of command.commands) {
    throwOwnErrors(inner);
  }
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

function capital(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

function isCommanderError(error: unknown): error is CommanderError {
  return error instanceof Error && "code" in error && String(error.code).startsWith("commander.");
}
