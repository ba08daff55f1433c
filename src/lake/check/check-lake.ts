/**
 * Checking the lake: does the store hold what the catalogue names, as large and with as many rows, and nothing else?
 *
 * A check reads the directory and the footer of every object; with `deep` it reads every value, and compares checksums.
 *
 * A repair mends two things and tells both: orphans are removed, and partitions whose object is missing or unreadable leave
 * the catalogue, so that queries no longer fail over them; their rows are kept in `lost_partitions`, and the next repair
 * puts back those whose objects have returned. An object that an earlier version wrote wrong gets a right one in its place
 * (../rewrite/mend-object.ts). Roll-ups that are not as they should be are dropped (check-rollups.ts). Other differences
 * are told and left.
 */
import type { Sql } from "../../db/sql.js";
import type { Clock } from "../../runtime/clock.js";
import { ServiceError } from "../../runtime/errors.js";
import { BadObjects, isOutage, isRefused } from "../bad-objects.js";
import type { MergeEngine } from "../merge/merge-engine.js";
import { findLeftovers } from "../leftovers.js";
import { clockObstacle, storeClockObstacle } from "../retention/lake-clock.js";
import { identityObstacle } from "../retention/lake-identity.js";
import { engineFor, withRewriteEngine } from "../rewrite/with-table.js";
import { ownerObstacle } from "../retention/lake-owner.js";
import type { RewriteContext } from "../rewrite/rewrite.js";
import { errorCode } from "../store/file-store.js";
import { namedPaths, Removals } from "../sweep.js";
import { type TableName, tables } from "../tables/tables.js";
import { type CheckedPartition, type LakeReport, LakeReportBuilder, wordsOf } from "./lake-report.js";
import { checkRollups } from "./check-rollups.js";
import { loseLost, restoreReturned } from "./lost-partitions.js";
import { mendObject } from "./mend-object.js";
import {
  type Content,
  fileOf,
  findObject,
  isAsPublished,
  isGone,
  type Listed,
  listTable,
  otherBytes,
  readContents,
} from "./stored-objects.js";

/** What to check, and whether to mend. */
export interface LakeCheck {
  readonly repair: boolean;
  /** Reads every value and compares checksums; else only footers are read. */
  readonly deep: boolean;
}

/** What a check works with. */
export interface CheckContext extends RewriteContext {
  readonly clock: Clock;
  /** `SVC_UNSTAMPED_AUDIENCE` */
  readonly unstampedAudience: string;
}

/** The check of one table. */
export interface TableCheck extends CheckContext, LakeCheck {
  readonly viewSet: TableName;
  readonly report: LakeReportBuilder;
  /** The objects of the table; what is named leaves it. */
  readonly stored: Map<string, Listed>;
  readonly engineOf: (audience: string | null) => MergeEngine;
}

const pageObjects = 500;
const filesPerRead = 50;
/** The same when whole objects come over a network to a temporary directory. */
const filesPerFetch = 4;
/** Objects younger than this may be about to be published. */
const orphanAfterMs = 3_600_000;

/** Checks, and mends with `repair`. @throws ServiceError CANCELLED, UNAVAILABLE; the database's errors */
export async function checkLake(context: CheckContext, check: LakeCheck): Promise<LakeReport> {
  const { sql, store, clock } = context;
  const report = new LakeReportBuilder();
  const stranger = await identityObstacle(sql, store);
  if (stranger !== null) {
    throw new ServiceError("CONFLICT", `Nothing was checked: ${stranger}.`);
  }
  const nowMs = (): number => clock.nowMs();
  const obstacle = check.repair
    ? ((await ownerObstacle(sql, store, "orphans")) ??
      (await clockObstacle(sql, nowMs)) ??
      (await storeClockObstacle(store, nowMs)))
    : null;
  if (obstacle !== null) {
    report.note(`Orphans were left: ${obstacle}.`);
  }
  const removals = check.repair && obstacle === null ? new Removals(store) : null;
  await withRewriteEngine(context, async (process) => {
    for (const viewSet of Object.keys(tables) as TableName[]) {
      // The store first: what is published meanwhile is looked for again.
      const stored = await listTable(store, viewSet);
      const engineOf = (audience: string | null): MergeEngine => engineFor(context, process, viewSet, audience);
      const table: TableCheck = { ...context, ...check, viewSet, report, stored, engineOf };
      await restoreReturned(table);
      await checkTable(table);
      await checkRollups(table);
      await checkOrphans(table, removals);
    }
  });
  for (const { path, bytes } of await findLeftovers(store, clock.nowMs())) {
    await tellOrphan(report, path, bytes, removals);
  }
  return report.build();
}

