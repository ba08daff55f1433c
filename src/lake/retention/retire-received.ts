/** Takes partitions whose rows are all past out of the catalogue, a bounded number at a time. */
import { maxLockWait, withLockWait } from "../../db/lock-wait.js";
import type { Sql } from "../../db/sql.js";

/** What one statement took. */
interface RetiredBatch {
  readonly objects: number;
  readonly rows: number;
  /** There may be more. */
  readonly full: boolean;
}

const batchObjects = 1000;

/** The condition on `audience`, in the form that the index of the catalogue answers. */
export function ofAudience(sql: Sql, audience: string | null) {
  return audience === null ? sql`audience is null` : sql`audience = ${audience}`;
}

/**
 * Retires partitions whose last row was received more than `days` ago. Their objects stay for the grace period
 * (retire.ts), for queries that have them open.
 */
export async function retireReceivedBefore(
  sql: Sql,
  viewSet: string,
  audience: string | null,
  days: number,
): Promise<RetiredBatch> {
  const [row] = await withLockWait(
    sql,
    maxLockWait,
    (tx) => tx<{ objects: number; rows: number }[]>`
    with past as (
      select partition_id from lakehouse_partitions
      where view_set = ${viewSet} and ${ofAudience(sql, audience)}
        and max_insert_time < now() - ${days}::float8 * interval '1 day'
      limit ${batchObjects}
    ), gone as (
      delete from lakehouse_partitions where partition_id in (select partition_id from past)
      returning path, file_bytes, row_count
    ), kept as (
      insert into retired_objects (path, file_bytes) select path, file_bytes from gone
      on conflict (path) do nothing
    )
    select count(*)::int as objects, coalesce(sum(row_count), 0)::float8 as rows from gone`,
  );
  const { objects, rows } = row ?? { objects: 0, rows: 0 };
  return { objects, rows, full: objects === batchObjects };
}
