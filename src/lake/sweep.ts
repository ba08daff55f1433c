/** Removes objects that were written but never published: crashes, lost databases, unfinished writes. */
import type { Sql } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import type { ObjectStore } from "./store/object-store.js";

/** What a sweep did. */
export interface SweepResult {
  readonly removedObjects: number;
  readonly removedBytes: number;
  /** Says what could not be removed and what to do; null: everything was. */
  readonly failure: ServiceError | null;
}

/** Most milliseconds of a sweep for removals that fail (in a store that does not answer each takes seconds), and most of them. */
const maxFailingMs = 60_000;
const maxKept = 1000;

/** Removals of one sweep. An object that cannot be removed keeps nobody from the others; the next sweep tries it again. */
export class Removals {
  readonly #store: ObjectStore;
  readonly #kept: string[] = [];
  #removedObjects = 0;
  #removedBytes = 0;
  #failingMs = 0;
  #firstError: unknown = null;
  #lastError: unknown = null;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  /** Objects that could not be removed. */
  get kept(): readonly string[] {
    return this.#kept;
  }

  /** Why the last of them could not be removed. */
  get lastError(): unknown {
    return this.#lastError;
  }

  /** Whether the others are better left to the next sweep. */
  get gaveUp(): boolean {
    return this.#failingMs > maxFailingMs || this.#kept.length >= maxKept;
  }

  /** Removes an object. @returns whether it is gone */
  async remove(path: string, bytes: number): Promise<boolean> {
    const startedMs = performance.now();
    try {
      await this.#store.remove(path);
      this.#removedObjects++;
      this.#removedBytes += bytes;
      return true;
    } catch (error) {
      this.#failingMs += performance.now() - startedMs;
      this.#firstError ??= error;
      this.#lastError = error;
      this.#kept.push(path);
      return false;
    }
  }

  result(): SweepResult {
    const [first] = this.#kept;
    const failure =
      first === undefined
        ? null
        : new ServiceError(
            "UNAVAILABLE",
            `Objects cannot be removed: ${first}${this.#kept.length === 1 ? "" : ` and ${this.#kept.length - 1} others`}. The service needs the right to write their directories, or to delete in its bucket.`,
            { cause: this.#firstError },
          );
    return { removedObjects: this.#removedObjects, removedBytes: this.#removedBytes, failure };
  }
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
 * The age keeps it away from objects that are about to be published: who has waited longer does not (publish-deadline.ts).
 * Objects that left it stay as long as `retired_objects` names them (retire.ts), or `lost_partitions`
 * (check/lost-partitions.ts). Callers make sure before that the database may decide about the store (lake-owner.ts) and
 * that the clocks can be trusted (lake-clock.ts).
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
  const removals = new Removals(store);
  let candidates = new Map<string, number>();
  const flush = async (): Promise<void> => {
    const rows = await sql<{ path: string }[]>`
      ${namedPaths(sql, [...candidates.keys()])}`;
    for (const { path } of rows) {
      candidates.delete(path);
    }
    for (const [path, bytes] of candidates) {
      if (!removals.gaveUp) {
        await removals.remove(path, bytes);
      }
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
  return removals.result();
}
