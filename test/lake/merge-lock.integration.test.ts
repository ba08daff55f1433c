/** Who may merge and publish: locks of tables and audiences, and sessions that are lost in between. */
import { setTimeout as wait } from "node:timers/promises";

import { afterEach, beforeEach, expect, it } from "vitest";

import { connect, type Sql } from "../../src/db/sql.js";
import {
  fenceMerge,
  type MergeScope,
  tryLockMerge,
  unlockMerge,
  waitForMergeLock,
} from "../../src/lake/merge/merge-lock.js";
import {
  type MergedPartition,
  type MergePoint,
  mergePartitions,
  type WatchedMergeContext,
} from "../../src/lake/merge/merge.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addPartition } from "../helpers/lake/lake.js";
import { ofThisDatabase } from "../helpers/postgres/locks.js";

let lab: MergeLab;
const opened: Sql[] = [];
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(async () => {
  for (const sql of opened.splice(0)) {
    await sql.end({ timeout: 1 });
  }
  await lab.stop();
});

/** A pool, in the end a session, of its own. */
function session(maxConnections = 1): Sql {
  const sql = connect({
    connectionString: lab.connectionString,
    maxConnections,
    applicationName: "test-merger",
    logger: createSilentLogger(),
    keepAlive: true,
  });
  opened.push(sql);
  return sql;
}

const ofA: MergeScope = { viewSet: "log_entries", audience: "a" };
const ofNobody: MergeScope = { viewSet: "log_entries", audience: null };
const table: MergeScope = { viewSet: "log_entries" };

it("lets one session merge an audience, others other audiences, and nobody while a whole table is changed", async () => {
  const [first, second] = [session(), session()];
  expect(await tryLockMerge(first, ofA)).toBe(true);
  expect(await tryLockMerge(second, ofA)).toBe(false);
  expect(await tryLockMerge(second, ofNobody)).toBe(true);
  expect(await tryLockMerge(second, { ...ofA, viewSet: "spans" })).toBe(true);
  expect(await tryLockMerge(session(), table)).toBe(false);
  await unlockMerge(first, ofA);
  expect(await tryLockMerge(second, ofA)).toBe(true);
  await unlockMerge(second, ofA);
  await unlockMerge(second, ofNobody);
  expect(await tryLockMerge(first, table)).toBe(true);
  expect(await tryLockMerge(second, ofA)).toBe(false);
  expect(await tryLockMerge(second, { ...table, viewSet: "measures" })).toBe(true);
});

it("waits for those who merge in a table, and lets nobody begin meanwhile", async () => {
  const [first, second, third] = [session(), session(), session()];
  expect(await tryLockMerge(first, ofA)).toBe(true);
  expect(await waitForMergeLock(second, "log_entries", 50)).toBe(false);
  expect((await second`show lock_timeout`)[0]).toEqual({ lock_timeout: "0" });
  const waiting = waitForMergeLock(second, "log_entries", 30_000);
  const begins = async (): Promise<boolean> => {
    const taken = await tryLockMerge(third, ofNobody);
    if (taken) {
      await unlockMerge(third, ofNobody);
    }
    return taken;
  };
  await expect.poll(begins).toBe(false);
  await unlockMerge(first, ofA);
  expect(await waiting).toBe(true);
});

it("fences a transaction whose session has lost its lock to another one", async () => {
  const [first, second] = [session(), session()];
  for (const scope of [ofA, ofNobody, table]) {
    await tryLockMerge(first, scope);
    expect(await first.begin((transaction) => fenceMerge(transaction as unknown as Sql, scope))).toBe(true);
    expect(await second.begin((transaction) => fenceMerge(transaction as unknown as Sql, scope))).toBe(false);
    await unlockMerge(first, scope);
    expect(await second.begin((transaction) => fenceMerge(transaction as unknown as Sql, scope))).toBe(true);
    // It holds until the commit alone.
    expect(await tryLockMerge(first, scope)).toBe(true);
    await unlockMerge(first, scope);
  }
});

const objects = 5;

async function addLogs(): Promise<string[]> {
  for (let i = 0; i < objects; i++) {
    const rowsSql = `SELECT make_timestamp_ns(${i}) AS time, 'm${i}' AS msg`;
    await addPartition(lab.lake, lab.sql, { table: "log_entries", audience: "a", rowsSql });
  }
  return (await standing()).map(({ id }) => id);
}

