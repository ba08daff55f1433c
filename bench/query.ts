/**
 * `pnpm bench query [--rows 5000000] [--partitions 20]`
 *
 * query.first: time to the first batch of `SELECT 1`, flight info included. query.scan: an aggregation
 * through the server against bare DuckDB on the same files and as many threads. query.stream: rows and
 * bytes a second out of DoGet against a bare grpc-js stream of the same messages in the same process.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";

import { DuckDBInstance } from "@duckdb/node-api";
import { Client, credentials, Metadata, Server, ServerCredentials } from "@grpc/grpc-js";

import { mintAnalyticsKey } from "../src/auth/keys.js";
import { startEmbeddedPostgres } from "../src/db/embedded.js";
import { migrate } from "../src/db/migrations.js";
import { connect } from "../src/db/sql.js";
import { parseConfig } from "../src/runtime/config/parse.js";
import { createSilentLogger } from "../src/runtime/log.js";
import { createMetrics } from "../src/runtime/metrics.js";
import { flightServiceDefinition } from "../src/routes/flight/service.js";
import { startAnalyticsServer } from "../src/servers/analytics.js";
import { encodeAny, flightSqlNames } from "../src/wire/flight-protobuf.js";
import { addPartition, createTestLake, type TestLake } from "../test/helpers/lake.js";
import { describeEnvironment } from "./machine.js";
import { printTable } from "./table.js";

const service = "/arrow.flight.protocol.FlightService";
const same = (bytes: Buffer): Buffer => bytes;

function bytesField(field: number, value: Uint8Array): Buffer {
  const varint = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >>> 7)]);
  return Buffer.concat([
    Buffer.from(varint(field * 8 + 2)),
    Buffer.from(varint(value.length)),
    value,
  ]);
}

/** The bytes of a field of a message, which must hold it. */
function inner(message: Buffer, wanted: number): Buffer {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  for (;;) {
    const tag = varint();
    const length = varint();
    if (tag % 8 !== 2) continue;
    if (tag >> 3 === wanted) return message.subarray(at, at + length);
    at += length;
    if (at >= message.length) throw new Error(`no field ${wanted}`);
  }
}

interface Reader {
  /** Reads a result; the messages are counted and dropped. */
  read(
    sql: string,
  ): Promise<{ firstMs: number; totalMs: number; bytes: number; messages: Buffer[] }>;
  close(): void;
}

