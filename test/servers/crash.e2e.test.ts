/**
 * The promise under `kill -9`: every acknowledged record is found exactly once, whatever was killed when, in the
 * catalogue's objects and, for the monolith, through Flight SQL after its last restart. `CRASH_ROUNDS` (default 3) says
 * how often each program is killed; every third round kills Postgres as well.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

import { afterEach, beforeEach, expect, test } from "vitest";

import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { migrate } from "../../src/db/migrations.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { plainRows } from "../helpers/flight/plain-rows.js";
import { readRows } from "../helpers/servers/ingest-server.js";
import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";

const rounds = Number(process.env["CRASH_ROUNDS"] ?? "3");
const recordsPerRequest = 3;
const clients = 8;
const flightAddress = /Flight SQL on grpc:\/\/127\.0\.0\.1:([1-9]\d*)/u;

let dataDirectory: string;
let key: string;
let analyticsKey: string;

beforeEach(async () => {
  dataDirectory = await mkdtemp(path.join(tmpdir(), "crash-test-"));
  key = await withDatabase(async (sql) => {
    await migrate(sql, createSilentLogger());
    const reader = await mintAnalyticsKey(sql, { name: "t", createdBy: "t" });
    analyticsKey = reader.key;
    await sql`
      insert into audience_grants (audience, kind, member, created_by)
      values ('crash', 'read', ${`key:${reader.keyId}`}, 't')`;
    return (await mintIngestionKey(sql, { name: "t", audience: "crash", createdBy: "t" })).key;
  });
});

afterEach(async () => {
  await rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 });
});

async function withDatabase<T>(use: (sql: Sql) => Promise<T>): Promise<T> {
  const logger = createSilentLogger();
  const postgres = await startEmbeddedPostgres({ dataDirectory, logger });
  const sql = connect({
    connectionString: postgres.connectionString,
    maxConnections: 1,
    applicationName: "crash-test",
    logger,
  });
  try {
    return await use(sql);
  } finally {
    await sql.end({ timeout: 5 });
    await postgres.stop();
  }
}

async function killPostgres(): Promise<void> {
  const file = path.join(dataDirectory, "postgres", "pgdata", "postmaster.pid");
  process.kill(Number((await readFile(file, "utf8")).split("\n")[0]), "SIGKILL");
}

interface Ledger {
  /** Bodies by mark; what was not acknowledged is sent again in the next round. */
  readonly sent: Map<string, Buffer>;
  readonly acknowledged: Set<string>;
}

/** Sends until the server is gone; a 200 goes into the ledger the moment it is seen. */
async function load(url: string, ledger: Ledger, again: string[]): Promise<void> {
  for (;;) {
    const mark = again.pop() ?? freshMark();
    const body = ledger.sent.get(mark) ?? protobufLogs(mark, recordsPerRequest);
    ledger.sent.set(mark, body);
    try {
      const response = await fetch(`${url}/ingestion/otlp/v1/logs`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/x-protobuf" },
        body,
      });
      if (response.status === 200) {
        ledger.acknowledged.add(mark);
      } else {
        await sleep(10);
      }
    } catch {
      return; // the connection broke: this round is over
    }
  }
}

const marksOf = "select split_part(msg, ' ', 1) as mark, count(*)::int as n, count(distinct msg)::int as d from ";

/** Every acknowledged request is there; every other one is there whole or not at all; nothing twice. */
function expectExactlyOnce(rows: Record<string, unknown>[], ledger: Ledger): void {
  const counts = new Set(rows.map((row) => row["mark"] as string));
  expect([...ledger.acknowledged].filter((mark) => !counts.has(mark))).toEqual([]);
  const wrong = rows.filter((row) => row["n"] !== recordsPerRequest || row["d"] !== row["n"]);
  expect(wrong).toEqual([]);
  expect([...counts].every((mark) => ledger.sent.has(mark))).toBe(true);
}

test.each(["telemetry-ingestion-srv", "telemetry-monolith"])(
  "every record that %s acknowledged is found exactly once after kill -9",
  { timeout: 180_000 + rounds * 20_000 },
  async (program) => {
    const ledger: Ledger = { sent: new Map(), acknowledged: new Set() };
    const start = (): Promise<ServerProcess> =>
      startServerProcess(program, {
        SVC_DATA_DIR: dataDirectory,
        SVC_INGESTION_LISTEN: "127.0.0.1:0",
        SVC_INGESTION_WORKERS: "2",
        SVC_LOG_LEVEL: "info",
        ...(program === "telemetry-monolith" && {
          SVC_ROLES: "ingestion,analytics",
          SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
          SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
        }),
      });
    for (let round = 0; round < rounds; round++) {
      const server = await start();
      const unanswered = [...ledger.sent.keys()].filter((mark) => !ledger.acknowledged.has(mark));
      const before = ledger.acknowledged.size;
      const clientsDone = Array.from({ length: clients }, () => load(server.url, ledger, unanswered));
      await expect.poll(() => ledger.acknowledged.size).toBeGreaterThan(before + clients);
      await sleep(Math.random() * 400);
      if (round % 3 === 1) {
        await killPostgres();
      }
      if (round % 3 === 1) {
        await sleep(Math.random() * 50);
      }
      await server.end("SIGKILL");
      await Promise.all(clientsDone);
    }
    expect(ledger.acknowledged.size).toBeGreaterThan(rounds * clients);
    const storeUri = pathToFileURL(path.join(dataDirectory, "lake")).href;
    const rows = await withDatabase((sql) => readRows(sql, storeUri, "log_entries", `${marksOf} t group by all`));
    expectExactlyOnce(rows, ledger);
    if (program !== "telemetry-monolith") {
      return;
    }
    const monolith = await start();
    await expect.poll(() => monolith.output()).toMatch(flightAddress);
    const port = Number(flightAddress.exec(monolith.output())?.[1]);
    const found = await plainRows({ port, key: analyticsKey }, `${marksOf} log_entries group by all`);
    await monolith.end("SIGTERM");
    expectExactlyOnce(found, ledger);
  },
);
