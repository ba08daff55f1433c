/** The maintenance server as benches run it: a process of its own beside an ingestion server. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

import type { Sql } from "../../src/db/sql.js";
import { serverProfileArguments } from "../profile/attach.js";
import { bareEnvironment, givenSettings } from "../run/machine.js";

/** A running maintenance server. */
interface MaintenanceProcess {
  readonly pid: number;
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts `telemetry-maintenance-srv` over the lake below a data directory, with {@link givenSettings}. */
export async function startMaintenance(
  connectionString: string,
  dataDirectory: string,
  cpuPercent: string,
): Promise<MaintenanceProcess> {
  const entry = fileURLToPath(new URL("../../src/bin/telemetry-maintenance-srv.js", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [...serverProfileArguments(), "--enable-source-maps", entry], {
    env: {
      ...bareEnvironment(),
      ...givenSettings(),
      SVC_SQL_CONNECTION_STRING: connectionString,
      SVC_OBJECT_STORE_URI: pathToFileURL(join(dataDirectory, "lake")).href,
      SVC_MAINTENANCE_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_MAINTENANCE_INTERVAL_SECONDS: "1",
      SVC_MAINTENANCE_CPU_PERCENT: cpuPercent,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const url = await new Promise<string>((resolve, reject) => {
    let output = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const address = /maintenance tells how it is on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u.exec(output)?.[1];
      if (address !== undefined) {
        resolve(address);
      }
    });
    child.once("exit", (code) => {
      reject(new Error(`maintenance exited with ${code}:\n${output}`));
    });
  });
  return {
    pid: child.pid ?? -1,
    url,
    stop: async () => {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

/** Waits until maintenance has looked twice and found nothing that is due. */
export async function untilMerged(url: string): Promise<void> {
  for (let quiet = 0; quiet < 2;) {
    await wait(1500);
    const text = await (await fetch(`${url}/metrics`)).text();
    quiet = /^maintenance_backlog_objects 0$/mu.test(text) ? quiet + 1 : 0;
  }
}

/** What was not merged yet. */
export async function waitingOf(sql: Sql): Promise<{ readonly objects: number; readonly rows: number }> {
  const [row] = await sql<{ objects: number; rows: number }[]>`
    select count(*)::int as objects, coalesce(sum(row_count), 0)::float8 as rows
    from lakehouse_partitions where level = 0`;
  return row ?? { objects: 0, rows: 0 };
}
