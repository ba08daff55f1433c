/**
 * `last_used_at`, off the request path. Readers note the second of use in shared memory (a store at
 * most once a second and key); once a minute the uses are collected and written in batches.
 *
 * A key is written at most once a minute: a process collects once a minute, and the statement passes over rows that say
 * they were used less than a minute ago, which is what another process writes of a busy key. It also skips rows that
 * another process is just writing, so that processes never wait for or deadlock each other. Skipped uses stay and are
 * tried at the next collection. Only the flush at stop ignores the minute, because no other follows.
 */
import type { Sql } from "../../db/sql.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { Periodic } from "../../runtime/periodic.js";
import type { DeadlineSql } from "../../db/deadline-sql.js";
import type { KeyTable } from "./keys.js";
import type { SharedClock } from "../shared-clock.js";
import type { KeyUse } from "./shared-key-cache.js";

const minuteMs = 60_000;
const maxRowsPerStatement = 1000;
/** Most keys remembered while the database is down; beyond it uses are forgotten. */
const maxPending = 100_000;

/** Options of the usage writer. */
interface KeyUsageOptions {
  readonly sql: DeadlineSql;
  readonly table: KeyTable;
  /** Uses since the last call, once per key; see `SharedKeyCacheWriter.takeUses`. */
  readonly takeUses: () => readonly KeyUse[];
  /** Clock that the uses were read from. */
  readonly clock: SharedClock;
  /** Wall clock, milliseconds since the epoch. */
  readonly wallMs: () => number;
  readonly logger: Logger;
}

/** Collects and writes `last_used_at`. */
export class KeyUsage implements Component {
  readonly name: string;
  readonly #o: KeyUsageOptions;
  readonly #pending = new Map<string, number>();
  readonly #writes: Periodic;

  constructor(o: KeyUsageOptions) {
    this.name = `key-usage ${o.table}`;
    this.#o = o;
    this.#writes = new Periodic(() => this.#write(minuteMs), minuteMs);
  }

  /** Remember a use whose cache entry is about to go. */
  add([keyId, usedSecond]: KeyUse): void {
    const known = this.#pending.get(keyId);
    if (known === undefined && this.#pending.size >= maxPending) {
      return;
    }
    if (known === undefined || known < usedSecond) {
      this.#pending.set(keyId, usedSecond);
    }
  }

  /** Write what was used since the last flush. Never rejects: what fails is tried again next time. */
  flush(): Promise<void> {
    return this.#writes.run();
  }

  /** Stops the timer and writes what is left. */
  stop(): Promise<void> {
    return this.#writes.stop(() => this.#write(0));
  }

  async #write(sparingMs: number): Promise<void> {
    for (const use of this.#o.takeUses()) {
      this.add(use);
    }
    const all = [...this.#pending].toSorted(([a], [b]) => (a < b ? -1 : 1));
    try {
      for (let from = 0; from < all.length; from += maxRowsPerStatement) {
        const batch = all.slice(from, from + maxRowsPerStatement);
        const uses = this.#withWallTime(batch);
        const settled = await this.#o.sql.run((sql) => updateLastUsed(sql, this.#o.table, uses, sparingMs));
        for (const [keyId, second] of batch) {
          // A later use may have been recorded since; the next flush writes it.
          if (settled.has(keyId) && this.#pending.get(keyId) === second) {
            this.#pending.delete(keyId);
          }
        }
      }
    } catch (error) {
      this.#o.logger.warn(
        { table: this.#o.table, waiting: this.#pending.size, cause: (error as Error).message },
        "last_used_at could not be written; it is tried again",
      );
    }
  }

  #withWallTime(batch: readonly KeyUse[]): { keyId: string; usedAt: Date }[] {
    const offsetMs = this.#o.wallMs() - this.#o.clock();
    return batch.map(([keyId, second]) => ({ keyId, usedAt: new Date(second * 1000 + offsetMs) }));
  }
}

// Returns the keys whose use is recorded, now or already, and those that no longer exist.
async function updateLastUsed(
  sql: Sql,
  table: KeyTable,
  uses: readonly { keyId: string; usedAt: Date }[],
  sparingMs: number,
): Promise<ReadonlySet<string>> {
  const keyIds = uses.map((use) => use.keyId).join(",");
  const times = uses.map((use) => use.usedAt.toISOString()).join(",");
  const rows = await sql<{ key_id: string }[]>`
    with used as (
      select u.key_id::uuid as key_id, u.used_at::timestamptz as used_at
      from unnest(string_to_array(${keyIds}, ','), string_to_array(${times}, ','))
        as u (key_id, used_at)
    ), locked as (
      select k.key_id, used.used_at
      from ${sql(table)} k join used on used.key_id = k.key_id
      where k.last_used_at is null
         or (k.last_used_at < used.used_at
             and now() - k.last_used_at >= ${sparingMs}::float8 * interval '1 millisecond')
      for no key update of k skip locked
    ), written as (
      update ${sql(table)} k set last_used_at = locked.used_at
      from locked where k.key_id = locked.key_id
      returning k.key_id
    )
    select key_id from written
    union all
    select used.key_id from used left join ${sql(table)} k on k.key_id = used.key_id
    where k.key_id is null or k.last_used_at >= used.used_at`;
  return new Set(rows.map((row) => row.key_id));
}
