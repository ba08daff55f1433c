/**
 * Transactions whose outcome is known when the caller is answered: a change that was refused with 503
 * was not made, and one that was made is answered as such.
 *
 * A transaction is `working` until its last statement has answered; a failure then is no change, because
 * COMMIT was never sent, and Postgres undoes what a connection leaves behind. It is `committing` until
 * the answer to COMMIT. A connection that breaks there, or a deadline that passes there, leaves it
 * `in doubt`, and Postgres is asked over another connection what became of it (`pg_xact_status`):
 *
 *   in doubt, committed      -> the result, as if nothing had happened
 *   in doubt, aborted        -> UNAVAILABLE: no change
 *   in doubt, in progress    -> its backend is ended, and Postgres is asked again
 *   in doubt, no answer      -> UNAVAILABLE that says that the change may have been made
 *
 * Only the last is inexact: the database went away between COMMIT and its answer and did not come back
 * within `settleMs`.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { isConnectionError, type Sql, type TransactionSql } from "./sql.js";
import { ServiceError } from "../runtime/errors.js";
import type { DeadlineSql } from "./deadline-sql.js";
import {
  endTransaction,
  identifyTransaction,
  outcomeOfTransaction,
  type TransactionIdentity,
  type TransactionOutcome,
} from "./transaction-outcome.js";

/** Statements and transactions of one request, all of them within its deadline. */
export interface CallSql {
  /** Runs statements that change nothing. */
  readonly read: <T>(statements: (sql: Sql) => PromiseLike<T>) => Promise<T>;
  /**
   * Runs a transaction; see the head of the file.
   * @throws what `work` throws, the error of a statement, or ServiceError UNAVAILABLE.
   */
  readonly transaction: <T>(work: (tx: TransactionSql) => Promise<T>) => Promise<T>;
}

/** Options of {@link callSql}. */
interface CallSqlOptions {
  readonly database: Pick<DeadlineSql, "run">;
  /** Within this, from now on, everything is done or given up. */
  readonly deadlineMs: number;
  /** How long a transaction in doubt is asked about, beyond the deadline. */
  readonly settleMs: number;
}

const retryAfterSeconds = 1;
const pollMs = 50;

/** The database of one request. */
export function callSql(o: CallSqlOptions): CallSql {
  const startMs = performance.now();
  const leftMs = (): number => {
    const left = o.deadlineMs - (performance.now() - startMs);
    // A call that waited until now has done nothing yet.
    if (left <= 0) {
      throw new ServiceError("UNAVAILABLE", noTime, { retryAfterSeconds });
    }
    return left;
  };
  return {
    read: async (statements) => await o.database.run(statements, leftMs()),
    transaction: async (work) => await settled(o, work, leftMs()),
  };
}

const noTime = "the database is too slow now; nothing was changed, try again";

async function settled<T>(
  { database, settleMs }: CallSqlOptions,
  work: (tx: TransactionSql) => Promise<T>,
  timeoutMs: number,
): Promise<T> {
  const state: {
    identity: TransactionIdentity | null;
    done: { result: T } | null;
    abandoned: boolean;
  } = {
    identity: null,
    done: null,
    abandoned: false,
  };
  try {
    await database.run(
      (sql) =>
        sql.begin(async (tx) => {
          // Sent together with the first statement of the work, so it costs no round trip.
          const [identity, result] = await Promise.all([identifyTransaction(tx), work(tx)]);
          // Nobody will ask about it any more, so it must not be committed.
          if (state.abandoned) {
            throw new Error("the transaction was given up");
          }
          state.identity = identity;
          state.done = { result };
        }),
      timeoutMs,
    );
  } catch (error) {
    const { identity, done } = state;
    state.abandoned = true;
    if (identity === null || done === null || !isConnectionError(error)) {
      throw error;
    }
    const outcome = await settle(database, identity, settleMs);
    if (outcome === "committed") {
      return done.result;
    }
    const message =
      outcome === "aborted"
        ? noTime
        : "the database went away while it saved the change, which may have been made; look at the list before you try again";
    throw new ServiceError("UNAVAILABLE", message, { cause: error, retryAfterSeconds });
  }
  if (state.done === null) {
    throw new Error("a transaction ended without its result");
  }
  return (state.done as { readonly result: T }).result;
}

/** What became of a transaction; null or `in progress` when that cannot be learned in time. */
async function settle(
  database: Pick<DeadlineSql, "run">,
  transaction: TransactionIdentity,
  settleMs: number,
): Promise<TransactionOutcome> {
  const endMs = performance.now() + settleMs;
  let outcome: TransactionOutcome = "in progress";
  for (let leftMs = settleMs; leftMs > 0; leftMs = endMs - performance.now()) {
    try {
      outcome = await database.run((sql) => ask(sql, transaction), leftMs);
      if (outcome !== "in progress") {
        return outcome;
      }
    } catch (error) {
      if (!isConnectionError(error)) {
        throw error;
      }
    }
    await sleep(Math.min(pollMs, leftMs));
  }
  return outcome;
}

async function ask(sql: Sql, transaction: TransactionIdentity): Promise<TransactionOutcome> {
  const outcome = await outcomeOfTransaction(sql, transaction);
  if (outcome === "in progress") {
    await endTransaction(sql, transaction);
  }
  return outcome;
}
