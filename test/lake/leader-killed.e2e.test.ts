/** The process that leads maintenance is killed in the middle of an erasure, and another one ends it. */
import { afterEach, beforeEach, expect, it } from "vitest";

import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, publishedValues, taskRow } from "../helpers/lake/lake-tasks.js";

let lab: MergeLab;
const servers: ServerProcess[] = [];
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(async () => {
  for (const server of servers.splice(0)) {
    await server.end("SIGKILL");
  }
  await lab.stop();
});

const objects = 24;

async function start(): Promise<ServerProcess> {
  const server = await startServerProcess(
    "telemetry-monolith",
    {
      SVC_ROLES: "maintenance",
      SVC_SQL_CONNECTION_STRING: lab.connectionString,
      SVC_OBJECT_STORE_URI: lab.lake.uri,
      SVC_DATA_DIR: lab.lake.directory,
      SVC_MAINTENANCE_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_MAINTENANCE_INTERVAL_SECONDS: "0.2",
      SVC_DISABLE_AUTH: "true",
    },
    /maintenance tells how it is on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
  );
  servers.push(server);
  return server;
}

const leads = async ({ url }: ServerProcess): Promise<boolean> =>
  /^maintenance_leader 1$/mu.test(await (await fetch(`${url}/metrics`)).text());

it("loses nothing, doubles nothing, counts every row once", async () => {
  for (let i = 0; i < objects; i++) {
    const rowsSql = `SELECT make_timestamp_ns(${i}) AS time, unnest(['shop ${i}', 'bank ${i}']) AS msg,
      unnest(['shop', 'bank']) AS service_name`;
    await addAged(lab, { table: "log_entries", audience: "a", rowsSql });
  }
  const first = await start();
  await expect.poll(() => leads(first)).toBe(true);
  const second = await start();
  const erasing = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  const progress = async (): Promise<number> => (await taskRow(lab, erasing))?.rows ?? 0;
  await expect.poll(progress, { interval: 5 }).toBeGreaterThan(0);
  expect(await first.end("SIGKILL")).toBeNull();
  expect(await progress()).toBeLessThan(objects);
  await expect.poll(async () => (await taskRow(lab, erasing))?.state).toBe("done");
  expect(await leads(second)).toBe(true);
  expect(await taskRow(lab, erasing)).toMatchObject({ rows: objects, error: null });
  const banks = Array.from({ length: objects }, (_, i) => `bank ${i}`);
  expect(await publishedValues(lab, "log_entries", "msg")).toEqual(banks.toSorted());
});
