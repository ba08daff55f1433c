import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance, type DuckDBConnection, type Json } from "@duckdb/node-api";
import { tableFromIPC } from "apache-arrow";
import { readParquet } from "parquet-wasm";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tableLayouts } from "../../src/lake/parquet/layout.js";
import { encodeColumns, encodeTable, type ParquetFile } from "../../src/lake/parquet/write.js";
import { createColumns, logEntries, tables } from "../../src/lake/tables/tables.js";
import { pushValue, type PlainValue, randomTable } from "../helpers/lake/lake-rows.js";

let directory = "";
let instance: DuckDBInstance;
let connection: DuckDBConnection;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "lake-files-"));
  instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  connection = await instance.connect();
});
afterAll(async () => {
  connection.closeSync();
  instance.closeSync();
  await rm(directory, { recursive: true, force: true });
});

let files = 0;
async function store(chunks: readonly Uint8Array[]): Promise<string> {
  const path = join(directory, `${files++}.parquet`);
  await writeFile(path, Buffer.concat(chunks));
  return path;
}

async function query(text: string): Promise<Record<string, Json>[]> {
  return (await connection.runAndReadAll(text)).getRowObjectsJson();
}

/** Log rows that differ in time and message only. */
function logs(
  rows: number,
  timeOf: (row: number) => bigint = BigInt,
  traceIdOf: (row: number) => string | null = () => null,
) {
  const columns = createColumns(logEntries);
  const defaults: Record<string, PlainValue> = {
    time: 0n,
    severity_number: 9,
    flags: 0n,
    dropped_attributes_count: 0n,
    scope_dropped_attributes_count: 0n,
    resource_dropped_attributes_count: 0n,
    insert_time: 1n,
  };
  for (let row = 0; row < rows; row++) {
    for (const [name, definition] of Object.entries(logEntries)) {
      const column = columns[name as keyof typeof columns];
      if (name === "time") {
        pushValue(column, timeOf(row));
      } else if (name === "msg") {
        pushValue(column, `message ${row} of many`);
      } else if (name === "trace_id") {
        pushValue(column, traceIdOf(row));
      } else if (definition.nullable) {
        pushValue(column, null);
      } else {
        pushValue(column, defaults[name] ?? "constant");
      }
    }
  }
  return columns;
}

function encodeLogs(rows: number, compression: "none" | "lz4", timeOf?: (row: number) => bigint): ParquetFile {
  return encodeTable("log_entries", logs(rows, timeOf), rows, { compression });
}

test("the file's times bound its rows, also before 1970", () => {
  const file = encodeLogs(3, "none", (row) => [5n, -7n, 2n ** 62n][row] ?? 0n);
  expect(file.minTimeNs).toBe(-7n);
  expect(file.maxTimeNs).toBe(2n ** 62n);
  expect(file.rowCount).toBe(3);
});

test.each([
  ["none", "at the beginning", 0, 40_000],
  ["none", "at the end", 40_000, 80_000],
  ["lz4", "in the middle", 30_000, 50_000],
] as const)("readers find texts that only some pages have (%s, %s)", async (compression, _where, from, to) => {
  const rows = 80_000;
  const has = (row: number): boolean => row >= from && row < to;
  const columns = logs(rows, BigInt, (row) => (has(row) ? String(row).padStart(64, "0") : null));
  const { chunks } = encodeTable("log_entries", columns, rows, { compression });
  const path = await store(chunks);
  expect(
    await query(`select count(trace_id)::int as n, min(trace_id::int) as a, max(trace_id::int) as b from '${path}'`),
  ).toEqual([{ n: to - from, a: from, b: to - 1 }]);
  expect(tableFromIPC(readParquet(Buffer.concat(chunks)).intoIPCStream()).numRows).toBe(rows);
});

