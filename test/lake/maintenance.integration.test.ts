/** Maintenance over a lake of objects of our choosing. */
import { copyFile, mkdir, rename, rm, rmdir, truncate } from "node:fs/promises";

import { afterEach, beforeEach, expect, it } from "vitest";

import { connect, type Sql } from "../../src/db/sql.js";
import { type Chore, Maintenance } from "../../src/lake/merge/maintenance.js";
import { mergePartitions, type MergeRequest } from "../../src/lake/merge/merge.js";
import { sweepRetired } from "../../src/lake/retire.js";
import type { ObjectStore } from "../../src/lake/store/object-store.js";
import { type Clock, systemClock } from "../../src/runtime/clock.js";
import { createLogger, createSilentLogger, type Logger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createRoleLogin } from "../helpers/auth/auth-roles.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addPartition } from "../helpers/lake/lake.js";

let lab: MergeLab;
const running: { maintenance: Maintenance; sql: Sql }[] = [];
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(async () => {
  for (const { maintenance, sql } of running.splice(0)) {
    await maintenance.stop();
    await sql.end({ timeout: 5 });
  }
  await lab.stop();
});

const intervalMs = 50;

interface Started {
  readonly maintenance: Maintenance;
  /** The value of a metric without labels. */
  readonly metric: (name: string) => Promise<number>;
}

function start(
  beforeMerge: (request: MergeRequest) => Promise<void> | void = () => undefined,
  chores: readonly Chore[] = [],
  everyMs = intervalMs,
  {
    clock = systemClock,
    logger = createSilentLogger(),
    merge = mergePartitions,
  }: { readonly clock?: Clock; readonly logger?: Logger; readonly merge?: typeof mergePartitions } = {},
): Started {
  const metrics = createMetrics();
  const sql = connect({
    connectionString: lab.connectionString,
    maxConnections: 1,
    applicationName: "test-maintenance",
    logger,
  });
  const maintenance = new Maintenance({
    sql,
    chores,
    merger: {
      merge: async (request, signal) => {
        await beforeMerge(request);
        return merge({ ...lab.context, cancelled: () => signal.aborted }, request);
      },
    },
    room: { rows: 100_000, bytes: 64 << 20 },
    intervalMs: everyMs,
    clock,
    logger,
    metrics,
  });
  running.push({ maintenance, sql });
  return {
    maintenance,
    metric: async (name) => {
      const line = (await metrics.text()).split("\n").find((one) => one.startsWith(`${name} `));
      return Number(line?.slice(name.length));
    },
  };
}

async function addLogs(count: number, audience: string | null, rowsSql?: string): Promise<void> {
  for (let i = 0; i < count; i++) {
    await addPartition(lab.lake, lab.sql, {
      table: "log_entries",
      audience,
      rowsSql: rowsSql ?? `SELECT make_timestamp_ns(${i}) AS time, '${audience} ${i}' AS msg`,
    });
  }
  // Nothing has arrived since, so four are enough.
  await lab.sql`update lakehouse_partitions
    set min_insert_time = now() - interval '1 hour', max_insert_time = now() - interval '1 hour' where level = 0`;
}

interface Standing {
  readonly audience: string | null;
  readonly objects: number;
  readonly rows: number;
}

function standing(): Promise<Standing[]> {
  return lab.sql<Standing[]>`
    select audience, count(*)::int as objects, sum(row_count)::int as rows
    from lakehouse_partitions group by 1 order by 1 nulls last`;
}

it("merges what is worth it in each table and audience, and leaves the rest", async () => {
  await addLogs(9, "many");
  await addLogs(4, null);
  await addLogs(3, "few");
  const { metric } = start();
  await expect.poll(standing).toEqual([
    { audience: "few", objects: 3, rows: 3 },
    { audience: "many", objects: 1, rows: 9 },
    { audience: null, objects: 1, rows: 4 },
  ]);
  await expect.poll(() => metric("maintenance_last_success_timestamp_seconds")).toBeGreaterThan(0);
  expect(await metric("maintenance_merges_total")).toBe(2);
  expect(await metric("maintenance_rows_total")).toBe(13);
  const [merged] = await lab.sql<{ path: string }[]>`
    select path from lakehouse_partitions where audience = 'many'`;
  const rows = await lab.duck(`SELECT msg FROM '${lab.lake.directory}/${merged?.path}' ORDER BY msg`);
  expect(rows.map(({ msg }) => msg)).toEqual(Array.from({ length: 9 }, (_, i) => `many ${i}`));
});

