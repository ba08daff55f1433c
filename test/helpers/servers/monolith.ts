/** The monolith and the command line as processes, the way a user runs them. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { recordMinted } from "../cleartext/cleartext-tap.js";

/** The command line, for {@link runProgram}. */
export const commandLine: string = createRequire(import.meta.url).resolve("telemetry-service-client/bin/telemetry");

const compiled = (file: string): string =>
  path.isAbsolute(file) ? file : fileURLToPath(new URL(`../../../${file}`, import.meta.url));

/** What a finished process left behind. */
export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment of the test without variables that would configure what is under test. */
function cleanEnvironment(extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(SVC_|OTEL_)/.test(name));
  return { ...Object.fromEntries(inherited), ...extra };
}

/** Runs a compiled program of the repository to its end. */
export async function runProgram(
  file: string,
  args: readonly string[],
  o: {
    readonly env?: Readonly<Record<string, string>>;
    readonly cwd?: string;
    readonly input?: string;
  } = {},
): Promise<Finished> {
  const child = spawn(process.execPath, [compiled(file), ...args], {
    env: cleanEnvironment(o.env),
    cwd: o.cwd ?? tmpdir(),
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin.end(o.input ?? "");
  return await finish(child);
}

/** Runs a shell script in which `$node` and `$file` are Node.js and a compiled program. */
export async function runShell(script: string, file: string, cwd: string): Promise<Finished> {
  const env = cleanEnvironment({ node: process.execPath, file: compiled(file) });
  return await finish(spawn("sh", ["-c", script], { env, cwd, stdio: ["ignore", "pipe", "pipe"] }));
}

async function finish(child: ChildProcess): Promise<Finished> {
  const output = collect(child);
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stdout: output.stdout(), stderr: output.stderr() };
}

function collect(child: ChildProcess): { stdout: () => string; stderr: () => string } {
  const chunks: { out: Buffer[]; err: Buffer[] } = { out: [], err: [] };
  child.stdout?.on("data", (chunk: Buffer) => chunks.out.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => chunks.err.push(chunk));
  return {
    stdout: () => Buffer.concat(chunks.out).toString("utf8"),
    stderr: () => Buffer.concat(chunks.err).toString("utf8"),
  };
}

/** A running monolith. */
export interface MonolithProcess {
  readonly ingestionUrl: string;
  /** Everything it printed so far, both streams. */
  output(): string;
  /** Sends a signal and waits for the end. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** A fresh data directory, removed by the returned function. */
export async function temporaryDirectory(): Promise<{
  directory: string;
  remove(): Promise<void>;
}> {
  const directory = await mkdtemp(path.join(tmpdir(), "monolith-"));
  return {
    directory,
    async remove() {
      // What development mode minted; a directory that was not used for it has no such file.
      const variables = await developmentVariables(directory).catch(() => ({}));
      recordMinted(...Object.values(variables).filter((value) => value.startsWith("svk_")));
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** Flags that let several monoliths run beside each other. */
export const freePorts = [
  "--ingestion-listen=127.0.0.1:0",
  "--otlp-grpc-listen=127.0.0.1:0",
  "--analytics-listen=127.0.0.1:0",
  "--analytics-health-listen=127.0.0.1:0",
  "--otlp-http-listen=127.0.0.1:0",
  "--web-listen=127.0.0.1:0",
] as const;

/** Those that only a monolith in development mode takes. */
export const freeDevelopmentPorts = [...freePorts, "--development-oidc-listen=127.0.0.1:0"] as const;

/** Starts a monolith in development mode and waits until it has said that it is ready. */
export async function startMonolithProcess(
  dataDirectory: string,
  args: readonly string[] = [],
  program = "src/bin/telemetry-monolith.js",
): Promise<MonolithProcess> {
  const child = spawn(
    process.execPath,
    [
      "--enable-source-maps",
      compiled(program),
      "--development",
      `--data-dir=${dataDirectory}`,
      ...freeDevelopmentPorts,
      ...args,
    ],
    { env: cleanEnvironment(), cwd: tmpdir(), stdio: ["ignore", "pipe", "pipe"] },
  );
  const output = collect(child);
  const all = (): string => output.stdout() + output.stderr();
  const ended = once(child, "close") as Promise<[number | null]>;
  const ready = new Promise<void>((resolve) => {
    child.stdout.on("data", () => {
      if (output.stdout().includes("Ctrl-C stops")) {
        resolve();
      }
    });
  });
  await Promise.race([
    ready,
    ended.then(() => {
      throw new Error(`the monolith ended before it was ready:\n${all()}`);
    }),
  ]);
  const ingestionUrl = /OTLP\/HTTP +(http:\/\/\S+)\/ingestion\/otlp/.exec(output.stdout())?.[1] ?? "";
  return {
    ingestionUrl,
    output: all,
    async stop(signal = "SIGTERM") {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill(signal);
      }
      const [code] = await ended;
      return code;
    },
  };
}

/** The variables that `dev.env` exports. */
export async function developmentVariables(dataDirectory: string): Promise<Record<string, string>> {
  const text = await readFile(path.join(dataDirectory, "dev.env"), "utf8");
  return Object.fromEntries(
    [...text.matchAll(/^export (\w+)='(.*)'$/gm)].map(([, name, value]) => [name ?? "", value ?? ""]),
  );
}
