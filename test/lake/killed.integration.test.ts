/**
 * Processes that are killed at every step of a commit, a merge with its roll-ups, the removal of what was replaced and a
 * fill of the cache: nothing is lost, doubled or half-published. Erasures and retention are killed in their own tests.
 */
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { createCacheCounts } from "../../src/lake/cache/cache-counts.js";
import { DiskCache } from "../../src/lake/cache/disk-cache.js";
import { mergePartitions, type MergePoint } from "../../src/lake/merge/merge.js";
import { retirePartitions, sweepRetired } from "../../src/lake/retire.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { sampled } from "../helpers/effort.js";
import { type FillStep, wantedText } from "../helpers/lake/disk-cache-text.js";
import type { FilePoint } from "../helpers/lake/file-points.js";
import { commitLogs, type CommitPoint, type SentLogs } from "../helpers/lake/lake-commit.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, dieAt, killedChild, publishedValues, startChild } from "../helpers/lake/lake-tasks.js";
import { mergeRequest } from "../helpers/lake/merge-work.js";
import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { until } from "../helpers/until.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

const messages = (): Promise<string[]> => publishedValues(lab, "log_entries", "msg");

/** Postgres ends the session of a process that was killed when it notices. */
function untilGone(applicationName: string): Promise<void> {
  return until(async () => {
    const sessions = await lab.sql`
      select from pg_stat_activity where application_name = ${applicationName} and datname = current_database()`;
    return sessions.length === 0;
  });
}

/** Removes what nothing names, as maintenance does an hour later; what is left is what the catalogue knows. */
async function expectNoOrphans(): Promise<void> {
  const { sql, context } = lab;
  await sweepOrphans(sql, context.store, { nowMs: Date.now() + 7_200_000 });
  const left: string[] = [];
  for await (const object of context.store.list("")) {
    left.push(object.path);
  }
  const known = await sql<{ path: string }[]>`
    select path from lakehouse_partitions
    union all select rollup_path from lakehouse_partitions where rollup_path is not null
    union all select path from retired_objects`;
  expect(left.toSorted()).toEqual(known.map((row) => row.path).toSorted());
}

describe("a commit", () => {
  const sent: readonly SentLogs[] = ["a", "b"].map((audience) => ({
    audience,
    body: protobufLogs(`sent to ${audience}`, 3).toString("base64"),
  }));
  const whole = ["a", "b"].flatMap((audience) => [0, 1, 2].map((n) => `sent to ${audience} ${n}`));
  const cases: readonly (readonly [FilePoint | CommitPoint, number])[] = [
    ["write", 1],
    ["rename", 1],
    ["datasync", 1],
    // Of the directories above a new object, and of its own.
    ["sync", 1],
    ["sync", 4],
    ["write", 2],
    ["rename", 2],
    ["datasync", 2],
    ["sync", 7],
    ["publishing", 1],
    ["published", 1],
  ];
  it.each(cases)("killed at %s (%i.) is whole or nothing, and whole once it is sent again", async (point, nth) => {
    await killedChild("./lake-commit-child.js", point, nth, [lab.connectionString, lab.lake.uri, JSON.stringify(sent)]);
    await untilGone("commit-child");
    const published = point === "published";
    expect(await messages()).toEqual(published ? whole : []);
    const again = await commitLogs(lab.sql, lab.context.store, sent);
    expect(again.kind).toBe(published ? "duplicates" : "committed");
    expect(await messages()).toEqual(whole);
    expect(await lab.sql`select from blocks`).toHaveLength(2);
    await expectNoOrphans();
    expect(await messages()).toEqual(whole);
  });

  it("killed while its statement runs, which Postgres ends, counts once when it is sent again", async () => {
    await lab.sql.unsafe(`
      create function wait_here() returns trigger language plpgsql as
        'begin perform pg_advisory_xact_lock(42); return null; end';
      create trigger wait_here before insert on blocks for each statement execute function wait_here()`);
    const lock = await lab.sql.reserve();
    await lock`select pg_advisory_lock(42)`;
    const child = startChild("./lake-commit-child.js", [lab.connectionString, lab.lake.uri, JSON.stringify(sent)]);
    const exited = once(child, "exit");
    await until(async () => {
      const waiting = await lab.sql`select from pg_stat_activity
        where application_name = 'commit-child' and wait_event_type = 'Lock' and datname = current_database()`;
      return waiting.length > 0;
    });
    child.kill("SIGKILL");
    await exited;
    await lock`select pg_advisory_unlock(42)`;
    lock.release();
    await untilGone("commit-child");
    expect(await messages()).toEqual(whole);
    expect(await commitLogs(lab.sql, lab.context.store, sent)).toMatchObject({ kind: "duplicates" });
    await expectNoOrphans();
    expect(await messages()).toEqual(whole);
  });
});

