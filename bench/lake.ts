/**
 * `pnpm bench lake [--rounds 5] [--seconds 10] [--rate N] [--cpu 100] [--save]`: an ingestion server under load with a
 * maintenance server beside it, each a process of its own, round after round over the same lake.
 *
 * Prints for each round what a log record costs to ingest (`ingest`) and with all merging (`ingest.total`), how many
 * objects and rows waited to be merged when the load ended, and for how long they were merged afterwards. `growth` is the
 * cost of ingestion in the last round against the first: the lake has grown by as many times. Without `--rate` (requests
 * a second) the load is as high as it gets. At the end: bytes stored for each record against gzip -6 of the same OTLP.
 */
import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";

import type { Sql } from "../src/db/sql.js";
import { createLogger } from "../src/runtime/log/log.js";
import { atMost, type Figure, figure, noLimit } from "./figures.js";
import { assertAccepted, generateLoad, prepareDatabase, startServer } from "./load/ingestion-process.js";
import { startMaintenance, untilMerged, waitingOf } from "./load/maintenance-process.js";
import { buildPayload } from "./load/otlp-payloads.js";
import { startBenchDatabase } from "./run/database.js";
import { describeEnvironment, treeCpuSeconds } from "./run/machine.js";
import { saveResults } from "./run/results.js";
import { count, flag, number, readOptions } from "./run/options.js";
import { printTable } from "./run/table.js";

const recordsPerRequest = 1000;
const signal = "logs";

/** Runs the bench; see the head of this file. */
export async function benchLake(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    rounds: count(5, "rounds over the same lake"),
    seconds: number(10, "load of a round", 1),
    rate: number(0, "requests a second; 0: as many as there can be"),
    cpu: count(100, "SVC_MAINTENANCE_CPU_PERCENT"),
    connections: count(16, "senders"),
    save: flag("keeps the result under bench/results/"),
  };
  const values = readOptions("lake", "ingestion and merging, while the lake grows", options, argv);
  const directory = tmpdir();
  const logger = createLogger({ level: "warn", service: "bench" });
  const database = await startBenchDatabase({ dataDirectory: directory, maxConnections: 1, logger });
  const { connectionString, sql } = database;
  const rows: Record<string, string | number>[] = [];
  let stored: Stored | undefined;
  try {
    const { authorization } = await prepareDatabase(connectionString, logger);
    const server = await startServer({ connectionString, dataDirectory: directory, driver: "uws" });
    const maintenance = await startMaintenance(connectionString, directory, String(values.cpu));
    try {
      for (let round = 1; round <= values.rounds; round++) {
        const before = { server: treeCpuSeconds(server.pid), maintenance: treeCpuSeconds(maintenance.pid) };
        const load = await generateLoad(`${server.url}/ingestion/otlp/v1/${signal}`, authorization, {
          signal,
          records: recordsPerRequest,
          seconds: values.seconds,
          connections: values.connections,
          ...(values.rate === 0 ? {} : { rate: values.rate }),
        });
        assertAccepted(`round ${round}`, load);
        const ingested = treeCpuSeconds(server.pid) - before.server;
        const waiting = await waitingOf(sql);
        const endedMs = performance.now();
        await untilMerged(maintenance.url);
        const mergedSeconds = (performance.now() - endedMs) / 1000;
        const merged = treeCpuSeconds(maintenance.pid) - before.maintenance;
        const perRecord = (seconds: number): string => ((seconds * 1e6) / load.acknowledgedRecords).toFixed(2);
        rows.push({
          round,
          records: load.acknowledgedRecords,
          "records/s": Math.round(load.acknowledgedRecords / load.seconds),
          "ingest, CPU us/record": perRecord(ingested),
          "merging, CPU us/record": perRecord(merged),
          "ingest.total, CPU us/record": perRecord(ingested + merged),
          "objects waiting": waiting.objects,
          "rows waiting": waiting.rows,
          "s until merged": mergedSeconds.toFixed(1),
          "objects then": (await storedOf(sql)).objects,
        });
      }
      stored = await storedOf(sql);
    } finally {
      await server.stop();
      await maintenance.stop();
    }
  } finally {
    await database.stop();
  }
  const cost = (row: Record<string, string | number> | undefined): number => Number(row?.["ingest, CPU us/record"]);
  const gzipped = gzipSync(buildPayload(signal, recordsPerRequest, 1).body, { level: 6 }).length / recordsPerRequest;
  const summary = {
    growth: Number((cost(rows.at(-1)) / cost(rows[0])).toFixed(2)),
    "bytes stored/record": Number(((stored?.bytes ?? 0) / (stored?.rows ?? 1)).toFixed(1)),
    "gzip -6 of OTLP, bytes/record": Number(gzipped.toFixed(1)),
  };
  printTable("ingestion and merging", rows);
  printTable("the lake", [summary]);
  if (values.save) {
    saveResults("lake", { environment: describeEnvironment(), settings: values, rows, summary });
  }
  const totals = rows.map((row) => Number(row["ingest.total, CPU us/record"]));
  return [
    figure("ingest.total, merging included", "us/record", totals, atMost(4)),
    figure(
      "growth: the last round's cost of ingestion",
      "times",
      summary.growth,
      values.rounds < 10 ? noLimit("target is for ten rounds") : atMost(1.1, "the first round"),
    ),
    figure(
      "stored",
      "bytes/record",
      summary["bytes stored/record"],
      atMost(summary["gzip -6 of OTLP, bytes/record"], "gzip -6 of the OTLP"),
    ),
  ];
}

interface Stored {
  readonly objects: number;
  readonly rows: number;
  readonly bytes: number;
}

async function storedOf(sql: Sql): Promise<Stored> {
  const [row] = await sql<Stored[]>`select count(*)::int as objects, sum(row_count)::float8 as rows,
    sum(file_bytes)::float8 as bytes from lakehouse_partitions`;
  return row ?? { objects: 0, rows: 0, bytes: 0 };
}
