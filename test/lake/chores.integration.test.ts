/** What the leader of maintenance does beside merging, by its clock. */
import { mkdir, readdir, rename, rm, truncate, utimes, writeFile } from "node:fs/promises";
import path from "node:path";

import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { type ChoreOptions, createChores } from "../../src/lake/merge/chores.js";
import { checkLake } from "../../src/lake/check/check-lake.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";
import { sweepRetired } from "../../src/lake/retire.js";
import { trim } from "../../src/lake/rewrite/trim.js";
import { systemClock } from "../../src/runtime/clock.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { changeBytes } from "../helpers/lake/change-bytes.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
  await lab.sql`update lake_state set seen_at = now()`;
});
afterEach(() => lab.stop());

function chores(more: Partial<ChoreOptions> = {}) {
  const [note, tasks, retention, sweep] = createChores({
    sql: lab.sql,
    store: lab.context.store,
    rewriter: {
      task: ({ taskId }) => runTask(taskContext(lab), taskId),
      trim: (policy) => trim(lab.context, policy),
    },
    retentionDays: 30,
    unstampedAudience: "public",
    clock: systemClock,
    logger: createSilentLogger(),
    metrics: createMetrics(),
    ...more,
  });
  const run = async (chore: typeof tasks): Promise<boolean | undefined> => chore?.run(new AbortController().signal);
  return { note: () => run(note), tasks: () => run(tasks), retention: () => run(retention), sweep: () => run(sweep) };
}

const objects = async (): Promise<number> => (await lab.sql`select from lakehouse_partitions`).length;
const addOld = () =>
  addAged(lab, {
    table: "log_entries",
    audience: "a",
    daysAgo: [40, 40],
    rowsSql: "SELECT make_timestamp_ns(1) AS time, 'x' AS msg, 's' AS service_name",
  });

it("says the default retention at once, and again every five minutes", async () => {
  const said = () => lab.sql<{ days: number | null; at: Date | null }[]>`
    select retention_days as days, retention_seen_at as at from lake_state`;
  const clock = createManualClock();
  const { note } = chores({ clock });
  await note();
  const [first] = await said();
  expect(first).toEqual({ days: 30, at: expect.any(Date) });
  await note();
  expect(await said()).toEqual([first]);
  clock.advance(300_000);
  await note();
  expect((await said())[0]?.at?.getTime()).toBeGreaterThan(first?.at?.getTime() ?? Number.NaN);
  await chores({ retentionDays: null }).note();
  expect(await said()).toMatchObject([{ days: null }]);
});

it("removes what is past its retention, by the database's clock", async () => {
  await addOld();
  await chores().retention();
  expect(await objects()).toBe(0);
});

it.each([
  ["damaged", (file: string) => truncate(file, 50)],
  ["changed, and can be read", changeBytes],
])("trims the other objects when one is %s, then says which it is and what to do", async (_what, spoil) => {
  const [bad] = await Promise.all(
    ["a", "b"].map((audience) =>
      addAged(lab, {
        table: "log_entries",
        audience,
        daysAgo: [400, 0],
        rowsSql: `SELECT make_timestamp_ns(1) AS time, '${audience}' || d AS msg,
          CAST(now() - d * INTERVAL 1 DAY AS TIMESTAMP_NS) AS insert_time FROM (VALUES (400), (0)) AS t (d)`,
      }),
    ),
  );
  await spoil(path.join(lab.lake.directory, bad?.path ?? ""));
  const metrics = createMetrics();
  await expect(chores({ metrics }).retention()).rejects.toThrow(`missing or damaged: ${bad?.path}. Restore it`);
  expect(await metrics.text()).toContain('maintenance_retention_total{what="trimmedRows"} 1');
  expect(await lab.sql`select audience, row_count::int as rows from lakehouse_partitions order by 1`).toEqual([
    { audience: "a", rows: 2 },
    { audience: "b", rows: 1 },
  ]);
});

