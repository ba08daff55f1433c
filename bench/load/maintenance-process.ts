/** The maintenance server as benches run it, beside an ingestion server. */
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { pathToFileURL } from "node:url";

import type { Sql } from "../../src/db/sql.js";
import { givenSettings } from "../run/machine.js";
import { type Program, startProgram } from "../run/program.js";

/** A running maintenance server. */
interface MaintenanceProcess extends Program {
  readonly url: string;
}

/** Starts `telemetry-maintenance-srv` over the lake below a data directory, with {@link givenSettings}. */
export async function startMaintenance(
  connectionString: string,
  dataDirectory: string,
  cpuPercent: string,
): Promise<MaintenanceProcess> {
  const program = await startProgram("telemetry-maintenance-srv", {
    environment: {
      ...givenSettings(),
      SVC_SQL_CONNECTION_STRING: connectionString,
      SVC_OBJECT_STORE_URI: pathToFileURL(join(dataDirectory, "lake")).href,
      SVC_MAINTENANCE_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_MAINTENANCE_INTERVAL_SECONDS: "1",
      SVC_MAINTENANCE_CPU_PERCENT: cpuPercent,
    },
    until: /maintenance tells how it is on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
    nodeArguments: ["--enable-source-maps"],
  });
  return { ...program, url: program.said[1] ?? "" };
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
