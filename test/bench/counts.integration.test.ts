/** What the load generator counts is what the server has stored. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { DuckDBInstance } from "@duckdb/node-api";
import { expect, test, vi } from "vitest";

import {
  generateLoad,
  type LoadProtocol,
  loadUrl,
  prepareDatabase,
  startServer,
} from "../../bench/load/ingestion-process.js";
import type { LoadEncoding, LoadFormat, LoadSignal } from "../../bench/load/otlp-payloads.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";

/** Each format and coding, and each signal in both formats; rows of a table add up. */
const loads: readonly {
  signal: LoadSignal;
  protocol: LoadProtocol;
  table: string;
  rate?: number;
  encoding?: LoadEncoding;
  format?: LoadFormat;
}[] = [
  { signal: "logs", protocol: "http", table: "log_entries", encoding: "gzip" },
  { signal: "logs", protocol: "http", table: "log_entries", encoding: "zstd" },
  { signal: "logs", protocol: "http", table: "log_entries", format: "json" },
  { signal: "logs", protocol: "http", table: "log_entries", format: "json", encoding: "zstd" },
  { signal: "traces", protocol: "grpc", table: "spans" },
  { signal: "traces", protocol: "http", table: "spans", format: "json", encoding: "gzip" },
  { signal: "metrics", protocol: "http", table: "measures", rate: 40 },
  { signal: "metrics", protocol: "http", table: "measures", format: "json" },
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

test("the generator's counts equal what the lake holds, wherever the environment has data go", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "bench-counts-"));
  vi.stubEnv("SVC_DATA_DIR", path.join(directory, "another"));
  vi.stubEnv("SVC_OBJECT_STORE_URI", pathToFileURL(path.join(directory, "another-lake")).href);
  vi.stubEnv("SVC_SQL_CONNECTION_STRING", "postgres://another@127.0.0.1:1/telemetry");
  const logger = createSilentLogger();
  const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger, durable: false });
  const { connectionString } = postgres;
  try {
    const { authorization } = await prepareDatabase(connectionString, logger);
    const server = await startServer({ connectionString, dataDirectory: directory, driver: "uws" });
    try {
      const before = new Map<string, number>();
      for (const { signal, protocol, table, rate, encoding, format } of loads) {
        const url = loadUrl(server, signal, protocol);
        const report = await generateLoad(url, authorization, {
          signal,
          protocol,
          records: "10,100",
          seconds: 0.5,
          connections: 4,
          ...(rate === undefined ? {} : { rate }),
          ...(encoding === undefined ? {} : { encoding }),
          ...(format === undefined ? {} : { format }),
        });
        const { records, requests, statuses, acknowledgedRecords } = report;
        const rows = await storedRows(path.join(directory, "lake"), table);
        const stored = rows - (before.get(table) ?? 0);
        before.set(table, rows);
        expect(records).toBeGreaterThan(0);
        expect({ signal, encoding, format, statuses, acknowledgedRecords, stored }).toEqual({
          signal,
          encoding,
          format,
          statuses: { 200: requests },
          acknowledgedRecords: records,
          stored: records,
        });
      }
    } finally {
      await server.stop();
    }
  } finally {
    vi.unstubAllEnvs();
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  }
});