function createReader(port: number, key: string, keep: boolean): Reader {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
  });
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${key}`);
  return {
    read: async (sql) => {
      const startMs = performance.now();
      const command = encodeAny(flightSqlNames.statementQuery, bytesField(1, Buffer.from(sql)));
      const descriptor = Buffer.concat([Buffer.from([8, 2]), bytesField(2, command)]);
      const info = await new Promise<Buffer>((resolve, reject) => {
        client.makeUnaryRequest(
          `${service}/GetFlightInfo`,
          same,
          same,
          descriptor,
          metadata,
          (error, response) => {
            if (error === null && response !== undefined) resolve(response);
            else reject(error ?? new Error("no answer"));
          },
        );
      });
      const ticket = inner(inner(info, 3), 1);
      const stream = client.makeServerStreamRequest(
        `${service}/DoGet`,
        same,
        same,
        ticket,
        metadata,
      );
      let firstMs = 0;
      let bytes = 0;
      let count = 0;
      const messages: Buffer[] = [];
      for await (const message of stream as AsyncIterable<Buffer>) {
        if (count++ === 1) firstMs = performance.now() - startMs;
        bytes += message.length;
        if (keep) messages.push(message);
      }
      return { firstMs, totalMs: performance.now() - startMs, bytes, messages };
    },
    close: () => {
      client.close();
    },
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

async function repeat(times: number, run: () => Promise<number>): Promise<number> {
  const results: number[] = [];
  for (let i = 0; i < times; i++) results.push(await run());
  return median(results);
}

/** Streams given messages over bare grpc-js and returns the milliseconds it took. */
async function bareStream(messages: readonly Buffer[]): Promise<number> {
  const server = new Server({ "grpc.max_send_message_length": -1 });
  server.addService(
    { DoGet: flightServiceDefinition["DoGet"] as never },
    {
      DoGet: (call: {
        write(message: Buffer, done: (error?: Error | null) => void): boolean;
        end(): void;
      }) => {
        const send = (at: number): void => {
          const message = messages[at];
          if (message === undefined) call.end();
          else {
            call.write(message, () => {
              send(at + 1);
            });
          }
        };
        send(0);
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
  });
  const startMs = performance.now();
  const stream = client.makeServerStreamRequest(
    `${service}/DoGet`,
    same,
    same,
    Buffer.alloc(0),
    new Metadata(),
  );
  let bytes = 0;
  for await (const message of stream as AsyncIterable<Buffer>) bytes += message.length;
  const elapsedMs = performance.now() - startMs;
  client.close();
  server.forceShutdown();
  if (bytes === 0) throw new Error("nothing was streamed");
  return elapsedMs;
}

async function fillLake(
  lake: TestLake,
  sql: Parameters<typeof addPartition>[1],
  rows: number,
  partitions: number,
): Promise<string[]> {
  const files: string[] = [];
  const each = Math.ceil(rows / partitions);
  for (let p = 0; p < partitions; p++) {
    const added = await addPartition(lake, sql, {
      table: "log_entries",
      audience: "public",
      rowsSql: `SELECT make_timestamp_ns(1763726400000000000 + ${p} * 60000000000 + i * 1000) AS time,
        CAST(1 + hash(i + ${p}) % 6 AS INTEGER) AS level, 'target.' || (i % 20) AS target,
        'request ' || hash(i * 31 + ${p}) || ' took ' || (i % 977) || ' ms and was answered' AS msg,
        '{"http.route":"/v' || (i % 100) || '","user":"u' || (hash(i) % 5000) || '"}' AS properties,
        'service ' || (i % 5) AS service_name FROM range(${each}) t(i)`,
    });
    files.push(added.path);
  }
  return files;
}

/** Runs the bench; see the head of this file. */
export async function benchQuery(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      rows: { type: "string", default: "5000000" },
      partitions: { type: "string", default: "20" },
    },
  });
  const rows = Number(values.rows);
  const logger = createSilentLogger();
  const dataDirectory = await mkdtemp(path.join(tmpdir(), "telemetry-bench-query-"));
  const postgres = await startEmbeddedPostgres({ dataDirectory, logger });
  const lake = await createTestLake();
  const sql = connect({
    connectionString: postgres.connectionString,
    maxConnections: 2,
    applicationName: "bench",
    logger,
  });
  try {
    await migrate(sql, logger);
    const { key } = await mintAnalyticsKey(sql, { name: "bench", createdBy: "bench" });
    const files = await fillLake(lake, sql, rows, Number(values.partitions));
    const server = await startAnalyticsServer({
      config: parseConfig("analytics", [], {
        SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
        SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      }),
      connectionString: postgres.connectionString,
      objectStoreUri: lake.uri,
      logger,
      metrics: createMetrics(),
    });
    try {
      await report(server.address.port, key, files, rows);
    } finally {
      await server.stop();
    }
  } finally {
    await sql.end({ timeout: 5 });
    await postgres.stop();
    await lake.remove();
    await rm(dataDirectory, { recursive: true, force: true });
  }
}

async function report(
  port: number,
  key: string,
  files: readonly string[],
  rows: number,
): Promise<void> {
  const { cpu, cores, node, commit } = describeEnvironment();
  console.log(
    `${cpu}, ${cores} cores, Node ${node}, ${commit}; ${rows} rows in ${files.length} objects`,
  );
  const reader = createReader(port, key, false);
  await repeat(20, async () => (await reader.read("SELECT 1")).firstMs);
  let salt = 0;
  const known = await repeat(200, async () => (await reader.read("SELECT 1")).firstMs);
  const fresh = await repeat(200, async () => (await reader.read(`SELECT ${salt++}`)).firstMs);

  const aggregation =
    "SELECT level, target, count(*), max(length(msg)) FROM log_entries WHERE msg LIKE '%7 ms%' GROUP BY ALL";
  const instance = await DuckDBInstance.create(":memory:", { threads: String(cores) });
  const connection = await instance.connect();
  const list = files.map((file) => `'${file}'`).join(",");
  await connection.run(`CREATE VIEW log_entries AS SELECT * FROM read_parquet([${list}])`);
  const bare = async (): Promise<number> => {
    const startMs = performance.now();
    await (await connection.run(aggregation)).getRowsJson();
    return performance.now() - startMs;
  };
  await bare();
  await reader.read(aggregation);
  const bareMs = await repeat(7, bare);
  const scanMs = await repeat(7, async () => (await reader.read(aggregation)).totalMs);
  connection.closeSync();
  instance.closeSync();

  printTable("query", [
    { id: "query.first, text seen before", value: `${known.toFixed(2)} ms`, target: "5 ms" },
    { id: "query.first, new text", value: `${fresh.toFixed(2)} ms`, target: "5 ms" },
    {
      id: "query.scan",
      value: `${scanMs.toFixed(1)} ms; bare DuckDB ${bareMs.toFixed(1)} ms`,
      target: `${(bareMs * 1.1 + 5).toFixed(1)} ms`,
    },
  ]);

  const streams: Record<string, string> = {
    numbers: "SELECT time, level, epoch_ns(time) AS ns, level * 1.5 AS d FROM log_entries",
    texts: "SELECT time, level, target, msg, properties FROM log_entries",
  };
  const keeper = createReader(port, key, true);
  const table: Record<string, string | number>[] = [];
  for (const [name, query] of Object.entries(streams)) {
    const limited = `${query} LIMIT ${Math.min(rows, 2_000_000)}`;
    const { messages, bytes } = await keeper.read(limited);
    const ms = await repeat(3, async () => (await reader.read(limited)).totalMs);
    const grpcMs = await repeat(3, () => bareStream(messages));
    table.push({
      id: `query.stream ${name}`,
      "MB/s": Math.round(bytes / ms / 1000),
      "bare grpc MB/s": Math.round(bytes / grpcMs / 1000),
      ratio: (grpcMs / ms).toFixed(2),
      "M rows/s": (Math.min(rows, 2_000_000) / ms / 1000).toFixed(2),
    });
  }
  printTable("query.stream (target: ratio 0.8)", table);
  keeper.close();
  reader.close();
}
