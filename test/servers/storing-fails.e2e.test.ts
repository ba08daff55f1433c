/**
 * A disk that is full, a directory that is read-only, a database without a free connection: senders are told to come again,
 * and nothing that was acknowledged is lost.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, readdirSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { afterEach, beforeEach, expect, it } from "vitest";

import { canReach } from "../../src/db/embedded/embedded-binaries.js";
import { createRoleLogin, type RoleLogin } from "../helpers/auth/auth-roles.js";
import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";
import { until } from "../helpers/until.js";

let lab: MergeLab;
let login: RoleLogin;
let server: ServerProcess | null = null;
beforeEach(async () => {
  lab = await startMergeLab();
  login = await createRoleLogin(lab.sql, lab.connectionString, "ingestion");
});
afterEach(async () => {
  await server?.end("SIGKILL");
  server = null;
  await untilUnconnected();
  await login.drop();
  chmodDirectories(0o700);
  await lab.stop();
});

/** What no object is smaller than. */
const someBytes = 16;
const nobody = { name: "nobody", uid: 65_534, gid: 65_534 };
const isRoot = process.getuid?.() === 0;
/** Root writes into any directory: as root, the server is nobody's, where nobody can read the code. */
const account = isRoot && (await canReach(fileURLToPath(new URL(".", import.meta.url)), nobody)) ? nobody : undefined;

interface Fault {
  begin(pid: number): Promise<void> | void;
  end(pid: number): Promise<void> | void;
}

/** Lets the server write files of so many bytes, as a full disk would (prlimit(1), the soft limit). */
function limitFiles(pid: number, bytes: number | "unlimited"): void {
  execFileSync("prlimit", [`--pid=${pid}`, `--fsize=${bytes}:`]);
}

function chmodDirectories(mode: number): void {
  const { directory } = lab.lake;
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) {
      chmodSync(path.join(entry.parentPath, entry.name), mode);
    }
  }
  chmodSync(directory, mode);
}

async function untilUnconnected(): Promise<void> {
  await until(async () => {
    const sessions =
      await lab.sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${login.name}`;
    return sessions.length === 0;
  });
}

const readOnly = "a read-only directory";
const faults: Readonly<Record<string, Fault>> = {
  "a full disk": {
    begin: (pid) => limitFiles(pid, someBytes),
    end: (pid) => limitFiles(pid, "unlimited"),
  },
  [readOnly]: {
    begin: () => chmodDirectories(0o500),
    end: () => chmodDirectories(0o700),
  },
  "a database without a free connection": {
    begin: async () => {
      await lab.sql.unsafe(`alter role ${login.name} connection limit 0`);
      await untilUnconnected();
    },
    end: async () => {
      await lab.sql.unsafe(`alter role ${login.name} connection limit -1`);
    },
  },
};

it.for(Object.entries(faults))(
  "%s: 503 with Retry-After from a bounded queue, said so on /ready, and it goes on by itself",
  async ([name, fault], { skip }) => {
    skip(process.platform !== "linux", "what the server may write is limited as Linux does");
    skip(name === readOnly && isRoot && account === undefined, "root writes anywhere, and nobody cannot read the code");
    const other = name === readOnly ? account : undefined;
    if (other !== undefined) {
      chownSync(lab.lake.directory, other.uid, other.gid);
    }
    const started = await startServerProcess(
      "telemetry-ingestion-srv",
      {
        SVC_SQL_CONNECTION_STRING: login.connectionString,
        SVC_OBJECT_STORE_URI: lab.lake.uri,
        SVC_INGESTION_LISTEN: "127.0.0.1:0",
        SVC_DISABLE_AUTH: "true",
      },
      undefined,
      [],
      undefined,
      other === undefined ? undefined : { uid: other.uid, gid: other.gid },
    );
    server = started;
    const mark = freshMark();
    const acknowledged = new Set<string>();
    const statuses = new Set<number>();
    const load = { on: true, sent: 0, withoutRetryAfter: 0 };
    const ready = async (): Promise<number> => (await fetch(`${started.url}/ready`)).status;
    const answered = Array.from({ length: 16 }, () => 0);
    const client = async (_: number, index: number): Promise<void> => {
      while (load.on) {
        const own = `${mark}-${load.sent++}`;
        const response = await fetch(`${started.url}/v1/logs`, {
          method: "POST",
          headers: { "content-type": "application/x-protobuf" },
          body: protobufLogs(own),
        });
        await response.arrayBuffer();
        answered[index] = (answered[index] ?? 0) + 1;
        statuses.add(response.status);
        if (response.status === 200) {
          acknowledged.add(own);
        } else {
          load.withoutRetryAfter += /^\d+$/u.test(response.headers.get("retry-after") ?? "") ? 0 : 1;
          await sleep(20);
        }
      }
    };
    const clients = answered.map(client);
    try {
      await expect.poll(() => acknowledged.size).toBeGreaterThan(20);
      expect(await ready()).toBe(200);

      await fault.begin(started.pid);
      await expect.poll(() => statuses.has(503)).toBe(true);
      await expect.poll(ready).toBe(503);
      expect((await fetch(`${started.url}/health`)).status).toBe(200);
      const stored = acknowledged.size;
      const sent = load.sent;
      await expect.poll(() => load.sent).toBeGreaterThan(sent + 100);
      expect(acknowledged.size).toBe(stored);
      // Nobody waits for the end of it: each sender is answered, and answered again.
      const before = [...answered];
      await expect.poll(() => answered.filter((count, i) => count < (before[i] ?? 0) + 2)).toEqual([]);

      await fault.end(started.pid);
      await expect.poll(() => acknowledged.size).toBeGreaterThan(stored + 20);
      await expect.poll(ready, { timeout: 30_000 }).toBe(200);
    } finally {
      load.on = false;
      await Promise.all(clients);
    }
    expect(statuses).toEqual(new Set([200, 503]));
    expect(load.withoutRetryAfter).toBe(0);
    const files = (await lab.sql<{ path: string }[]>`select path from lakehouse_partitions`).map(
      ({ path }) => `'${lab.lake.directory}/${path}'`,
    );
    const rows = await lab.duck(`SELECT split_part(msg, ' ', 1) AS mark, count(*)::INT AS n
      FROM read_parquet([${files.join(", ")}], hive_partitioning = false) GROUP BY 1`);
    const counts = new Map(rows.map((row) => [String(row["mark"]), row["n"]]));
    expect([...acknowledged].filter((own) => counts.get(own) !== 1)).toEqual([]);
    expect([...counts.values()].filter((n) => n !== 1)).toEqual([]);
  },
);