test("statistics let a reader skip a file whose times or process do not match", async () => {
  const rows = 2000;
  const file = encodeLogs(rows, "none");
  const path = await store(file.chunks);
  const [time] = await query(
    `select contains(stats_max_value, '00:00:00.000001999') as exact, stats_null_count from parquet_metadata('${path}')
     where path_in_schema = 'time'`,
  );
  expect(time).toEqual({ exact: true, stats_null_count: "0" });
  const [process] = await query(
    `select stats_min_value, stats_max_value from parquet_metadata('${path}')
     where path_in_schema = 'process_id'`,
  );
  expect(process).toEqual({ stats_min_value: "constant", stats_max_value: "constant" });
  const [nulls] = await query(
    `select stats_null_count from parquet_metadata('${path}') where path_in_schema = 'span_id'`,
  );
  expect(nulls).toEqual({ stats_null_count: String(rows) });
});

test("columns that hold one value or none take next to nothing", async () => {
  const rows = 20_000;
  const file = encodeLogs(rows, "none");
  const path = await store(file.chunks);
  const sizes = await query(
    `select path_in_schema as name, total_compressed_size::int as bytes
     from parquet_metadata('${path}')`,
  );
  const large = sizes.filter(({ bytes }) => Number(bytes) > 200).map(({ name }) => name);
  expect(large).toEqual(["time", "msg"]);
});

test("LZ4 is used where it pays and nowhere else", async () => {
  const rows = 20_000;
  const file = encodeLogs(rows, "lz4");
  const path = await store(file.chunks);
  const codecs = await query(
    `select path_in_schema as name, compression from parquet_metadata('${path}')
     where path_in_schema in ('msg', 'flags', 'span_id') order by name`,
  );
  expect(codecs).toEqual([
    { name: "flags", compression: "UNCOMPRESSED" },
    { name: "msg", compression: "LZ4_RAW" },
    { name: "span_id", compression: "UNCOMPRESSED" },
  ]);
  expect(await query(`select count(distinct msg)::int as n from '${path}'`)).toEqual([{ n: rows }]);
});

test("long text is split into pages of about a megabyte", async () => {
  const columns = logs(5000);
  columns.properties.reset();
  for (let row = 0; row < 5000; row++) {
    pushValue(columns.properties, `${row}${"p".repeat(1000)}`);
  }
  const file = encodeTable("log_entries", columns, 5000, { compression: "none" });
  const path = await store(file.chunks);
  expect(Math.max(...file.chunks.map((chunk) => chunk.length))).toBeLessThan(1.2 * 1024 * 1024);
  expect(await query(`select sum(length(properties))::int as n from '${path}' where time >= '1970-01-01'`)).toEqual([
    { n: 5000 * 1000 + 10 + 90 * 2 + 900 * 3 + 4000 * 4 },
  ]);
});

test("files of several tables and batches are read together by name", async () => {
  const a = randomTable(tables.spans, 50, 1);
  const b = randomTable(tables.spans, 70, 2);
  const paths = [
    await store(encodeColumns(tableLayouts.spans, a.columns, 50, "none").chunks),
    await store(encodeColumns(tableLayouts.spans, b.columns, 70, "lz4").chunks),
  ];
  const list = paths.map((path) => `'${path}'`).join(", ");
  expect(await query(`select count(*)::int as n from read_parquet([${list}], union_by_name = true)`)).toEqual([
    { n: 120 },
  ]);
});

test("times are nanoseconds to DuckDB", async () => {
  const path = await store(encodeLogs(1, "none", () => 1_790_000_000_123_456_789n).chunks);
  expect(await query(`select typeof(time) as type, epoch_ns(time)::varchar as ns from '${path}'`)).toEqual([
    { type: "TIMESTAMP_NS", ns: "1790000000123456789" },
  ]);
});

test("equal rows give equal files, and every table has a schema hash of its own", () => {
  const once = () => encodeLogs(77, "lz4");
  expect(Buffer.concat(once().chunks)).toEqual(Buffer.concat(once().chunks));
  expect(new Set(Object.values(tableLayouts).map((layout) => layout.schemaHash)).size).toBe(4);
});

test("columns of unequal length are refused", () => {
  const columns = logs(3);
  columns.flags.push(0, 0);
  expect(() => encodeTable("log_entries", columns, 3, { compression: "none" })).toThrow(
    /column flags holds 4 rows, not 3/,
  );
});
