/**
 * Retention: what was received longer ago than its table and audience keep goes.
 *
 * **Whole objects.** A partition leaves the catalogue when all its rows are past; until then all of them can be queried.
 * Merging joins what was received at about the same time, and what has old rows all the same is rewritten
 * (src/lake/rewrite/trim.ts). Ages count from when rows were received, because senders' clocks are anything.
 *
 * **Blocks outlive rows.** Their ids find bytes that are sent twice, so an id stays until no object holds rows that were
 * received before or a day after it. Bytes sent again later count again.
 *
 * **Streams without blocks, processes without streams** go last, in a transaction that no commit runs beside: a commit
 * that finds a process there adds no row for it.
 *
 * Every statement is a transaction, bounded, and leaves what the next run continues from.
 */
import type { Sql } from "../../db/sql.js";
import { removeIdleStreams, retireBlocks } from "./retire-blocks.js";
import { retireReceivedBefore } from "./retire-received.js";
import { daysKept, removesAnything, type RetentionPolicy } from "./retention-policy.js";

/** Where a run can be cut off, for tests. */
export type RetentionPoint = "partitions" | "blocks" | "streams" | "usage";

/** What a run works with. */
export interface RetentionContext {
  readonly sql: Sql;
  readonly policy: RetentionPolicy;
  /** Leaves blocks, streams and processes alone: all streams are gone through for them. */
  readonly objectsOnly?: boolean;
  /** Whether to end early. */
  readonly cancelled: () => boolean;
  /** Called after each step. */
  readonly at?: (point: RetentionPoint) => Promise<void> | void;
}

/** What a run removed. */
export interface RetentionResult {
  readonly objects: number;
  readonly rows: number;
  readonly blocks: number;
  readonly streams: number;
  readonly processes: number;
  /** Months of `api_key_usage`. */
  readonly months: number;
}

/** A table and audience of the catalogue. */
export interface CatalogueGroup {
  readonly viewSet: string;
  readonly audience: string | null;
  /** When the oldest of its rows was received, in seconds since 1970. */
  readonly oldestSeconds: number;
}

/** Every table and audience that has objects. */
export function selectGroups(sql: Sql): Promise<CatalogueGroup[]> {
  return sql<CatalogueGroup[]>`
    select view_set as "viewSet", audience, extract(epoch from min(min_insert_time))::float8 as "oldestSeconds"
    from lakehouse_partitions group by 1, 2 order by 1, 2`;
}

/** Removes what is past. @throws the database's errors; what was removed before stays so */
export async function applyRetention(context: RetentionContext): Promise<RetentionResult> {
  const { sql, policy, cancelled, at } = context;
  const removed = { objects: 0, rows: 0, blocks: 0, streams: 0, processes: 0, months: 0 };
  if (removesAnything(policy)) {
    for (const { viewSet, audience } of await selectGroups(sql)) {
      const days = daysKept(policy, viewSet, audience);
      for (let more = days !== null; more && !cancelled();) {
        const { objects, rows, full } = await retireReceivedBefore(sql, viewSet, audience, days ?? 0);
        removed.objects += objects;
        removed.rows += rows;
        more = full;
        await at?.("partitions");
      }
    }
    if (context.objectsOnly !== true) {
      removed.blocks = await retireBlocks(context, await selectGroups(sql));
      const idle = await removeIdleStreams(context);
      removed.streams = idle.streams;
      removed.processes = idle.processes;
    }
  }
  if (!cancelled()) {
    removed.months = await retireUsage(sql, daysKept(policy, "api_key_usage", null));
    await at?.("usage");
  }
  return removed;
}

async function retireUsage(sql: Sql, days: number | null): Promise<number> {
  await sql`select prepare_key_usage()`;
  if (days === null) {
    return 0;
  }
  const [row] = await sql<{ months: number }[]>`
    select drop_key_usage(now() - ${days}::float8 * interval '1 day') as months`;
  return row?.months ?? 0;
}