async function checkTable(table: TableCheck): Promise<void> {
  const { sql, store, deep, report, viewSet, stored } = table;
  let after: CheckedPartition | null = null;
  for (;;) {
    const page: readonly CheckedPartition[] = await partitionsAfter(sql, viewSet, after);
    const standing: CheckedPartition[] = [];
    report.seen(
      page.length,
      page.reduce((sum, { rowCount }) => sum + rowCount, 0),
    );
    for (const partition of page) {
      const listed = stored.get(partition.path) ?? (await findObject(store, partition));
      // What is named is no orphan.
      stored.delete(partition.path);
      if (listed === null) {
        await loseLost(table, partition, "missing", "the object is not in the store");
      } else {
        standing.push(partition);
        if (listed.bytes !== partition.fileBytes) {
          const detail = `${listed.bytes} bytes instead of ${partition.fileBytes}`;
          report.add({ ...wordsOf(partition), kind: "wrong_size", mended: false, detail });
        }
      }
    }
    for (const group of byAudience(standing, deep && store.remote !== null ? filesPerFetch : filesPerRead)) {
      if (table.cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      await checkContent(table, group);
    }
    after = page.at(-1) ?? null;
    if (page.length < pageObjects) {
      return;
    }
  }
}

function partitionsAfter(sql: Sql, viewSet: TableName, after: CheckedPartition | null): Promise<CheckedPartition[]> {
  return sql<CheckedPartition[]>`
    select partition_id as "partitionId", view_set as "viewSet", audience, path,
      file_bytes::float8 as "fileBytes", row_count::float8 as "rowCount",
      checksum::float8 as checksum
    from lakehouse_partitions
    where view_set = ${viewSet} ${after === null ? sql`` : sql`and partition_id > ${after.partitionId}::uuid`}
    order by partition_id limit ${pageObjects}`;
}

/** Steps of one audience each, small enough for one statement. */
function byAudience(partitions: readonly CheckedPartition[], most: number): CheckedPartition[][] {
  const groups = new Map<string | null, CheckedPartition[]>();
  for (const partition of partitions) {
    const group = groups.get(partition.audience) ?? [];
    groups.set(partition.audience, group);
    group.push(partition);
  }
  return [...groups.values()].flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / most) }, (_, step) => group.slice(step * most, (step + 1) * most)),
  );
}

/** @param group of one audience */
async function checkContent(table: TableCheck, group: readonly CheckedPartition[]): Promise<void> {
  const { sql, deep, repair, report, cancelled } = table;
  const engine = table.engineOf(group[0]?.audience ?? null);
  const compare = (contents: ReadonlyMap<CheckedPartition, Content>): void => {
    for (const [partition, content] of contents) {
      if (isAsPublished(partition, content)) {
        continue;
      }
      const { rows } = content;
      const problem =
        rows === partition.rowCount
          ? ({ kind: "wrong_checksum", detail: otherBytes } as const)
          : ({ kind: "wrong_rows", detail: `${rows} rows instead of ${partition.rowCount}` } as const);
      report.add({ ...wordsOf(partition), ...problem, mended: false });
    }
  };
  try {
    compare(await readContents(table, engine, group, deep));
    return;
  } catch (error) {
    if (cancelled() || isOutage(error)) {
      throw error;
    }
  }
  // One of them cannot be read: which?
  for (const partition of group) {
    try {
      compare(await readContents(table, engine, [partition], deep));
    } catch (error) {
      if (cancelled() || isOutage(error)) {
        throw error;
      }
      // It may have been merged away meanwhile, and its object swept.
      if (await isPublished(sql, partition)) {
        const reason = error instanceof BadObjects ? error.cause : error;
        const detail = reason instanceof Error ? (reason.message.split("\n")[0] ?? "") : "";
        // Cut after that: a part of the path would stay.
        const words = detail.replaceAll(fileOf(table, partition), "the object").slice(0, 200);
        const mending = isRefused(error) ? null : await mendObject(table, engine, partition, "lakehouse_partitions");
        if (mending === null) {
          await loseLost(table, partition, "unreadable", words, repair && !isRefused(error));
        } else {
          const mended = mending.object !== null;
          report.add({ ...wordsOf(partition), kind: "unreadable", mended, detail: mending.words });
        }
      }
    }
  }
}

async function isPublished(sql: Sql, { partitionId }: CheckedPartition): Promise<boolean> {
  const found = await sql`select from lakehouse_partitions where partition_id = ${partitionId}`;
  return found.length > 0;
}

async function checkOrphans(
  { sql, store, clock, report, stored, cancelled }: TableCheck,
  removals: Removals | null,
): Promise<void> {
  const old = [...stored].filter(([, { modifiedMs }]) => modifiedMs <= clock.nowMs() - orphanAfterMs);
  for (let from = 0; from < old.length; from += pageObjects) {
    const step = old.slice(from, from + pageObjects);
    const paths = step.map(([path]) => path);
    const named = await sql<{ path: string }[]>`${namedPaths(sql, paths)}`;
    const known = new Set(named.map(({ path }) => path));
    for (const [path, { bytes }] of step) {
      if (cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      // What was replaced an hour ago may have been removed while its table was checked.
      if (!known.has(path) && !(await isGone(store, path))) {
        await tellOrphan(report, path, bytes, removals);
      }
    }
  }
}

/** @param removals null: orphans stay */
async function tellOrphan(
  report: LakeReportBuilder,
  path: string,
  bytes: number,
  removals: Removals | null,
): Promise<void> {
  const tried = removals?.gaveUp === false;
  const mended = tried && (await removals.remove(path, bytes));
  const why = mended || removals === null ? "" : `; it stays: ${tried ? sayKept(removals.lastError) : gaveUp}`;
  const detail = `${bytes} bytes that nothing names${why}`;
  report.add({ kind: "orphan", path, view: null, audience: null, rows: null, mended, detail });
}

const gaveUp = "too many others could not be removed";

/** Without the system's own words, which name the directory of the lake. */
function sayKept(error: unknown): string {
  const code = error instanceof Error ? errorCode(error.cause) : null;
  const words = error instanceof ServiceError ? error.message : "it cannot be removed";
  return code === null ? words : `${words} (${code})`;
}
