/** The monolith as benches run it, in a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { serverProfileArguments } from "./profile/attach.js";
import { bareEnvironment } from "./run/machine.js";

/** A running one. */
export interface Monolith {
  readonly pid: number;
  readonly analytics: string;
  readonly ingestionUrl: string;
  readonly alive: () => boolean;
  readonly output: () => string;
  stop(): Promise<void>;
}

/** Starts one with these variables, and waits until it is ready. */
export async function startMonolith(environment: Record<string, string>): Promise<Monolith> {
  const entry = fileURLToPath(new URL("../src/bin/telemetry-monolith.js", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [...serverProfileArguments(), entry], {
    env: { ...bareEnvironment(), ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  await new Promise<void>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-100_000);
      if (output.includes('"msg":"ready"')) {
        resolve();
      }
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", (code) => {
      reject(new Error(`the monolith ended with ${code}:\n${output.slice(-4000)}`));
    });
  });
  const address = (pattern: RegExp): string => pattern.exec(output)?.[1] ?? "";
  return {
    pid: child.pid ?? -1,
    analytics: address(/grpc:\/\/(127\.0\.0\.1:\d+)/u),
    ingestionUrl: address(/OTLP\/HTTP on (http:\/\/127\.0\.0\.1:\d+)/u),
    alive: () => child.exitCode === null && child.signalCode === null,
    output: () => output,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) {
        return;
      }
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}
