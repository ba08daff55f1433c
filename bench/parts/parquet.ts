/**
 * The lake's Parquet writer alone: CPU per log record of encoding, and of encoding, writing and syncing,
 * with and without LZ4, beside parquet-wasm over the same rows.
 *
 * `pnpm bench parquet [--rows 27000] [--rounds 40] [--directory DIR]`
 *
 * parquet-wasm is given its rows inside its own memory already, so neither conversion to Arrow nor the
 * IPC copy is counted against it.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Compression, readParquet, writeParquet, WriterPropertiesBuilder } from "parquet-wasm";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { encodeTable } from "../../src/lake/parquet/write.js";
import { createColumns, type LogColumns, logEntries } from "../../src/lake/tables/tables.js";
import { seededRandom } from "../../test/helpers/seeded-random.js";
import { type Figure, figure, median } from "../figures.js";
import { describeEnvironment } from "../run/machine.js";
import { count, readOptions, text } from "../run/options.js";
import { printTable } from "../run/table.js";

const words =
  "request handled user cache miss database connection timeout retry order payment shipped item queue worker started finished error warning upstream token session checkout inventory refund gateway".split(
    " ",
  );
const recordsPerBlock = 100;

/** Log records like those of the load generator: 300 bytes as OTLP, half of them in a trace. */
function buildLogs(rows: number): LogColumns {
  const random = seededRandom(42);
  const columns = createColumns(logEntries);
  const pick = (values: readonly string[]): string => values[Math.floor(random() * values.length)] ?? "";
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join("");
  const text = (column: LogColumns["msg"], value: string): void => {
    const bytes = Buffer.from(value);
    column.reserve(bytes.length);
    column.bytes.set(bytes, column.byteLength);
    column.byteLength += bytes.length;
    column.finish();
  };
  const run = (column: LogColumns["target"], value: string, count: number): void => {
    const bytes = Buffer.from(value);
    column.appendBytes(bytes, 0, bytes.length, count);
  };
  const runNumber = (column: LogColumns["insert_time"], value: bigint, count: number): void => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(value);
    column.appendBytes(bytes, 0, 8, count);
  };
  const startNs = 1_790_000_000_000_000_000n;
  for (let row = 0; row < rows; row++) {
    const timeNs = startNs + BigInt(row * 1000) + BigInt(Math.floor(random() * 1e6));
    const low = Number(timeNs & 0xffffffffn);
    const high = Number(timeNs >> 32n);
    columns.time.push(low, high);
    columns.event_time.push(low, high);
    columns.observed_time.push(low, high);
    columns.level.push(Math.floor(random() * 6) + 1);
    columns.severity_number.push(Math.floor(random() * 24) + 1);
    text(columns.severity_text, pick(["INFO", "INFO", "WARN", "ERROR"]));
    text(columns.msg, `${Array.from({ length: 9 }, () => pick(words)).join(" ")} id=${hex(12)}`);
    columns.event_name.pushNull();
    if (random() < 0.5) {
      text(columns.trace_id, hex(32));
      text(columns.span_id, hex(16));
      columns.flags.push(1, 0);
    } else {
      columns.trace_id.pushNull();
      columns.span_id.pushNull();
      columns.flags.push(0, 0);
    }
    text(
      columns.properties,
      JSON.stringify({
        "http.request.method": pick(["GET", "POST", "PUT", "DELETE"]),
        "http.route": pick(["/api/orders", "/api/cart", "/api/users/{id}", "/login", "/search"]),
        "http.response.status_code": Math.floor(random() * 5) * 100,
        "user.id": hex(12),
        duration_ms: random() * 1000,
        "code.function": pick(words),
      }),
    );
    columns.dropped_attributes_count.push(0, 0);
    if (row % recordsPerBlock !== 0) {
      continue;
    }
    const count = Math.min(recordsPerBlock, rows - row);
    const host = Math.floor(random() * 8);
    run(columns.body_type, "string", count);
    run(columns.target, pick(["checkout", "http", "db"]), count);
    run(columns.scope_version, "1.2.3", count);
    run(columns.scope_properties, "{}", count);
    runNumber(columns.scope_dropped_attributes_count, 0n, count);
    columns.scope_schema_url.append(-1, count);
    run(columns.process_id, `${hex(7)}${host}-1111-4111-8111-${hex(12)}`, count);
    run(columns.stream_id, `${hex(7)}${host}-2222-4111-8111-${hex(12)}`, count);
    run(columns.block_id, `${hex(8)}-3333-4111-8111-${hex(12)}`, count);
    runNumber(columns.insert_time, startNs, count);
    run(columns.service_namespace, "shop", count);
    run(columns.service_name, "checkout", count);
    run(columns.service_instance_id, `instance-${host}`, count);
    run(columns.service_version, "1.0.0", count);
    run(columns.host_name, `host-${host}`, count);
    run(columns.process_properties, `{"service.name":"checkout","host.name":"${host}"}`, count);
    columns.resource_schema_url.append(-1, count);
    runNumber(columns.resource_dropped_attributes_count, 0n, count);
    columns.resource_entity_refs.append(-1, count);
  }
  return columns;
}

