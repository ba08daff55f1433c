/** A lake with rows of our choosing: Parquet objects written by DuckDB, and their catalogue rows. */
import { createHash, randomUUID } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { DuckDBInstance } from "@duckdb/node-api";

import type { Sql } from "../../../src/db/sql.js";
import { objectPath } from "../../../src/lake/store/paths.js";
import type { TableName } from "../../../src/lake/tables/tables.js";
import { columnsOfTable } from "../../../src/lake/tables/duckdb-types.js";
import { quoteName, quoteText } from "../../../src/runtime/text/sql-text.js";

export interface TestLake {
  readonly directory: string;
  readonly uri: string;
  remove(): Promise<void>;
}

/** An empty lake in a directory of its own. */
export async function createTestLake(): Promise<TestLake> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-lake-"));
  return {
    directory,
    uri: pathToFileURL(directory).href,
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

/** Values that columns have where `rowsSql` does not name them. */
const fallbacks: Readonly<Record<string, string>> = {
  VARCHAR: "''",
  TIMESTAMP_NS: "make_timestamp_ns(0)",
  BIGINT: "0",
  UBIGINT: "0",
  INTEGER: "0",
  DOUBLE: "0",
  BOOLEAN: "false",
};

/**
 * Adds an object to the lake and publishes it.
 * @param o.rowsSql a SELECT (of the test's own) whose columns are some of the table's; `time` among them
 */
export async function addPartition(
  lake: TestLake,
  sql: Sql,
  o: {
    readonly table: TableName;
    readonly audience: string | null;
    readonly rowsSql: string;
    readonly processIds?: readonly string[];
    /** Columns that this object lacks, as one written by an older version would. */
    readonly without?: readonly string[];
  },
): Promise<{ readonly path: string; readonly rows: number }> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  try {
    await connection.run(`CREATE TABLE given AS ${o.rowsSql}`);
    const given = new Set(
      (await connection.runAndReadAll("SELECT column_name FROM (DESCRIBE given)"))
        .getRows()
        .map(([name]) => String(name)),
    );
    const columns = columnsOfTable(o.table)
      .filter(([name]) => o.without?.includes(name) !== true)
      .map(([name, type]) => {
        const value = given.has(name) ? quoteName(name) : (fallbacks[type] ?? "[]");
        return `CAST(${value} AS ${type}) AS ${quoteName(name)}`;
      });
    const id = randomUUID();
    const relative = objectPath(o.table, o.audience, Date.now(), id);
    const file = path.join(lake.directory, relative);
    await mkdir(path.dirname(file), { recursive: true });
    await connection.run(`COPY (SELECT ${columns.join(", ")} FROM given) TO ${quoteText(file)} (FORMAT parquet)`);
    const bounds = (
      await connection.runAndReadAll(
        "SELECT min(epoch_ns(CAST(time AS TIMESTAMP_NS))), max(epoch_ns(CAST(time AS TIMESTAMP_NS))), count(*) FROM given",
      )
    ).getRows()[0];
    const [min, max, rows] = bounds ?? [];
    const hash = createHash("sha256").update(columns.join()).digest();
    await sql`
      insert into lakehouse_partitions
        (partition_id, view_set, audience, path, file_bytes, row_count, min_time_ns, max_time_ns,
         min_insert_time, max_insert_time, level, schema_hash, sort_order, process_ids)
      values (${id}, ${o.table}, ${o.audience}, ${relative}, 1, ${Number(rows)}, ${min as bigint},
        ${max as bigint}, now(), now(), 0, ${hash}, '', ${o.processIds === undefined ? null : [...o.processIds]}::uuid[])`;
    return { path: file, rows: Number(rows) };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