it("merges objects whose rows have no time", async () => {
  await addLogs(4, "timeless", "SELECT NULL::TIMESTAMP_NS AS time, 'x' AS msg");
  start();
  await expect.poll(standing).toEqual([{ audience: "timeless", objects: 1, rows: 4 }]);
});

it("is led by one of several processes, merges once, and another takes over when that one is gone", async () => {
  const first = start();
  await expect.poll(() => first.metric("maintenance_leader")).toBe(1);
  const second = start();
  await addLogs(4, "a");
  await expect.poll(standing).toEqual([{ audience: "a", objects: 1, rows: 4 }]);
  expect(await second.metric("maintenance_leader")).toBe(0);
  // Whoever looks first merges.
  const merges = async (): Promise<number> =>
    (await first.metric("maintenance_merges_total")) + (await second.metric("maintenance_merges_total"));
  await expect.poll(merges).toBe(1);

  // Its session ends without a word, as when its machine dies. Not before: it would lead again at once.
  await first.maintenance.stop();
  await lab.sql`select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'test-maintenance' and pid in (select pid from pg_locks where locktype = 'advisory')`;
  await expect.poll(() => second.metric("maintenance_leader")).toBe(1);
  await addLogs(4, "b");
  await expect.poll(standing).toContainEqual({ audience: "b", objects: 1, rows: 4 });
});
it("counts a merge that fails, tries it ever more rarely, and goes on with the others", async () => {
  await addLogs(5, "broken");
  await addLogs(4, "whole");
  const triedMs: number[] = [];
  const { metric } = start(({ audiences }) => {
    if (audiences.kind === "some" && audiences.audiences.has("broken")) {
      triedMs.push(performance.now());
      throw new RangeError("a merge that fails");
    }
  });
  await expect.poll(() => metric("maintenance_failures_total")).toBeGreaterThanOrEqual(4);
  expect(await standing()).toEqual([
    { audience: "broken", objects: 5, rows: 5 },
    { audience: "whole", objects: 1, rows: 4 },
  ]);
  const [, , third = 0, fourth = 0] = triedMs;
  expect(fourth - third).toBeGreaterThanOrEqual(4 * intervalMs);
});

it("merges the others when some are missing or damaged, says which and what to do, and takes them later", async () => {
  await addLogs(8, "a");
  const [first, second] = await lab.sql<{ path: string }[]>`
    select path from lakehouse_partitions order by min_time_ns limit 2`;
  const files = [first, second].map((object) => `${lab.lake.directory}/${object?.path}`);
  const [gone = "", damaged = ""] = files;
  await rename(gone, `${gone}.aside`);
  await copyFile(damaged, `${damaged}.aside`);
  await truncate(damaged, 50);
  const warnings: string[] = [];
  const write = (line: string): void => {
    warnings.push((JSON.parse(line) as { readonly msg: string }).msg);
  };
  const logger = createLogger({ level: "warn", service: "test", destination: { write } });
  const clock = createManualClock(1000);
  const { metric } = start(undefined, [], intervalMs, { clock, logger });
  await expect.poll(standing).toEqual([{ audience: "a", objects: 3, rows: 8 }]);
  await expect.poll(() => metric("maintenance_last_success_timestamp_seconds")).toBeGreaterThan(0);
  expect(await metric("maintenance_failures_total")).toBe(1);
  expect(warnings).toEqual([
    `merges of log_entries go on without some: 2 objects are missing or damaged: ${first?.path}, ${second?.path}. Restore them from a backup, or run telemetry lake check --deep --repair to go on without them. It leaves one whose bytes have changed: copy its file, then run SELECT * FROM retire_partition_by_file('<path>') as an administrator who may read its audience; all its rows go, and its file an hour later.`,
  ]);
  for (const file of files) {
    await rename(`${file}.aside`, file);
  }
  await addLogs(1, "a");
  clock.advance(3_600_000);
  await expect.poll(standing).toEqual([{ audience: "a", objects: 1, rows: 9 }]);
});

