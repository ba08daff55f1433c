/** Roll-ups in the lake: which objects get one, what it holds, and that it goes with its object. */
import { access, readdir, readFile, rename, truncate, unlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { crc32 } from "node:zlib";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { checkLake } from "../../src/lake/check/check-lake.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { retirePartitions, sweepRetired } from "../../src/lake/retire.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import type { TableName } from "../../src/lake/tables/tables.js";
import { changeBytes } from "../helpers/lake/change-bytes.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged } from "../helpers/lake/lake-tasks.js";
import { noon } from "../helpers/noon.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
  await lab.sql`update lake_state set seen_at = now()`;
});
afterEach(() => lab.stop());

const second = 1_000_000_000n;
const rows = 21_000;

/** Rows a millisecond apart, of two targets. */
async function add(fromNs = noon, count = rows, table: TableName = "log_entries", time = "moment"): Promise<void> {
  await addAged(lab, {
    table,
    audience: "a",
    rowsSql: `SELECT ${time} AS time, 't' || (i % 2) AS target, 'shop' AS service_name, 'p' AS process_id
      FROM (SELECT i, make_timestamp_ns(${fromNs} + i * 1000000) AS moment FROM range(${count}) t(i))`,
  });
}

interface Standing {
  readonly id: string;
  readonly path: string;
  readonly rollup: string | null;
  readonly rows: number;
}

function standing(): Promise<Standing[]> {
  return lab.sql<Standing[]>`
    select partition_id as id, path, rollup_path as rollup, row_count::int as rows from lakehouse_partitions
    order by min_time_ns`;
}

const fileOf = (name: string | null | undefined): string => path.join(lab.lake.directory, name ?? "none");

async function counted(rollup: string | null | undefined): Promise<Record<string, unknown>[]> {
  return lab.duck(`SELECT target, CAST(sum(count) AS INT) AS n, count(*)::INT AS minutes
    FROM read_parquet(['${fileOf(rollup)}'], hive_partitioning = false) GROUP BY 1 ORDER BY 1`);
}

/** The catalogue has the checksums of the object and of its roll-up. */
async function expectChecksums(): Promise<void> {
  const [kept] = await lab.sql<{ path: string; rollup: string; checksums: number[] }[]>`
    select path, rollup_path as rollup, array[checksum, rollup_checksum]::float8[] as checksums
    from lakehouse_partitions`;
  const files = await Promise.all([kept?.path, kept?.rollup].map((name) => readFile(fileOf(name))));
  expect(kept?.checksums).toEqual(files.map((bytes) => crc32(bytes)));
}

/** What the catalogue says of roll-ups: nothing, as of objects that have none. */
async function expectForgotten(): Promise<void> {
  const rows = await lab.sql`select rollup_path, rollup_bytes, rollup_checksum from lakehouse_partitions`;
  expect(rows).toEqual([{ rollup_path: null, rollup_bytes: null, rollup_checksum: null }]);
}

async function merge(): Promise<Standing> {
  await mergePartitions(lab.context, { ...mergeAll, widthSeconds: 86_400, regenerate: true });
  const [merged] = await standing();
  if (merged === undefined) {
    throw new Error("nothing was merged");
  }
  return merged;
}

async function rollupFiles(): Promise<string[]> {
  const names = await readdir(lab.lake.directory, { recursive: true });
  return names.filter((name) => name.includes("rollup"));
}

it("comes with a merged object of many rows, and counts each of them once", async () => {
  await add();
  expect((await standing()).map(({ rollup }) => rollup)).toEqual([null]);
  const merged = await merge();
  expect(merged.rollup).toBe(merged.path.replace(/parquet$/u, "rollup1"));
  expect(await counted(merged.rollup)).toEqual([
    { target: "t0", n: rows / 2, minutes: 1 },
    { target: "t1", n: rows / 2, minutes: 1 },
  ]);
  await expectChecksums();
});

