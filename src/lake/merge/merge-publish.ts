/** The catalogue's side of merging: which partitions to merge, and putting others in their place. */
import { readableBy } from "../../db/audience-filter.js";
import { lockNotAvailable, maxLockWait } from "../../db/lock-wait.js";
import { isConnectionError, type Sql, sqlState } from "../../db/sql.js";
import type { MergeRequest } from "./merge.js";
import { ServiceError } from "../../runtime/errors.js";
import { fenceMerge, type MergeScope } from "./merge-lock.js";
import type { MergedObject } from "./merge-object.js";
import type { MergeSource } from "./merge-plan.js";
import { mergedSortOrder } from "./merge-sql.js";
import { tableLayouts } from "../parquet/layout.js";
import type { ObjectStore } from "../store/object-store.js";
import type { TableName } from "../tables/tables.js";

/**
 * The columns of a {@link MergeSource}, of rows as `lakehouse_partitions` has them. A commit lets none of its rows count as
 * received more than an hour before it (commit.ts): those that say so have their time of a clock that was behind.
 */
export function mergeSourceColumns(sql: Sql) {
  return sql`partition_id as "partitionId", audience, path, file_bytes::float8 as "fileBytes",
    row_count::float8 as "rowCount", min_time_ns as "minTimeNs", max_time_ns as "maxTimeNs",
    encode(schema_hash, 'hex') as "schemaHash", checksum::float8 as checksum,
    attribute_columns as "attributeColumns", attribute_names as "attributeNames",
    case when level = 0 and max_insert_time - min_insert_time = interval '1 hour'
      then (extract(epoch from min_insert_time) * 1000000000)::bigint end as "receivedNs"`;
}

/** The partitions that a merge takes, by audience and then by time. */
export function selectMergeSources(sql: Sql, request: MergeRequest): Promise<MergeSource[]> {
  const { viewSet, audiences } = request;
  return sql<MergeSource[]>`
    select ${mergeSourceColumns(sql)}
    from lakehouse_partitions
    where view_set = ${viewSet} and ${readableBy(sql, audiences)} and ${chosenBy(sql, request)}
    order by audience nulls first, min_time_ns, min_insert_time, partition_id`;
}

function chosenBy(sql: Sql, request: MergeRequest) {
  if ("partitionIds" in request) {
    return sql`partition_id = any(${[...request.partitionIds]}::uuid[])`;
  }
  const { beginNs, endNs, widthSeconds, regenerate } = request;
  return sql`max_time_ns >= ${beginNs} and min_time_ns < ${endNs}
    ${regenerate ? sql`` : sql`and coalesce(bucket_seconds, 0) < ${widthSeconds}`}`;
}

/** What a replacement took out. Times as text: JavaScript's lose the microseconds. */
interface Gone {
  readonly partitions: number;
  readonly minInsertTime: string;
  readonly maxInsertTime: string;
}

/** One step's partitions, and what takes their place. */
export interface Replacement {
  readonly viewSet: TableName;
  readonly audience: string | null;
  readonly level: 1 | 2 | 3;
  /** Null when the objects are as wide as they came. */
  readonly widthSeconds: number | null;
  readonly sources: readonly Pick<MergeSource, "partitionId">[];
  /** None: the partitions go, and nothing takes their place. */
  readonly objects: readonly MergedObject[];
  /** Rows received before this, in seconds since 1970, are not among those that stay. */
  readonly receivedSince?: number;
  /** Of the objects, in hex; default: that of this version. */
  readonly schemaHash?: string | undefined;
  /** The rows of the objects are sorted; default true. */
  readonly sorted?: boolean;
  /** What has to be locked until the commit; see the fence in merge-lock.ts. */
  readonly scope: MergeScope;
  /** What belongs into the transaction before anything of its own. */
  readonly before?: (connection: Sql) => Promise<void>;
  /** What else belongs into the transaction, after everything of its own. */
  readonly also?: (connection: Sql) => Promise<void>;
}

/** deadlock_detected, serialization_failure: another transaction changed the same partitions. */
const collisionStates: ReadonlySet<string> = new Set(["40P01", "40001"]);

/** insufficient_resources, such as a full disk, and query_canceled: the session is still there, and its transaction. */
const livesOn = /^(?:53[124]00|57014)$/u;

/**
 * Changes the catalogue in one transaction, while nobody else merges in `scope`.
 *
 * @param work changes nothing for good unless it returns true
 * @returns false, with nothing changed, when `work` did or somebody else has the lock
 * @throws ServiceError UNAVAILABLE when others keep rows locked; the database's errors. When the connection was lost, it
 *   may have happened or not.
 */
export async function publish(connection: Sql, scope: MergeScope, work: () => Promise<boolean>): Promise<boolean> {
  await connection`begin`;
  try {
    // Its own locks keep all other merging and rewriting of its scope waiting meanwhile.
    await connection`select set_config('lock_timeout', ${maxLockWait}, true)`;
    if (!(await fenceMerge(connection, scope)) || !(await work())) {
      await connection`rollback`;
      return false;
    }
    await connection`commit`;
    return true;
  } catch (error) {
    if (isConnectionError(error) && !livesOn.test(sqlState(error) ?? "")) {
      throw error;
    }
    await connection`rollback`;
    if (collisionStates.has(sqlState(error) ?? "")) {
      return false;
    }
    if (sqlState(error) === lockNotAvailable) {
      throw new ServiceError("UNAVAILABLE", "Others keep partitions locked in the database; trying again later.", {
        cause: error,
        retryAfterSeconds: 10,
      });
    }
    throw error;
  }
}