it("takes what a missing object would have been merged with when it takes that again", async () => {
  await addLogs(4, "a");
  const all = await lab.sql<{ id: string; path: string }[]>`
    select partition_id as id, path from lakehouse_partitions order by partition_id`;
  const [missing] = all;
  const asked: string[][] = [];
  const clock = createManualClock(1000);
  start(undefined, [], intervalMs, {
    clock,
    merge: (_, request) => {
      asked.push("partitionIds" in request ? request.partitionIds.toSorted() : []);
      const { id: partitionId = "", path = "" } = missing ?? {};
      return Promise.resolve([{ action: "unreadable", partitionId, path, rowCount: 1, fileBytes: 1 }]);
    },
  });
  await expect.poll(() => asked).toHaveLength(1);
  clock.advance(3_600_000);
  await expect.poll(() => asked).toHaveLength(2);
  expect(asked).toEqual([all, all].map((objects) => objects.map(({ id }) => id)));
});

it("tries objects of versions with more columns once, and leaves them alone", async () => {
  await addLogs(5, "old", "SELECT make_timestamp_ns(1) AS time, 'x' AS msg");
  for (const { path } of await lab.sql<{ path: string }[]>`select path from lakehouse_partitions`) {
    const file = `${lab.lake.directory}/${path}`;
    await lab.duck(`COPY (SELECT *, 1 AS of_tomorrow FROM '${file}') TO '${file}.new' (FORMAT parquet)`);
    await lab.sql`update lakehouse_partitions set path = ${`${path}.new`}, schema_hash = '\\x01' where path = ${path}`;
  }
  const { metric } = start();
  await expect.poll(() => metric("maintenance_merges_total")).toBe(1);
  await addLogs(4, "new");
  await expect.poll(() => metric("maintenance_merges_total")).toBe(2);
  expect(await metric("maintenance_failures_total")).toBe(0);
  expect(await standing()).toContainEqual({ audience: "old", objects: 5, rows: 5 });
});

it("does its chores between merges, in their time, and goes on when one fails", async () => {
  const done: string[] = [];
  const chore = (name: string, everyMs: number): Chore => ({
    name,
    everyMs,
    run: () => {
      done.push(name);
      return name === "fail" ? Promise.reject(new Error("it cannot be done")) : Promise.resolve(false);
    },
  });
  const { metric } = start(undefined, [chore("fail", 0), chore("often", 0), chore("rarely", 3_600_000)]);
  await addLogs(4, "a");
  await expect.poll(() => metric("maintenance_merges_total")).toBe(1);
  await expect.poll(() => done.filter((name) => name === "often").length).toBeGreaterThan(2);
  expect(done.slice(0, 4)).toEqual(["fail", "often", "fail", "often"]);
  expect(done).not.toContain("rarely");
  expect(await metric("maintenance_failures_total")).toBeGreaterThan(1);
});

it("merges between the tasks of a chore that has more of them, and does not wait for the next look", async () => {
  await addLogs(4, "a");
  await addLogs(4, "b");
  const turns: string[] = [];
  let left = 5;
  const chore: Chore = {
    name: "do a task",
    everyMs: 0,
    run: () => {
      turns.push(left > 0 ? "task" : "none");
      return Promise.resolve(left-- > 0);
    },
  };
  start(() => void turns.push("merge"), [chore], 60_000);
  await expect.poll(() => turns.includes("none"), { timeout: 30_000 }).toBe(true);
  expect(turns.slice(0, 4)).toEqual(["task", "merge", "merge", "task"]);
  expect(turns.filter((turn) => turn === "task")).toHaveLength(5);
});

it("does its chores once a minute in a round that takes long", async () => {
  const clock = createManualClock();
  for (const audience of ["a", "b", "c", "d", "e", "f"]) {
    await addLogs(4, audience);
  }
  const order: string[] = [];
  const chore: Chore = {
    name: "be late",
    everyMs: 0,
    run() {
      order.push("chore");
      return Promise.resolve(false);
    },
  };
  const { metric } = start(
    () => {
      order.push("merge");
      clock.advance(31_000);
    },
    [chore],
    intervalMs,
    { clock },
  );
  await expect.poll(() => metric("maintenance_last_success_timestamp_seconds")).toBeGreaterThan(0);
  const merges = ["merge", "merge"];
  expect(order.slice(0, 9)).toEqual(["chore", ...merges, "chore", ...merges, "chore", ...merges]);
});

