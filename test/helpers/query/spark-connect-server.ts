/** What speaks Spark Connect, as a process: a cluster for tests. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

import { ClusterClient } from "../../../src/query/cluster/cluster-client.js";
import { parseClusterUri } from "../../../src/query/cluster/cluster-uri.js";
import { rowsPlan, sqlRelation } from "../../../src/wire/spark/spark-connect.js";
import { until } from "../until.js";

/** A running cluster. */
export interface SparkConnectServer {
  readonly uri: string;
  readonly pid: number;
  /** Ends it at once, as a crash would. */
  stop(): Promise<void>;
}

/** How a program is started that listens at a port of 127.0.0.1. */
interface SparkConnectCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly port: number;
}

/** Starts a cluster and waits until it answers. */
export async function startSparkConnect(command: SparkConnectCommand): Promise<SparkConnectServer> {
  const { program, args, env, port } = command;
  const child = spawn(program, [...args], {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env },
    stdio: "ignore",
  });
  const uri = `sc://127.0.0.1:${port}`;
  try {
    await until(() => answers(uri, child), 120_000);
  } catch (error) {
    await kill(child);
    throw error;
  }
  return { uri, pid: child.pid ?? 0, stop: () => kill(child) };
}

async function answers(uri: string, child: ChildProcess): Promise<boolean> {
  if (child.exitCode !== null) {
    throw new Error(`the cluster ended with ${child.exitCode}`);
  }
  const client = new ClusterClient(parseClusterUri(uri));
  const session = client.open();
  try {
    const seen: number[] = [];
    const one = rowsPlan(sqlRelation("SELECT 1 AS one"));
    for await (const { rows } of session.execute(one, AbortSignal.timeout(20_000))) {
      seen.push(rows);
    }
    return seen.includes(1);
  } catch {
    return false;
  } finally {
    await session.release();
    client.close();
  }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}
