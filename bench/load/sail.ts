/** LakeSail Sail as a Flight SQL server, the peer of `pnpm bench query --peer sail`. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { freePort } from "../../test/helpers/free-port.js";

/** A running Sail. */
export interface Sail {
  readonly pid: number;
  readonly uri: string;
  readonly version: string;
  stop(): Promise<void>;
}

/** Starts `sail flight server` of a virtual environment in `directory` and waits until it listens. */
export async function startSail(programs: string, directory: string): Promise<Sail> {
  const program = path.join(programs, "sail");
  const version = execFileSync(program, ["--version"], { encoding: "utf8" }).trim();
  // Sail takes a port, and none for "any".
  const port = await freePort();
  const child = spawn(program, ["flight", "server", "--port", String(port)], {
    cwd: directory,
    stdio: "ignore",
  });
  const ended = once(child, "exit");
  while (!(await listens(port))) {
    if (child.exitCode !== null) {
      throw new Error(`sail ended with ${child.exitCode}`);
    }
    await sleep(50);
  }
  return {
    pid: child.pid ?? -1,
    uri: `grpc://127.0.0.1:${port}`,
    version,
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Whether something listens there, on this machine. */
export function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const answer = (open: boolean): void => {
      socket.destroy();
      resolve(open);
    };
    socket.once("connect", () => {
      answer(true);
    });
    socket.once("error", () => {
      answer(false);
    });
  });
}
