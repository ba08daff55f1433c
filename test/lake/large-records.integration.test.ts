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

it.each([
  { textBytes: 5120, rows: 24_576, groupRows: 6144, memoryMiB: 256 },
  { textBytes: 20_480, rows: 8192, groupRows: 2048, memoryMiB: 384 },
])("are read by queries of $memoryMiB MiB for texts of $textBytes bytes", async (o) => {
  const files = await merged(2, o.rows, o.textBytes);
  for (const file of files) {
    expect(await groupsOf(file)).toEqual(Array.from({ length: 4 }, () => o.groupRows));
  }
  const backend = await startTestBackend({ memoryBytes: o.memoryMiB << 20, tempBytes: 0 });
  try {
    const source = { ...emptySource, groups: [{ audience: "a", paths: files }] };
    const named = [{ name: "log_entries", view: "log_entries", sources: [source] }] as const;
    const sources = { directories: [lab.lake.directory], files: named, rows: [] };
    const ask = async (sql: string): Promise<number> => (await backend.query(sql, sources)).numRows;
    expect(await ask("SELECT service_name, max(length(msg)) FROM log_entries GROUP BY 1")).toBe(5);
    expect(await ask("SELECT length(msg) FROM log_entries WHERE msg LIKE '%x%'")).toBe(0);
    expect(await ask("SELECT time, length(msg) FROM log_entries ORDER BY length(msg), time LIMIT 10")).toBe(10);
    expect(await ask("SELECT msg FROM log_entries ORDER BY length(msg), time LIMIT 10")).toBe(10);
  } finally {
    await backend.stop();
  }
});

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
