/** What became of a transaction whose COMMIT was never answered: Postgres knows it by its id. */
import type { Sql, TransactionSql } from "./sql.js";

/** A transaction, to ask about it over another connection. */
export interface TransactionIdentity {
  /** `xid8` in decimal digits. */
  readonly id: string;
  /** Of the backend that runs it. */
  readonly pid: number;
}

/** Null when Postgres no longer knows, because it was so long ago. */
export type TransactionOutcome = "committed" | "aborted" | "in progress" | null;

/** Gives the transaction an id; to be sent with its first statement, so that it costs no round trip. */
export async function identifyTransaction(tx: TransactionSql): Promise<TransactionIdentity> {
  const [row] = await tx<TransactionIdentity[]>`
    select pg_current_xact_id()::text as id, pg_backend_pid() as pid`;
  if (row === undefined) {
    throw new Error("a transaction has no id");
  }
  return row;
}

/** Asks what became of it; over a connection that is not the transaction's own. */
export async function outcomeOfTransaction(sql: Sql, { id }: TransactionIdentity): Promise<TransactionOutcome> {
  const [row] = await sql<{ outcome: TransactionOutcome }[]>`
    select pg_xact_status(${id}::text::xid8) as outcome`;
  return row?.outcome ?? null;
}

/** Ends its backend, if that is of our own role and still at that transaction. */
export async function endTransaction(sql: Sql, { id, pid }: TransactionIdentity): Promise<void> {
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid = ${pid} and backend_xid = ${id}::text::xid8::xid`;
}
