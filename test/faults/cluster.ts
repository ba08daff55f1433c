/** The servers under test: processes over one Postgres and one lake, each started again when it ends. */
import { setTimeout as sleep } from "node:timers/promises";

import { cacheAnnouncement } from "../helpers/object-cache/cache-world.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";
import { until } from "../helpers/until.js";
import { childrenOf, signal } from "../helpers/processes.js";

/** What a place in the cluster runs. */
export type Role = "ingestion" | "analytics" | "maintenance" | "object-cache";

/** A place in the cluster; its process changes. */
export interface Place {
  readonly name: string;
  readonly role: Role;
  /** Null between the end of one process and the start of the next. */
  readonly current: ServerProcess | null;
  /** Port of Flight SQL of an analytics server that runs. */
  readonly flightPort: number;
  /** Kills the process and its engines; another one is started in its place. Returns when the old one is gone. */
  kill(): Promise<void>;
  /** Waits until its process says that it is ready. @throws when it does not in time */
  ready(withinMs: number): Promise<void>;
}

const programs = {
  ingestion: {
    program: "telemetry-ingestion-srv",
    announcement: /OTLP\/HTTP on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
    environment: { SVC_INGESTION_LISTEN: "127.0.0.1:0", SVC_INGESTION_WORKERS: "1" },
  },
  analytics: {
    program: "flight-sql-srv",
    announcement: /"health":"(http:\/\/127\.0\.0\.1:[1-9]\d*)".*Flight SQL on/u,
    environment: { SVC_ANALYTICS_LISTEN: "127.0.0.1:0", SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0" },
  },
  maintenance: {
    program: "telemetry-maintenance-srv",
    announcement: /maintenance tells how it is on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
    environment: {
      SVC_MAINTENANCE_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_MAINTENANCE_INTERVAL_SECONDS: "0.2",
      SVC_MAINTENANCE_CPU_PERCENT: "100",
    },
  },
  "object-cache": { program: "object-cache-srv", announcement: cacheAnnouncement, environment: {} },
} as const;

const restartMs = 200;

/** The whole environment of a place's processes, but for what its role always has. */
type EnvironmentOf = (role: Role, name: string) => Readonly<Record<string, string>>;

export interface Cluster {
  readonly places: readonly Place[];
  of(role: Role): Place[];
  /** Makes another place of a role; its process is being started when this returns. */
  add(role: Role): Place;
  /** Kills every process and starts none any more. */
  stop(): Promise<void>;
}

/** Starts so many servers of each role. */
export async function startCluster(
  environmentOf: EnvironmentOf,
  counts: Readonly<Record<Role, number>>,
): Promise<Cluster> {
  const stopping = new AbortController();
  const held: ReturnType<typeof keep>[] = [];
  const of = (role: Role): Place[] => cluster.places.filter((place) => place.role === role);
  const add = (role: Role): Place => {
    const name = `${role} ${of(role).length + 1}`;
    const kept = keep(role, name, environmentOf(role, name), stopping.signal);
    held.push(kept);
    return kept.place;
  };
  const stop = async (): Promise<void> => {
    stopping.abort();
    // Those that were just being started as well, and whatever they started.
    for (const pid of childrenOf(process.pid)) {
      if (held.some(({ pids }) => pids.has(pid))) {
        killTree(pid);
      }
    }
    await Promise.all(held.map(({ place }) => place.kill()));
    await Promise.all(held.map(({ ended }) => ended));
  };
  const cluster: Cluster = {
    get places() {
      return held.map(({ place }) => place);
    },
    of,
    add,
    stop,
  };
  for (const role of Object.keys(counts) as Role[]) {
    for (let i = 0; i < counts[role]; i++) {
      add(role);
    }
  }
  try {
    await Promise.all(cluster.places.map((place) => place.ready(120_000)));
  } catch (error) {
    await stop();
    throw error;
  }
  return cluster;
}

/** Kills a process with those that it started. */
function killTree(pid: number): void {
  const children = childrenOf(pid);
  for (const each of [pid, ...children]) {
    signal(each, "SIGKILL");
  }
}

/** Has a process of the role run in a place until it is told to stop, as a service manager would. */
function keep(role: Role, name: string, environment: Readonly<Record<string, string>>, stopping: AbortSignal) {
  const { program, announcement, environment: own } = programs[role];
  const pids = new Set<number>();
  let current: ServerProcess | null = null;
  let lastError = "";
  const run = async (): Promise<void> => {
    while (!stopping.aborted) {
      try {
        const started = await startServerProcess(program, { ...environment, ...own }, announcement, [], (pid) => {
          pids.add(pid);
        });
        current = started;
        if (stopping.aborted) {
          await started.end("SIGKILL");
        }
        await started.ended;
      } catch (error) {
        // A start may meet a database that is down.
        lastError = String(error);
      }
      current = null;
      pids.clear();
      await sleep(stopping.aborted ? 0 : restartMs);
    }
  };
  const place: Place = {
    name,
    role,
    get current() {
      return current;
    },
    get flightPort() {
      return Number(/Flight SQL on grpc:\/\/127\.0\.0\.1:([1-9]\d*)/u.exec(current?.output() ?? "")?.[1]);
    },
    async kill() {
      const killed = current;
      if (killed !== null) {
        killTree(killed.pid);
        await killed.ended;
      }
    },
    async ready(withinMs) {
      let said = "no process";
      const isReady = async (): Promise<boolean> => {
        if (current === null) {
          return false;
        }
        try {
          const response = await fetch(`${current.url}/ready`, { signal: AbortSignal.timeout(10_000) });
          said = `${response.status} ${await response.text()}`;
          return response.ok;
        } catch (error) {
          said = String(error);
          return false;
        }
      };
      await until(isReady, withinMs).catch((error: unknown) => {
        throw new Error(`${name} is not ready: ${said}; ${lastError}`, { cause: error });
      });
    },
  };
  return { place, pids, ended: run() };
}
