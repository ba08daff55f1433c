/** Sorted objects that are joined: the same rows, statistics and bloom filters, in one file. */
import { truncateSync } from "node:fs";
import { readFile, rename } from "node:fs/promises";
import path from "node:path";

import { tableFromIPC } from "apache-arrow";
import { readParquet } from "parquet-wasm";
import { afterEach, beforeEach, expect, it } from "vitest";

import { mergePartitions, type MergedPartition } from "../../src/lake/merge/merge.js";
import { joinFiles, readJoinable } from "../../src/lake/parquet/join-files.js";
import { tableLayouts } from "../../src/lake/parquet/layout.js";
import { onBrokenDisk } from "../helpers/lake/broken-disk.js";
import { changeBytes } from "../helpers/lake/change-bytes.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

const second = 1_000_000_000n;
const day = 86_400;
/** More than a row group takes. */
const rows = 70_000;
/** Enough for objects to be joined rather than sorted again. */
const joinedRows = 21_000;
const audiences = { kind: "some", audiences: new Set(["a"]), unstamped: false } as const;

/** An object of level 0 whose rows are a millisecond apart. */
async function add(fromNs: bigint, count = rows): Promise<void> {
  await addPartition(lab.lake, lab.sql, {
    table: "log_entries",
    audience: "a",
    processIds: ["00000000-0000-4000-8000-000000000001"],
    rowsSql: `SELECT make_timestamp_ns(${fromNs} + i * 1000000) AS time, 'm' || (${fromNs} + i) AS msg,
      md5('t' || (${fromNs} + i)) AS trace_id, '00000000-0000-4000-8000-000000000001' AS process_id
      FROM range(${count}) t(i)`,
  });
}

interface Standing {
  readonly id: string;
  readonly path: string;
  readonly level: number;
  readonly rows: number;
  readonly sortOrder: string;
  readonly processIds: string[] | null;
  readonly minTimeNs: bigint;
  readonly maxTimeNs: bigint;
}

function standing(): Promise<Standing[]> {
  return lab.sql<Standing[]>`
    select partition_id as id, path, level::int as level, row_count::int as rows, sort_order as "sortOrder",
      process_ids as "processIds", min_time_ns as "minTimeNs", max_time_ns as "maxTimeNs"
    from lakehouse_partitions order by min_time_ns`;
}

/** Every object of level 0 becomes one of level 1. */
async function sortEach(): Promise<void> {
  for (const { id } of (await standing()).filter(({ level }) => level === 0)) {
    const list = { viewSet: "log_entries", audiences, widthSeconds: day, level: 1, partitionIds: [id] } as const;
    await mergePartitions(lab.context, list);
  }
}

async function join(level: 2 | 3 = 2): Promise<MergedPartition[]> {
  const partitionIds = (await standing()).map(({ id }) => id);
  return mergePartitions(lab.context, { viewSet: "log_entries", audiences, widthSeconds: day, level, partitionIds });
}

const fileOf = (object: Pick<Standing, "path"> | undefined): string =>
  path.join(lab.lake.directory, object?.path ?? "");

it("holds the rows of its sources, which every reader finds, each row group with its bounds and filters", async () => {
  for (const i of [0n, 1n]) {
    await add(noon + i * 100n * second);
  }
  await sortEach();
  const sorted = await standing();
  const list = sorted.map((object) => `'${fileOf(object)}'`).join(", ");
  const content = `SELECT count(*)::INT AS n, bit_xor(hash(t))::VARCHAR AS content, min(msg) AS least FROM t`;
  const before = await lab.duck(
    `WITH t AS (SELECT * FROM read_parquet([${list}], hive_partitioning = false)) ${content}`,
  );

  const made = await join();
  expect(made.map(({ action, rowCount }) => [action, rowCount])).toEqual([
    ["created", 2 * rows],
    ...sorted.map(() => ["replaced", rows]),
  ]);
  const [joined, ...others] = await standing();
  expect(others).toEqual([]);
  expect(joined).toMatchObject({
    level: 2,
    rows: 2 * rows,
    sortOrder: "time,insert_time",
    processIds: ["00000000-0000-4000-8000-000000000001"],
    minTimeNs: sorted[0]?.minTimeNs,
    maxTimeNs: sorted[1]?.maxTimeNs,
  });
  const file = fileOf(joined);
  expect(
    await lab.duck(`WITH t AS (SELECT * FROM read_parquet('${file}', hive_partitioning = false)) ${content}`),
  ).toEqual(before);
  // What is sorted stays sorted.
  expect(
    await lab.duck(`SELECT count(*)::INT AS n FROM (SELECT time < lag(time) OVER (ORDER BY file_row_number) AS back
      FROM read_parquet('${file}', file_row_number = true, hive_partitioning = false)) WHERE back`),
  ).toEqual([{ n: 0 }]);
  const groups = await lab.duck(`SELECT DISTINCT row_group_id::INT AS id, row_group_num_rows::INT AS n
    FROM parquet_metadata('${file}') ORDER BY 1`);
  expect(groups.map(({ n }) => n)).toEqual([61_440, 8560, 61_440, 8560]);
  const [told] = await lab.duck(`SELECT decode(value) AS told FROM parquet_kv_metadata('${file}')`);
  expect(JSON.parse(String(told?.["told"]))).toEqual({ columns: [], names: [] });
  // A filter excludes every row group but the one with the trace.
  const excluded = await lab.duck(`SELECT count(*) FILTER (WHERE NOT bloom_filter_excludes)::INT AS kept
    FROM parquet_bloom_probe('${file}', 'trace_id', md5('t' || ${noon + 100n * second + 5n}))`);
  expect(excluded[0]?.["kept"]).toBeLessThanOrEqual(2);
  expect(excluded[0]?.["kept"]).toBeGreaterThanOrEqual(1);
  expect(tableFromIPC(readParquet(await readFile(file)).intoIPCStream()).numRows).toBe(2 * rows);
});

