/** Blocks whose rows are gone, streams without blocks, processes without streams. */
import { setTimeout as wait } from "node:timers/promises";

import { lockNotAvailable, maxLockWait, withLockWait } from "../../db/lock-wait.js";
import { type Sql, sqlState } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import type { CatalogueGroup, RetentionContext } from "./retention.js";
import { longestKept, type RetentionPolicy, targetOf } from "./retention-policy.js";

/** The tables that rows of a signal go to: 1 logs, 2 metrics, 3 traces. */
const tablesOfSignal: Readonly<Record<number, readonly string[]>> = {
  1: ["log_entries"],
  2: ["measures", "histograms"],
  3: ["spans"],
};

const daySeconds = 86_400;
const streamsPerStep = 1000;
const blocksPerStatement = 20_000;
const idlePerStep = 5000;

/** A stream that has blocks. */
interface BlockStream {
  readonly streamId: string;
  readonly audience: string | null;
  readonly signal: number;
  /** When its first block was committed, in seconds since 1970. */
  readonly firstSeconds: number;
}

/** Deletes blocks of which no object holds rows any more. @returns how many */
export async function retireBlocks(
  { sql, policy, cancelled, at }: RetentionContext,
  groups: readonly CatalogueGroup[],
): Promise<number> {
  const [clock] = await sql<{ seconds: number }[]>`select extract(epoch from now())::float8 as seconds`;
  const horizonOf = horizonsOf(policy, groups, clock?.seconds ?? 0);
  let deleted = 0;
  let after: string | null = null;
  while (!cancelled()) {
    const streams: readonly BlockStream[] = await streamsAfter(sql, after);
    const past = streams.flatMap(({ streamId, audience, signal, firstSeconds }) => {
      const before = horizonOf(audience, signal);
      return before !== null && firstSeconds < before ? [{ stream_id: streamId, before }] : [];
    });
    for (let full = past.length > 0; full && !cancelled();) {
      const count = await deleteBlocks(sql, past);
      deleted += count;
      full = count === blocksPerStatement;
      await at?.("blocks");
    }
    after = streams.at(-1)?.streamId ?? null;
    if (streams.length < streamsPerStep) {
      return deleted;
    }
  }
  return deleted;
}

/** Says of an audience and a signal before which second blocks must have been committed to go; null: none go. */
export function horizonsOf(
  policy: RetentionPolicy,
  groups: readonly CatalogueGroup[],
  nowSeconds: number,
): (audience: string | null, signal: number) => number | null {
  const oldest = new Map(groups.map((group) => [targetOf(group.viewSet, group.audience), group.oldestSeconds]));
  return (audience, signal) => {
    const viewSets = tablesOfSignal[signal] ?? [];
    const days = longestKept(policy, viewSets, audience);
    const standing = viewSets.map((viewSet) => oldest.get(targetOf(viewSet, audience)) ?? Infinity);
    return days === null ? null : Math.min(nowSeconds - days * daySeconds, ...standing) - daySeconds;
  };
}

/** The next streams that have blocks, by one look into the index each. */
async function streamsAfter(sql: Sql, after: string | null): Promise<BlockStream[]> {
  return sql<BlockStream[]>`
    with recursive found as (
      (select stream_id, audience, signal, insert_time from blocks
        where ${after === null ? sql`true` : sql`stream_id > ${after}::uuid`}
        order by stream_id, insert_time limit 1)
      union all
      select next.* from found, lateral (
        select b.stream_id, b.audience, b.signal, b.insert_time from blocks b
        where b.stream_id > found.stream_id order by b.stream_id, b.insert_time limit 1) next
    )
    select stream_id as "streamId", audience, signal, extract(epoch from insert_time)::float8 as "firstSeconds"
    from found limit ${streamsPerStep}`;
}

async function deleteBlocks(
  sql: Sql,
  past: readonly { readonly stream_id: string; readonly before: number }[],
): Promise<number> {
  const deleted = await withLockWait(
    sql,
    maxLockWait,
    (tx) => tx`
    delete from blocks where ctid = any(array(
      select b.ctid
      from json_to_recordset(${JSON.stringify(past)}::text::json) as p (stream_id uuid, before float8)
      join blocks b on b.stream_id = p.stream_id and b.insert_time < to_timestamp(p.before)
      limit ${blocksPerStatement}))`,
  );
  return deleted.count;
}

/** What had no blocks. */
interface IdleRemoved {
  readonly streams: number;
  readonly processes: number;
}

/** Removes streams that have had no blocks for a day, and processes that have no streams then. */
export async function removeIdleStreams({ sql, cancelled, at }: RetentionContext): Promise<IdleRemoved> {
  const removed = { streams: 0, processes: 0 };
  let after: string | null = null;
  while (!cancelled()) {
    const looked: readonly { streamId: string; idle: boolean }[] = await sql<{ streamId: string; idle: boolean }[]>`
      select stream_id as "streamId", insert_time < now() - interval '1 day'
        and not exists (select from blocks b where b.stream_id = s.stream_id) as idle
      from streams s where ${after === null ? sql`true` : sql`stream_id > ${after}::uuid`}
      order by stream_id limit ${idlePerStep}`;
    const idle = looked.flatMap((stream) => (stream.idle ? [stream.streamId] : []));
    if (idle.length > 0) {
      const gone = await removeStreams(sql, idle, null);
      removed.streams += gone.streams;
      removed.processes += gone.processes;
      await at?.("streams");
    }
    after = looked.at(-1)?.streamId ?? null;
    if (looked.length < idlePerStep) {
      return removed;
    }
  }
  return removed;
}

const lockTries = 20;
const lockPauseMs = 100;

/**
 * Removes those of some streams that have no blocks, or none committed at `since` (seconds since 1970) or later, and
 * processes that lose their last stream by that. Commits wait meanwhile, and for a fifth of a second each time that the
 * tables cannot be locked, for example because they are being vacuumed.
 * @throws ServiceError UNAVAILABLE when they cannot be for long
 */
export async function removeStreams(
  sql: Sql,
  streamIds: readonly string[],
  since: number | null,
): Promise<IdleRemoved> {
  for (let tries = 1; ; tries++) {
    try {
      return await tryRemoveStreams(sql, streamIds, since);
    } catch (error) {
      if (sqlState(error) !== lockNotAvailable) {
        throw error;
      }
      if (tries === lockTries) {
        throw new ServiceError("UNAVAILABLE", "the tables processes and streams cannot be locked", { cause: error });
      }
    }
    await wait(lockPauseMs);
  }
}

function tryRemoveStreams(sql: Sql, streamIds: readonly string[], since: number | null): Promise<IdleRemoved> {
  return withLockWait(sql, "200ms", async (tx) => {
    // In the order in which a commit takes them.
    await tx`lock table processes, streams in share row exclusive mode`;
    const [row] = await tx<IdleRemoved[]>`
      with gone as (
        delete from streams s where stream_id = any(${[...streamIds]}::uuid[])
          and not exists (select from blocks b where b.stream_id = s.stream_id
            ${since === null ? tx`` : tx`and b.insert_time >= to_timestamp(${since}::float8)`})
        returning stream_id, process_id
      ), childless as (
        delete from processes p where process_id in (select process_id from gone)
          and not exists (select from streams s where s.process_id = p.process_id
            and s.stream_id not in (select stream_id from gone))
        returning process_id
      )
      select (select count(*)::int from gone) as streams, (select count(*)::int from childless) as processes`;
    return row ?? { streams: 0, processes: 0 };
  });
}
