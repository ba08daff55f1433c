/** Plain DuckDB reads the lake by docs/schema.md alone, and finds what Flight SQL gives. */
import { DuckDBInstance } from "@duckdb/node-api";
import type { Data } from "apache-arrow";
import { connect, staticKey } from "telemetry-service-client";
import { beforeAll, describe, expect, it } from "vitest";

import type { TableName } from "../../src/lake/tables/tables.js";
import { columnsOfTable } from "../../src/lake/tables/duckdb-types.js";
import { quoteName } from "../../src/runtime/text/sql-text.js";
import {
  guideHour,
  type OpenFormatWorld,
  startOpenFormatWorld,
  tableNames,
  unstamped,
} from "../helpers/lake/open-format.js";
import { plainOfArrow, plainOfDuckDb } from "../helpers/lake/parquet-readers.js";

let world: OpenFormatWorld;

beforeAll(async () => {
  world = await startOpenFormatWorld();
  return () => world.stop();
});

/** A row as text that differs when any value does; NaN, -0 and the digits of 64-bit integers included. */
function textOf(row: readonly unknown[]): string {
  return JSON.stringify(row, (_, value: unknown) => {
    if (typeof value === "bigint") {
      return `${value}n`;
    }
    return typeof value === "number" && (!Number.isFinite(value) || Object.is(value, -0))
      ? `number ${Object.is(value, -0) ? "-0" : value}`
      : value;
  });
}

async function overFlight(sql: string): Promise<string[]> {
  const client = connect({ uri: `grpc://127.0.0.1:${world.port}`, auth: staticKey(world.key) });
  try {
    const rows: string[] = [];
    for await (const batch of (await client.query(sql)).batches) {
      const columns = batch.data.children as readonly Data[];
      for (let i = 0; i < batch.numRows; i++) {
        rows.push(textOf(columns.map((column) => plainOfArrow(column, i))));
      }
    }
    return rows.toSorted();
  } finally {
    client.close();
  }
}

/** Runs the guide's SQL in an engine of its own, then a query. */
async function withDuckDb(table: TableName, sql: string): Promise<string[]> {
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection = await instance.connect();
  try {
    await connection.run(world.localized(world.guide.duckdb, table, await world.objectsFile(table)));
    return (await connection.runAndReadAll(sql))
      .getRows()
      .map((row) => textOf(row.map(plainOfDuckDb)))
      .toSorted();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

describe.each(tableNames)("%s", (table) => {
  const columns = columnsOfTable(table)
    .map(([name]) => quoteName(name))
    .join(", ");

  it("has the rows that Flight SQL gives", async () => {
    const wanted = await overFlight(`SELECT nullif(audience, '${unstamped}'), ${columns} FROM ${table}`);
    expect(wanted.length).toBeGreaterThan(15);
    expect(await withDuckDb(table, `SELECT audience, ${columns} FROM ${table}`)).toEqual(wanted);
  });

  it("has fresh and merged objects, of two audiences and of none, and others that do not count", async () => {
    const { sql } = world.ingestion.database;
    const levels = await sql<{ fresh: boolean; merged: boolean; columns: boolean }[]>`
      select bool_or(level = 0) as fresh, bool_or(level > 0) as merged,
        bool_or(attribute_columns is not null) as columns
      from lakehouse_partitions where view_set = ${table}`;
    expect([...levels]).toEqual([{ fresh: true, merged: true, columns: true }]);
    const objects = await world.objects(table);
    expect(new Set(objects.map((object) => object.audience))).toEqual(new Set(["team-a", "team-b", null]));
    const [retired] = await sql<{ n: number }[]>`
      select count(*)::int as n from retired_objects where path like ${`${table}/%`}`;
    expect(retired?.n).toBeGreaterThan(0);
  });

  it("has the rows of an hour in the objects that the catalogue names for it", async () => {
    const { begin, end } = guideHour;
    const all = await world.objects(table);
    const some = await world.objects(table, world.guide.catalogueOfHour);
    expect(some.length).toBeLessThan(all.length);
    const files = some.map((object) => `'${world.root}${object.path}'`).join(", ");
    const within = `time >= make_timestamp_ns(${begin}) AND time < make_timestamp_ns(${end})`;
    const wanted = await overFlight(`SELECT count(*) FROM ${table} WHERE ${within}`);
    expect(wanted).not.toEqual(['["0n"]']);
    expect(
      await withDuckDb(
        table,
        `SELECT count(*) FROM read_parquet([${files}], union_by_name = true, hive_partitioning = false) WHERE ${within}`,
      ),
    ).toEqual(wanted);
  });
});

it("gives its reader no right to write, and none to keys", async () => {
  for (const statement of ["DELETE FROM lakehouse_partitions", "SELECT key_hash FROM ingestion_api_keys"]) {
    await expect(world.objects("spans", statement)).rejects.toThrow("permission denied");
  }
});
