import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { DuckDBInstance, type DuckDBConnection } from "@duckdb/node-api";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TableDefinition, type TableName, tables } from "../../src/lake/tables/tables.js";
import { layOutTable, tableLayouts } from "../../src/lake/parquet/layout.js";
import { encodeColumns } from "../../src/lake/parquet/write.js";
import { randomTable } from "../helpers/lake/lake-rows.js";
import { readWithDuckDb, readWithParquetWasm } from "../helpers/lake/parquet-readers.js";

let directory = "";
let instance: DuckDBInstance;
let connection: DuckDBConnection;
beforeAll(async () => {
  instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  connection = await instance.connect();
  directory = await mkdtemp(join(tmpdir(), "lake-parquet-"));
});
afterAll(async () => {
  connection.closeSync();
  instance.closeSync();
  await rm(directory, { recursive: true, force: true });
});

let files = 0;

/** Writes random rows, and says where one of two readers reads something else than was written. */
async function roundTrip(
  definition: TableDefinition,
  layout: ReturnType<typeof layOutTable>,
  rows: number,
  seed: number,
  compression: "lz4" | "none",
): Promise<string> {
  const { columns, expected } = randomTable(definition, rows, seed);
  const file = encodeColumns(layout, columns, rows, compression);
  const bytes = Buffer.concat(file.chunks);
  if (bytes.length !== file.bytes) {
    return `${bytes.length} bytes, announced as ${file.bytes}`;
  }
  const path = join(directory, `${files++}.parquet`);
  await writeFile(path, bytes);
  const readers = {
    DuckDB: await readWithDuckDb(connection, path),
    "parquet-wasm": readWithParquetWasm(bytes),
  };
  await rm(path);
  for (const [reader, actual] of Object.entries(readers)) {
    const names = Object.keys(actual).join();
    if (names !== Object.keys(definition).join()) {
      return `${reader} sees columns ${names}`;
    }
    for (const [name, values] of Object.entries(expected)) {
      const difference = firstDifference(actual[name] ?? [], values);
      if (difference !== null) {
        return `${reader}, ${name}: ${difference}`;
      }
    }
  }
  return "equal";
}

/** Object.is, through lists and structs: NaN equals itself and -0 is not 0. */
function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) {
    return true;
  }
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) {
    return false;
  }
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return (
    Array.isArray(a) === Array.isArray(b) &&
    left.length === right.length &&
    left.every(([name, value], i) => right[i]?.[0] === name && isSame(value, right[i]?.[1]))
  );
}

function firstDifference(actual: unknown[], expected: unknown[]): string | null {
  if (actual.length !== expected.length) {
    return `${actual.length} rows for ${expected.length}`;
  }
  const row = expected.findIndex((value, i) => !isSame(actual[i], value));
  return row === -1 ? null : `row ${row} is ${inspect(actual[row])}, not ${inspect(expected[row])}`;
}

const rowCounts = fc.oneof(
  fc.constantFrom(0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 130, 255, 256, 257, 1023, 1024, 1025),
  fc.integer({ min: 0, max: 600 }),
);
const compressions = fc.constantFrom("lz4" as const, "none" as const);

describe("a Parquet file of the lake", () => {
  test.each(Object.keys(tables) as TableName[])(
    "holds the rows of %s as two independent readers see them",
    async (table) => {
      await fc.assert(
        fc.asyncProperty(rowCounts, fc.integer(), compressions, async (rows, seed, compression) => {
          expect(await roundTrip(tables[table], tableLayouts[table], rows, seed, compression)).toBe("equal");
        }),
        { numRuns: 20 },
      );
    },
  );

  test.each([
    ["log_entries", 10_000],
    ["measures", 10_000],
    ["histograms", 2000],
    ["spans", 4000],
  ] as const)("is read back equal when rows of %s make several pages", async (table, rows) => {
    expect(await roundTrip(tables[table], tableLayouts[table], rows, 7, "lz4")).toBe("equal");
  });

  test("keeps every type, nullable or not, flat or in a list", async () => {
    const leaf = (type: "int64" | "uint64" | "int32" | "float64" | "bool" | "utf8") => ({
      type,
      nullable: true,
    });
    const children = {
      a: leaf("int64"),
      b: leaf("uint64"),
      c: leaf("int32"),
      d: leaf("float64"),
      e: leaf("bool"),
      f: leaf("utf8"),
      g: { type: "bool", nullable: false },
      h: { type: "timestamp_ns", nullable: true },
    } as const;
    const definition = {
      ...children,
      list: { type: "list", children },
      bare: { type: "list", children: { element: leaf("utf8") } },
      run: { type: "run_utf8", nullable: true },
      runNumber: { type: "run_int64", nullable: true },
    } as const satisfies TableDefinition;
    const layout = layOutTable(definition);
    await fc.assert(
      fc.asyncProperty(rowCounts, fc.integer(), compressions, async (rows, seed, compression) => {
        expect(await roundTrip(definition, layout, rows, seed, compression)).toBe("equal");
      }),
      { numRuns: 40 },
    );
  });
});
