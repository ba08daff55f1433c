/** The promise behind 200, seen from outside: durable, published, by audience, and never lost. */
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";

import { afterEach, describe, expect, test } from "vitest";

import { startTcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { startTestIngestion, type TestIngestion, type TestIngestionOptions } from "../helpers/servers/ingest-server.js";
import { freshMark, protobufLogs, protobufSpan } from "../helpers/otlp/otlp-bodies.js";
import { RawConnection } from "../helpers/http/raw-http.js";

const running: TestIngestion[] = [];

async function start(o?: TestIngestionOptions): Promise<TestIngestion> {
  const t = await startTestIngestion(o);
  running.push(t);
  return t;
}

afterEach(async () => {
  for (const t of running.splice(0).toReversed()) {
    await t.stop();
  }
});

async function storedMarks(t: TestIngestion): Promise<Set<unknown>> {
  const rows = await t.rows("log_entries", "select distinct split_part(msg, ' ', 1) as mark from t");
  return new Set(rows.map((row) => row["mark"]));
}

describe("audiences", () => {
  test("two keys never share an object, a process or a stream, even in one batch", async () => {
    const t = await start({ environment: { SVC_INGESTION_WORKERS: "1" } });
    const keyB = await t.mint("team-b");
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const mark = i % 2 === 0 ? "a" : "b";
        const headers = i % 2 === 0 ? {} : { authorization: `Bearer ${keyB}` };
        const response = await t.post("logs", protobufLogs(`${mark}${i}`), headers);
        expect(response.status).toBe(200);
      }),
    );
    const { sql } = t.database;
    const partitions = await sql<{ path: string; audience: string }[]>`
      select path, audience from lakehouse_partitions`;
    expect(new Set(partitions.map((p) => p.audience))).toEqual(new Set(["team-a", "team-b"]));
    for (const { path, audience } of partitions) {
      expect(path).toContain(`/audience=${audience}/`);
    }
    const rows = await t.rows("log_entries", "select distinct left(msg, 1) as mark, process_id, stream_id from t");
    expect(rows).toHaveLength(2);
    expect(new Set(rows.map((row) => row["process_id"])).size).toBe(2);
    expect(new Set(rows.map((row) => row["stream_id"])).size).toBe(2);
    const processes = await sql<{ audience: string }[]>`select audience from processes`;
    expect(processes.map((p) => p.audience).sort()).toEqual(["team-a", "team-b"]);
  });

  test("without authentication rows are unstamped", async () => {
    const t = await start({ environment: { SVC_DISABLE_AUTH: "true" } });
    const response = await fetch(`${t.url}/ingestion/otlp/v1/logs`, {
      method: "POST",
      headers: { "content-type": "application/x-protobuf" },
      body: protobufLogs(freshMark()),
    });
    expect(response.status).toBe(200);
    const [partition] = await t.database.sql<{ audience: string | null }[]>`
      select audience from lakehouse_partitions`;
    expect(partition?.audience).toBeNull();
  });
});

describe("catalogue", () => {
  test("a partition names its rows, bounds, size, checksum and processes", async () => {
    const t = await start();
    const traceId = Buffer.alloc(16, 3);
    expect((await t.post("traces", protobufSpan("one", traceId))).status).toBe(200);
    const [partition] = await t.database.sql<
      {
        row_count: bigint;
        min_time_ns: bigint;
        max_time_ns: bigint;
        level: number;
        process_ids: string[];
        path: string;
        file_bytes: number;
        checksum: number;
      }[]
    >`select row_count, min_time_ns, max_time_ns, level, process_ids, path, file_bytes::int as file_bytes,
        checksum::float8 as checksum
      from lakehouse_partitions`;
    const stored = await readFile(path.join(fileURLToPath(t.storeUri), partition?.path ?? ""));
    expect(partition).toMatchObject({
      row_count: 1n,
      min_time_ns: 1_700_000_000_000_000_000n,
      max_time_ns: 1_700_000_000_000_000_000n,
      level: 0,
      file_bytes: stored.length,
      checksum: crc32(stored),
    });
    const [process] = await t.database.sql<{ process_id: string; service_name: string }[]>`
      select process_id, service_name from processes`;
    expect(partition?.process_ids).toEqual([process?.process_id]);
    expect(process?.service_name).toBe("test");
    const [block] = await t.database.sql<{ row_count: number; signal: number }[]>`
      select row_count, signal from blocks`;
    expect(block).toEqual({ row_count: 1, signal: 3 });
  });
});