it("trims an object that more than a step of missing ones come before", async () => {
  const rowsSql = `SELECT make_timestamp_ns(1) AS time, CAST(now() - d * INTERVAL 1 DAY AS TIMESTAMP_NS) AS insert_time
    FROM (VALUES (400), (0)) AS t (d)`;
  const { path: good } = await addAged(lab, { table: "log_entries", audience: "a", daysAgo: [400, 0], rowsSql });
  await lab.sql`insert into lakehouse_partitions
    select missing.* from lakehouse_partitions as p, generate_series(1, 101) as i, jsonb_populate_record(p, jsonb_build_object(
      'partition_id', '00000000-0000-4000-8000-' || lpad(i::text, 12, '0'), 'path', p.path || i)) as missing
    where p.path = ${good}`;
  await expect(chores({}).retention()).rejects.toThrow(
    /^101 objects are missing or damaged: .*, and 96 more\. Restore/u,
  );
  expect(
    await lab.sql`select row_count::int as rows from lakehouse_partitions where path not like ${`${good}%`}`,
  ).toEqual([{ rows: 1 }]);
});

it("removes nothing at once when a clock was set ahead", async () => {
  await addOld();
  // This machine's only.
  const ahead = { ...systemClock, nowMs: () => Date.now() + 400 * 86_400_000 };
  await chores({ clock: ahead }).retention();
  // The database's: somebody looked lately, as it seems now.
  await lab.sql`update lake_state set seen_at = now() - interval '400 days', hold_until = null`;
  await chores().retention();
  await chores().retention();
  expect(await objects()).toBe(1);
  await lab.sql`update lake_state set hold_until = now()`;
  await chores().retention();
  expect(await objects()).toBe(0);
});

it("does tasks in their order, and goes on with others when one cannot be done now", async () => {
  await addOld();
  const blocked = await askErasure(lab, { audience: "a", where: { service: "other" } });
  const second = await askErasure(lab, { audience: "a", where: { service: "s" } });
  const tried: string[] = [];
  const { tasks } = chores({
    rewriter: {
      task: ({ taskId }) => {
        tried.push(taskId);
        return taskId === blocked
          ? Promise.reject(new ServiceError("UNAVAILABLE", "merged"))
          : runTask(taskContext(lab), taskId);
      },
      trim: () => Promise.resolve({ objects: 0, rows: 0, bad: [] }),
    },
  });
  expect([await tasks(), await tasks(), await tasks()]).toEqual([true, true, false]);
  expect(tried).toEqual([blocked, second]);
  expect(await taskRow(lab, second)).toMatchObject({ state: "done", rows: 1 });
  expect(await taskRow(lab, blocked)).toMatchObject({ state: "waiting" });
});

it("removes objects that were never published an hour after they were written, and nothing else", async () => {
  const { path: published } = await addOld();
  const directory = path.dirname(path.join(lab.lake.directory, published));
  const write = async (name: string, hours: number): Promise<void> => {
    await writeFile(path.join(directory, name), "");
    const then = new Date(Date.now() - hours * 3_600_000);
    await utimes(path.join(directory, name), then, then);
  };
  await write("old.l0.parquet", 1.1);
  await write("young.l0.parquet", 0.9);
  await write(".old.l0.parquet.123456.tmp", 1.1);
  await write("kept.l0.parquet", 1.1);
  await lab.sql`insert into lost_partitions (partition_id, path, reason, partition)
    values (gen_random_uuid(), ${path.join(path.dirname(published), "kept.l0.parquet")}, 'missing', '{}')`;
  // Of the web application.
  await mkdir(path.join(lab.lake.directory, "web/maps"), { recursive: true });
  const then = new Date(Date.now() - 86_400_000);
  for (const name of ["old.glb", ".old.glb.tmp"]) {
    await writeFile(path.join(lab.lake.directory, "web/maps", name), "");
    await utimes(path.join(lab.lake.directory, "web/maps", name), then, then);
  }
  await chores().sweep();
  expect((await readdir(directory)).toSorted()).toEqual(
    [path.basename(published), "kept.l0.parquet", "young.l0.parquet"].toSorted(),
  );
  expect(await readdir(path.join(lab.lake.directory, "web/maps"))).toEqual(["old.glb"]);
});

it("removes directories of days that have been empty for two days", async () => {
  const { path: published } = await addOld();
  const full = path.dirname(path.join(lab.lake.directory, published));
  const day = (name: string): string => path.join(lab.lake.directory, "log_entries", name);
  const emptied = async (directory: string, daysAgo: number): Promise<void> => {
    await mkdir(directory, { recursive: true });
    const then = new Date(Date.now() - daysAgo * 86_400_000);
    await utimes(directory, then, then);
  };
  await emptied(day("audience=b/2026-01-01"), 2.1);
  await emptied(day("audience=b/2026-01-02"), 1.9);
  await emptied(day("unstamped/2026-01-01"), 2.1);
  await emptied(full, 2.1);
  await chores().sweep();
  expect(await readdir(day("audience=b"))).toEqual(["2026-01-02"]);
  expect(await readdir(day("unstamped"))).toEqual([]);
  expect(await readdir(full)).toEqual([path.basename(published)]);
});