it.each([
  ["few rows", noon, 1000, "log_entries", "moment"],
  ["a row without a time", noon, rows, "log_entries", "CASE WHEN i > 0 THEN moment END"],
  ["a row at the end of time", noon, rows, "log_entries", "make_timestamp_ns(9223372036854775800 - i)"],
  ["as many minutes as rows", noon, rows, "log_entries", `make_timestamp_ns(${noon} + i * 60000000000)`],
] as const)("does not come with %s", async (_what, fromNs, count, table, time) => {
  await add(fromNs, count, table, time);
  await mergePartitions(lab.context, {
    ...mergeAll,
    viewSet: table,
    beginNs: -(2n ** 63n),
    endNs: 2n ** 63n - 1n,
    widthSeconds: 2 ** 31 - 1,
  });
  expect((await standing()).map((object) => [object.rollup, object.path.endsWith("l0.parquet")])).toEqual([
    [null, false],
  ]);
  expect(await rollupFiles()).toEqual([]);
});

describe("of spans", () => {
  /** A trace in which each span is the parent of the next; its odd ones are called. */
  const spans = async (id: string, widthSeconds: number, time = "moment"): Promise<Standing | undefined> => {
    await addAged(lab, {
      table: "spans",
      audience: "a",
      rowsSql: `SELECT ${time} AS time, 'p' AS process_id, 'shop' AS service_name,
        '00000000000000000000000000000001' AS trace_id, ${id} AS span_id, 1000 * i AS duration_ns,
        CASE WHEN i > 0 THEN ${id.replaceAll("i", "(i - 1)")} END AS parent_span_id, 3 - (i % 2)::INTEGER AS kind
        FROM (SELECT i, make_timestamp_ns(${noon} + i) AS moment FROM range(${rows}) t(i))`,
    });
    const always = { beginNs: -(2n ** 63n), endNs: 2n ** 63n - 1n };
    await mergePartitions(lab.context, { ...mergeAll, ...always, viewSet: "spans", widthSeconds });
    const [object] = await standing();
    return object;
  };
  const ids = "format('{:016x}', i)";

  it("holds the calls among them, in objects that are not merged again, and is checked", async () => {
    expect(await spans(ids, 86_400)).toMatchObject({ rollup: expect.stringMatching(/\.l3\.rollup2$/u) });
    const [object] = await standing();
    const calls = await lab.duck(`SELECT caller, callee, callee_type, count(*)::INT AS n, sum(duration_ns)::BIGINT AS ns
      FROM read_parquet(['${fileOf(object?.rollup)}'], hive_partitioning = false)
      WHERE callee IS NOT NULL GROUP BY ALL`);
    // The odd ones are called by those before them.
    const ns = (BigInt(rows) / 2n) ** 2n * 1000n;
    expect(calls).toEqual([{ caller: "shop", callee: "shop", callee_type: "service", n: rows / 2, ns }]);
    expect((await checkLake(lab.context, { repair: true, deep: false })).problems).toEqual([]);
    await lab.sql`update lakehouse_partitions set row_count = row_count - 1`;
    const { problems } = await checkLake(lab.context, { repair: false, deep: false });
    expect(problems.map(({ detail }) => detail)).toContain(`a roll-up of ${rows} rows instead of ${rows - 1}`);
  });

  it.each([
    ["objects that are merged again", ids, 3600, "moment"],
    ["spans that share ids, of which each would be called by each", "'0000000000000001'", 86_400, "moment"],
    ["a span without a time", ids, 2 ** 31 - 1, "CASE WHEN i > 0 THEN moment END"],
    ["a span at the end of time", ids, 2 ** 31 - 1, "make_timestamp_ns(9223372036854775800 - i)"],
  ] as const)("does not come with %s", async (_what, id, widthSeconds, time) => {
    expect(await spans(id, widthSeconds, time)).toMatchObject({ rollup: null, rows });
    expect(await rollupFiles()).toEqual([]);
  });
});

