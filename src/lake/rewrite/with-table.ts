/** Rewriting a table: its lock of merging, and an engine that reaches one audience of it. */
import { isConnectionError, type Sql, sqlState, unreachable } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { type MergeEngine, type MergeProcess, withMergeProcess } from "../merge/merge-engine.js";
import { unlockMerge, waitForMergeLock } from "../merge/merge-lock.js";
import { mergeSourceColumns } from "../merge/merge-publish.js";
import { ofAudience } from "../retention/retire-received.js";
import { objectDirectory } from "../store/paths.js";
import type { TableName } from "../tables/tables.js";
import { type RewriteContext, rewriteError, type RewriteSource } from "./rewrite.js";

/** Objects that are looked through at once. */
export const objectsPerStep = 100;

/** A step of a merge under way is over by then, seldom excepted. */
const lockTries = 120;
const lockWaitMs = 500;

/** Starts an engine for `work` and ends it. @throws as `rewriteObjects`, in words for a caller */
export async function withRewriteEngine<T>(
  context: RewriteContext,
  work: (process: MergeProcess) => Promise<T>,
): Promise<T> {
  return await withMergeProcess(context, async (process) => {
    try {
      return await work(process);
    } catch (error) {
      // What Postgres says is not about an object.
      const worded = sqlState(error) === null ? rewriteError(error, context.cancelled()) : error;
      throw isConnectionError(worded) ? unreachable(worded) : worded;
    }
  });
}

/**
 * Does `work` while nobody else merges or rewrites the table.
 * @throws ServiceError UNAVAILABLE when somebody else keeps at it
 */
export async function withLockedTable<T>(
  context: RewriteContext,
  viewSet: TableName,
  work: (connection: Sql) => Promise<T>,
): Promise<T> {
  const connection = await context.sql.reserve();
  try {
    for (let tries = 0; !(await waitForMergeLock(connection, viewSet, lockWaitMs)); tries++) {
      if (context.cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      if (tries === lockTries) {
        throw new ServiceError("UNAVAILABLE", `Partitions of ${viewSet} are being merged; trying again later.`);
      }
    }
    try {
      return await work(connection);
    } finally {
      await unlockMerge(connection, { viewSet });
    }
  } finally {
    connection.release();
  }
}

/** The engine for objects of one audience. */
export function engineFor(
  { root }: RewriteContext,
  process: MergeProcess,
  viewSet: TableName,
  audience: string | null,
): MergeEngine {
  return process.within(`${root}/${objectDirectory(viewSet, audience)}`);
}

/** Which partitions to look through. */
interface SourceQuery {
  readonly viewSet: TableName;
  readonly audience: string | null;
  /** Bounds of their rows' times, nanoseconds since 1970; the second one is excluded. */
  readonly beginNs?: bigint | null;
  readonly endNs?: bigint | null;
  /** Those that may hold this process. */
  readonly processId?: string | null;
  /** Those with rows received before this, in seconds since 1970. */
  readonly receivedBefore?: number;
  /** Those that were merged, or published before this, in seconds since 1970. */
  readonly ingestedBefore?: number;
  /** Those whose ids come after this one. */
  readonly after?: string | undefined;
  readonly limit?: number;
}

/** A partition to look through. */
interface ReceivedSource extends RewriteSource {
  /** When its first row was received, in seconds since 1970. A row that says earlier was stamped by a clock behind. */
  readonly receivedFromSeconds: number;
}

/** The columns of a {@link RewriteSource}, of rows as `lakehouse_partitions` has them. */
export function rewriteSourceColumns(sql: Sql) {
  return sql`${mergeSourceColumns(sql)}, level::int as level, bucket_seconds as "bucketSeconds", sort_order <> '' as sorted`;
}

/** Partitions to look through, by id. */
export async function selectRewriteSources(sql: Sql, query: SourceQuery): Promise<ReceivedSource[]> {
  const { viewSet, audience, beginNs = null, endNs = null, processId = null } = query;
  const { receivedBefore, ingestedBefore, after, limit } = query;
  return sql<ReceivedSource[]>`
    select ${rewriteSourceColumns(sql)}, extract(epoch from min_insert_time)::float8 as "receivedFromSeconds"
    from lakehouse_partitions
    where view_set = ${viewSet} and ${ofAudience(sql, audience)}
      ${beginNs === null ? sql`` : sql`and max_time_ns >= ${beginNs}`}
      ${endNs === null ? sql`` : sql`and min_time_ns < ${endNs}`}
      ${processId === null ? sql`` : sql`and (process_ids is null or ${processId}::uuid = any(process_ids))`}
      ${receivedBefore === undefined ? sql`` : sql`and min_insert_time < to_timestamp(${receivedBefore}::float8)`}
      ${ingestedBefore === undefined ? sql`` : sql`and (level > 0 or created_at < to_timestamp(${ingestedBefore}::float8))`}
      ${after === undefined ? sql`` : sql`and partition_id > ${after}::uuid`}
    order by partition_id ${limit === undefined ? sql`` : sql`limit ${limit}`}`;
}
