/** Where rows are cut that are too large for one row group. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";

import { betweenTimes, cutsSql } from "../../src/lake/merge/merge-sql.js";
import { type TableName, tables } from "../../src/lake/tables/tables.js";
import { effort } from "../helpers/effort.js";

const bytes = 100;
const tableNames = Object.keys(tables) as TableName[];
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-cuts-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const anyRow = fc.record({
  /** Few, so that several rows have the same. */
  time: fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: -20, max: 20 }) },
    fc.constantFrom(null, "infinity", "-infinity"),
  ),
  size: fc.integer({ min: 0, max: 60 }),
});
type Row = typeof anyRow extends fc.Arbitrary<infer R> ? R : never;

const timeSql = (time: Row["time"]): string =>
  typeof time === "number"
    ? `make_timestamp_ns(${time})`
    : `CAST(${time === null ? "NULL" : `'${time}'`} AS TIMESTAMP_NS)`;

it("is between times, so that each row is in one part and no part is large but for the rows of one time", async () => {
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection = await instance.connect();
  const ask = async (sql: string) => (await connection.runAndReadAll(sql)).getRows();
  const file = path.join(directory, "rows.parquet");
  const source = {
    partitionId: "",
    audience: null,
    path: "",
    fileBytes: 1,
    rowCount: 1,
    minTimeNs: null,
    maxTimeNs: null,
  };
  const known = { attributeColumns: null, attributeNames: null, receivedNs: null, checksum: null };
  const sources = [{ ...source, ...known, schemaHash: "another", file }];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...tableNames),
      fc.array(anyRow, { minLength: 1, maxLength: 40 }),
      async (table, rows) => {
        const values = rows.map(({ time, size }, i) => `(${i}, ${timeSql(time)}, repeat('x', ${size}))`);
        await connection.run(
          `COPY (SELECT i, time, process_properties FROM (VALUES ${values.join(", ")}) t(i, time, process_properties)) TO '${file}' (FORMAT parquet)`,
        );
        const cuts = (await ask(cutsSql(table, sources, "i >= 0", bytes))).flatMap(([time]) =>
          time === null ? [] : [BigInt(String(time))],
        );
        const parts: Row[][] = [];
        for (const { sql } of betweenTimes({ sql: "i >= 0", values: [] }, cuts)) {
          const found = await ask(`SELECT i FROM '${file}' WHERE ${sql} ORDER BY time NULLS FIRST`);
          parts.push(found.flatMap(([i]) => rows[Number(i)] ?? []));
        }
        const order = (await ask(`SELECT i FROM '${file}' ORDER BY time NULLS FIRST`)).map(
          ([i]) => rows[Number(i)]?.time,
        );
        expect(parts.flat().map(({ time }) => time)).toEqual(order);
        expect(parts.length).toBeLessThanOrEqual(1 + rows.reduce((sum, { size }) => sum + size, 0) / bytes);
        const finite = rows.every(({ time }) => typeof time !== "string");
        const large = parts.filter(
          (part) => part.reduce((sum, { time, size }) => sum + (time === part[0]?.time ? 0 : size), 0) >= bytes,
        );
        expect(finite ? large : []).toEqual([]);
      },
    ),
    { numRuns: effort(60, 1000) },
  );
  connection.closeSync();
  instance.closeSync();
});
