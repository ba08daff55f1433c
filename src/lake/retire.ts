/**
 * Taking partitions out of the catalogue. Their rows are gone for every query that starts afterwards; their objects
 * stay for a grace period, because queries under way may have them open, and are removed by {@link sweepRetired}.
 */
import { type AudienceFilter, readableBy } from "../db/audience-filter.js";
import { maxLockWait, withLockWait } from "../db/lock-wait.js";
import type { Sql, SqlOrTransaction } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import { ownerObstacle } from "./retention/lake-owner.js";
import type { ObjectStore } from "./store/object-store.js";
import { Removals, type SweepResult } from "./sweep.js";
import type { TableName } from "./tables/tables.js";

/** Which partitions to retire; all conditions hold. Times are nanoseconds since 1970 UTC. */
export type RetireSelection =
  /** `range`: those whose rows lie all within it, `endNs` excluded; `bounds`: whose first and last have these times. */
  | {
      readonly kind: "range" | "bounds";
      readonly viewSet: TableName;
      /** Only those that hold rows of this process and no other; null: all. */
      readonly processId: string | null;
      readonly beginNs: bigint;
      readonly endNs: bigint;
    }
  /** The one that an object holds. */
  | { readonly kind: "path"; readonly path: string }
  /** Those whose last row is older; partitions without times count by when they were inserted. */
  | { readonly kind: "older"; readonly viewSet: TableName; readonly thanNs: bigint };

/** A partition that was retired. */
export interface RetiredPartition {
  readonly partitionId: string;
  readonly viewSet: string;
  readonly path: string;
  readonly rowCount: number;
  readonly fileBytes: number;
}

/** Retires partitions of some audiences in one statement, and says which. */
export function retirePartitions(
  sql: SqlOrTransaction,
  audiences: AudienceFilter,
  selection: RetireSelection,
): Promise<RetiredPartition[]> {
  return sql<RetiredPartition[]>`
    with gone as (
      delete from lakehouse_partitions where ${readableBy(sql, audiences)} and ${conditionOf(sql, selection)}
      returning partition_id, view_set, path, row_count, file_bytes
    ), kept as (
      insert into retired_objects (path, file_bytes) select path, file_bytes from gone
      on conflict (path) do nothing
    )
    select partition_id as "partitionId", view_set as "viewSet", path,
      row_count::float8 as "rowCount", file_bytes::float8 as "fileBytes"
    from gone order by view_set, path`;
}

function conditionOf(sql: SqlOrTransaction, selection: RetireSelection) {
  switch (selection.kind) {
    case "path":
      return sql`path = ${selection.path}`;
    case "older":
      return sql`view_set = ${selection.viewSet} and
        coalesce(max_time_ns, (extract(epoch from max_insert_time) * 1000000000)::bigint) < ${selection.thanNs}`;
    case "range":
      return sql`${ofView(sql, selection)} and min_time_ns >= ${selection.beginNs} and max_time_ns < ${selection.endNs}`;
    case "bounds":
      return sql`${ofView(sql, selection)} and min_time_ns = ${selection.beginNs} and max_time_ns = ${selection.endNs}`;
  }
}

function ofView(
  sql: SqlOrTransaction,
  { viewSet, processId }: { readonly viewSet: TableName; readonly processId: string | null },
) {
  return processId === null
    ? sql`view_set = ${viewSet}`
    : sql`view_set = ${viewSet} and process_ids = array[${processId}::uuid]`;
}

interface RetiredObject {
  readonly path: string;
  readonly bytes: number;
}

/** Objects that one statement takes. */
const sweepBatch = 500;
/** "swep" in ASCII, the advisory lock for removing objects; locking rows takes the right to change them. */
const sweepLockKey = 0x73776570;

/**
 * Removes the objects that were retired at least `graceMs` ago, unless another process is at it, or the database may not
 * decide about them (lake-owner.ts). An object that cannot be removed is tried again by the next sweep; in any order, so
 * that many of them do not keep the others waiting for ever.
 */
export async function sweepRetired(sql: Sql, store: ObjectStore, graceMs: number): Promise<SweepResult> {
  const obstacle = await ownerObstacle(sql, store, "replaced");
  if (obstacle !== null) {
    const failure = new ServiceError("CONFLICT", `Objects that were replaced stay: ${obstacle}.`);
    return { removedObjects: 0, removedBytes: 0, failure };
  }
  const removals = new Removals(store);
  for (;;) {
    const taken = await withLockWait(sql, maxLockWait, async (transaction): Promise<number> => {
      const [lock] = await transaction<{ locked: boolean }[]>`
        select pg_try_advisory_xact_lock(${sweepLockKey}::int8) as locked`;
      if (lock?.locked !== true) {
        return 0;
      }
      const rows = await transaction<RetiredObject[]>`
        select path, file_bytes::float8 as bytes from retired_objects
        where retired_at <= now() - ${graceMs / 1000}::float8 * interval '1 second'
          and path <> all(${[...removals.kept]}::text[])
        order by random() limit ${sweepBatch}`;
      const gone: string[] = [];
      for (const { path, bytes } of rows) {
        if (!removals.gaveUp && (await removals.remove(path, bytes))) {
          gone.push(path);
        }
      }
      await transaction`delete from retired_objects where path = any(${gone}::text[])`;
      return rows.length;
    });
    if (taken < sweepBatch || removals.gaveUp) {
      return removals.result();
    }
  }
}
