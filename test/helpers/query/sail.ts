/** LakeSail's Sail, which speaks Spark Connect, as a process. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

import { ClusterClient } from "../../../src/query/cluster/cluster-client.js";
import { parseClusterUri } from "../../../src/query/cluster/cluster-uri.js";
import { rowsPlan, sqlRelation } from "../../../src/wire/spark/spark-connect.js";
import { freePort } from "../free-port.js";
import { until } from "../until.js";

/** The version that the tests are known to pass with. */
export const sailPackage = "pysail==0.7.2";

export interface Sail {
  readonly uri: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** @param bin of the Python that has it. @param mode as `SAIL_MODE` */
export async function startSail(bin: string, mode: "local" | "local-cluster"): Promise<Sail> {
  const port = await freePort();
  const child = spawn(path.join(bin, "sail"), ["spark", "server", "--ip", "127.0.0.1", "--port", String(port)], {
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], SAIL_MODE: mode },
    stdio: "ignore",
  });
  const uri = `sc://127.0.0.1:${port}`;
  await until(async () => {
    const client = new ClusterClient(parseClusterUri(uri));
    const session = client.open();
    try {
      const seen: number[] = [];
      for await (const { rows } of session.execute(
        rowsPlan(sqlRelation("SELECT 1 AS one")),
        AbortSignal.timeout(5000),
      )) {
        seen.push(rows);
      }
      return seen.includes(1);
    } catch {
      return false;
    } finally {
      await session.release();
      client.close();
    }
  }, 60_000);
  return {
    uri,
    pid: child.pid ?? 0,
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, "exit");
        child.kill("SIGKILL");
        await ended;
      }
    },
  };
}