describe("readiness", () => {
  test("is gone while writes fail, though the store can still be probed, and comes back with them", async () => {
    const t = await start({});
    const ready = async (): Promise<number> => (await fetch(`${t.url}/ready`)).status;
    expect(await ready()).toBe(200);
    // A file where the directory of the log records belongs: only writes of records fail.
    const directory = path.join(fileURLToPath(t.storeUri), "log_entries");
    await writeFile(directory, "");
    expect((await t.post("logs", protobufLogs(freshMark()))).status).toBe(503);
    const refused = await fetch(`${t.url}/ready`);
    expect([refused.status, await refused.text()]).toEqual([
      503,
      expect.stringContaining("most of the last writes failed"),
    ]);
    expect((await fetch(`${t.url}/health`)).status).toBe(200);
    await rm(directory);
    const mark = freshMark();
    for (const part of ["a", "b"]) {
      const send = async (): Promise<number> => (await t.post("logs", protobufLogs(`${mark}-${part}`))).status;
      await expect.poll(send).toBe(200);
    }
    expect(await ready()).toBe(200);
  });

  test("names a store that is gone", async () => {
    const t = await start({});
    const directory = fileURLToPath(t.storeUri);
    await rename(directory, `${directory}.away`);
    const refused = await fetch(`${t.url}/ready`);
    expect([refused.status, await refused.json()]).toEqual([
      503,
      { code: "UNAVAILABLE", message: "the object store cannot be written" },
    ]);
    await rename(`${directory}.away`, directory);
    expect((await fetch(`${t.url}/ready`)).status).toBe(200);
  });
});

describe("several acceptor threads", () => {
  test("share the port, the keys and the lake, and answer with one voice", async () => {
    const t = await start({ environment: { SVC_INGESTION_ACCEPTORS: "3" } });
    const mark = freshMark();
    const body = protobufLogs(mark);
    const connections = await Promise.all(Array.from({ length: 24 }, () => RawConnection.open(t.port)));
    connections.forEach((connection, i) => {
      const own = protobufLogs(`${mark}-${i}`, 2);
      connection.send(
        `POST /ingestion/otlp/v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${t.key}\r\nContent-Type: application/x-protobuf\r\nContent-Length: ${own.length}\r\n\r\n`,
      );
      connection.send(own);
    });
    const exchanges = await Promise.all(connections.map((connection) => connection.settle()));
    expect(exchanges.map((e) => e.responses[0]?.status)).toEqual(connections.map(() => 200));
    for (const connection of connections) {
      connection.close();
    }
    expect((await t.post("logs", body, { authorization: "Bearer svk_no" })).status).toBe(401);
    expect((await t.post("logs", Buffer.from([0xff]))).status).toBe(400);
    expect(await storedMarks(t)).toEqual(new Set(connections.map((_, i) => `${mark}-${i}`)));
    expect((await fetch(`${t.url}/ready`)).status).toBe(200);
    expect(await t.metric("ingestion_requests_total", 'code="200"')).toBe(24);
    expect(await t.metric("ingestion_records_total")).toBe(48);
    expect(await t.metric("ingestion_arena_used_bytes")).toBe(0);
  });

  test("a port that is in use is refused in one sentence, shared or not", async () => {
    const t = await start({ environment: { SVC_INGESTION_ACCEPTORS: "2" } });
    for (const acceptors of ["1", "2"]) {
      await expect(
        startTestIngestion({
          beside: t,
          environment: {
            SVC_INGESTION_ACCEPTORS: acceptors,
            SVC_INGESTION_LISTEN: `127.0.0.1:${t.port}`,
          },
        }),
      ).rejects.toThrow(/cannot listen on 127\.0\.0\.1:\d+/);
    }
  });
});

