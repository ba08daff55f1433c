/** Partitions that leave the catalogue because their objects are gone or broken, and come back with them. */
import type { Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { BadObjects, isOutage } from "../bad-objects.js";
import type { MergeEngine } from "../merge/merge-engine.js";
import { publish } from "../merge/merge-publish.js";
import { erasedRows, readErasureFilter } from "../rewrite/erasure-filter.js";
import { rewriteObjects, type RewriteSource } from "../rewrite/rewrite.js";
import { rewriteSourceColumns, withLockedTable } from "../rewrite/with-table.js";
import type { TableName } from "../tables/tables.js";
import type { CheckContext, TableCheck } from "./check-lake.js";
import { type CheckedPartition, wordsOf } from "./lake-report.js";
import { mendObject } from "./mend-object.js";
import { findObject, isAsPublished, type Listed, readContents } from "./stored-objects.js";

/** Reports a partition whose object cannot be used; with `repair` it leaves the catalogue, if it is still there. */
export async function loseLost(
  table: TableCheck,
  partition: CheckedPartition,
  kind: "missing" | "unreadable",
  detail: string,
  repair = table.repair,
): Promise<void> {
  const { sql, report } = table;
  const standing = repair
    ? await sql`
        with gone as (
          delete from lakehouse_partitions where partition_id = ${partition.partitionId} returning *
        )
        insert into lost_partitions (partition_id, path, reason, partition)
        select partition_id, path, ${kind}, to_jsonb(gone) || jsonb_build_object('erased_by', (
          select coalesce(jsonb_agg(task_id), '[]') from lake_tasks where kind = 'erasure' and state = 'done'))
        from gone`
    : await sql`select from lakehouse_partitions where partition_id = ${partition.partitionId}`;
  // Somebody merged or retired it since it was listed.
  if (standing.count > 0) {
    report.add({ ...wordsOf(partition), kind, mended: repair, detail });
  }
}

interface LostPartition extends RewriteSource {
  readonly checksum: number | null;
  readonly viewSet: TableName;
  readonly reason: string;
}

/**
 * Reports what earlier repairs took out of a table. With `repair`, what has its whole object back is in the catalogue
 * again, without the rows that were erased meanwhile. Reading decides: each value of what is to be put back, or could not be
 * read.
 */
export async function restoreReturned(table: TableCheck): Promise<void> {
  const { sql, store, deep, repair, report, viewSet, stored } = table;
  const lost = await sql<LostPartition[]>`
    select ${rewriteSourceColumns(sql)}, view_set as "viewSet", checksum::float8 as checksum, reason
    from (
      select whole.*, reason
      from lost_partitions, jsonb_populate_record(null::lakehouse_partitions, partition) as whole
    ) as lost
    where view_set = ${viewSet} order by path`;
  for (const partition of lost) {
    const engine = table.engineOf(partition.audience);
    const listed = stored.get(partition.path) ?? (await findObject(store, partition));
    const asItWas = listed !== null && (await isWhole(table, engine, partition, listed, deep || repair));
    const mending =
      listed === null || asItWas || partition.reason !== "unreadable"
        ? null
        : await mendObject(table, engine, partition, "lost_partitions");
    const object = mending?.object ?? null;
    const whole = asItWas || object !== null;
    const back = whole && repair ? await putBackOrSay(table, engine, { ...partition, ...object }) : null;
    const detail = mending?.words ?? (whole ? "the object is back" : `its object is ${partition.reason}`);
    report.add({
      ...wordsOf(partition),
      kind: whole ? "returned" : "lost",
      mended: typeof back === "number",
      detail: back === null || back === 0 ? detail : `${detail}; ${sayBack(back)}`,
    });
  }
}

const sayBack = (back: number | string): string =>
  typeof back === "number" ? `rows that were erased meanwhile: ${back}` : back;

/** As {@link putBack}, or why rows that were erased meanwhile cannot be taken out of it: the others go on. */
async function putBackOrSay(
  context: CheckContext,
  engine: MergeEngine,
  partition: LostPartition,
): Promise<number | string | null> {
  try {
    return await putBack(context, engine, partition);
  } catch (error) {
    if (error instanceof BadObjects || (error instanceof ServiceError && error.code === "CONFLICT")) {
      return error.message;
    }
    throw error;
  }
}

async function isWhole(
  context: CheckContext,
  engine: MergeEngine,
  partition: LostPartition,
  listed: Listed,
  deep: boolean,
): Promise<boolean> {
  if (listed.bytes !== partition.fileBytes) {
    return false;
  }
  try {
    const contents = await readContents(context, engine, [partition], deep || partition.reason === "unreadable");
    return [...contents.values()].every((content) => isAsPublished(partition, content));
  } catch (error) {
    if (context.cancelled() || isOutage(error)) {
      throw error;
    }
    return false;
  }
}

/**
 * Puts a partition back, and what was erased since it was lost goes in the same transaction: nobody sees those rows.
 * @returns rows that were erased; null when another repair was first, or an erasure has ended meanwhile
 * @throws as `rewriteObjects`
 */
function putBack(context: CheckContext, engine: MergeEngine, partition: LostPartition): Promise<number | null> {
  const { viewSet, audience } = partition;
  // An erasure that has not begun yet will find the partition: it waits for the table.
  return withLockedTable(context, viewSet, async (connection) => {
    const erasures = await erasuresMissed(connection, partition);
    const known = new Set(erasures.map(({ taskId }) => taskId));
    const filters = erasures
      .map(({ request }) => readErasureFilter(request))
      .filter((filter) => filter.audience === (audience ?? context.unstampedAudience));
    // A session that has lost the lock may have missed another one.
    const back = async (transaction: Sql): Promise<boolean> =>
      (await erasuresMissed(transaction, partition)).every(({ taskId }) => known.has(taskId)) &&
      (await insertBack(transaction, partition));
    const condition = erasedRows(viewSet, filters);
    let erased = 0;
    const gone =
      condition === null
        ? []
        : await rewriteObjects(context, connection, engine, {
            viewSet,
            audience,
            sources: [partition],
            condition,
            before: async (transaction) => void (await back(transaction)),
            also: (_, { rowsRemoved }) => {
              erased = rowsRemoved;
              return Promise.resolve();
            },
          });
    if (gone.length > 0) {
      return null;
    }
    return erased > 0 || (await publish(connection, { viewSet }, () => back(connection))) ? erased : null;
  });
}

/**
 * Erasures that came to the table, or may have come, when the partition was lost already: all but those that were done by
 * then. Of what an earlier release took out, times tell.
 */
function erasuresMissed(sql: Sql, { partitionId }: LostPartition): Promise<{ taskId: string; request: unknown }[]> {
  return sql<{ taskId: string; request: unknown }[]>`
    select task_id as "taskId", request from lake_tasks, lost_partitions
    where partition_id = ${partitionId} and kind = 'erasure' and state in ('running', 'done')
      and case when partition ? 'erased_by' then not partition -> 'erased_by' ? task_id::text
        else coalesce(finished_at, now()) >= lost_at end`;
}

/** @returns false when another repair was first */
async function insertBack(sql: Sql, { partitionId }: LostPartition): Promise<boolean> {
  // Its roll-up has been retired.
  const { count } = await sql`
    with back as (delete from lost_partitions where partition_id = ${partitionId} returning partition)
    insert into lakehouse_partitions
    select whole.* from back, jsonb_populate_record(
      null::lakehouse_partitions,
      back.partition - 'rollup_path' - 'rollup_bytes' - 'rollup_checksum') as whole`;
  return count > 0;
}
