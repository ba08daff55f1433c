/** A server as a process of its own, started as a user starts it, so that it can be killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

export interface ServerProcess {
  readonly pid: number;
  /** `http://127.0.0.1:port` of its routes. */
  readonly url: string;
  /** What it wrote so far. */
  readonly output: () => string;
  /** Settles when it has ended, whoever ended it. */
  readonly ended: Promise<void>;
  /** Sends a signal and waits for the end; returns the exit code, null after a fatal signal. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/**
 * Starts `dist/src/bin/<program>.js` and waits until it says where it listens.
 * @param environment the whole environment of the process, but for PATH and TMPDIR.
 * @param announcement how it says so, the address as the first group.
 * @param spawned told the process id at once, before the server listens.
 * @param account whose process it is; default: that of this process.
 */
export async function startServerProcess(
  program: string,
  environment: Record<string, string>,
  announcement = /OTLP\/HTTP on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
  args: readonly string[] = [],
  spawned: (pid: number) => void = () => undefined,
  account?: { readonly uid: number; readonly gid: number },
): Promise<ServerProcess> {
  const entry = fileURLToPath(new URL(`../../../src/bin/${program}.js`, import.meta.url));
  const child = spawn(process.execPath, ["--enable-source-maps", entry, ...args], {
    env: {
      PATH: process.env["PATH"] ?? "",
      TMPDIR: tmpdir(),
      // Tests run side by side.
      SVC_OTLP_HTTP_LISTEN: "",
      SVC_OTLP_GRPC_LISTEN: "",
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
    ...account,
  });
  const exited = once(child, "exit") as Promise<[number | null]>;
  if (child.pid !== undefined) {
    spawned(child.pid);
  }
  let output = "";
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString();
      const address = announcement.exec(output)?.[1];
      if (address !== undefined) {
        resolve(address);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (code) => {
      reject(new Error(`${program} ended with ${code}:\n${output}`));
    });
  });
  return {
    pid: child.pid ?? -1,
    url,
    output: () => output,
    ended: exited.then(() => undefined),
    end: (signal) => end(child, exited, signal),
  };
}

async function end(
  child: ChildProcess,
  exited: Promise<[number | null]>,
  signal: NodeJS.Signals,
): Promise<number | null> {
  child.kill(signal);
  const [code] = await exited;
  return code;
}