it("comes with joined objects as well", async () => {
  const audiences = { kind: "some", audiences: new Set(["a"]), unstamped: false } as const;
  const list = { viewSet: "log_entries", audiences, widthSeconds: 86_400 } as const;
  for (const i of [0n, 1n]) {
    await add(noon + i * 100n * second);
  }
  for (const { id } of await standing()) {
    await mergePartitions(lab.context, { ...list, level: 1, partitionIds: [id] });
  }
  const partitionIds = (await standing()).map(({ id }) => id);
  await mergePartitions(lab.context, { ...list, level: 2, partitionIds });
  const [joined, ...others] = await standing();
  expect(others).toEqual([]);
  expect(joined?.path).toMatch(/\.l2\.parquet$/u);
  expect(await counted(joined?.rollup)).toEqual([
    { target: "t0", n: rows, minutes: 3 },
    { target: "t1", n: rows, minutes: 3 },
  ]);
  // Those of the sources are kept for queries under way, and named.
  const retired = await lab.sql<{ path: string }[]>`select path from retired_objects where path like '%.rollup1'`;
  expect(retired).toHaveLength(2);
  await expectChecksums();
});

it("goes with its object, after the grace period, and is no orphan before", async () => {
  await add();
  const { path: object, rollup } = await merge();
  const nowMs = Date.now() + 7_200_000;
  expect(await sweepOrphans(lab.sql, lab.context.store, { nowMs })).toMatchObject({ removedObjects: 0 });
  await retirePartitions(lab.sql, { kind: "all" }, { kind: "path", path: object });
  expect(await sweepOrphans(lab.sql, lab.context.store, { nowMs })).toMatchObject({ removedObjects: 0 });
  await sweepRetired(lab.sql, lab.context.store, 3_600_000);
  await access(fileOf(rollup));
  await sweepRetired(lab.sql, lab.context.store, 0);
  expect(await rollupFiles()).toEqual([]);
});

it("is removed when nothing names it", async () => {
  await add();
  const { path: object } = await merge();
  const left = path.join(path.dirname(fileOf(object)), "left.l1.rollup1");
  await writeFile(left, "left by a crash");
  await sweepOrphans(lab.sql, lab.context.store, { nowMs: Date.now() + 7_200_000 });
  expect(await rollupFiles()).toHaveLength(1);
});

it.each([
  ["missing", (file: string) => unlink(file)],
  ["wrong_size", (file: string) => truncate(file, 100)],
  ["wrong_checksum", changeBytes],
  [
    "unreadable",
    async (file: string, bytes: number) => {
      await writeFile(file, Buffer.alloc(bytes, 0xff));
    },
  ],
] as const)("is told when it is %s, and dropped by a repair", async (kind, damage) => {
  await add();
  const { rollup, id } = await merge();
  const check = (repair: boolean) => checkLake(lab.context, { repair, deep: false });
  expect((await check(true)).problems).toEqual([]);
  const [size] = await lab.sql<{ bytes: number }[]>`select rollup_bytes::int as bytes from lakehouse_partitions`;
  await damage(fileOf(rollup), size?.bytes ?? 0);
  for (const mended of [false, true]) {
    expect((await check(mended)).problems).toMatchObject([{ kind, path: rollup, mended }]);
  }
  expect(await standing()).toMatchObject([{ id, rollup: null, rows }]);
  await expectForgotten();
  expect((await check(true)).problems).toEqual([]);
});

it("does not come back with an object that was lost", async () => {
  await add();
  const { path: object, rollup } = await merge();
  const kept = `${fileOf(object)}.kept`;
  await rename(fileOf(object), kept);
  await checkLake(lab.context, { repair: true, deep: false });
  expect(await standing()).toEqual([]);
  await sweepRetired(lab.sql, lab.context.store, 0);
  await expect(access(fileOf(rollup))).rejects.toThrow("ENOENT");
  await rename(kept, fileOf(object));
  await checkLake(lab.context, { repair: true, deep: false });
  expect(await standing()).toMatchObject([{ path: object, rollup: null }]);
  await expectForgotten();
});
