/** What the load generator counts is what the server has stored. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";
import { expect, test } from "vitest";

import {
  generateLoad,
  type LoadProtocol,
  loadUrl,
  prepareDatabase,
  startServer,
  stopServer,
} from "../../bench/load/ingestion-process.js";
import type { LoadSignal } from "../../bench/load/otlp-payloads.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";

const loads: readonly {
  signal: LoadSignal;
  protocol: LoadProtocol;
  table: string;
  rate?: number;
  encoding?: "gzip";
}[] = [
  { signal: "logs", protocol: "http", table: "log_entries", encoding: "gzip" },
  { signal: "traces", protocol: "grpc", table: "spans" },
  { signal: "metrics", protocol: "http", table: "measures", rate: 40 },
];

/** Rows of all objects of a table. */
async function storedRows(lake: string, table: string): Promise<number> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  try {
    const result = await connection.runAndReadAll(
      `SELECT count(*) FROM read_parquet('${lake}/${table}/**/*.parquet', hive_partitioning = false)`,
    );
    return Number(result.getRows()[0]?.[0]);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

test("the generator's counts equal what the lake holds", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "bench-counts-"));
  const logger = createSilentLogger();
  const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger, durable: false });
  const { connectionString } = postgres;
  try {
    const { authorization } = await prepareDatabase(connectionString, logger);
    const server = await startServer({ connectionString, dataDirectory: directory, driver: "uws" });
    try {
      for (const { signal, protocol, table, rate, encoding } of loads) {
        const url = loadUrl(server, signal, protocol);
        const report = await generateLoad(url, authorization, {
          signal,
          protocol,
          records: "10,100",
          seconds: 1,
          connections: 4,
          ...(rate === undefined ? {} : { rate }),
          ...(encoding === undefined ? {} : { encoding }),
        });
        const { records, requests, statuses, acknowledgedRecords } = report;
        const stored = await storedRows(path.join(directory, "lake"), table);
        expect(records).toBeGreaterThan(0);
        expect({ table, statuses, acknowledgedRecords, stored }).toEqual({
          table,
          statuses: { 200: requests },
          acknowledgedRecords: records,
          stored: records,
        });
      }
    } finally {
      await stopServer(server);
    }
  } finally {
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  }
});