it("removes the other objects that were never published when one cannot be removed, and says which", async () => {
  const then = new Date(Date.now() - 7_200_000);
  const write = async (file: string): Promise<void> => {
    await mkdir(path.dirname(path.join(lab.lake.directory, file)), { recursive: true });
    await writeFile(path.join(lab.lake.directory, file), "");
    await utimes(path.join(lab.lake.directory, file), then, then);
  };
  await chores().sweep();
  const kept = "log_entries/audience=a/2026-01-01/kept.l0.parquet";
  const others = [kept.replace("kept", "a"), kept.replace("kept", "z"), kept.replace("log_entries", "spans")];
  for (const file of [kept, ...others]) {
    await write(file);
  }
  const { store } = lab.context;
  const remove = store.remove.bind(store);
  vi.spyOn(store, "remove").mockImplementation((file) =>
    file === kept ? Promise.reject(new ServiceError("UNAVAILABLE", "not removed")) : remove(file),
  );
  await expect(chores().sweep()).rejects.toThrow(`Objects cannot be removed: ${kept}. The service`);
  const names = await readdir(lab.lake.directory, { recursive: true });
  expect(names.filter((name) => name.endsWith(".parquet"))).toEqual([kept]);
});

it("removes no object that is about to be published while the store's clock is behind", async () => {
  await chores().sweep();
  const { store } = lab.context;
  const waiting = "log_entries/audience=a/2026-01-01/00000000-0000-4000-8000-000000000001.l1.parquet";
  await store.put(waiting, [Buffer.from("written, and not published yet")]);
  const behind: typeof store = Object.create(store, {
    list: {
      value: async function* list(prefix: string) {
        for await (const found of store.list(prefix)) {
          yield { ...found, modifiedMs: found.modifiedMs - 2 * 3_600_000 };
        }
      },
    },
  }) as typeof store;
  for (const name of ["put", "remove", "localPath"] as const) {
    Object.assign(behind, { [name]: store[name].bind(store) });
  }
  const lines: unknown[] = [];
  const logger = { ...createSilentLogger(), info: (...words: unknown[]) => lines.push(words.at(-1)) };
  await chores({ store: behind, logger }).sweep();
  expect(lines).toEqual([expect.stringMatching(/stay: the clock of the object store is 7\d\d\d s behind/u)]);
  expect(await readdir(path.join(lab.lake.directory, path.dirname(waiting)))).toEqual([path.basename(waiting)]);
  // Nothing else is left of the look at it.
  expect((await readdir(path.join(lab.lake.directory, "lake-id"))).filter((name) => name.startsWith("."))).toEqual([]);
});

it("removes nothing for a copy of the database, or one that was restored, until somebody says so", async () => {
  await chores().sweep();
  const [newer, replaced] = [await addOld(), await addOld()].map(({ path: object }) => object);
  const then = new Date(Date.now() - 86_400_000);
  for (const object of [newer, replaced]) {
    await utimes(path.join(lab.lake.directory, object ?? ""), then, then);
  }
  // Databases of tests are copies of one. It was made before the one object was published, and replaces the other.
  const copy = await startMergeLab();
  try {
    await copy.sql`update lake_state set seen_at = now(), marked = true`;
    await copy.sql`insert into retired_objects values (${replaced ?? ""}, 1, now() - interval '2 hours')`;
    const { store } = lab.context;
    const left = async (): Promise<string[]> => {
      const names = await readdir(lab.lake.directory, { recursive: true });
      return names.filter((name) => name.endsWith(".parquet")).toSorted();
    };
    await chores({ sql: copy.sql }).sweep();
    const { failure } = await sweepRetired(copy.sql, store, 3_600_000);
    expect(failure?.message).toMatch(
      /^Objects that were replaced stay: .*restored or copied since lake-owner\/.* remove that/u,
    );
    expect(new Set(await left())).toEqual(new Set([newer, replaced]));
    // The original goes on.
    expect((await sweepRetired(lab.sql, store, 0)).failure).toBeNull();

    const [name = ""] = await readdir(path.join(lab.lake.directory, "lake-owner"));
    await rm(path.join(lab.lake.directory, "lake-owner", name));
    expect((await sweepRetired(copy.sql, store, 3_600_000)).failure).toBeNull();
    await chores({ sql: copy.sql }).sweep();
    expect(await left()).toEqual([]);
    expect((await sweepRetired(lab.sql, store, 0)).failure).not.toBeNull();
  } finally {
    await copy.stop();
  }
});

