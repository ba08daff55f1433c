/**
 * Statements with a deadline. The driver has none of its own: a statement on a connection whose peer
 * vanished without a word (a failover, a dropped route) waits a quarter of an hour until TCP gives up,
 * and later statements queue behind it.
 *
 * A statement over its deadline is abandoned, not cancelled: the driver's cancel leaves a pool unusable
 * when the connection is still being made, and drops the errors of the cancel request itself. The
 * pool is then replaced, where a way to open another was given, so that the next statement goes
 * over a new connection; the old one is closed with what hangs in it.
 */
import type { Sql } from "./sql.js";
import { atMost } from "../runtime/at-most.js";
import type { Component } from "../runtime/lifecycle.js";

/** Options of {@link DeadlineSql}. */
interface DeadlineSqlOptions {
  /** The pool to begin with; not closed here. */
  readonly sql: Sql;
  /** Opens another pool like it, which is closed here. Without it the first pool is used to the end. */
  readonly reopen?: (() => Sql) | undefined;
  /** Of a statement that does not say otherwise. */
  readonly timeoutMs: number;
}

/** See the head of the file. */
export class DeadlineSql implements Component {
  readonly name = "deadline-sql";
  readonly #timeoutMs: number;
  readonly #reopen: (() => Sql) | undefined;
  #current: Sql;
  #owned: Sql | null = null;

  constructor(o: DeadlineSqlOptions) {
    this.#current = o.sql;
    this.#reopen = o.reopen;
    this.#timeoutMs = o.timeoutMs;
  }

  /**
   * Run one statement.
   * @param timeoutMs default: that of the options.
   * @throws the statement's error, or an Error that says that there was no answer in time.
   */
  async run<T>(statement: (sql: Sql) => PromiseLike<T>, timeoutMs = this.#timeoutMs): Promise<T> {
    const sql = this.#current;
    const answer = await atMost(Promise.resolve(statement(sql)), timeoutMs);
    if (answer !== null) {
      return answer.value;
    }
    // Nobody waits for the statement any longer, whatever becomes of it.
    if (sql === this.#current) {
      this.#replacePool();
    }
    throw noAnswer(timeoutMs);
  }

  /** Closes the pool that was opened here, if any. */
  async stop(): Promise<void> {
    const owned = this.#owned;
    this.#owned = null;
    await owned?.end({ timeout: 1 });
  }

  #replacePool(): void {
    if (this.#reopen === undefined) {
      return;
    }
    const broken = this.#owned;
    this.#owned = this.#reopen();
    this.#current = this.#owned;
    void broken?.end({ timeout: 0 });
  }
}

/** Counts as a connection error (db/sql.ts). */
function noAnswer(timeoutMs: number): Error {
  return Object.assign(new Error(`no answer within ${timeoutMs} ms`), { code: "ETIMEDOUT" });
}
