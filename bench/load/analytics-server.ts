/** The analytics server in a process of its own, as benches of queries run it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import { serverProfileArguments } from "../profile/attach.js";
import { bareEnvironment } from "../run/machine.js";

/** A running one. */
export interface AnalyticsServer {
  readonly pid: number;
  /** `host:port` of Flight SQL. */
  readonly address: string;
  readonly output: () => string;
  /** Does nothing the second time. */
  stop(): Promise<void>;
}

/** Starts one on free ports, and waits until it says where it listens. @param nodeOptions of its process */
export async function startAnalytics(
  environment: Readonly<Record<string, string>>,
  nodeOptions: readonly string[] = [],
): Promise<AnalyticsServer> {
  const entry = fileURLToPath(new URL("../../src/bin/flight-sql-srv.js", import.meta.url));
  const child = spawn(process.execPath, [...serverProfileArguments(), ...nodeOptions, entry], {
    env: {
      ...bareEnvironment(),
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "exit");
  let output = "";
  const address = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-100_000);
      const found = /grpc:\/\/(?<address>127\.0\.0\.1:[1-9]\d*)/u.exec(output)?.groups?.["address"];
      if (found !== undefined) {
        resolve(found);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (code) => {
      reject(new Error(`flight-sql-srv ended with ${code}:\n${output.slice(-4000)}`));
    });
  });
  return {
    pid: child.pid ?? -1,
    address,
    output: () => output,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