it("keeps what nothing names after a failover, and removes what was replaced", async () => {
  await chores().sweep();
  const [unnamed, replaced] = [await addOld(), await addOld()].map(({ path: object }) => object);
  const then = new Date(Date.now() - 86_400_000);
  await utimes(path.join(lab.lake.directory, unnamed ?? ""), then, then);
  // The commit that named it was lost with the primary; a failover is another timeline.
  await lab.sql`delete from lakehouse_partitions where path = ${unnamed ?? ""}`;
  await lab.sql`insert into retired_objects values (${replaced ?? ""}, 1, now() - interval '2 hours')`;
  const owners = path.join(lab.lake.directory, "lake-owner");
  const [name = ""] = await readdir(owners);
  const before = name.replace(/\d+$/u, "0");
  await rename(path.join(owners, name), path.join(owners, before));

  await chores().sweep();
  expect(await sweepRetired(lab.sql, lab.context.store, 3_600_000)).toMatchObject({ removedObjects: 1, failure: null });
  const context = { ...taskContext(lab), clock: systemClock };
  const report = await checkLake(context, { repair: true, deep: false });
  expect(report.notes).toEqual([expect.stringContaining(`a standby took over, or`)]);
  expect(report.problems).toMatchObject([{ kind: "missing" }, { kind: "orphan", path: unnamed, mended: false }]);

  await rm(path.join(owners, before));
  await chores().sweep();
  expect(await checkLake(context, { repair: false, deep: false })).toMatchObject({ counts: { orphan: 0 } });
  expect(await readdir(owners)).toEqual([name]);
});

it("removes what killed probes and looks at clocks have left for over an hour, as a repair does", async () => {
  await chores().sweep();
  const context = { ...taskContext(lab), clock: systemClock };
  const small = [".probe.0123456789abcdef.tmp", ".probe/of-a-bucket", "lake-id/.clock-1", "lake-owner/.x.1.tmp"];
  const leave = async (ageMs: number): Promise<void> => {
    const then = new Date(Date.now() - ageMs);
    for (const name of small) {
      const file = path.join(lab.lake.directory, name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, "x");
      await utimes(file, then, then);
    }
  };
  const left = async (): Promise<string[]> => {
    const names = await readdir(lab.lake.directory, { recursive: true });
    return names.filter((name) => small.includes(name)).toSorted();
  };
  const marks = async (): Promise<number> =>
    (await readdir(path.join(lab.lake.directory, "lake-id"))).length +
    (await readdir(path.join(lab.lake.directory, "lake-owner"))).length;
  const marked = await marks();

  await leave(50 * 60_000);
  await chores().sweep();
  expect(await checkLake(context, { repair: true, deep: false })).toMatchObject({ problems: [] });
  expect(await left()).toEqual(small);
  await leave(2 * 3_600_000);
  const found = small.map((name) => ({ kind: "orphan", path: name, mended: false }));
  const told = await checkLake(context, { repair: false, deep: false });
  expect(told.problems.toSorted((a, b) => (a.path < b.path ? -1 : 1))).toMatchObject(found);
  expect(await left()).toEqual(small);
  expect(await checkLake(context, { repair: true, deep: false })).toMatchObject({ counts: { orphan: 4, mended: 4 } });
  expect(await left()).toEqual([]);
  await leave(2 * 3_600_000);
  await chores().sweep();
  expect(await left()).toEqual([]);
  expect(await marks()).toBe(marked);
});

it("removes no object of a lake that another database has", async () => {
  const other = await startMergeLab();
  try {
    await chores().sweep();
    const { path: published } = await addOld();
    const file = path.join(lab.lake.directory, published);
    const then = new Date(Date.now() - 86_400_000);
    await utimes(file, then, then);
    // An empty database, whose catalogue names nothing of this store.
    await other.sql`update lake_state set seen_at = now(), lake_id = gen_random_uuid()`;
    await chores({ sql: other.sql }).sweep();
    expect(await readdir(path.dirname(file))).toEqual([path.basename(file)]);
  } finally {
    await other.stop();
  }
});
