/** An ingestion server on a fresh database and a fresh store, and what it takes to look behind it. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { DuckDBInstance, type JS } from "@duckdb/node-api";

import { mintIngestionKey } from "../../../src/auth/keys/keys.js";
import type { Sql } from "../../../src/db/sql.js";
import type { TableName } from "../../../src/lake/tables/tables.js";
import { parseConfig } from "../../../src/runtime/config/parse.js";
import type { Logger } from "../../../src/runtime/log/log.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { type IngestionServer, startIngestionServer } from "../../../src/servers/ingestion.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";
import { createTestDatabase, type TestDatabase } from "../postgres/postgres.js";

/** A response of {@link TestIngestion.post}. */
interface PostResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

export interface TestIngestion {
  readonly server: IngestionServer;
  readonly port: number;
  readonly url: string;
  /** Of OTLP/gRPC, which `SVC_OTLP_GRPC_LISTEN` turns on; null without. */
  readonly grpcUrl: string | null;
  readonly database: TestDatabase;
  readonly storeUri: string;
  /** A key of audience `team-a`. */
  readonly key: string;
  /** Sends a body with the test's key, as protobuf unless `headers` say otherwise. */
  post(signal: "logs" | "metrics" | "traces", body: Buffer, headers?: Record<string, string>): Promise<PostResponse>;
  /** A key of another audience. */
  mint(audience: string): Promise<string>;
  /** One value of /metrics, summed over its label sets that contain `labels`. */
  metric(name: string, labels?: string): Promise<number>;
  /** Rows of a table as the catalogue publishes it. */
  rows(table: TableName, sqlText?: string): Promise<Record<string, JS>[]>;
  stop(): Promise<void>;
}

export interface TestIngestionOptions {
  /** Variables over the test's own. */
  readonly environment?: Record<string, string>;
  /** See IngestionServerOptions. */
  readonly toleratesTaken?: boolean;
  /** Shares database and store with another one, which outlives this one. */
  readonly beside?: TestIngestion;
  /** In place of one whose lines are searched for keys. */
  readonly logger?: Logger;
  /** Another way to the same database, for example through a proxy. */
  readonly connectionString?: (original: string) => string;
}

export async function startTestIngestion(o: TestIngestionOptions = {}): Promise<TestIngestion> {
  const database = o.beside?.database ?? (await createTestDatabase());
  const directory = o.beside === undefined ? await mkdtemp(path.join(tmpdir(), "ingest-test-")) : null;
  const storeUri = o.beside?.storeUri ?? pathToFileURL(path.join(directory ?? "", "lake")).href;
  const mint = async (audience: string): Promise<string> =>
    (await mintIngestionKey(database.sql, { name: "test", audience, createdBy: "test" })).key;
  const key = o.beside?.key ?? (await mint("team-a"));
  const server = await startIngestionServer({
    config: parseConfig("ingestion", [], {
      SVC_INGESTION_LISTEN: "127.0.0.1:0",
      SVC_OTLP_HTTP_LISTEN: "",
      SVC_OTLP_GRPC_LISTEN: "",
      SVC_INGESTION_WORKERS: "2",
      SVC_INGESTION_ARENA_BYTES: String(16 * 1024 * 1024),
      ...o.environment,
    }),
    connectionString: o.connectionString?.(database.connectionString) ?? database.connectionString,
    objectStoreUri: storeUri,
    toleratesTaken: o.toleratesTaken ?? false,
    logger: o.logger ?? createTappedLogger(),
    metrics: createMetrics(),
  });
  const { port } = server.address;
  const url = `http://127.0.0.1:${port}`;
  return {
    server,
    port,
    url,
    grpcUrl: server.otlpGrpcAddress === null ? null : `http://127.0.0.1:${server.otlpGrpcAddress.port}`,
    database,
    storeUri,
    key,
    mint,
    async post(signal, body, headers = {}) {
      const response = await fetch(`${url}/ingestion/otlp/v1/${signal}`, {
        method: "POST",
        body,
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/x-protobuf",
          ...headers,
        },
      });
      return {
        status: response.status,
        headers: response.headers,
        body: Buffer.from(await response.arrayBuffer()),
      };
    },
    metric: (name, labels = "") => readMetric(url, name, labels),
    rows: (table, sqlText = "select * from t") => readRows(database.sql, storeUri, table, sqlText),
    async stop() {
      await server.stop();
      if (directory === null) {
        return;
      }
      await database.drop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function readMetric(url: string, name: string, labels: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  let total = 0;
  for (const line of text.split("\n")) {
    if ((line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(labels)) {
      total += Number(line.slice(line.lastIndexOf(" ")));
    }
  }
  return total;
}

/** Reads the published objects of a table with DuckDB; in `sqlText` they are `t`. */
export async function readRows(
  sql: Sql,
  storeUri: string,
  table: TableName,
  sqlText = "select * from t",
): Promise<Record<string, JS>[]> {
  const partitions = await sql<{ path: string }[]>`
    select path from lakehouse_partitions where view_set = ${table}`;
  if (partitions.length === 0) {
    return [];
  }
  const root = fileURLToPath(storeUri);
  const files = partitions.map(({ path: object }) => `'${path.join(root, object)}'`).join(", ");
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection = await instance.connect();
  try {
    await connection.run(
      `create temp view t as select * from read_parquet([${files}], union_by_name = true, hive_partitioning = false)`,
    );
    return (await connection.runAndReadAll(sqlText)).getRowObjectsJS();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