it("has the columns of its sources: objects of another version are joined with each other only", async () => {
  for (let i = 0n; i < 4n; i++) {
    await add(noon + i * 100n * second, joinedRows);
  }
  await sortEach();
  const older = (await standing()).slice(0, 2).map(({ id }) => id);
  await lab.sql`update lakehouse_partitions set schema_hash = '\\x0d' where partition_id = any(${older}::uuid[])`;
  await join();
  const hashes = await lab.sql<{ hash: string; rows: number }[]>`
    select encode(schema_hash, 'hex') as hash, row_count::int as rows from lakehouse_partitions order by min_time_ns`;
  expect([...hashes]).toEqual([
    { hash: "0d", rows: 2 * joinedRows },
    { hash: tableLayouts.log_entries.schemaHash, rows: 2 * joinedRows },
  ]);
});

it("can be joined again, and merged by hand", async () => {
  for (let i = 0n; i < 4n; i++) {
    await add(noon + i * 10n * second, joinedRows);
  }
  await sortEach();
  await join();
  await add(noon + 1000n * second, joinedRows);
  await sortEach();
  await join(3);
  expect((await standing()).map(({ level, rows: n }) => [level, n])).toEqual([[3, 5 * joinedRows]]);
  // Rows of the first four overlapped: row groups are sorted, the object is not.
  expect((await standing())[0]?.sortOrder).toBe("");
  await mergePartitions(lab.context, { ...mergeAll, regenerate: true });
  const after = await standing();
  expect(after.map(({ sortOrder }) => sortOrder)).toEqual(["time,insert_time"]);
  expect(after[0]?.rows).toBe(5 * joinedRows);
});

it("is one for each day, and leaves out what spans days", async () => {
  await add(noon, joinedRows);
  await add(noon + 100n * second, joinedRows);
  await add(noon + 86_400n * second, joinedRows);
  await add(noon + 86_500n * second, joinedRows);
  await sortEach();
  await lab.sql`update lakehouse_partitions set min_time_ns = min_time_ns - 86400000000000 where min_time_ns = ${noon}`;
  const made = await join();
  expect(made.map(({ action }) => action)).toEqual(["created", "replaced", "replaced"]);
  expect(await standing()).toHaveLength(3);
});

it("is not made of files with different columns, nor of one that lacks rows", async () => {
  await add(noon, joinedRows);
  await add(noon + 100n * second, joinedRows);
  await sortEach();
  const [first, second_] = await standing();
  const file = fileOf(first);
  await lab.duck(`COPY (SELECT *, 1 AS more FROM '${file}') TO '${file}.more' (FORMAT parquet)`);
  const files = await Promise.all([readJoinable(fileOf(second_)), readJoinable(`${file}.more`)]);
  await expect(joinFiles(files, `${file}.joined`, {}, () => false)).rejects.toThrow("different forms");
  await lab.sql`update lakehouse_partitions set row_count = row_count + 1 where partition_id = ${first?.id ?? ""}`;
  expect(await join()).toMatchObject([{ action: "unreadable", partitionId: first?.id }]);
  expect(await standing()).toHaveLength(2);
});

it.each([
  ["gone", (file: string) => rename(file, `${file}.aside`)],
  ["changed, and can be read", changeBytes],
])("is made of the others when the file of one is %s", async (_what, spoil) => {
  for (let i = 0n; i < 3n; i++) {
    await add(noon + i * 100n * second, joinedRows);
  }
  await sortEach();
  const [first] = await standing();
  await spoil(fileOf(first));
  expect((await join()).map(({ action }) => action).toSorted()).toEqual([
    "created",
    "replaced",
    "replaced",
    "unreadable",
  ]);
  expect((await standing()).map(({ rows }) => rows)).toEqual([joinedRows, 2 * joinedRows]);
});

it("is made of the others when the disk does not give back the file of one", async () => {
  for (let i = 0n; i < 3n; i++) {
    await add(noon + i * 100n * second, joinedRows);
  }
  await sortEach();
  const file = fileOf((await standing())[0]);
  // The engine, another process, finds it broken as well.
  const joined = await onBrokenDisk(file, join, () => truncateSync(file, 1000));
  expect(joined.map(({ action }) => action).toSorted()).toEqual(["created", "replaced", "replaced", "unreadable"]);
  expect((await standing()).map(({ rows }) => rows)).toEqual([joinedRows, 2 * joinedRows]);
});

it("sorts small ones again instead, and leaves nothing behind when it is cancelled", async () => {
  for (let i = 0n; i < 3n; i++) {
    await add(noon + i * second, 2000);
  }
  await sortEach();
  const partitionIds = (await standing()).map(({ id }) => id);
  const list = { viewSet: "log_entries", audiences, widthSeconds: day, level: 2, partitionIds } as const;
  await expect(mergePartitions({ ...lab.context, cancelled: () => true }, list)).rejects.toMatchObject({
    code: "CANCELLED",
  });
  expect(await standing()).toHaveLength(3);
  await join();
  const [merged] = await standing();
  const groups = await lab.duck(`SELECT max(row_group_id)::INT + 1 AS n FROM parquet_metadata('${fileOf(merged)}')`);
  expect(groups).toEqual([{ n: 1 }]);
});
