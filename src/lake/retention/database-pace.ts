/**
 * Whether the database's clock goes as fast as this process's: ages are counted on it. Keeps nothing in the database, for
 * logins that may write nothing there.
 */
import type { Sql } from "../../db/sql.js";
import type { Clock } from "../../runtime/clock.js";

/** How much further it may have gone from one look to the next, in milliseconds. */
const toleratedMs = 60_000;

/** Looks at the database's clock. */
export class DatabasePace {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #holdMs: number;
  #last: { readonly databaseMs: number; readonly monotonicMs: number } | null = null;
  #heldUntilMs = Number.NEGATIVE_INFINITY;

  /** @param holdMs for how long the clock is not trusted after a jump */
  constructor(clock: Pick<Clock, "monotonicMs">, holdMs: number) {
    this.#clock = clock;
    this.#holdMs = holdMs;
  }

  /** @returns whether it has gone ahead of its pace since the last look, or within the time to hold before */
  async jumped(sql: Sql): Promise<boolean> {
    const [row] = await sql<{ databaseMs: number }[]>`
      select (extract(epoch from clock_timestamp()) * 1000)::float8 as "databaseMs"`;
    const { databaseMs } = row ?? { databaseMs: Number.NaN };
    const monotonicMs = this.#clock.monotonicMs();
    const last = this.#last;
    this.#last = { databaseMs, monotonicMs };
    if (last !== null && databaseMs - last.databaseMs > monotonicMs - last.monotonicMs + toleratedMs) {
      this.#heldUntilMs = monotonicMs + this.#holdMs;
    }
    return monotonicMs < this.#heldUntilMs;
  }
}
