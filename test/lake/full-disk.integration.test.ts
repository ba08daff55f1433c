/** Maintenance on a disk that is full: nothing changes, nothing is left behind, and it is done once there is room. */
import { readdir } from "node:fs/promises";

import { afterEach, beforeEach, expect, it } from "vitest";

import { runTask } from "../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import {
  addAged,
  askErasure,
  publishedValues,
  taskContext,
  taskRow,
  workOnFullDisk,
} from "../helpers/lake/lake-tasks.js";
import { mergeRequest } from "../helpers/lake/merge-work.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
  for (const n of [0, 1]) {
    // Of these no object is small.
    const rowsSql = `SELECT make_timestamp_ns(i) AS time, 'row ${n} ' || md5('${n} ' || i) AS msg,
      'shop' || (i % 2) AS service_name FROM range(20000) t(i)`;
    await addAged(lab, { table: "log_entries", audience: "a", rowsSql });
  }
});
afterEach(() => lab.stop());

const mostBytes = 65_536;

const messages = (): Promise<string[]> => publishedValues(lab, "log_entries", "msg");

async function standing(): Promise<string[]> {
  const rows = await lab.sql<{ id: string }[]>`select partition_id as id from lakehouse_partitions order by path`;
  return rows.map(({ id }) => id);
}

async function files(): Promise<string[]> {
  const entries = await readdir(lab.lake.directory, { recursive: true, withFileTypes: true });
  return entries.flatMap((entry) => (entry.isFile() ? [entry.name] : [])).toSorted();
}

/** What there is before some work fails, and is to be there after it. */
async function expectUnchanged(work: () => Promise<unknown>): Promise<void> {
  const before = [await messages(), await standing(), await files()];
  await work();
  expect([await messages(), await standing(), await files()]).toEqual(before);
}

it.skipIf(process.platform !== "linux")("merges nothing, and everything when there is room", async () => {
  const merge = { audience: "a", partitionIds: await standing(), level: 1, widthSeconds: 3600 } as const;
  await expectUnchanged(async () => expect(await workOnFullDisk(lab, { merge }, mostBytes)).toBe(1));
  const before = await messages();
  await mergePartitions(lab.context, mergeRequest(merge));
  expect(await standing()).toHaveLength(1);
  expect(await messages()).toEqual(before);
});

it.skipIf(process.platform !== "linux")("erases nothing, and goes on when there is room", async () => {
  const task = await askErasure(lab, { audience: "a", where: { service: "shop0" } });
  await expectUnchanged(async () => expect(await workOnFullDisk(lab, { task }, mostBytes)).toBe(1));
  expect(await taskRow(lab, task)).toMatchObject({ state: "running", rows: 0 });
  await runTask(taskContext(lab), task);
  expect(await taskRow(lab, task)).toMatchObject({ state: "done", rows: 20_000 });
  expect(await messages()).toHaveLength(20_000);
});

it.each([
  ["DuckDB", new Error('IO Error: Could not write file "/lake/.x.merge.tmp": No space left on device')],
  ["the system", Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" })],
])("erases later when %s says that the disk is full", async (_who, full) => {
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop0" } });
  await expect(
    runTask(taskContext(lab, { at: (point) => (point === "counted" ? Promise.reject(full) : undefined) }), taskId),
  ).rejects.toMatchObject({ code: "UNAVAILABLE", cause: full });
  const error = "There is no room left on the disk of the object store, or on that of TMPDIR; trying again later.";
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "running", rows: 0, error });
  await runTask(taskContext(lab), taskId);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 20_000, error: null });
});
