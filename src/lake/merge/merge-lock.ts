/**
 * Who merges: advisory locks of Postgres, held by the session that publishes.
 *
 * **One leader per table and audience**: a merge by maintenance holds the lock of its group alone, and that of the table
 * together with merges of other audiences. Whatever concerns a whole table (a rewrite, a merge by hand) holds the table's
 * alone. A process that dies loses its session, and with it its locks.
 *
 * **A fence**: the transaction of a step begins by taking its locks once more, until it ends. A session that has them gets
 * them; one that has lost them in between (its connection broke) gets them only while nobody else leads, and then its
 * step is the only one. Beside that a step publishes only over partitions that are still there.
 */
import { lockNotAvailable } from "../../db/lock-wait.js";
import { isConnectionError, type Sql, sqlState } from "../../db/sql.js";
import { atMost } from "../../runtime/at-most.js";
import { type TableName, tables } from "../tables/tables.js";

/** What is merged under a lock: a table, or one audience of it. */
export type MergeScope =
  | { readonly viewSet: TableName; readonly audience?: undefined }
  | { readonly viewSet: TableName; readonly audience: string | null };

/** First key of the tables' locks, "merg" in ASCII; the second one is the table's number. */
const tableKey = 0x6d657267;
/** First key of the groups' locks, "mg" in ASCII and the table's number; the second one is of the audience. */
const groupKey = 0x6d670000;

const numberOf = (viewSet: TableName): number => Object.keys(tables).indexOf(viewSet);

/**
 * Takes the lock for the session of `connection` (a reserved one), without waiting.
 * @returns false when another session merges there
 */
export async function tryLockMerge(connection: Sql, scope: MergeScope): Promise<boolean> {
  const { viewSet, audience } = scope;
  if (audience === undefined) {
    return isTrue(await connection`select pg_try_advisory_lock(${tableKey}, ${numberOf(viewSet)}) as taken`);
  }
  if (!isTrue(await connection`select pg_try_advisory_lock_shared(${tableKey}, ${numberOf(viewSet)}) as taken`)) {
    return false;
  }
  const taken = await connection`
    select pg_try_advisory_lock(${groupKey + numberOf(viewSet)}, hashtext(${audience ?? ""}::text)) as taken`;
  if (isTrue(taken)) {
    return true;
  }
  await connection`select pg_advisory_unlock_shared(${tableKey}, ${numberOf(viewSet)})`;
  return false;
}

/**
 * Takes the lock of a table, waiting for at most `waitMs` for those who merge in it; meanwhile nobody begins to.
 * @returns false when they have not ended by then
 */
export async function waitForMergeLock(connection: Sql, viewSet: TableName, waitMs: number): Promise<boolean> {
  await connection`select set_config('lock_timeout', ${String(waitMs)}, false)`;
  const taken = await connection`select pg_advisory_lock(${tableKey}, ${numberOf(viewSet)})`.then(
    () => true,
    (error: unknown) => {
      if (sqlState(error) !== lockNotAvailable) {
        throw error;
      }
      return false;
    },
  );
  await connection`select set_config('lock_timeout', '0', false)`;
  return taken;
}

/** A live session answers at once; what is asked of one that is gone is sometimes never answered. */
const unlockWaitMs = 5000;

/** Gives the lock back; a session that is gone has given it back already. */
export async function unlockMerge(connection: Sql, { viewSet, audience }: MergeScope): Promise<void> {
  const unlocked =
    audience === undefined
      ? connection`select pg_advisory_unlock(${tableKey}, ${numberOf(viewSet)})`
      : connection`select pg_advisory_unlock(${groupKey + numberOf(viewSet)}, hashtext(${audience ?? ""}::text)),
          pg_advisory_unlock_shared(${tableKey}, ${numberOf(viewSet)})`;
  try {
    await atMost(unlocked.execute(), unlockWaitMs);
  } catch (error) {
    if (!isConnectionError(error)) {
      throw error;
    }
  }
}

/** The fence: whether nobody but the session of `transaction` holds the lock, until it commits. */
export async function fenceMerge(transaction: Sql, { viewSet, audience }: MergeScope): Promise<boolean> {
  return isTrue(
    audience === undefined
      ? await transaction`select pg_try_advisory_xact_lock(${tableKey}, ${numberOf(viewSet)}) as taken`
      : await transaction`select pg_try_advisory_xact_lock_shared(${tableKey}, ${numberOf(viewSet)})
          and pg_try_advisory_xact_lock(${groupKey + numberOf(viewSet)}, hashtext(${audience ?? ""}::text)) as taken`,
  );
}

function isTrue(rows: readonly { readonly [column: string]: unknown }[]): boolean {
  return rows[0]?.["taken"] === true;
}
