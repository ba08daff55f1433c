/** The faults. Each lane does one after the other; lanes run side by side, so that faults meet. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import type { Sql } from "../../src/db/sql.js";
import { seededRandom } from "../helpers/seeded-random.js";
import type { Cluster, Place } from "./cluster.js";
import { childrenOf, portsOf, signal } from "./proc.js";

/** What the lanes work with. */
export interface FaultContext {
  readonly cluster: Cluster;
  readonly sql: Sql;
  readonly dataDirectory: string;
  readonly seed: number;
  /** True from when no fault is to begin any more. */
  readonly stopped: () => boolean;
  /** Counts a fault. */
  readonly count: (kind: string) => void;
}

/** How long another process has at most until it takes over, and some more. */
const stoppedMs = 12_000;

/** Runs all lanes until they are stopped. */
export async function runLanes(context: FaultContext): Promise<void> {
  const { cluster } = context;
  await Promise.all([
    lane(context, 1, [1_500, 4_000], async (random) => {
      const place = pick(cluster.of("ingestion"), random);
      if (place.current !== null) {
        context.count("ingestion server killed");
        await place.kill();
      }
    }),
    lane(context, 2, [500, 2_000], (random) => killEngine(context, "analytics", random)),
    lane(context, 3, [8_000, 15_000], async (random) => {
      const place = pick(cluster.of("analytics"), random);
      if (place.current !== null) {
        context.count("analytics server killed");
        await place.kill();
      }
    }),
    lane(context, 4, [500, 3_000], (random) => disturbMaintenance(context, random)),
    lane(context, 5, [12_000, 25_000], async () => {
      const file = path.join(context.dataDirectory, "postgres", "pgdata", "postmaster.pid");
      const pid = Number((await readFile(file, "utf8").catch(() => "")).split("\n")[0]);
      // SIGQUIT is Postgres's immediate shutdown: nothing is written, the next start recovers.
      if (pid > 0 && signal(pid, "SIGQUIT")) {
        context.count("Postgres shut down at once");
      }
    }),
  ]);
}

async function lane(
  { seed, stopped }: FaultContext,
  number: number,
  [leastMs, mostMs]: readonly [number, number],
  inject: (random: () => number) => Promise<void>,
): Promise<void> {
  const random = seededRandom(seed * 31 + number);
  for (;;) {
    const dueMs = performance.now() + leastMs + random() * (mostMs - leastMs);
    while (performance.now() < dueMs) {
      if (stopped()) {
        return;
      }
      await sleep(50);
    }
    await inject(random);
  }
}

function pick<T>(items: readonly T[], random: () => number): T {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) {
    throw new Error("nothing to pick from");
  }
  return item;
}

async function killEngine({ cluster, count }: FaultContext, role: Place["role"], random: () => number): Promise<void> {
  const server = pick(cluster.of(role), random).current;
  const engines = server === null ? [] : await childrenOf(server.pid);
  if (engines.length > 0 && signal(pick(engines, random), "SIGKILL")) {
    count(`engine of ${role} killed`);
  }
}

/** Looks for a process that is at something, and kills it, its engine, or stops it for longer than a takeover takes. */
async function disturbMaintenance(context: FaultContext, random: () => number): Promise<void> {
  const { cluster, sql, count } = context;
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
    await killEngine(context, "maintenance", random);
  } else if (chance < 0.35) {
    const ports = await portsOf(server.pid);
    if (!signal(server.pid, "SIGSTOP")) {
      return;
    }
    count(`maintenance stopped for ${stoppedMs / 1000} s while ${doing}, its sessions ended`);
    // As when the network of its machine is gone for so long.
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where client_port = any(${ports})`.catch(
      () => [], // Postgres is down: so are the sessions
    );
    const untilMs = performance.now() + stoppedMs;
    while (performance.now() < untilMs && !context.stopped()) {
      await sleep(50);
    }
    signal(server.pid, "SIGCONT");
  } else {
    count(`maintenance killed while ${doing}`);
    await place.kill();
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
      const ports = place.current === null ? [] : await portsOf(place.current.pid);
      const held = holders.find(({ port }) => ports.includes(port));
      if (held !== undefined) {
        return { place, doing: held.rewriting ? "rewriting" : "merging" };
      }
    }
    await sleep(20);
  }
  return null;
}
