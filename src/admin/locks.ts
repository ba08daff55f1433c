/**
 * Advisory locks of the web server, held to the end of a transaction, across processes.
 *
 * Whether an audience exists is a fact about absent rows, which no row lock can hold. So every change that may create
 * an audience, or relies on it, locks its name: a claim and a new grant alone, mints under a grant together. Within one
 * transaction a screen is locked before the caller, and the caller or the group before the audience; never in the other
 * order, so there is no deadlock.
 */
import { createHash } from "node:crypto";

import type { TransactionSql } from "../db/sql.js";

function lockKey(kind: "audience" | "caller" | "group" | "screen", name: string): bigint {
  const digest = createHash("sha256").update(`telemetry-service ${kind}\0${name}`).digest();
  // Two names that share a key wait for each other needlessly, and nothing worse.
  return digest.readBigInt64BE(0);
}

/** Bounds per caller are counted by one transaction of a caller at a time. Waits. */
export async function lockCaller(tx: TransactionSql, caller: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(${lockKey("caller", caller)}::bigint)`;
}

/** For a claim: false, without waiting, when somebody else holds the audience in any way. */
export async function tryLockAudience(tx: TransactionSql, audience: string): Promise<boolean> {
  const [row] = await tx<{ locked: boolean }[]>`
    select pg_try_advisory_xact_lock(${lockKey("audience", audience)}::bigint) as locked`;
  return row?.locked === true;
}

/** For a new grant. Waits. */
export async function lockAudience(tx: TransactionSql, audience: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(${lockKey("audience", audience)}::bigint)`;
}

/** For a mint under a grant: together with others like it. Waits. */
export async function lockAudienceShared(tx: TransactionSql, audience: string): Promise<void> {
  await tx`select pg_advisory_xact_lock_shared(${lockKey("audience", audience)}::bigint)`;
}

/** For changes of a group's members, its deletion, and new grants to it. Waits. */
export async function lockGroup(tx: TransactionSql, group: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(${lockKey("group", group)}::bigint)`;
}

/** For a change of a screen, which may not be there yet. Waits. */
export async function lockScreen(tx: TransactionSql, name: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(${lockKey("screen", name)}::bigint)`;
}
