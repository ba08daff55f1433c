/**
 * Publishing: how encoded segments become visible, exactly once.
 *
 * **One statement is one transaction.** It inserts processes, streams, blocks and partitions, and Postgres commits it
 * before it answers. So a segment is published entirely or not at all, in one round trip.
 *
 * **Bytes count once.** A block id is derived from audience and bytes, and is the primary key of `blocks`. A block that
 * is already committed, or that another connection is about to commit (ours waits for that transaction to end),
 * violates it: the whole statement fails, and the caller learns which blocks are committed. There is no look
 * beforehand: the common case would pay for it, and the key has to be checked anyway. Processes and streams are shared
 * by many blocks; the first row of an id stays (`on conflict do nothing`).
 *
 * **Processes travel once** for each of their streams. Each batch brings the rows of its processes, which are wide, and as
 * a rule all of them are there. So a server remembers the streams that it has published, and leaves their processes out.
 * Streams it inserts each time: that keeps whoever removes idle ones waiting (retire-blocks.ts), and when one was removed,
 * with its process, the statement would insert it without the process, and fails. Then it runs once more with all of
 * them. Nobody removes a process and leaves its streams.
 *
 * **No deadlock.** Rows are inserted sorted by id, and every commit is the same statement, so all
 * connections take the locks of conflicting keys in the same order.
 *
 * **Unknown outcome.** When the connection is lost before the answer came, the statement may have been
 * committed, may still be running, or may have died. Running it again settles it: our own blocks collide
 * with the first run's, and Postgres makes us wait until that has ended.
 * - First run died: the second one publishes. The segment is there once.
 * - First run committed: the blocks exist. If our partitions exist too, it was our run: committed. If
 *   they do not, the bytes came from elsewhere (or our objects have been merged already): reported as
 *   duplicates, and the rows are there once.
 * - The database stays away: the call fails, the requests are answered 503, and what was perhaps
 *   published is found as duplicate when the client sends again. Only unacknowledged records are in doubt.
 *   Because they may be published, the caller must not remove the objects; the sweep decides later.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isConnectionError, type Sql, sqlState, unreachable } from "../db/sql.js";
import type { BlockRow, PartitionRow, SegmentCommit } from "./catalogue-rows.js";
import { processesJson } from "./process-row.js";
import { PublishedStreams } from "./published-streams.js";
import { sortedRows } from "./sorted-rows.js";

/** What became of a commit. */
export type CommitResult =
  | { readonly kind: "committed" }
  | {
      readonly kind: "duplicates";
      /** Blocks already committed. Nothing of this call was written. */
      readonly blockIds: ReadonlySet<string>;
    };

/** Waits before the statement runs again after a lost connection, in milliseconds. */
const reconnectDelaysMs = [50, 250, 1000];
/** Collisions with concurrent commits in a row before the call gives up. */
const maximumCollisions = 8;
/** unique_violation, deadlock_detected, serialization_failure. */
const collisionStates: ReadonlySet<string> = new Set(["23505", "40P01", "40001"]);
/** invalid_text_representation, of a sentence that is no number; see `publish`. */
const withoutProcess = "22P02";

/**
 * Publishes segments in one transaction, or nothing of them. No two of them may share a block: the
 * caller keeps the second back until the first one's result is known.
 *
 * @param published what this server has published before; it learns the streams of these segments.
 * @param assertInTime see publish-deadline.ts; asked before each try.
 * @throws {TypeError} when they do.
 * @throws {ServiceError} UNAVAILABLE when the database cannot be reached; the segments may or may not be
 *   published then (see the head of this file). Other database errors as they are: nothing was written.
 */
