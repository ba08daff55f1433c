/** Waiting for locks of others: a session that forgot to commit must not hold up whoever has more to do. */
import type { Sql, TransactionSql } from "./sql.js";

/** SQLSTATE of a lock that was waited for in vain. */
export const lockNotAvailable = "55P03";

/** How long a task in the background waits for rows that others have locked. */
export const maxLockWait = "30s";

/** A transaction that waits so long for each lock, or fails with {@link lockNotAvailable}. */
export async function withLockWait<T>(
  sql: Sql,
  wait: string,
  work: (transaction: TransactionSql) => Promise<T>,
): Promise<T> {
  return (await sql.begin(async (transaction) => {
    await transaction`select set_config('lock_timeout', ${wait}, true)`;
    return await work(transaction);
  })) as T;
}