/**
 * Publishes objects that are in the store. When they surely are not published, they are removed; what may be must stay:
 * the next merge finds out, or the sweep.
 *
 * @param paths of those that are there by then
 * @param work calls `begin` before it asks the database to publish them
 * @returns what `work` does: whether they are published. @throws what `work` throws
 */
export async function publishStored(
  store: ObjectStore,
  paths: () => readonly string[],
  work: (begin: () => void) => Promise<boolean>,
): Promise<boolean> {
  let published: "yes" | "no" | "unknown" = "no";
  try {
    const done = await work(() => {
      published = "unknown";
    });
    published = done ? "yes" : "no";
    return done;
  } catch (error) {
    published = isConnectionError(error) ? published : "no";
    throw error;
  } finally {
    if (published === "no") {
      await Promise.allSettled(paths().map((path) => store.remove(path)));
    }
  }
}

/**
 * Puts objects in the place of partitions in one transaction: queries that start afterwards read the
 * objects, those that have started keep the partitions' files for the grace period.
 *
 * @returns false, with nothing changed, when some of the partitions are gone, or somebody else has the lock.
 * @throws as {@link publish}
 */
export function replacePartitions(connection: Sql, o: Replacement): Promise<boolean> {
  return publish(connection, o.scope, async () => {
    await o.before?.(connection);
    const [gone] = await connection<Gone[]>`
      with gone as (
        delete from lakehouse_partitions
        where partition_id = any(${o.sources.map(({ partitionId }) => partitionId)}::uuid[])
        returning path, file_bytes, min_insert_time, max_insert_time
      ), kept as (
        insert into retired_objects (path, file_bytes) select path, file_bytes from gone
        on conflict (path) do nothing
      )
      select count(*)::int as partitions, min(min_insert_time)::text as "minInsertTime",
        max(max_insert_time)::text as "maxInsertTime"
      from gone`;
    if (gone?.partitions !== o.sources.length) {
      return false;
    }
    for (const object of o.objects) {
      await insertPartition(connection, o, object, gone);
    }
    await o.also?.(connection);
    return true;
  });
}

async function insertPartition(
  connection: Sql,
  o: Replacement,
  object: MergedObject,
  { minInsertTime, maxInsertTime }: Gone,
): Promise<void> {
  const { attributes, rollup } = object;
  const { columns, names } = attributes;
  await connection`
    insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
      min_time_ns, max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order,
      process_ids, bucket_seconds, attribute_columns, attribute_names, rollup_path, rollup_bytes,
      checksum, rollup_checksum)
    values (${object.partitionId}, ${o.viewSet}, ${o.audience}, ${object.path}, ${object.fileBytes},
      ${object.rowCount}, ${object.minTimeNs}, ${object.maxTimeNs},
      greatest(${minInsertTime}::text::timestamptz, to_timestamp(${o.receivedSince ?? null}::float8)),
      ${maxInsertTime}::text::timestamptz, ${o.level},
      decode(${o.schemaHash ?? tableLayouts[o.viewSet].schemaHash}, 'hex'), ${o.sorted === false ? "" : mergedSortOrder.join(",")},
      ${object.processIds === null ? null : [...object.processIds]}::uuid[], ${o.widthSeconds},
      ${[...columns]}::text[], ${names === null ? null : [...names]}::text[],
      ${rollup?.path ?? null}, ${rollup?.fileBytes ?? null},
      ${object.checksum}, ${rollup?.checksum ?? null})`;
}

/** What partitions have in common, and so an object that they are joined into. */
interface CommonFacts {
  /** Null when they are not known of each, or more than asked for. */
  readonly processIds: readonly string[] | null;
  /** Each of them is sorted. */
  readonly sorted: boolean;
}

/** @param most processes that are listed */
export async function selectCommonFacts(
  sql: Sql,
  partitions: readonly Pick<MergeSource, "partitionId">[],
  most: number,
): Promise<CommonFacts> {
  const rows = await sql<{ processIds: string[] | null; sortOrder: string }[]>`
    select process_ids as "processIds", sort_order as "sortOrder" from lakehouse_partitions
    where partition_id = any(${partitions.map(({ partitionId }) => partitionId)}::uuid[])`;
  const ids = new Set(rows.flatMap(({ processIds }) => processIds ?? []));
  const unknown = ids.size > most || rows.some(({ processIds }) => processIds === null);
  return {
    processIds: unknown ? null : [...ids].toSorted(),
    sorted: rows.every(({ sortOrder }) => sortOrder !== ""),
  };
}

/** Whether objects are published; for a replacement whose outcome was lost with its connection. */
export async function arePublished(sql: Sql, objects: readonly MergedObject[]): Promise<boolean> {
  const [row] = await sql<{ standing: number }[]>`
    select count(*)::int as standing from lakehouse_partitions
    where partition_id = any(${objects.map(({ partitionId }) => partitionId)}::uuid[])`;
  return (row?.standing ?? 0) > 0;
}
