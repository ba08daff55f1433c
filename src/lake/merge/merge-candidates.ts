/** What to merge, as the catalogue tells it: the tables and audiences that have something due, and their objects. */
import type { AudienceFilter } from "../../db/audience-filter.js";
import type { Sql } from "../../db/sql.js";
import { type TableName, tables } from "../tables/tables.js";
import {
  chooseObjects,
  dueLevels,
  fullObject,
  type GroupMerge,
  type LevelCounts,
  type LevelObject,
  maxSources,
  type MergeRoom,
  type OpenLevel,
} from "./merge-levels.js";

/** Objects of one table and audience to merge. */
export interface MergeGroup {
  readonly viewSet: TableName;
  readonly audience: string | null;
  /** What of it is merged now, together. */
  readonly levels: readonly OpenLevel[];
  /** Objects of these levels. */
  readonly objects: number;
}

interface GroupRow {
  readonly viewSet: TableName;
  readonly audience: string | null;
  readonly objects: readonly number[];
  readonly rows: readonly number[];
  readonly bytes: readonly number[];
  /** Null when levels 0 and 1 are empty. */
  readonly quietSeconds: number | null;
}

/** The groups to merge, those with the most objects first. `except` are partitions to leave alone. */
export async function findMergeGroups(sql: Sql, room: MergeRoom, except: readonly string[]): Promise<MergeGroup[]> {
  const rows = await sql<GroupRow[]>`
    with levels as (
      select view_set, audience, level, count(*)::int as objects, sum(row_count)::float8 as rows,
        sum(file_bytes)::float8 as bytes, max(max_insert_time) as newest
      from ${mergeable(sql, except)} and view_set = any(${Object.keys(tables)}::text[])
      group by 1, 2, 3
    )
    select view_set as "viewSet", audience,
      ${perLevel(sql, "objects")} as objects, ${perLevel(sql, "rows")} as rows, ${perLevel(sql, "bytes")} as bytes,
      extract(epoch from now() - max(newest) filter (where level < 2))::float8 as "quietSeconds"
    from levels group by 1, 2`;
  const groups = rows.flatMap(({ viewSet, audience, quietSeconds, ...counts }): MergeGroup[] => {
    const at = (level: OpenLevel): LevelCounts => ({
      objects: counts.objects[level] ?? 0,
      rows: counts.rows[level] ?? 0,
      bytes: counts.bytes[level] ?? 0,
    });
    const levels = dueLevels({ levels: [at(0), at(1), at(2)], quietSeconds: quietSeconds ?? 0 }, room);
    return levels === null
      ? []
      : [{ viewSet, audience, levels, objects: levels.reduce<number>((sum, level) => sum + at(level).objects, 0) }];
  });
  return groups.toSorted((a, b) => b.objects - a.objects);
}

/** What to merge of a group now, the oldest first; null when that would not make fewer of them. */
export async function chooseMerge(
  sql: Sql,
  { viewSet, audience, levels }: MergeGroup,
  room: MergeRoom,
  except: readonly string[],
): Promise<GroupMerge | null> {
  const objects = await sql<LevelObject[]>`
    select partition_id as "partitionId", level::int as level, row_count::float8 as "rowCount",
      file_bytes::float8 as "fileBytes", min_time_ns as "minTimeNs", max_time_ns as "maxTimeNs"
    from ${mergeable(sql, except)} and view_set = ${viewSet}
      and ${audience === null ? sql`audience is null` : sql`audience = ${audience}`} and level = any(${[...levels]}::int[])
    order by min_time_ns, partition_id limit ${maxSources}`;
  return chooseObjects(objects, room);
}

/** The audiences of a group, as a merge asks for them. */
export function audiencesOf({ audience }: Pick<MergeGroup, "audience">): AudienceFilter {
  return {
    kind: "some",
    audiences: new Set(audience === null ? [] : [audience]),
    unstamped: audience === null,
  };
}

/** For how long what comes after an erasure waits for its end; a store that is away may keep that waiting for days. */
const heldSeconds = 3600;

/**
 * Partitions that may be merged; more conditions may follow. The first one is that of the index
 * `lakehouse_partitions_mergeable`. An erasure leaves what is ingested after the call, but not when it is merged with
 * earlier rows: that waits until the erasure has ended; unstamped objects, without an audience, do so for any erasure.
 * Joined, since a look at the erasures for each of many small objects would take seconds.
 */
function mergeable(sql: Sql, except: readonly string[]) {
  return sql`lakehouse_partitions left join (
      select request ->> 'audience' as held_audience, min(created_at) as held_since from lake_tasks
      where kind = 'erasure' and state in ('waiting', 'running')
        and created_at >= now() - ${heldSeconds} * interval '1 second'
      group by grouping sets ((request ->> 'audience'), ())
    ) as held on coalesce(held_audience, '') = coalesce(audience, '')
    where level < 3
      and (level = 0 or (row_count < ${fullObject.rows}::int8 and file_bytes < ${fullObject.bytes}::int8))
      and (level > 0 or held_since is null or created_at < held_since)
      and partition_id <> all(${[...except]}::uuid[])`;
}

/** A sum of each open level, from below. */
function perLevel(sql: Sql, name: "objects" | "rows" | "bytes") {
  const at = (level: OpenLevel) => sql`coalesce(sum(${sql(name)}) filter (where level = ${level}), 0)::float8`;
  return sql`array[${at(0)}, ${at(1)}, ${at(2)}]`;
}