function standing(): Promise<{ id: string; level: number }[]> {
  return lab.sql<{ id: string; level: number }[]>`
    select partition_id as id, level::int as level from lakehouse_partitions order by 1`;
}

function merge(
  partitionIds: readonly string[],
  sql = session(2),
  at?: WatchedMergeContext["at"],
): Promise<MergedPartition[]> {
  return mergePartitions(
    { ...lab.context, sql, ...(at === undefined ? {} : { at }) },
    {
      viewSet: "log_entries",
      audiences: { kind: "some", audiences: new Set(["a"]), unstamped: false },
      widthSeconds: 86_400,
      level: 1,
      partitionIds,
    },
  );
}

/** Ends the session that holds the lock of a group, as when its connection breaks. */
function breakHolder(): Promise<{ ended: boolean }[]> {
  return lab.sql<{ ended: boolean }[]>`
    select pg_terminate_backend(pid) as ended from pg_locks
    where locktype = 'advisory' and mode = 'ExclusiveLock' and granted and classid = ${0x6d670000}::int8::oid and ${ofThisDatabase(lab.sql)}`;
}

it("publishes nothing after its session was lost to another process, whatever it had written", async () => {
  const ids = await addLogs();
  const merging = merge(ids);
  const failure = merging.then(
    () => null,
    (error: unknown) => error,
  );
  await expect.poll(async () => (await breakHolder()).length, { interval: 5 }).toBe(1);
  const other = session();
  await expect.poll(() => tryLockMerge(other, ofA), { interval: 5 }).toBe(true);
  expect(await failure).toMatchObject({ code: "UNAVAILABLE" });
  expect((await standing()).map(({ id }) => id)).toEqual(ids);
  // Nobody merges it beside the other one, who may.
  await expect(merge(ids)).rejects.toMatchObject({ code: "CONFLICT" });
  await unlockMerge(other, ofA);
  expect(await merge(ids)).toHaveLength(1 + objects);
  expect(await standing()).toEqual([{ id: expect.any(String) as string, level: 1 }]);
});

it("publishes a step once when two lead for a moment", async () => {
  const ids = await addLogs();
  const first = merge(ids);
  const settled = first.then(
    () => "published",
    (error: unknown) => (error as { code: string }).code,
  );
  await expect.poll(async () => (await breakHolder()).length, { interval: 5 }).toBe(1);
  const second = await merge(ids).then(
    () => "published",
    (error: unknown) => (error as { code: string }).code,
  );
  const outcomes = [await settled, second];
  expect(outcomes.filter((outcome) => outcome === "published").length).toBeLessThanOrEqual(1);
  expect(outcomes.filter((outcome) => !["published", "UNAVAILABLE", "CONFLICT"].includes(outcome))).toEqual([]);
  const files = (await lab.sql<{ path: string }[]>`select path from lakehouse_partitions`).map(
    ({ path }) => `'${lab.lake.directory}/${path}'`,
  );
  const rows = await lab.duck(`SELECT msg FROM read_parquet([${files.join(", ")}], union_by_name = true) ORDER BY 1`);
  expect(rows.map(({ msg }) => msg)).toEqual(["m0", "m1", "m2", "m3", "m4"]);
});

it.each([
  ["idle_session_timeout", "written"],
  ["idle_in_transaction_session_timeout", "replacing"],
] as const)("outlasts %s of the database", async (setting, slow) => {
  const [database] = await lab.sql<{ name: string }[]>`select current_database() as name`;
  await lab.sql`alter database ${lab.sql(database?.name ?? "")} set ${lab.sql(setting)} = '500ms'`;
  const ids = await addLogs();
  const at = (point: MergePoint): Promise<void> | undefined => (point === slow ? wait(1500) : undefined);
  expect(await merge(ids, session(2), at)).toHaveLength(1 + objects);
});

it("leaves a list of partitions alone of which some have been merged meanwhile", async () => {
  const ids = await addLogs();
  await merge(ids.slice(0, 2));
  await expect(merge(ids)).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await standing()).toHaveLength(objects - 1);
});