export async function commitSegments(
  sql: Sql,
  commits: readonly SegmentCommit[],
  published = new PublishedStreams(),
  assertInTime: () => void = () => undefined,
): Promise<CommitResult> {
  const rows = sortedRows(commits);
  const { streams, blocks, partitions } = rows;
  if (blocks.length === 0 && partitions.length === 0) {
    return { kind: "committed" };
  }
  let lostConnections = 0;
  let collisions = 0;
  let allProcesses = false;
  for (;;) {
    try {
      assertInTime();
      const collision = await tryPublish(sql, allProcesses ? rows : withoutKnownProcesses(rows, published));
      if (collision === null) {
        published.add(streams);
        return { kind: "committed" };
      }
      if (lostConnections > 0 && (await isCommitted(sql, commits))) {
        return { kind: "committed" };
      }
      const standing = await standingBlocks(sql, blocks);
      if (standing.length > 0) {
        return { kind: "duplicates", blockIds: new Set(standing) };
      }
      if (collisions++ === maximumCollisions) {
        throw collision;
      }
    } catch (error) {
      if (sqlState(error) === withoutProcess && !allProcesses) {
        allProcesses = true;
        continue;
      }
      if (!isConnectionError(error)) {
        throw error;
      }
      const delayMs = reconnectDelaysMs[lostConnections++];
      if (delayMs === undefined) {
        throw unreachable(error);
      }
      await sleep(delayMs);
    }
  }
}

/**
 * Whether these very segments are published: their partitions exist, or for segments without rows their blocks. False
 * is no proof while a lost connection's statement may still be running, nor once maintenance has merged the partitions.
 */
export async function isCommitted(sql: Sql, commits: readonly SegmentCommit[]): Promise<boolean> {
  const partitionIds = commits.flatMap(({ partitions }) => partitions.map((p) => p.partitionId));
  if (partitionIds.length > 0) {
    const rows = await sql<{ standing: number }[]>`
      select count(*)::int as standing
      from unnest(${arrayLiteral(partitionIds)}::text::uuid[]) as given (partition_id)
      join lakehouse_partitions using (partition_id)`;
    return (rows[0]?.standing ?? 0) > 0;
  }
  const blocks = commits.flatMap((commit) => commit.blocks);
  return (await standingBlocks(sql, blocks)).length > 0;
}

function withoutKnownProcesses(rows: SegmentCommit, published: PublishedStreams): SegmentCommit {
  const wanted = published.newProcesses(rows.streams);
  return { ...rows, processes: rows.processes.filter(({ processId }) => wanted.has(processId)) };
}

/** Publishes, or returns the error that says that another commit was in the way. */
async function tryPublish(sql: Sql, rows: SegmentCommit): Promise<Error | null> {
  try {
    await publish(sql, rows);
    return null;
  } catch (error) {
    const state = sqlState(error);
    if (state !== null && collisionStates.has(state) && error instanceof Error) {
      return error;
    }
    throw error;
  }
}

/** A Postgres array of values that need no escaping inside quotes: UUIDs, audiences, numbers. */
function arrayLiteral(values: readonly (string | number | bigint | null)[]): string {
  // Joined by the engine, and flat: a commit has nine such arrays of a value for each block.
  return values.includes(null)
    ? `{${values.map((value) => (value === null ? "NULL" : `"${value}"`)).join(",")}}`
    : values.length === 0
      ? "{}"
      : `{"${values.join('","')}"}`;
}

function partitionsJson(rows: readonly PartitionRow[]): string {
  return JSON.stringify(
    rows.map((row) => ({
      partition_id: row.partitionId,
      view_set: row.viewSet,
      audience: row.audience,
      path: row.path,
      file_bytes: row.fileBytes,
      checksum: row.checksum,
      row_count: row.rowCount,
      min_time_ns: row.minTimeNs.toString(),
      max_time_ns: row.maxTimeNs.toString(),
      insert_seconds: row.insertTimeMs / 1000,
      level: row.level,
      schema_hash: row.schemaHash,
      sort_order: row.sortOrder,
      process_ids: row.processIds,
    })),
  );
}

/**
 * The statement; fails with unique_violation when a block is already committed. The clock that stamped the rows may be
 * years off: the age of a partition counts from this moment, and none of its rows counts as received later, or more than
 * an hour before. Blocks travel as arrays, because there is one per request and resource; the other rows are few and
 * travel as JSON. Its last part fails, with a sentence that is no number, when a stream was inserted whose process is
 * not among the rows; it runs before blocks are inserted.
 */
