/** LakeSail's Sail, which speaks Spark Connect, as a process. */
import path from "node:path";

import { freePort } from "../free-port.js";
import { pythonPrograms } from "../python.js";
import { type SparkConnectServer, startSparkConnect } from "./spark-connect-server.js";

/** Of its Python package: the one that deploy/ runs. */
export const sailVersion = "0.7.2";

/** The directory of its program, for {@link startSail}; null, and a line that says so, where it is not to be had. */
export async function findSail(): Promise<string | null> {
  const found = await pythonPrograms([`pysail==${sailVersion}`]);
  return "missing" in found ? null : found.bin;
}

/**
 * @param mode as `SAIL_MODE`: `local-cluster` has driver and workers on threads of one process
 * @param env more of its environment
 */
export async function startSail(
  bin: string,
  mode: "local" | "local-cluster" | "kubernetes-cluster",
  env: Readonly<Record<string, string>> = {},
): Promise<SparkConnectServer> {
  const port = await freePort();
  return await startSparkConnect({
    program: path.join(bin, "sail"),
    args: ["spark", "server", "--ip", "127.0.0.1", "--port", String(port)],
    env: { SAIL_MODE: mode, ...env },
    port,
  });
}
