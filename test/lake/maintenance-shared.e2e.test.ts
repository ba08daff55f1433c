/** Several processes of maintenance over one lake: they share the work, and take over from one that is killed. */
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

import { afterEach, beforeEach, expect, it } from "vitest";

import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addPartition } from "../helpers/lake/lake.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";

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

async function start(more: Record<string, string> = {}): Promise<ServerProcess> {
  const server = await startServerProcess(
    "telemetry-maintenance-srv",
    {
      SVC_SQL_CONNECTION_STRING: lab.connectionString,
      SVC_OBJECT_STORE_URI: lab.lake.uri,
      SVC_MAINTENANCE_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_MAINTENANCE_INTERVAL_SECONDS: "0.2",
      SVC_MAINTENANCE_CPU_PERCENT: "100",
      ...more,
    },
    /maintenance tells how it is on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
  );
  servers.push(server);
  return server;
}

async function metric({ url }: ServerProcess, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name} (.+)$`, "mu").exec(text)?.[1]);
}

const perAudience = 4;

/** Objects that nothing has been added to for an hour, so that four are enough. */
async function addLogs(audiences: readonly string[], rows = 1): Promise<void> {
  for (const audience of audiences) {
    for (let i = 0; i < perAudience; i++) {
      await addPartition(lab.lake, lab.sql, {
        table: "log_entries",
        audience,
        rowsSql: `SELECT make_timestamp_ns(n) AS time, '${audience} ${i} ' || n AS msg, md5(n || 'x') AS trace_id
          FROM range(${rows}) t(n)`,
      });
    }
  }
  await lab.sql`update lakehouse_partitions
    set min_insert_time = now() - interval '1 hour', max_insert_time = now() - interval '1 hour'`;
}

async function unmerged(): Promise<number> {
  const [row] = await lab.sql<{ n: number }[]>`
    select count(*)::int as n from lakehouse_partitions where level = 0`;
  return row?.n ?? -1;
}

/** Every message is there once. */
async function expectRows(audiences: readonly string[]): Promise<void> {
  const files = (await lab.sql<{ path: string }[]>`select path from lakehouse_partitions`).map(
    ({ path }) => `'${lab.lake.directory}/${path}'`,
  );
  const [counted] = await lab.duck(`SELECT count(*)::INT AS n, count(DISTINCT msg)::INT AS different
    FROM read_parquet([${files.join(", ")}], union_by_name = true, hive_partitioning = false)`);
  const n = audiences.length * perAudience;
  expect(counted).toEqual({ n, different: n });
}

const named = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

it("share the work, and publish each object once", async () => {
  const both = await Promise.all([start(), start()]);
  const audiences: string[] = [];
  const taken = () => Promise.all(both.map((server) => metric(server, 'maintenance_objects_total\\{what="taken"\\}')));
  // On a busy machine one may be done with all before the other has a turn.
  for (let round = 0; round < 8 && !(await taken()).every((count) => count > 0); round++) {
    const more = named(`a${round}-`, 16);
    await addLogs(more);
    await expect.poll(unmerged, { timeout: 90_000 }).toBe(0);
    audiences.push(...more);
  }
  await expectRows(audiences);
  const [row] = await lab.sql<{ n: number }[]>`select count(*)::int as n from lakehouse_partitions`;
  expect(row?.n).toBe(audiences.length);
  // A merge is counted a moment after it is there to be seen.
  const sum = async () => (await taken()).reduce((all, count) => all + count, 0);
  await expect.poll(sum).toBe(audiences.length * perAudience);
  expect((await taken()).every((count) => count > 0)).toBe(true);
  for (const server of both) {
    expect(await metric(server, "maintenance_failures_total")).toBe(0);
    expect((await fetch(`${server.url}/ready`)).status).toBe(200);
    await expect.poll(() => metric(server, "maintenance_backlog_objects")).toBe(0);
  }
}, 300_000);

it("take over what one was at that is killed in the middle of a merge", async () => {
  await addLogs(["held"]);
  const holder = await lab.sql.reserve();
  // Whoever merges waits here before it publishes, with the lock of the group.
  await holder`begin`;
  await holder`lock table lakehouse_partitions in share mode`;
  const first = await start();
  const waiting = () => lab.sql`select from pg_stat_activity
    where application_name = 'telemetry-merge' and wait_event_type = 'Lock' and datname = current_database()`;
  await expect.poll(async () => (await waiting()).length, { timeout: 60_000 }).toBe(1);
  const second = await start();
  expect(await first.end("SIGKILL")).toBeNull();
  await holder`commit`;
  holder.release();
  await expect.poll(unmerged, { timeout: 60_000 }).toBe(0);
  await expectRows(["held"]);
  // The lock of the dead is free: the other did it, at its first try.
  const taken = 'maintenance_objects_total\\{what="taken"\\}';
  await expect.poll(() => metric(second, taken)).toBe(perAudience);
  expect(await metric(second, "maintenance_failures_total")).toBe(0);
}, 300_000);

/** CPU seconds of the engines of a server, those that have ended included. */
function engineSeconds(pid: number): number {
  const fieldsOf = (of: number | string): string[] => {
    const stat = readFileSync(`/proc/${of}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  };
  let ticks = Number(fieldsOf(pid)[13]) + Number(fieldsOf(pid)[14]);
  for (const entry of readdirSync("/proc").filter((name) => /^\d+$/u.test(name))) {
    try {
      const fields = fieldsOf(entry);
      ticks += Number(fields[1]) === pid ? Number(fields[11]) + Number(fields[12]) : 0;
    } catch (error) {
      // It has ended since it was listed.
      if (!/ENOENT|ESRCH/u.test(String(error))) {
        throw error;
      }
    }
  }
  return ticks / 100;
}

it("use no more of the CPUs than their share, however much there is to do", async () => {
  await addLogs(named("busy", 8), 20_000);
  const server = await start({ SVC_MAINTENANCE_CPU_PERCENT: "5" });
  const startMs = performance.now();
  const cpus = availableParallelism();
  const took = () => metric(server, "maintenance_merges_total");
  // For so long there is more to do than the share allows.
  await expect
    .poll(async () => (performance.now() - startMs > 25_000 && engineSeconds(server.pid) > 1) || (await took()) >= 8, {
      timeout: 180_000,
    })
    .toBe(true);
  expect(await unmerged()).toBeGreaterThan(0);
  const seconds = (performance.now() - startMs) / 1000;
  const share = engineSeconds(server.pid) / seconds / cpus;
  // What was saved for five seconds, and the merge under way, come on top.
  expect(share).toBeLessThan(0.05 * 1.6 + 0.02);
  expect(await metric(server, "maintenance_backlog_objects")).toBeGreaterThan(0);
}, 300_000);
