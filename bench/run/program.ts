/** Server programs as benches run them: each in a process of its own, found by what it prints. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import { serverProfileArguments } from "../profile/attach.js";
import { bareEnvironment } from "./machine.js";

/** A running one. */
export interface Program {
  readonly pid: number;
  /** What it said when it was up: the match that was waited for. */
  readonly said: RegExpExecArray;
  /** The last that it printed. */
  readonly output: () => string;
  readonly alive: () => boolean;
  /** Ends it in order; does nothing the second time. */
  stop(): Promise<void>;
}

const keptCharacters = 100_000;

/**
 * Starts `dist/src/bin/NAME.js`, and waits until it prints what `until` matches.
 * @param o.environment all that it gets beside `bareEnvironment`
 * @param o.nodeArguments more arguments of Node.js
 * @throws Error with the end of its output when it ends before
 */
export function startProgram(
  name: string,
  o: {
    readonly environment: Readonly<Record<string, string>>;
    readonly until: RegExp;
    readonly nodeArguments?: readonly string[];
  },
): Promise<Program> {
  const entry = fileURLToPath(new URL(`../../src/bin/${name}.js`, import.meta.url));
  return startNode(name, [...serverProfileArguments(), ...(o.nodeArguments ?? []), entry], o);
}

/** Starts Node.js with these arguments, as {@link startProgram} does. */
export async function startNode(
  name: string,
  args: readonly string[],
  o: { readonly environment: Readonly<Record<string, string>>; readonly until: RegExp },
): Promise<Program> {
  const child = spawn(process.execPath, args, {
    env: { ...bareEnvironment(), ...o.environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "exit");
  let output = "";
  let isUp = false;
  const said = await new Promise<RegExpExecArray>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-keptCharacters);
      // Of what comes later nothing is read: it would take the time of what is measured.
      const match = isUp ? null : o.until.exec(output);
      if (match !== null) {
        isUp = true;
        resolve(match);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (code) => {
      reject(new Error(`${name} ended with ${code}:\n${output.slice(-4000)}`));
    });
  });
  const alive = (): boolean => child.exitCode === null && child.signalCode === null;
  return {
    pid: child.pid ?? -1,
    said,
    output: () => output,
    alive,
    stop: async () => {
      if (alive()) {
        child.kill("SIGTERM");
      }
      await ended;
    },
  };
}
