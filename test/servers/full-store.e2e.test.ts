/** An object store that takes no bytes: senders are told to come again, and nothing that was acknowledged is lost. */
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

import { afterEach, beforeEach, expect, it } from "vitest";

import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";

let lab: MergeLab;
let server: ServerProcess | null = null;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(async () => {
  await server?.end("SIGKILL");
  server = null;
  await lab.stop();
});

/** What no object is smaller than. */
const someBytes = 16;

/** Lets the server write files of so many bytes, as a full disk would (prlimit(1), the soft limit). */
function limitFiles(pid: number, bytes: number | "unlimited"): void {
  execFileSync("prlimit", [`--pid=${pid}`, `--fsize=${bytes}:`]);
}

it.skipIf(process.platform !== "linux")(
  "gives 503 with Retry-After from a bounded queue, says so on /ready, and goes on by itself",
  async () => {
    const started = await startServerProcess("telemetry-ingestion-srv", {
      SVC_SQL_CONNECTION_STRING: lab.connectionString,
      SVC_OBJECT_STORE_URI: lab.lake.uri,
      SVC_INGESTION_LISTEN: "127.0.0.1:0",
      SVC_DISABLE_AUTH: "true",
    });
    server = started;
    const mark = freshMark();
    const acknowledged = new Set<string>();
    const statuses = new Set<number>();
    const load = { on: true, sent: 0, withoutRetryAfter: 0, longestMs: 0 };
    const ready = async (): Promise<number> => (await fetch(`${started.url}/ready`)).status;
    const client = async (): Promise<void> => {
      while (load.on) {
        const own = `${mark}-${load.sent++}`;
        const startMs = performance.now();
        const response = await fetch(`${started.url}/v1/logs`, {
          method: "POST",
          headers: { "content-type": "application/x-protobuf" },
          body: protobufLogs(own),
        });
        await response.arrayBuffer();
        load.longestMs = Math.max(load.longestMs, performance.now() - startMs);
        statuses.add(response.status);
        if (response.status === 200) {
          acknowledged.add(own);
        } else {
          load.withoutRetryAfter += /^\d+$/u.test(response.headers.get("retry-after") ?? "") ? 0 : 1;
          await sleep(20);
        }
      }
    };
    const clients = Array.from({ length: 16 }, client);
    try {
      await expect.poll(() => acknowledged.size).toBeGreaterThan(20);
      expect(await ready()).toBe(200);

      limitFiles(started.pid, someBytes);
      await expect.poll(() => statuses.has(503)).toBe(true);
      await expect.poll(ready).toBe(503);
      expect((await fetch(`${started.url}/health`)).status).toBe(200);
      const stored = acknowledged.size;
      const sent = load.sent;
      await expect.poll(() => load.sent).toBeGreaterThan(sent + 100);
      expect(acknowledged.size).toBe(stored);

      limitFiles(started.pid, "unlimited");
      await expect.poll(() => acknowledged.size).toBeGreaterThan(stored + 20);
      await expect.poll(ready, { timeout: 30_000 }).toBe(200);
    } finally {
      load.on = false;
      await Promise.all(clients);
    }
    expect(statuses).toEqual(new Set([200, 503]));
    expect(load.withoutRetryAfter).toBe(0);
    // Nobody waits for a store that is full.
    expect(load.longestMs).toBeLessThan(20_000);
    const files = (await lab.sql<{ path: string }[]>`select path from lakehouse_partitions`).map(
      ({ path }) => `'${lab.lake.directory}/${path}'`,
    );
    const rows = await lab.duck(`SELECT split_part(msg, ' ', 1) AS mark, count(*)::INT AS n
      FROM read_parquet([${files.join(", ")}], hive_partitioning = false) GROUP BY 1`);
    const counts = new Map(rows.map((row) => [String(row["mark"]), row["n"]]));
    expect([...acknowledged].filter((own) => counts.get(own) !== 1)).toEqual([]);
    expect([...counts.values()].filter((n) => n !== 1)).toEqual([]);
  },
  120_000,
);
