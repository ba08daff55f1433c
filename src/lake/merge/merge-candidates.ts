/**
 * What to merge: objects of one table and audience that are about equally large, once there are enough.
 *
 * Objects are sorted into tiers by their rows. A tier with enough objects is merged together with all smaller ones; the
 * result belongs to a higher tier. So a row is rewritten at most once per tier, and only a few small objects per tier
 * remain. Objects of at least an eighth of what a step takes are not merged again: that would cost more than it saves.
 *
 * A merge cuts by time. Its buckets are just wide enough to leave at most a quarter of the objects: days
 * for a steady stream, years for a trickle or for wrong clocks.
 */
import type { Sql } from "../../db/sql.js";
import type { AudienceFilter } from "../catalogue.js";
import { type TableName, tables } from "../tables/tables.js";

/** Objects of one table and audience to merge. */
export interface MergeGroup {
  readonly viewSet: TableName;
  readonly audience: string | null;
  /** Objects with fewer rows than this are merged. */
  readonly belowRows: number;
}

/** What of a group to merge at once, and how. */
export interface GroupMerge {
  readonly partitionIds: readonly string[];
  readonly widthSeconds: number;
}

/** How much one merge may take. */
export interface MergeRoom {
  /** Rows of all its objects together. */
  readonly rows: number;
  /** Bytes of all its objects together. */
  readonly bytes: number;
}

/** Objects of a tier that start a merge: fewer tiny ones, whose merging costs almost nothing. */
const enoughTiny = 4;
const enough = 8;
/** Where the tiny ones end. */
const tinyRows = 4096;
/** An object that holds this share of a step is left as it is. */
const fullShare = 1 / 8;
const maxGroups = 100;
const maxSources = 1000;

const daySeconds = 86_400;
/** A day, about a month, about a year, and the widest that the catalogue can name (68 years). */
const widths = [daySeconds, 32 * daySeconds, 366 * daySeconds, 2 ** 31 - 1] as const;
const nsPerSecond = 1_000_000_000n;

/** Rows at which each tier but the first begins; from the last one on nothing is merged. */
export function tierBounds(stepRows: number): number[] {
  const full = Math.max(tinyRows, Math.floor(stepRows * fullShare));
  const bounds: number[] = [];
  for (let rows = enoughTiny; rows < tinyRows; rows *= enoughTiny) {
    bounds.push(rows);
  }
  for (let rows = tinyRows; rows < full; rows *= enough) {
    bounds.push(rows);
  }
  return [...bounds, full];
}

/** The groups to merge, those with the most objects first. `except` are partitions to leave alone. */
export async function findMergeGroups(sql: Sql, room: MergeRoom, except: readonly string[]): Promise<MergeGroup[]> {
  const bounds = tierBounds(room.rows);
  const groups = await sql<{ viewSet: TableName; audience: string | null; tier: number }[]>`
    with tiers as (
      select view_set, audience, width_bucket(row_count, ${bounds}::int8[]) as tier, count(*) as objects
      from lakehouse_partitions
      where view_set = any(${Object.keys(tables)}::text[]) and ${mergeable(sql, room, except)}
      group by 1, 2, 3
    )
    select view_set as "viewSet", audience, max(tier) as tier from tiers
    where tier < ${bounds.length}
      and objects >= case when tier <= ${bounds.indexOf(tinyRows)} then ${enoughTiny}::int else ${enough}::int end
    group by 1, 2 order by sum(objects) desc, 1, 2 limit ${maxGroups}`;
  return groups.map(({ viewSet, audience, tier }) => ({
    viewSet,
    audience,
    belowRows: bounds[tier] ?? 0,
  }));
}

/** What to merge of a group now, the oldest first; null when that would not make fewer of them. */
export async function chooseMerge(
  sql: Sql,
  { viewSet, audience, belowRows }: MergeGroup,
  room: MergeRoom,
  except: readonly string[],
): Promise<GroupMerge | null> {
  const found = await sql<CandidateRow[]>`
    select partition_id as "partitionId", row_count::float8 as "rowCount",
      file_bytes::float8 as "fileBytes", min_time_ns as "minTimeNs", max_time_ns as "maxTimeNs"
    from lakehouse_partitions
    where view_set = ${viewSet} and audience is not distinct from ${audience}
      and row_count < ${belowRows} and ${mergeable(sql, room, except)}
    order by min_time_ns, partition_id limit ${maxSources}`;
  const taken = withinRoom(found, room);
  const widthSeconds = widths.find((width) => bucketsTouched(taken, width, taken.length) * 4 <= taken.length);
  if (widthSeconds === undefined) {
    return null;
  }
  return { partitionIds: taken.map(({ partitionId }) => partitionId), widthSeconds };
}

/** The audiences of a group, as a merge asks for them. */
export function audiencesOf({ audience }: MergeGroup): AudienceFilter {
  return {
    kind: "some",
    audiences: new Set(audience === null ? [] : [audience]),
    unstamped: audience === null,
  };
}

interface CandidateRow extends TimeBounds {
  readonly partitionId: string;
  readonly rowCount: number;
  readonly fileBytes: number;
}

interface TimeBounds {
  /** Nanoseconds since 1970 UTC; null when no row has a time. */
  readonly minTimeNs: bigint | null;
  readonly maxTimeNs: bigint | null;
}

function mergeable(sql: Sql, room: MergeRoom, except: readonly string[]) {
  return sql`file_bytes < ${Math.floor(room.bytes * fullShare)}
    and partition_id <> all(${[...except]}::uuid[])`;
}

function withinRoom(found: readonly CandidateRow[], room: MergeRoom): CandidateRow[] {
  let rows = 0;
  let bytes = 0;
  return found.filter(({ rowCount, fileBytes }) => {
    if (rows + rowCount > room.rows || bytes + fileBytes > room.bytes) {
      return false;
    }
    rows += rowCount;
    bytes += fileBytes;
    return true;
  });
}

/** Into how many buckets the rows may fall, as far as the bounds tell; beyond `most` it stops counting. */
function bucketsTouched(found: readonly TimeBounds[], widthSeconds: number, most: number): number {
  const widthNs = BigInt(widthSeconds) * nsPerSecond;
  const touched = new Set<bigint>();
  for (const { minTimeNs, maxTimeNs } of found) {
    if (minTimeNs === null || maxTimeNs === null) {
      continue;
    }
    const last = bucketOf(maxTimeNs, widthNs);
    for (let bucket = bucketOf(minTimeNs, widthNs); bucket <= last; bucket++) {
      touched.add(bucket);
      if (touched.size > most) {
        return touched.size;
      }
    }
  }
  return touched.size;
}

/** `/` cuts towards zero, and times before 1970 are negative. */
function bucketOf(ns: bigint, widthNs: bigint): bigint {
  return ns >= 0n ? ns / widthNs : (ns + 1n) / widthNs - 1n;
}
