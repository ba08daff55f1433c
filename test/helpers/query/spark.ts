/** Apache Spark's Connect server as a process. */
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { freePort } from "../free-port.js";
import { pythonPrograms } from "../python.js";
import { type SparkConnectServer, startSparkConnect } from "./spark-connect-server.js";

const run = promisify(execFile);

/** The one that deploy/ runs. */
export const sparkVersion = "4.3.0";

/** Its directory, for {@link startSpark}; null, and a line that says so, where it or Java is not to be had. */
export async function findSpark(): Promise<string | null> {
  try {
    const { stderr } = await run("java", ["-version"]);
    const version = Number(/version "(\d+)/u.exec(stderr)?.[1] ?? "0");
    if (version < 17) {
      process.stdout.write("SKIPPED: Spark needs Java 17\n");
      return null;
    }
  } catch (error) {
    process.stdout.write(`SKIPPED: there is no Java for Spark: ${String(error).split("\n")[0]}\n`);
    return null;
  }
  // Sail refuses to start beside a PySpark that it does not know.
  const found = await pythonPrograms([`pyspark==${sparkVersion}`], "-spark");
  if ("missing" in found) {
    return null;
  }
  const where = "import os, pyspark; print(os.path.dirname(pyspark.__file__))";
  return (await run(path.join(found.bin, "python"), ["-c", where])).stdout.trim();
}

/**
 * @param master as `--master`: `local[2]` runs on threads of one process, `local-cluster[2,1,1024]` on executors that
 *   are processes of their own, children of the server's
 */
export async function startSpark(home: string, master: string): Promise<SparkConnectServer> {
  const port = await freePort();
  const configuration = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": String(port),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.warehouse.dir": path.join(tmpdir(), "spark-warehouse"),
  };
  return await startSparkConnect({
    program: path.join(home, "bin", "spark-submit"),
    args: [
      "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
      `--master=${master}`,
      ...Object.entries(configuration).map(([key, value]) => `--conf=${key}=${value}`),
      "spark-internal",
    ],
    env: { SPARK_HOME: home, SPARK_LOCAL_DIRS: tmpdir(), SPARK_LOCAL_IP: "127.0.0.1" },
    port,
  });
}
