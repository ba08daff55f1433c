/** Objects of large records: their row groups are small enough for a query to read them. */
import path from "node:path";

import { afterEach, beforeEach, expect, it } from "vitest";

import { runTask } from "../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { emptySource } from "../../src/query/sql/file-source.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { askErasure, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";
import { startTestBackend } from "../helpers/query/query-backend.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

/** Merges log records with texts of so many bytes, so many an hour. @returns the files of what is made, one an hour */
async function merged(hours: number, rows: number, textBytes: number): Promise<string[]> {
  for (let hour = 0; hour < hours; hour++) {
    await addPartition(lab.lake, lab.sql, {
      table: "log_entries",
      audience: "a",
      rowsSql: `SELECT make_timestamp_ns(${noon + BigInt(hour) * 3_600_000_000_000n} + i) AS time,
        's' || i % 5 AS service_name, repeat(md5('${hour} ' || i), ${textBytes / 32}) AS msg FROM range(${rows}) t(i)`,
    });
  }
  await mergePartitions(lab.limited({ memoryLimitBytes: 1 << 30 }), mergeAll);
  return objects();
}

async function objects(): Promise<string[]> {
  const found = await lab.sql<{ path: string }[]>`select path from lakehouse_partitions order by min_time_ns`;
  return found.map((object) => path.join(lab.lake.directory, object.path));
}

async function groupsOf(file: string): Promise<number[]> {
  const groups = await lab.duck(`SELECT row_group_num_rows::INT AS n FROM parquet_metadata('${file}')
    WHERE path_in_schema = 'msg' ORDER BY row_group_id`);
  return groups.map(({ n }) => Number(n));
}

/** The rows that each of some queries finds in the objects, within so much memory. */
async function found(files: readonly string[], memoryMiB: number, queries: readonly string[]): Promise<number[]> {
  const backend = await startTestBackend({ memoryBytes: memoryMiB << 20, tempBytes: 0 });
  try {
    const source = { ...emptySource, groups: [{ audience: "a", paths: files }] };
    const named = [{ name: "log_entries", view: "log_entries", sources: [source] }] as const;
    const sources = { directories: [lab.lake.directory], files: named, rows: [] };
    const rows: number[] = [];
    for (const sql of queries) {
      rows.push((await backend.query(sql, sources)).numRows);
    }
    return rows;
  } finally {
    await backend.stop();
  }
}

const scans = [
  "SELECT service_name, max(length(msg)) FROM log_entries GROUP BY 1",
  "SELECT length(msg) FROM log_entries WHERE msg LIKE '%x%'",
];

it.each([
  { textBytes: 5120, rows: 24_576, groups: [6144, 6144, 6144, 6144], memoryMiB: 256 },
  { textBytes: 20_480, rows: 8000, groups: [1638, 1638, 1638, 1638, 1448], memoryMiB: 384 },
])("are read by queries of $memoryMiB MiB for texts of $textBytes bytes", async (o) => {
  const files = await merged(2, o.rows, o.textBytes);
  for (const file of files) {
    expect(await groupsOf(file)).toEqual(o.groups);
  }
  const sorts = ["time, length(msg)", "msg"].map(
    (columns) => `SELECT ${columns} FROM log_entries ORDER BY length(msg), time LIMIT 10`,
  );
  expect(await found(files, o.memoryMiB, [...scans, ...sorts])).toEqual([5, 0, 10, 10]);
});

/** Every 50th row has no time, and of each ten others one has that of a clock that is far behind. */
const wrongTime = `CASE WHEN i % 50 = 7 THEN NULL WHEN i % 10 = 3 THEN make_timestamp_ns(i // 2)
  ELSE make_timestamp_ns(${noon} + i // 2) END`;

it("are of fewer rows than DuckDB writes at a time where those would be too large", async () => {
  for (let batch = 0; batch < 5; batch++) {
    await addPartition(lab.lake, lab.sql, {
      table: "log_entries",
      audience: "a",
      rowsSql: `SELECT ${wrongTime} AS time, 's' || i % 5 AS service_name, repeat(md5('' || i), 8192) AS msg,
        '{"n":"' || i % 3 || '"}' AS properties, lpad('' || i, 32, '0') AS trace_id,
        make_timestamp_ns(${noon} + i // 120) AS insert_time
        FROM range(${batch * 120}, ${batch * 120 + 120}) t(i)`,
    });
  }
  await mergePartitions(lab.context, { ...mergeAll, widthSeconds: 2 ** 31 - 1 });
  const [file = "", ...others] = await objects();
  expect(others).toEqual([]);
  // 32 MiB are 128 texts; two rows each have the same time.
  const groups = await groupsOf(file);
  expect(groups.length).toBeLessThan(7);
  expect(Math.max(...groups)).toBeLessThan(132);
  expect(await contentOf(file)).toEqual([{ n: 600, texts: 600, bytes: 600 << 18, back: 0, wrong: 0 }]);
  const [filters] = await lab.duck(`SELECT count(*)::INT AS n, count_if(bloom_filter_excludes)::INT AS without
    FROM parquet_bloom_probe('${file}', 'trace_id', '${"1".padStart(32, "0")}')`);
  expect(filters).toEqual({ n: groups.length, without: groups.length - 1 });
  expect(await found([file], 256, scans)).toEqual([5, 0]);

  const taskId = await askErasure(lab, { audience: "a", where: { service: "s1" } });
  await runTask(taskContext(lab), taskId);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 120 });
  const [left = ""] = await objects();
  expect(Math.max(...(await groupsOf(left)))).toBeLessThan(132);
  expect(await contentOf(left)).toEqual([{ n: 480, texts: 480, bytes: 480 << 18, back: 0, wrong: 0 }]);
});

/** Rows, texts and their bytes; how many are before an earlier one, or are not as they were. */
async function contentOf(file: string): Promise<unknown[]> {
  return lab.duck(`SELECT count(*)::INT AS n, count(DISTINCT msg[:32])::INT AS texts, sum(length(msg))::INT AS bytes,
      count_if(back)::INT AS back,
      count_if("attr.n" <> (properties ->> 'n') OR msg <> repeat(md5('' || trace_id::INT), 8192))::INT AS wrong
    FROM (SELECT *, coalesce(struct_pack(t := time, i := trace_id) < lag(struct_pack(t := time, i := trace_id))
        OVER (ORDER BY file_row_number), false) AS back
      FROM (SELECT * REPLACE (coalesce(time, make_timestamp_ns(-1)) AS time)
        FROM read_parquet('${file}', file_row_number = true, hive_partitioning = false)))`);
}

it("are as small in an object that loses rows to an erasure", async () => {
  await merged(1, 10_000, 5120);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "s1" } });
  await runTask(taskContext(lab), taskId);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 2000 });
  const [file = ""] = await objects();
  expect(await groupsOf(file)).toEqual([6144, 1856]);
});

it("are as long as ever where records are not large", async () => {
  const [file = ""] = await merged(1, 70_000, 512);
  expect(await groupsOf(file)).toEqual([61_440, 8560]);
});
