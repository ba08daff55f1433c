/** The faults. Each lane does one after the other; lanes run side by side, so that faults meet. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import type { Sql } from "../../src/db/sql.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { persist } from "./chores.js";
import type { Cluster, Place, Role } from "./cluster.js";
import type { TrialLake } from "./lakes.js";
import { pause } from "./pause.js";
import { childrenOf, portsOf, signal } from "../helpers/processes.js";
import { database, type FaultRecord, objectServer } from "./record.js";

/** What the lanes work with. */
interface FaultContext {
  readonly cluster: Cluster;
  readonly sql: Sql;
  readonly lake: TrialLake;
  readonly dataDirectory: string;
  readonly seed: number;
  /** True from when no fault is to begin any more. */
  readonly stopped: () => boolean;
  readonly record: FaultRecord;
  /** Told of each server that joins. */
  readonly joined: (place: Place) => void;
}

/** How long another process has at most until it takes over, and some more. */
const stoppedMs = 12_000;
/** Longer than any wait within a fault. */
const longestFaultMs = 120_000;

/** Runs all lanes until they are stopped. */
export async function runLanes(context: FaultContext): Promise<void> {
  const { cluster, lake } = context;
  const joining: Role[] = ["ingestion", "analytics"];
  await Promise.all([
    lane(context, 1, [1_500, 4_000], (random) => killServer(context, "ingestion", random)),
    lane(context, 2, [500, 2_000], (random) => killEngine(context, "analytics", random)),
    lane(context, 3, [8_000, 15_000], (random) => killServer(context, "analytics", random)),
    lane(context, 4, [500, 3_000], (random) => disturbMaintenance(context, random)),
    lane(context, 5, [12_000, 25_000], async () => {
      const file = path.join(context.dataDirectory, "postgres", "pgdata", "postmaster.pid");
      const pid = Number((await readFile(file, "utf8").catch(() => "")).split("\n")[0]);
      // SIGQUIT is Postgres's immediate shutdown: nothing is written, the next start recovers.
      if (pid > 0 && signal(pid, "SIGQUIT")) {
        const over = context.record.begin("Postgres shut down at once", database);
        await persist(() => context.sql`select`);
        over();
      }
    }),
    lane(context, 6, [4_000, 8_000], () => {
      const role = joining.shift();
      if (role !== undefined) {
        const place = cluster.add(role);
        context.record.begin(`${role} server joined`, place.name)();
        context.joined(place);
      }
    }),
    ...(lake.objectCaches === 0
      ? []
      : [lane(context, 7, [2_000, 6_000], (random) => killServer(context, "object-cache", random))]),
    ...(lake.server === null ? [] : [lane(context, 8, [12_000, 20_000], (random) => killStore(context, random))]),
  ]);
}

async function killServer({ cluster, record }: FaultContext, role: Role, random: () => number): Promise<void> {
  const place = pick(cluster.of(role), random);
  if (place.current !== null) {
    const over = record.begin(`${role} server killed`, place.name);
    await place.kill();
    over();
  }
}

/** Kills the server of objects, which is gone for so long that some requests fail and others are repeated. */
async function killStore({ lake, record, stopped }: FaultContext, random: () => number): Promise<void> {
  if (lake.server !== null) {
    const over = record.begin(`${objectServer} killed`, objectServer);
    await lake.server.kill();
    await pause(random() * 2_000, stopped);
    await lake.server.start();
    over();
  }
}

async function lane(
  { seed, stopped }: FaultContext,
  number: number,
  [leastMs, mostMs]: readonly [number, number],
  inject: (random: () => number) => Promise<void> | void,
): Promise<void> {
  const random = seededRandom(seed * 31 + number);
  for (;;) {
    await pause(leastMs + random() * (mostMs - leastMs), stopped);
    if (stopped()) {
      return;
    }
    // One that does not end would hold up the trial without a word.
    await Promise.race([inject(random), tooLong(number)]);
  }
}

async function tooLong(number: number): Promise<never> {
  await sleep(longestFaultMs, undefined, { ref: false });
  throw new Error(`a fault of lane ${number} did not end within ${longestFaultMs / 1000} s`);
}

function pick<T>(items: readonly T[], random: () => number): T {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) {
    throw new Error("nothing to pick from");
  }
  return item;
}

function killEngine({ cluster, record }: FaultContext, role: Role, random: () => number): void {
  const { name, current } = pick(cluster.of(role), random);
  const engines = current === null ? [] : childrenOf(current.pid);
  if (engines.length > 0 && signal(pick(engines, random), "SIGKILL")) {
    record.begin(`engine of ${role} killed`, name)();
  }
}

/** Looks for a process that is at something, and kills it, its engine, or stops it for longer than a takeover takes. */
async function disturbMaintenance(context: FaultContext, random: () => number): Promise<void> {
  const { cluster, sql, record } = context;
  const busy = await untilBusy(context);
  const place = busy?.place ?? pick(cluster.of("maintenance"), random);
  const server = place.current;
  if (server === null) {
    return;
  }
  const doing = busy?.doing ?? "idle";
  await sleep(random() * 150);
  const chance = random();
  if (chance < 0.2) {
    killEngine(context, "maintenance", random);
  } else if (chance < 0.35) {
    const ports = portsOf(server.pid);
    if (!signal(server.pid, "SIGSTOP")) {
      return;
    }
    const over = record.begin(
      `maintenance stopped for ${stoppedMs / 1000} s while ${doing}, its sessions ended`,
      place.name,
    );
    // As when the network of its machine is gone for so long.
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where client_port = any(${ports})`.catch(
      () => [], // Postgres is down: so are the sessions
    );
    await pause(stoppedMs, context.stopped);
    signal(server.pid, "SIGCONT");
    over();
  } else {
    const over = record.begin(`maintenance killed while ${doing}`, place.name);
    await place.kill();
    over();
  }
}

interface Busy {
  readonly place: Place;
  readonly doing: "merging" | "rewriting";
}

/** A process that holds a lock of merging, found by the ports of its sessions; null when none does for a while. */
async function untilBusy({ cluster, sql, stopped }: FaultContext): Promise<Busy | null> {
  const giveUpMs = performance.now() + 4_000;
  while (performance.now() < giveUpMs && !stopped()) {
    const holders = await sql<{ port: number; rewriting: boolean }[]>`
      select a.client_port as port, bool_or(l.classid = ${0x6d657267} and l.mode = 'ExclusiveLock') as rewriting
      from pg_locks l join pg_stat_activity a using (pid)
      where l.locktype = 'advisory' and l.granted
        and (l.classid = ${0x6d657267} or l.classid between ${0x6d670000} and ${0x6d67ffff})
      group by 1 order by 2 desc`.catch(() => []); // Postgres is down
    for (const place of holders.length === 0 ? [] : cluster.of("maintenance")) {
      const ports = place.current === null ? [] : portsOf(place.current.pid);
      const held = holders.find(({ port }) => ports.includes(port));
      if (held !== undefined) {
        return { place, doing: held.rewriting ? "rewriting" : "merging" };
      }
    }
    await sleep(20);
  }
  return null;
}