describe("stopping", () => {
  test("answers every accepted request first, and stores what was answered 200", async () => {
    const t = await start();
    const mark = freshMark();
    const statuses = new Map<string, number>();
    const withStatus = (status: number): string[] => [...statuses.keys()].filter((own) => statuses.get(own) === status);
    const client = async (): Promise<void> => {
      for (let status = 200; status === 200;) {
        const own = `${mark}-${statuses.size}`;
        // 0: not answered yet, or refused at the door.
        statuses.set(own, 0);
        status = await t.post("logs", protobufLogs(own)).then(
          (response) => response.status,
          () => 0,
        );
        statuses.set(own, status);
      }
    };
    const clients = Array.from({ length: 50 }, client);
    await expect.poll(() => withStatus(200).length).toBeGreaterThan(20);
    await t.server.stop();
    await Promise.all(clients);
    const stored = await storedMarks(t);
    expect([...statuses.values()].filter((status) => ![0, 200, 503].includes(status))).toEqual([]);
    expect(withStatus(200).filter((own) => !stored.has(own))).toEqual([]);
  });
});

describe("outages of the object store", () => {
  test("give 503 with Retry-After and pass", async () => {
    const t = await start();
    const lake = fileURLToPath(t.storeUri);
    await rm(lake, { recursive: true });
    await writeFile(lake, "in the way");
    const body = protobufLogs(freshMark());
    const refused = await t.post("logs", body);
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/u);
    expect(await t.database.sql`select from blocks`).toHaveLength(0);
    await rm(lake);
    await expect.poll(async () => (await t.post("logs", body)).status).toBe(200);
    expect(await t.rows("log_entries")).toHaveLength(1);
  });
});

describe("outages of the database", () => {
  test("under load give 503 with Retry-After, lose nothing that was answered 200, and pass", async () => {
    const backing = await start();
    const proxy = await startTcpProxy(backing.database.connectionString);
    try {
      const t = await start({ beside: backing, connectionString: () => proxy.connectionString });
      const mark = freshMark();
      const acknowledged = new Set<string>();
      const statuses = new Set<number>();
      const load = { on: true };
      let sent = 0;
      let withoutRetryAfter = 0;
      const client = async (): Promise<void> => {
        while (load.on) {
          const own = `${mark}-${sent++}`;
          const response = await t.post("logs", protobufLogs(own));
          statuses.add(response.status);
          if (response.status === 200) {
            acknowledged.add(own);
          } else {
            if (!/^\d+$/u.test(response.headers.get("retry-after") ?? "")) {
              withoutRetryAfter++;
            }
            await sleep(20);
          }
        }
      };
      const clients = Array.from({ length: 8 }, client);
      await expect.poll(() => acknowledged.size).toBeGreaterThan(10);
      await proxy.refuse();
      await expect.poll(() => statuses.has(503)).toBe(true);
      await proxy.restore();
      const before = acknowledged.size;
      await expect.poll(() => acknowledged.size).toBeGreaterThan(before + 10);
      load.on = false;
      await Promise.all(clients);
      expect(statuses).toEqual(new Set([200, 503]));
      expect(withoutRetryAfter).toBe(0);
      const rows = await t.rows(
        "log_entries",
        "select split_part(msg, ' ', 1) as mark, count(*)::int as n from t group by all",
      );
      const counts = new Map(rows.map((row) => [row["mark"], row["n"]]));
      for (const own of acknowledged) {
        expect(counts.get(own)).toBe(1);
      }
      for (const count of counts.values()) {
        expect(count).toBe(1);
      }
      await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBe(0);
    } finally {
      await running.pop()?.stop();
      await proxy.stop();
    }
  });
});
