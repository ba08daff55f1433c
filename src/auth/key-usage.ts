/**
 * `last_used_at`, off the request path. Readers note the second of use in shared memory (a store at
 * most once a second and key); once a minute the uses are collected and written in batches.
 *
 * A key is written at most once a minute, by all processes together: the statement leaves alone
 * what was written less than a minute earlier, and skips rows that another process is just writing,
 * so that two processes never wait for or deadlock each other. Only the last flush, at stop, writes
 * regardless of the minute, because there is no later one.
 */
import type { Sql } from "../db/sql.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log.js";
import type { KeyTable } from "./keys.js";
import type { SharedClock } from "./shared-clock.js";
import type { KeyUse } from "./shared-key-cache.js";

const MINUTE_MS = 60_000;
const MAX_ROWS_PER_STATEMENT = 1000;

/** Options of the usage writer. */
export interface KeyUsageOptions {
  readonly sql: Sql;
  readonly table: KeyTable;
  /** Uses since the last call, once per key; see `SharedKeyCacheWriter.takeUses`. */
  readonly takeUses: () => readonly KeyUse[];
  /** Clock that the uses were read from. */
  readonly clock: SharedClock;
  /** Wall clock, milliseconds since the epoch. */
  readonly wallMs: () => number;
  readonly logger: Logger;
  /** Most keys remembered while the database is down; beyond it uses are forgotten. Default 100000. */
  readonly maxPending?: number;
  /** Default one minute. */
  readonly flushIntervalMs?: number;
}

/** Collects and writes `last_used_at`. */
export class KeyUsage implements Component {
  readonly name: string;
  readonly #o: KeyUsageOptions;
  readonly #pending = new Map<string, number>();
  readonly #maxPending: number;
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> | null = null;
  #stopped = false;

  constructor(o: KeyUsageOptions) {
    this.name = `key-usage ${o.table}`;
    this.#o = o;
    this.#maxPending = o.maxPending ?? 100_000;
    this.#timer = setInterval(() => void this.flush(), o.flushIntervalMs ?? MINUTE_MS);
    this.#timer.unref();
  }

  /** Remember a use whose cache entry is about to go. */
  add([keyId, usedSecond]: KeyUse): void {
    const known = this.#pending.get(keyId);
    if (known === undefined && this.#pending.size >= this.#maxPending) return;
    if (known === undefined || known < usedSecond) this.#pending.set(keyId, usedSecond);
  }

  /** Write what was used since the last flush. Never rejects: what fails is tried again next time. */
  flush(): Promise<void> {
    this.#flushing ??= this.#write(MINUTE_MS).finally(() => {
      this.#flushing = null;
    });
    return this.#flushing;
  }

  /** Stops the timer and writes what is left. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#flushing;
    await this.#write(0);
  }

  async #write(sparingMs: number): Promise<void> {
    for (const use of this.#o.takeUses()) this.add(use);
    const all = [...this.#pending].toSorted(([a], [b]) => (a < b ? -1 : 1));
    try {
      for (let from = 0; from < all.length; from += MAX_ROWS_PER_STATEMENT) {
        const batch = all.slice(from, from + MAX_ROWS_PER_STATEMENT);
        await updateLastUsed(this.#o.sql, this.#o.table, this.#withWallTime(batch), sparingMs);
        for (const [keyId, second] of batch) {
          if (this.#pending.get(keyId) === second) this.#pending.delete(keyId);
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

async function updateLastUsed(
  sql: Sql,
  table: KeyTable,
  uses: readonly { keyId: string; usedAt: Date }[],
  sparingMs: number,
): Promise<void> {
  const keyIds = uses.map((use) => use.keyId).join(",");
  const times = uses.map((use) => use.usedAt.toISOString()).join(",");
  await sql`
    with used as (
      select u.key_id::uuid as key_id, u.used_at::timestamptz as used_at
      from unnest(string_to_array(${keyIds}, ','), string_to_array(${times}, ',')) as u (key_id, used_at)
    ), locked as (
      select k.key_id, used.used_at
      from ${sql(table)} k join used on used.key_id = k.key_id
      where k.last_used_at is null
         or used.used_at - k.last_used_at >= ${sparingMs} * interval '1 millisecond'
      for no key update of k skip locked
    )
    update ${sql(table)} k set last_used_at = greatest(k.last_used_at, locked.used_at)
    from locked where k.key_id = locked.key_id`;
}
