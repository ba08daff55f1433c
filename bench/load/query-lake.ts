/**
 * A lake of log rows for `pnpm bench query`: made once, then found again. Objects have the columns of freshly ingested
 * ones, uncompressed, in row groups as merging leaves them; one minute each, several processes, messages and attributes
 * that vary.
 */
import { createHash, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";

import type { Sql } from "../../src/db/sql.js";
import { rowGroupRows } from "../../src/lake/merge/merge-plan.js";
import { objectPath } from "../../src/lake/store/paths.js";
import { columnsOfTable } from "../../src/lake/tables/duckdb-types.js";
import { quoteName, quoteText } from "../../src/runtime/text/sql-text.js";

/** An object of the lake as the catalogue has it. */
interface LakeObject {
  readonly id: string;
  /** Relative to the lake's directory. */
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  /** Nanoseconds since 1970 UTC, as decimal digits. */
  readonly minTimeNs: string;
  readonly maxTimeNs: string;
}

/** A lake that lies on disk. */
export interface QueryLake {
  readonly directory: string;
  readonly rows: number;
  readonly bytes: number;
  readonly objects: readonly LakeObject[];
}

/** Changes with what the rows look like, so that a lake of another shape is not taken for this one. */
const shape = 3;
/** 2025-11-21T00:00:00Z. */
const beginNs = 1_763_683_200_000_000_000n;
const minuteNs = 60_000_000_000n;

/** The minute that object `index` holds: its begin in nanoseconds. */
export function minuteOf(index: number): bigint {
  return beginNs + BigInt(index) * minuteNs;
}

/** Finds the lake with this number of rows below `root`, or makes it. */
export async function openQueryLake(root: string, rows: number, partitions: number): Promise<QueryLake> {
  const directory = path.join(root, `telemetry-bench-lake-v${shape}-${rows}-${partitions}`);
  const manifest = path.join(directory, "manifest.json");
  if (existsSync(manifest)) {
    console.log(`lake: ${directory} (found)`);
    return JSON.parse(await readFile(manifest, "utf8")) as QueryLake;
  }
  console.log(`lake: ${directory} (being made: ${rows} rows in ${partitions} objects)`);
  await rm(directory, { recursive: true, force: true });
  const startMs = performance.now();
  const each = Math.ceil(rows / partitions);
  const objects: LakeObject[] = [];
  const instance = await DuckDBInstance.create(":memory:");
  try {
    for (let index = 0; index < partitions; index++) {
      objects.push(await writeObject(instance, directory, index, each));
    }
  } finally {
    instance.closeSync();
  }
  const lake: QueryLake = {
    directory,
    rows: each * partitions,
    bytes: objects.reduce((sum, { bytes }) => sum + bytes, 0),
    objects,
  };
  await writeFile(manifest, JSON.stringify(lake));
  const seconds = Math.round((performance.now() - startMs) / 1000);
  console.log(`made in ${seconds} s: ${(lake.bytes / 1e9).toFixed(1)} GB`);
  return lake;
}

/** Objects do not touch: bounds of a query are as exact as a microsecond. */
function halfStep(rows: number): bigint {
  return minuteNs / BigInt(rows) / 2n;
}

/** SQL of a column's value in row `i` of an object, whose random number is `h`. */
function valueOf(name: string, type: string, index: number, rows: number): string {
  switch (name) {
    case "time":
    case "event_time":
    case "observed_time":
      return `make_timestamp_ns(${minuteOf(index) + halfStep(rows)} + i * ${minuteNs / BigInt(rows)})`;
    case "insert_time":
      return `make_timestamp_ns(${minuteOf(index) + 1_000_000_000n})`;
    case "level":
      return "CASE WHEN h % 100 < 2 THEN 2 WHEN h % 100 < 7 THEN 3 WHEN h % 100 < 80 THEN 4 ELSE 5 END";
    case "severity_number":
      return "CASE WHEN h % 100 < 2 THEN 17 WHEN h % 100 < 7 THEN 13 WHEN h % 100 < 80 THEN 9 ELSE 5 END";
    case "msg":
      return `CASE h % 4 WHEN 0 THEN 'request ' || h || ' to /api/v1/orders took ' || (h % 977) || ' ms'
        WHEN 1 THEN 'cache miss for key session:' || (h % 100003) || ', loading from the database'
        WHEN 2 THEN 'user ' || (h % 5003) || ' added item ' || (h % 7919) || ' to the basket'
        ELSE 'connection ' || (h % 65521) || ' to 10.0.' || (h % 251) || '.7 closed after ' || (h % 3001) || ' requests' END`;
    case "properties":
      return `'{"http.route":"/api/v' || (h % 17) || '","thread.id":' || (h % 64) || ',"user.id":"u' || (h % 5003) || '"}'`;
    case "trace_id":
      return "md5(CAST(h // 8 AS VARCHAR))";
    case "span_id":
      return "right(md5(CAST(h AS VARCHAR)), 16)";
    case "target":
      return `'orders.module_' || (i * 20 // ${rows})`;
    case "service_name":
      return `'service-' || (i * 5 // ${rows})`;
    case "host_name":
      return `'host-' || (i * 5 // ${rows}) || '.example.org'`;
    case "process_id":
    case "stream_id":
    case "block_id":
      return `(${idTexts(name)})[1 + i * 5 // ${rows}]`;
    case "process_properties":
      return `'{"service.name":"service-' || (i * 5 // ${rows}) || '","telemetry.sdk.language":"nodejs"}'`;
    default:
      return type === "VARCHAR" ? "''" : type === "TIMESTAMP_NS" ? "NULL" : "0";
  }
}

/** The ids of an object's five processes. DuckDB takes longer to make them row by row than for all the rest. */
function idTexts(name: string): string {
  const ids = Array.from({ length: 5 }, (_, i) =>
    createHash("md5")
      .update(`${name}${i}`)
      .digest("hex")
      .replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-"),
  );
  return `['${ids.join("', '")}']`;
}

async function writeObject(
  instance: DuckDBInstance,
  directory: string,
  index: number,
  rows: number,
): Promise<LakeObject> {
  const id = randomUUID();
  const relative = objectPath("log_entries", "public", Number(minuteOf(index) / 1_000_000n), id);
  const file = path.join(directory, relative);
  await mkdir(path.dirname(file), { recursive: true });
  const columns = columnsOfTable("log_entries").map(
    ([name, type]) => `CAST(${valueOf(name, type, index, rows)} AS ${type}) AS ${quoteName(name)}`,
  );
  const connection = await instance.connect();
  try {
    await connection.run(
      `COPY (SELECT ${columns.join(", ")} FROM (SELECT i, hash(i * 1000003 + ${index}) AS h FROM range(${rows}) t(i)))
       TO ${quoteText(file)} (FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE ${rowGroupRows})`,
    );
  } finally {
    connection.closeSync();
  }
  const step = minuteNs / BigInt(rows);
  return {
    id,
    path: relative,
    rows,
    bytes: (await readFile(file)).length,
    minTimeNs: String(minuteOf(index) + halfStep(rows)),
    maxTimeNs: String(minuteOf(index) + halfStep(rows) + BigInt(rows - 1) * step),
  };
}

/** Catalogues objects, in the table of a view. */
export async function publishObjects(sql: Sql, view: string, objects: readonly LakeObject[]): Promise<void> {
  const hash = createHash("sha256").update("bench").digest();
  for (let at = 0; at < objects.length; at += 1000) {
    const rows = objects.slice(at, at + 1000).map((object) => ({
      partition_id: object.id,
      view_set: view,
      audience: "public",
      path: object.path,
      file_bytes: object.bytes,
      row_count: object.rows,
      min_time_ns: object.minTimeNs,
      max_time_ns: object.maxTimeNs,
      min_insert_time: new Date(),
      max_insert_time: new Date(),
      level: 0,
      schema_hash: hash,
      sort_order: "",
    }));
    await sql`insert into lakehouse_partitions ${sql(rows)}`;
  }
}
