/** The command line in the test's own process. */
import { PassThrough } from "node:stream";

import { runCli } from "telemetry-service-client/cli";

/** What a command left behind. */
export interface CliFinished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly homeDirectory: string;
  readonly workingDirectory: string;
  /** Makes standard output a terminal of so many columns. */
  readonly columns?: number;
  /** Makes standard error a terminal, and sees what is written there. */
  readonly onStderr?: (text: string) => void;
  readonly interrupted?: AbortSignal;
}

/** Runs a command to its end; standard input never says anything. */
export async function runCommand(args: readonly string[], o: CliOptions): Promise<CliFinished> {
  const read = (stream: PassThrough): (() => string) => {
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    return () => Buffer.concat(chunks).toString();
  };
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const [out, err] = [read(stdout), read(stderr)];
  const { columns, onStderr, interrupted, ...context } = o;
  if (onStderr !== undefined) {
    stderr.on("data", (chunk: Buffer) => onStderr(chunk.toString()));
  }
  const code = await runCli({
    ...context,
    argv: args,
    terminal: {
      stdin: new PassThrough(),
      stdout: columns === undefined ? stdout : Object.assign(stdout, { isTTY: true as const, columns }),
      stderr: onStderr === undefined ? stderr : Object.assign(stderr, { isTTY: true as const, columns: 80 }),
      interrupted: interrupted ?? new AbortController().signal,
      now: Date.now,
    },
    version: "test",
  });
  return { code, stdout: out(), stderr: err() };
}