async function publish(sql: Sql, rows: SegmentCommit): Promise<void> {
  const { blocks, processes } = rows;
  await sql`
    with inserted_blocks as (
      insert into blocks (block_id, stream_id, process_id, audience, signal, begin_time_ns,
                          end_time_ns, row_count, payload_bytes)
      select * from unnest(
        ${arrayLiteral(blocks.map((b) => b.blockId))}::text::uuid[],
        ${arrayLiteral(blocks.map((b) => b.streamId))}::text::uuid[],
        ${arrayLiteral(blocks.map((b) => b.processId))}::text::uuid[],
        ${arrayLiteral(blocks.map((b) => b.audience))}::text::text[],
        ${arrayLiteral(blocks.map((b) => b.signal))}::text::smallint[],
        ${arrayLiteral(blocks.map((b) => b.beginTimeNs))}::text::bigint[],
        ${arrayLiteral(blocks.map((b) => b.endTimeNs))}::text::bigint[],
        ${arrayLiteral(blocks.map((b) => b.rowCount))}::text::int[],
        ${arrayLiteral(blocks.map((b) => b.payloadBytes))}::text::int[])
    ), inserted_processes as (
      insert into processes (process_id, audience, service_namespace, service_name,
        service_instance_id, service_version, host_id, host_name, process_pid, executable, username,
        sdk_name, sdk_language, sdk_version, start_time, properties)
      select process_id, audience, service_namespace, service_name, service_instance_id,
        service_version, host_id, host_name, process_pid, executable, username, sdk_name,
        sdk_language, sdk_version, to_timestamp(start_seconds), properties::jsonb
      from json_to_recordset(${processesJson(processes)}::text::json) as p (
        process_id uuid, audience text, service_namespace text, service_name text,
        service_instance_id text, service_version text, host_id text, host_name text,
        process_pid bigint, executable text, username text, sdk_name text, sdk_language text,
        sdk_version text, start_seconds double precision, properties text)
      on conflict (process_id) do nothing
    ), inserted_streams as (
      insert into streams (stream_id, process_id, audience, signal)
      select * from unnest(
        ${arrayLiteral(rows.streams.map((s) => s.streamId))}::text::uuid[],
        ${arrayLiteral(rows.streams.map((s) => s.processId))}::text::uuid[],
        ${arrayLiteral(rows.streams.map((s) => s.audience))}::text::text[],
        ${arrayLiteral(rows.streams.map((s) => s.signal))}::text::smallint[])
      on conflict (stream_id) do nothing
      returning process_id
    ), inserted_partitions as (
      insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
        min_time_ns, max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order,
        process_ids, checksum)
      select partition_id, view_set, audience, path, file_bytes, row_count, min_time_ns, max_time_ns,
        least(greatest(to_timestamp(insert_seconds), now() - interval '1 hour'), now()), now(), level,
        decode(schema_hash, 'hex'), sort_order, process_ids, checksum
      from json_to_recordset(${partitionsJson(rows.partitions)}::text::json) as p (
        partition_id uuid, view_set text, audience text, path text, file_bytes bigint,
        row_count bigint, min_time_ns bigint, max_time_ns bigint, insert_seconds double precision,
        level smallint, schema_hash text, sort_order text, process_ids uuid[], checksum bigint)
    )
    select case when count(*) > 0 then (count(*) || ' streams came back without their process')::int end
    from inserted_streams
    where process_id not in (select unnest(${arrayLiteral(processes.map((p) => p.processId))}::text::uuid[]))`;
}

/**
 * Which of the blocks are committed. A join and not `= any(...)`: Postgres would take the array apart
 * again for every row, which takes seconds for a few thousand blocks.
 */
async function standingBlocks(sql: Sql, blocks: readonly BlockRow[]): Promise<string[]> {
  const rows = await sql<{ block_id: string }[]>`
    select block_id
    from unnest(${arrayLiteral(blocks.map((b) => b.blockId))}::text::uuid[]) as given (block_id)
    join blocks using (block_id)`;
  return rows.map((row) => row.block_id);
}
