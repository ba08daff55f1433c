/**
 * A whole monolith on a bucket: what was acknowledged is found once, whatever the object store or a `kill -9` did in
 * between, through merges, with a cold cache and with a damaged one.
 */
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { enough } from "../../src/lake/merge/merge-levels.js";
import { connectRows, type FlightRows } from "../helpers/flight/flight-rows.js";
import { type FaultyBucket, startFaultyBucket } from "../helpers/lake/faulty-bucket.js";
import { type Fault, findS3Server, s3Environment } from "../helpers/lake/s3-server.js";
import { cacheAnnouncement, cacheKey } from "../helpers/object-cache/cache-world.js";
import { seededRandom } from "../helpers/seeded-random.js";
import {
  developmentVariables,
  type MonolithProcess,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { startServerProcess } from "../helpers/servers/server-process.js";
import { until } from "../helpers/until.js";
import { noonMs } from "../helpers/noon.js";

const program = await findS3Server();
const recordsPerRequest = 5;

describe.skipIf(program === null)("a monolith on S3", () => {
  let bucket: FaultyBucket;
  let data: Awaited<ReturnType<typeof temporaryDirectory>>;
  let monolith: MonolithProcess;
  let sent = 0;
  let acknowledged = 0;

  const start = async (more: readonly string[] = []): Promise<void> => {
    monolith = await startMonolithProcess(data.directory, [
      "--object-store-uri=s3://lake/telemetry",
      `--s3-endpoint=${bucket.proxy.endpoint}`,
      "--maintenance-interval-seconds=0.5",
      "--maintenance-health-listen=127.0.0.1:0",
      "--telemetry-interval-seconds=3600",
      ...more,
    ]);
  };

  beforeAll(async () => {
    bucket = await startFaultyBucket(program);
    data = await temporaryDirectory();
    await start();
  });

  afterEach(() => {
    bucket.proxy.fault = () => null;
  });

  afterAll(async () => {
    await monolith.stop();
    await bucket.stop();
    await data.remove();
  });

  const post = async (request: number): Promise<Response | null> => {
    const variables = await developmentVariables(data.directory);
    const key = /Bearer%20(\w+)/u.exec(variables["OTEL_EXPORTER_OTLP_HEADERS"] ?? "")?.[1] ?? "";
    const logRecords = Array.from({ length: recordsPerRequest }, (_, i) => ({
      timeUnixNano: `${noonMs + request * 60_000 + i * 1000}000000`,
      body: { stringValue: `${request}/${i}` },
    }));
    const resource = { attributes: [{ key: "service.name", value: { stringValue: "s3-test" } }] };
    const body = JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] });
    return fetch(`${monolith.ingestionUrl}/ingestion/otlp/v1/logs`, {
      method: "POST",
      body,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    }).catch(() => null);
  };
  /** Sends a new request until it is acknowledged. */
  const send = async (): Promise<void> => {
    const request = sent++;
    await until(async () => {
      const response = await post(request);
      await response?.arrayBuffer();
      expect([200, 503, undefined]).toContain(response?.status);
      return response?.status === 200;
    }, 120_000);
    acknowledged += recordsPerRequest;
  };
  const withRows = async <T>(use: (rows: FlightRows) => Promise<T>): Promise<T> => {
    const variables = await developmentVariables(data.directory);
    const port = Number(new URL(variables["SVC_ANALYTICS_URI"]?.replace("grpc:", "http:") ?? "").port);
    const rows = connectRows(port, variables["SVC_ANALYTICS_API_KEY"] ?? "");
    try {
      return await use(rows);
    } finally {
      rows.close();
    }
  };
  const own = "FROM log_entries WHERE service_name = 's3-test'";
  const found = async (): Promise<{ rows: number; different: number }> => {
    const [row] = await withRows((rows) => rows.rows(`SELECT count(*) AS n, count(DISTINCT msg) AS different ${own}`));
    return { rows: Number(row?.["n"]), different: Number(row?.["different"]) };
  };
  const all = (): { rows: number; different: number } => ({ rows: acknowledged, different: acknowledged });
  const merged = async (): Promise<number> => {
    const [row] = await withRows((rows) =>
      rows.rows("SELECT count(*) AS n FROM list_partitions() WHERE level > 0 AND view_set = 'log_entries'"),
    );
    return Number(row?.["n"]);
  };
  const analyticsHealth = async (name: string): Promise<number> => {
    const url = /"health":"(http:[^"]+)"/u.exec(monolith.output())?.[1] ?? monolith.ingestionUrl;
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\S+)`, "mu").exec(text)?.[1] ?? "-1");
  };
  /** Files of cached objects. */
  const cached = async (): Promise<string[]> => {
    const directory = path.join(data.directory, "lake-cache", "objects");
    const names = await readdir(directory, { recursive: true }).catch(() => []);
    const files = [];
    for (const name of names) {
      const file = path.join(directory, name);
      if ((await stat(file)).isFile()) {
        files.push(file);
      }
    }
    return files;
  };

  it("stores, answers and merges", async () => {
    // So many objects are enough for a merge.
    for (let i = 0; i < enough[0]; i++) {
      await send();
    }
    expect(await found()).toEqual(all());
    await until(async () => (await merged()) > 0);
    expect(await found()).toEqual(all());
    const objects = await readdir(path.join(bucket.server.directory, "lake/telemetry"), { recursive: true });
    expect(objects.filter((name) => name.endsWith(".parquet")).length).toBeGreaterThan(0);
    expect(await analyticsHealth("lake_cache_fetched_bytes_total")).toBeGreaterThan(0);
    expect(monolith.output()).not.toContain(s3Environment.AWS_SECRET_ACCESS_KEY);
  });

  it("reads from its own disk what it has read before, also after a restart", async () => {
    expect(await found()).toEqual(all());
    bucket.proxy.requests.length = 0;
    expect(await found()).toEqual(all());
    const reads = bucket.proxy.requests.filter(
      ({ method, url }) => method === "GET" && url.pathname.endsWith(".parquet"),
    );
    expect(reads.filter(({ url }) => url.pathname.includes("/log_entries/"))).toEqual([]);
    expect(await monolith.stop("SIGKILL")).toBeNull();
    await start();
    bucket.proxy.requests.length = 0;
    expect(await found()).toEqual(all());
  });

  it("fetches again what was damaged on its disk", async () => {
    expect(await found()).toEqual(all());
    await monolith.stop();
    const files = (await cached()).filter((file) => file.includes("/log_entries/"));
    expect(files.length).toBeGreaterThan(0);
    for (const file of files) {
      const bytes = await readFile(file);
      bytes.fill(0, bytes.length >> 1);
      await writeFile(file, bytes);
    }
    await start();
    expect(await found()).toEqual(all());
  });

  it.each([
    ["500 now and then", { kind: "status", status: 500, code: "InternalError" }],
    ["503 now and then", { kind: "status", status: 503, code: "SlowDown" }],
    ["answers lost after the work was done", { kind: "lost answer" }],
    ["bodies cut off", { kind: "cut body", bytes: 700 }],
  ] as readonly [string, Fault][])(
    "loses and doubles nothing: %s",
    async (_name, fault) => {
      const random = seededRandom(17);
      bucket.proxy.fault = () => (random() < 0.25 ? fault : null);
      await Promise.all(
        Array.from({ length: 4 }, async () => {
          for (let i = 0; i < 4; i++) {
            await send();
          }
        }),
      );
      bucket.proxy.fault = () => null;
      expect(await found()).toEqual(all());
    },
    240_000,
  );

  it("loses and doubles nothing when it is killed at any moment", async () => {
    for (let round = 0; round < 3; round++) {
      const done = new AbortController();
      const sending = Array.from({ length: 3 }, async () => {
        while (!done.signal.aborted) {
          await send();
        }
      });
      await sleep(100);
      await until(() => bucket.proxy.requests.splice(0).some(({ method }) => method === "PUT"));
      await monolith.stop("SIGKILL");
      await start();
      done.abort();
      await Promise.all(sending);
      expect(await found()).toEqual(all());
    }
  }, 240_000);

  it("says so while the store is down, and goes on by itself when it is back", async () => {
    expect(await found()).toEqual(all());
    await bucket.server.kill();
    const request = sent++;
    const refused = await post(request);
    expect(refused?.status).toBe(503);
    expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(0);
    await until(async () => (await fetch(`${monolith.ingestionUrl}/ready`)).status === 503);
    // What is on the disk of the server is still answered.
    expect(await found()).toEqual(all());
    await bucket.server.start();
    await until(async () => (await post(request))?.status === 200);
    acknowledged += recordsPerRequest;
    await until(async () => (await fetch(`${monolith.ingestionUrl}/ready`)).status === 200);
    expect(await found()).toEqual(all());
  }, 240_000);

  it("does not start without a store", async () => {
    await monolith.stop();
    await bucket.server.kill();
    // Ingestion tries to write, analytics to read: which of them fails first is chance.
    await expect(start()).rejects.toThrow(/the object store cannot be (?:used|read): no /u);
    await bucket.server.start();
    await start();
    expect(await found()).toEqual(all());
  }, 120_000);

  it("fails queries with a sentence when what they need cannot be read", async () => {
    await send();
    bucket.proxy.fault = (method, url) =>
      method === "GET" && url.pathname.endsWith(".parquet") ? { kind: "status", status: 503, code: "SlowDown" } : null;
    const failure = await withRows((rows) => rows.failure(`SELECT count(*) AS n, 1 AS again ${own}`));
    expect(failure.message).toContain("the object store cannot be read");
    bucket.proxy.fault = () => null;
    expect(await found()).toEqual(all());
  });

  it("reads through an object cache, and without it when it is killed", async () => {
    const own = await temporaryDirectory();
    const cache = await startServerProcess(
      "object-cache-srv",
      {
        ...s3Environment,
        SVC_API_KEYS: JSON.stringify([{ name: "analytics", key: cacheKey }]),
        SVC_OBJECT_CACHE_LISTEN: "127.0.0.1:0",
        SVC_OBJECT_STORE_URI: "s3://lake/telemetry",
        SVC_S3_ENDPOINT: bucket.proxy.endpoint,
        SVC_DATA_DIR: own.directory,
      },
      cacheAnnouncement,
    );
    const throughCache = [`--object-cache-uri=${cache.url}`, `--object-cache-api-key=${cacheKey}`];
    const whole = (): Promise<number> => analyticsHealth('object_cache_client_reads_total\\{result="whole"\\}');
    const restart = async (): Promise<void> => {
      await monolith.stop();
      await rm(path.join(data.directory, "lake-cache"), { recursive: true });
      await start(throughCache);
      expect(await found()).toEqual(all());
    };
    try {
      await send();
      // A machine that was slow for a moment has read the store; what is read again is in the cache.
      await until(async () => {
        await restart();
        return (await whole()) > 0;
      });
      await cache.end("SIGKILL");
      await restart();
      expect(await analyticsHealth("object_cache_client_bytes_total")).toBe(0);
      await send();
      expect(await found()).toEqual(all());
    } finally {
      await cache.end("SIGKILL");
      await own.remove();
    }
  }, 240_000);
});