it("counts what is due down in a round", async () => {
  await addLogs(6, "a");
  await addLogs(5, "b");
  await addLogs(4, "c");
  const due: number[] = [];
  const { metric } = start(async ({ audiences }) => {
    due.push(await metric("maintenance_backlog_objects"));
    if (audiences.kind === "some" && audiences.audiences.has("a")) {
      await addLogs(3, "b");
    }
  });
  await expect.poll(() => metric("maintenance_merges_total")).toBe(3);
  expect(due).toEqual([15, 9, 4]);
});

it("gives up a merge under way when it stops", async () => {
  await addLogs(4, "a");
  const stopping: Promise<void>[] = [];
  const { maintenance, metric } = start(() => {
    stopping.push(maintenance.stop());
  });
  await expect.poll(() => stopping.length).toBe(1);
  await Promise.all(stopping);
  expect(await standing()).toEqual([{ audience: "a", objects: 4, rows: 4 }]);
  expect(await metric("maintenance_failures_total")).toBe(0);
});

it("removes the other retired objects when one cannot be removed, says which, and tries it again", async () => {
  await addLogs(4, "a");
  await lab.sql`with gone as (delete from lakehouse_partitions returning path, file_bytes, min_time_ns)
    insert into retired_objects
    select path, file_bytes, now() - interval '2 hours' + min_time_ns * interval '1 second' from gone`;
  const [oldest] = await lab.sql<{ path: string }[]>`select path from retired_objects order by retired_at limit 1`;
  const file = `${lab.lake.directory}/${oldest?.path}`;
  // A file cannot be removed that is none.
  await rm(file);
  await mkdir(file);
  const sweep = () => sweepRetired(lab.sql, lab.context.store, 3_600_000);
  expect(await sweep()).toMatchObject({
    removedObjects: 3,
    failure: { message: expect.stringContaining(`cannot be removed: ${oldest?.path}. The service`) as string },
  });
  expect(await lab.sql`select path from retired_objects`).toEqual([oldest]);
  await rmdir(file);
  expect(await sweep()).toMatchObject({ removedObjects: 1, failure: null });
  expect(await lab.sql`select path from retired_objects`).toEqual([]);
});

it("removes retired objects that others before them would keep waiting", async () => {
  await lab.sql`insert into retired_objects (path, file_bytes, retired_at)
    select audience || i, 1, now() - days * interval '1 day'
    from (values ('denied/', 2, 2000), ('fine/', 1, 200)) as v (audience, days, objects), generate_series(1, objects) i`;
  const remove = (path: string): Promise<void> =>
    path.startsWith("denied/") ? Promise.reject(new Error("403")) : Promise.resolve();
  const { store } = lab.context;
  const denying: ObjectStore = {
    ...store,
    list: (prefix) => store.list(prefix),
    put: (name, chunks) => store.put(name, chunks),
    remove,
  };
  const { removedObjects } = await sweepRetired(lab.sql, denying, 3_600_000);
  expect(removedObjects).toBeGreaterThan(0);
  const [left] = await lab.sql<{ objects: number }[]>`select count(*)::int as objects from retired_objects`;
  expect(left?.objects).toBe(2200 - removedObjects);
});

it("removes retired objects under the database role of maintenance, which that of analytics may not", async () => {
  const { sql, connectionString } = lab;
  const outcomes = [
    ["ingestion", expect.objectContaining({ removedObjects: 1 })],
    ["analytics", expect.stringContaining("permission denied for table retired_objects")],
  ] as const;
  for (const [role, outcome] of outcomes) {
    await addLogs(1, "a");
    await sql`with gone as (delete from lakehouse_partitions returning path, file_bytes)
      insert into retired_objects select path, file_bytes, now() - interval '2 hours' from gone`;
    const login = await createRoleLogin(sql, connectionString, role);
    const as = connect({
      connectionString: login.connectionString,
      maxConnections: 1,
      applicationName: "test",
      logger: createSilentLogger(),
    });
    try {
      const removed: unknown = await sweepRetired(as, lab.context.store, 3_600_000).catch(String);
      expect(removed).toEqual(outcome);
    } finally {
      await as.end();
      await login.drop();
    }
  }
});