interface Figures {
  readonly cpuUs: number;
  readonly wallMs: number;
}

/** CPU of the process per round and the median wall time, after a warm-up. */
async function measure(rounds: number, work: () => Promise<void> | void): Promise<Figures> {
  for (let i = 0; i < 5; i++) {
    await work();
  }
  const wall: number[] = [];
  const before = process.cpuUsage();
  for (let i = 0; i < rounds; i++) {
    const start = performance.now();
    await work();
    wall.push(performance.now() - start);
  }
  const spent = process.cpuUsage(before);
  return { cpuUs: (spent.user + spent.system) / rounds, wallMs: median(wall) };
}

/** Runs the bench and prints its table. */
export async function benchParquet(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    rows: count(27_000, "rows of an object"),
    rounds: count(40, "rounds of each kind"),
    directory: text(tmpdir(), "where objects are written"),
  };
  const values = readOptions("parquet", "writing Parquet", options, argv);
  const rows = values.rows;
  const rounds = values.rounds;
  mkdirSync(values.directory, { recursive: true });
  const directory = mkdtempSync(join(values.directory, "bench-parquet-"));
  const columns = buildLogs(rows);
  const results: Record<string, string | number>[] = [];
  const report = (what: string, bytes: number, figures: Figures): void => {
    results.push({
      what,
      "bytes/record": (bytes / rows).toFixed(1),
      "CPU us/record": (figures.cpuUs / rows).toFixed(3),
      "wall ms (p50)": figures.wallMs.toFixed(2),
    });
  };
  try {
    const store = await openObjectStore(pathToFileURL(directory).href);
    let name = 0;
    for (const compression of ["none", "lz4"] as const) {
      const encode = (): ReturnType<typeof encodeTable> => encodeTable("log_entries", columns, rows, { compression });
      const file = encode();
      report(
        `encode, ${compression}`,
        file.bytes,
        await measure(rounds, () => {
          encode();
        }),
      );
      report(
        `write and sync, ${compression}`,
        file.bytes,
        await measure(rounds, () => store.put(`${name++}.parquet`, file.chunks)),
      );
      report(
        `encode, write and sync, ${compression}`,
        file.bytes,
        await measure(rounds, () => store.put(`${name++}.parquet`, encode().chunks)),
      );
    }
    const plain = encodeTable("log_entries", columns, rows, { compression: "none" });
    for (const [label, codec] of [
      ["none", Compression.UNCOMPRESSED],
      ["lz4", Compression.LZ4_RAW],
    ] as const) {
      const bytes = Buffer.concat(plain.chunks);
      let written = 0;
      const few = Math.max(3, rounds >> 2);
      const cost = await measure(few, () => {
        readParquet(bytes, { batchSize: rows }).free();
      });
      const both = await measure(few, () => {
        const properties = new WriterPropertiesBuilder().setCompression(codec).build();
        written = writeParquet(readParquet(bytes, { batchSize: rows }), properties).length;
      });
      report(`parquet-wasm encode, ${label}`, written, {
        cpuUs: both.cpuUs - cost.cpuUs,
        wallMs: both.wallMs - cost.wallMs,
      });
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const { cpu, node, commit } = describeEnvironment();
  printTable(`${rows} log records; ${cpu}, Node.js ${node}, ${commit}`, results);
  return results.map((row) => figure(String(row["what"]), "us/record", Number(row["CPU us/record"])));
}
