/** Removes objects that were written but never published: crashes, lost databases, unfinished writes. */
import type { Sql } from "../db/sql.js";
import type { ObjectStore } from "./store/object-store.js";

/** What a sweep did. */
export interface SweepResult {
  readonly removedObjects: number;
  readonly removedBytes: number;
}

const pathsPerQuery = 1000;

/** A query for those of some paths that the database names: of objects, their roll-ups, and what is kept of either. */
export function namedPaths(sql: Sql, paths: readonly string[]) {
  const asked = sql`${[...paths]}::text[]`;
  return sql`
    select path from lakehouse_partitions where path = any(${asked})
    union all select rollup_path from lakehouse_partitions where rollup_path is not null and rollup_path = any(${asked})
    union all select path from retired_objects where path = any(${asked})
    union all select path from lost_partitions where path = any(${asked})`;
}

/**
 * Removes every object older than an hour that the catalogue does not name.
 * The age keeps it away from objects that are about to be published; a commit gives up long before.
 * Objects that left it stay as long as `retired_objects` names them (retire.ts), or `lost_partitions`
 * (check/lost-partitions.ts). Callers make sure before that the store is this database's (lake-identity.ts) and that the
 * clock can be trusted (lake-clock.ts).
 */
export async function sweepOrphans(
  sql: Sql,
  store: ObjectStore,
  options: {
    readonly nowMs: number;
    readonly prefix?: string;
  },
): Promise<SweepResult> {
  const before = options.nowMs - 3_600_000;
  let removedObjects = 0;
  let removedBytes = 0;
  let candidates = new Map<string, number>();
  const flush = async (): Promise<void> => {
    const rows = await sql<{ path: string }[]>`
      ${namedPaths(sql, [...candidates.keys()])}`;
    for (const { path } of rows) {
      candidates.delete(path);
    }
    for (const [path, bytes] of candidates) {
      await store.remove(path);
      removedObjects++;
      removedBytes += bytes;
    }
    candidates = new Map();
  };
  for await (const { path, bytes, modifiedMs } of store.list(options.prefix ?? "")) {
    if (modifiedMs > before) {
      continue;
    }
    candidates.set(path, bytes);
    if (candidates.size === pathsPerQuery) {
      await flush();
    }
  }
  if (candidates.size > 0) {
    await flush();
  }
  return { removedObjects, removedBytes };
}