describe("a merge", () => {
  const hour = 3600;
  type Point = readonly [MergePoint | FilePoint, number];
  /** Ids of the objects. */
  async function standing(): Promise<string[]> {
    const rows = await lab.sql<{ id: string }[]>`select partition_id as id from lakehouse_partitions order by path`;
    return rows.map(({ id }) => id);
  }

  async function rollups(): Promise<string[]> {
    const rows = await lab.sql<{ path: string }[]>`
      select rollup_path as path from lakehouse_partitions where rollup_path is not null`;
    return rows.map((row) => `'${lab.lake.directory}/${row.path}'`);
  }

  /** Kills one merge, looks, and has another one go on. @returns how many objects stand then */
  async function survivors(
    work: { readonly level: 1 | 2; readonly widthSeconds: number },
    [point, nth]: Point,
  ): Promise<number> {
    const before = await messages();
    const ids = await standing();
    const replaced = ids.length + (await rollups()).length;
    const merge = { audience: "a", ...work, partitionIds: ids };
    await dieAt(lab, { merge }, point, nth);
    await untilGone("task-child");
    expect(await messages()).toEqual(before);
    const isDone = (await standing()).join() !== ids.join();
    expect(isDone).toBe(point === "replaced");
    if (!isDone) {
      await mergePartitions(lab.context, mergeRequest(merge));
    }
    expect(await lab.sql`select from retired_objects`).toHaveLength(replaced);
    expect(await messages()).toEqual(before);
    await expectNoOrphans();
    expect(await messages()).toEqual(before);
    const rolled = await rollups();
    expect(
      await lab.duck(`SELECT CAST(sum(count) AS INT) AS n
        FROM read_parquet([${rolled.join(", ")}], hive_partitioning = false)`),
    ).toEqual([{ n: before.length }]);
    const objects = (await standing()).length;
    expect(rolled).toHaveLength(objects);
    return objects;
  }

  const sorting: readonly Point[] = [
    // Of the first roll-up, and of its object.
    ["rename", 1],
    ["rename", 2],
    ["sync", 7],
    ["written", 1],
    ["rename", 4],
    ["written", 2],
    ["replacing", 1],
    ["replaced", 1],
  ];
  it.each(sampled(sorting, 4))(
    "that sorts, killed at %s (%i.), keeps every row once, and another one goes on",
    async (...at) => {
      for (const n of [0, 1, 2]) {
        const rowsSql = `SELECT make_timestamp_ns((${n} + i % 2 * ${hour}) * 1000000000 + i) AS time,
        'row ${n} ' || i AS msg FROM range(6000) t(i)`;
        await addAged(lab, { table: "log_entries", audience: "a", rowsSql });
      }
      expect(await survivors({ level: 1, widthSeconds: hour }, at)).toBe(2);
    },
  );

  const joining: readonly Point[] = [
    ["rename", 1],
    ["rename", 2],
    ["sync", 7],
    ["written", 1],
    ["replacing", 1],
    ["replaced", 1],
  ];
  it.each(sampled(joining, 2))(
    "that joins, killed at %s (%i.), keeps every row once, and another one goes on",
    async (...at) => {
      for (const n of [0, 1]) {
        const rowsSql = `SELECT make_timestamp_ns(${n} * 100000000000 + i) AS time, 'row ${n}' AS msg
        FROM range(21000) t(i)`;
        await addAged(lab, { table: "log_entries", audience: "a", rowsSql });
      }
      for (const id of await standing()) {
        const one = { audience: "a", partitionIds: [id], level: 1, widthSeconds: 24 * hour } as const;
        await mergePartitions(lab.context, mergeRequest(one));
      }
      await lab.sql`delete from retired_objects`;
      expect(await survivors({ level: 2, widthSeconds: 24 * hour }, at)).toBe(1);
    },
  );
});

it.each([1, 2, 3])("a removal of retired objects, killed before the %i., is ended by another one", async (nth) => {
  for (const audience of ["a", "b", "c", "kept"]) {
    const rowsSql = `SELECT make_timestamp_ns(0) AS time, 'of ${audience}' AS msg`;
    await addAged(lab, { table: "log_entries", audience, rowsSql });
  }
  for (const audience of ["a", "b", "c"]) {
    const only = { kind: "some", audiences: new Set([audience]), unstamped: false } as const;
    await retirePartitions(lab.sql, only, { kind: "older", viewSet: "log_entries", thanNs: 1n });
  }
  await dieAt(lab, { sweep: true }, "remove", nth);
  await untilGone("task-child");
  expect(await lab.sql`select from retired_objects`).toHaveLength(3);
  await sweepRetired(lab.sql, lab.context.store, 0);
  expect(await lab.sql`select from retired_objects`).toEqual([]);
  await expectNoOrphans();
  expect(await messages()).toEqual(["of kept"]);
});

describe("a fill of the cache of the lake", () => {
  const text = "what is in the object";
  const cases: readonly (readonly [FillStep | FilePoint | "held", number, number])[] = [
    ["half", 1, 0],
    ["filled", 1, 0],
    ["rename", 1, 0],
    ["rename", 2, 1],
    ["held", 1, 2],
  ];
  it.each(cases)("killed at %s (%i.) leaves %i whole files, and no half ones are used", async (point, nth, kept) => {
    const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-fill-"));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    await killedChild("./disk-cache-child.js", point, nth, [directory, text]);
    const counts = createCacheCounts(createMetrics());
    const cache = await DiskCache.open(directory, 1 << 20, counts);
    expect((await readdir(directory)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
    expect(["a", "b"].filter((key) => cache.has(key))).toHaveLength(kept);
    const held = await cache.hold(
      ["a", "b"].map((key) => wantedText(key, text)),
      new AbortController().signal,
    );
    expect(await Promise.all(held.files.map((file) => readFile(file, "utf8")))).toEqual([text, text]);
    held.release(false);
  });
});
