/**
 * Whether the clock can be trusted to remove what is old. All ages are counted on the database's clock. Nothing goes
 * - while that and this machine's differ by more than a minute;
 * - for an hour after the database's clock has jumped: it went back, or it went on by more than an hour since somebody
 *   last looked. After a long stop that is what a clock that was set ahead looks like, so the hour passes then, too.
 *
 * Merges and erasures may take longer than that, so somebody looks all the time beside them ({@link startClockWatch}).
 *
 * What was seen is kept in `lake_state`, so that neither a restart nor another leader makes the hour shorter.
 */
import { randomUUID } from "node:crypto";

import type { Sql } from "../../db/sql.js";
import type { Clock } from "../../runtime/clock.js";
import type { Scope } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { Periodic } from "../../runtime/periodic.js";
import type { ObjectStore } from "../store/object-store.js";
import { identityDirectory } from "./lake-identity.js";

/** How much a clock may be off, in milliseconds. */
interface ClockLimits {
  /** Between the database and this machine. */
  readonly differenceMs: number;
  /** From one look to the next. */
  readonly jumpMs: number;
  /** How long nothing is removed after a jump. */
  readonly holdMs: number;
}

/** See the head of the file. */
export const clockLimits: ClockLimits = { differenceMs: 60_000, jumpMs: 3_600_000, holdMs: 3_600_000 };

interface Seen {
  readonly nowMs: number;
  readonly seenMs: number | null;
  readonly holdMs: number | null;
}

/** Looks at the clocks and notes it. @returns why nothing may be removed for its age, in a sentence, or null */
export function clockObstacle(
  sql: Sql,
  machineMs: () => number,
  limits: ClockLimits = clockLimits,
): Promise<string | null> {
  return sql.begin(async (tx) => {
    const [state] = await tx<Seen[]>`
      select (extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs",
        (extract(epoch from seen_at) * 1000)::float8 as "seenMs",
        (extract(epoch from hold_until) * 1000)::float8 as "holdMs"
      from lake_state for update`;
    if (state === undefined) {
      return "the table lake_state has lost its row";
    }
    const differenceMs = Math.abs(state.nowMs - machineMs());
    const { nowMs, seenMs } = state;
    const jumped = seenMs === null || nowMs - seenMs > limits.jumpMs || seenMs - nowMs > limits.differenceMs;
    const holdMs = jumped ? nowMs + limits.holdMs : state.holdMs;
    await tx`update lake_state set seen_at = to_timestamp(${nowMs / 1000}::float8),
      hold_until = to_timestamp(${holdMs === null ? null : holdMs / 1000}::float8)`;
    if (differenceMs > limits.differenceMs) {
      return `the clocks of the database and of this machine differ by ${Math.round(differenceMs / 1000)} s`;
    }
    return holdMs !== null && nowMs < holdMs
      ? `the database is new, its clock has jumped, or nobody looked at it for over an hour; waiting until ${new Date(holdMs).toISOString()}`
      : null;
  });
}

/**
 * Whether the store's clock, which says how old an object is, is behind this machine's: objects that are about to be
 * published would look like leftovers. One that is ahead only keeps leftovers longer.
 * @returns why orphans must stay, in a sentence, or null
 */
export async function storeClockObstacle(store: ObjectStore, machineMs: () => number): Promise<string | null> {
  // Who looks for marks of databases passes over names that begin with a dot.
  const own = `${identityDirectory}/.clock-${randomUUID()}`;
  const beforeMs = machineMs();
  try {
    await store.put(own, [Buffer.from("clock\n")]);
    for await (const { path, modifiedMs } of store.list(identityDirectory)) {
      if (path === own) {
        const behindMs = beforeMs - modifiedMs;
        return behindMs > clockLimits.differenceMs
          ? `the clock of the object store is ${Math.round(behindMs / 1000)} s behind that of this machine`
          : null;
      }
    }
    return "the object store does not list an object that was just written";
  } finally {
    await store.remove(own);
  }
}

/** Looks at once and four times within what counts as a jump, until `scope` stops, whatever else maintenance is at. */
export function startClockWatch(scope: Scope, sql: Sql, clock: Clock, logger: Logger, limits = clockLimits): void {
  const look = async (): Promise<void> => {
    try {
      await clockObstacle(sql, () => clock.nowMs(), limits);
    } catch (error) {
      logger.warn({ err: error }, "the clock of the database cannot be read; trying again later");
    }
  };
  const looks = new Periodic(look, limits.jumpMs / 4);
  void looks.run();
  scope.defer("watch of the clock", () => looks.stop());
}
