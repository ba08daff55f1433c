/** The ingestion server as a process, told to stop while it works; with one acceptor and with several. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { readRows } from "../helpers/servers/ingest-server.js";
import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { until } from "../helpers/until.js";
import { RawConnection } from "../helpers/http/raw-http.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";

let directory: string;
let database: TestDatabase;
let key: string;

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "shutdown-test-"));
  database = await createTestDatabase();
  ({ key } = await mintIngestionKey(database.sql, { name: "t", audience: "a", createdBy: "t" }));
});

afterEach(async () => {
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

function start(acceptors: string): Promise<ServerProcess> {
  return startServerProcess("telemetry-ingestion-srv", {
    SVC_DATA_DIR: directory,
    SVC_SQL_CONNECTION_STRING: database.connectionString,
    SVC_INGESTION_LISTEN: "127.0.0.1:0",
    SVC_INGESTION_WORKERS: "1",
    SVC_INGESTION_ACCEPTORS: acceptors,
  });
}

async function openBody(server: ServerProcess): Promise<RawConnection> {
  const connection = await RawConnection.open(Number(new URL(server.url).port));
  connection.send(
    `POST /ingestion/otlp/v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000\r\n\r\nx`,
  );
  return connection;
}

describe.each(["1", "2"])("%s acceptor(s)", (acceptors) => {
  test("SIGTERM: what was answered 200 is stored, and the process exits with 0", async () => {
    const server = await start(acceptors);
    const acknowledged = new Set<string>();
    const client = async (): Promise<void> => {
      for (;;) {
        const mark = freshMark();
        try {
          const response = await fetch(`${server.url}/ingestion/otlp/v1/logs`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/x-protobuf" },
            body: protobufLogs(mark),
          });
          if (response.status === 200) {
            acknowledged.add(mark);
          }
        } catch {
          return;
        }
      }
    };
    const clients = Array.from({ length: 6 }, client);
    await expect.poll(() => acknowledged.size).toBeGreaterThan(20);
    expect(await server.end("SIGTERM")).toBe(0);
    await Promise.all(clients);
    const rows = await readRows(
      database.sql,
      pathToFileURL(path.join(directory, "lake")).href,
      "log_entries",
      "select split_part(msg, ' ', 1) as mark from t",
    );
    const stored = new Set(rows.map((row) => row["mark"]));
    expect([...acknowledged].filter((mark) => !stored.has(mark))).toEqual([]);
    expect(rows).toHaveLength(stored.size);
  });

  test("a second signal ends a drain that waits for a slow body", async () => {
    const server = await start(acceptors);
    const connection = await openBody(server);
    await until(async () => {
      const metrics = await (await fetch(`${server.url}/metrics`)).text();
      return /^ingestion_open_requests 1$/mu.test(metrics);
    });
    const ended = server.end("SIGTERM");
    await expect.poll(() => server.output()).toContain("draining");
    expect(await Promise.all([ended, server.end("SIGTERM")])).toEqual([143, 143]);
    connection.close();
  });
});
