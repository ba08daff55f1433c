/**
 * How long objects may wait for their publication. After an hour the sweep takes what nothing names for a leftover
 * (sweep.ts), so a process that was stopped for longer and goes on must not publish what may be gone: queries would fail
 * over it, and what it replaced would be lost.
 */
import type { Clock } from "../runtime/clock.js";
import { ServiceError } from "../runtime/errors.js";

const publishWithinMs = 1_800_000;

/**
 * Counts from now on, by whichever clock has gone further: the monotonic one stands still while a machine sleeps.
 * @returns a function that throws ServiceError UNAVAILABLE when the time is over, to be called right before publishing
 */
export function publishDeadline(clock: Clock): () => void {
  const [monotonicMs, nowMs] = [clock.monotonicMs(), clock.nowMs()];
  return () => {
    const waitedMs = Math.max(clock.monotonicMs() - monotonicMs, clock.nowMs() - nowMs);
    if (waitedMs > publishWithinMs) {
      throw new ServiceError(
        "UNAVAILABLE",
        `Objects have waited ${Math.round(waitedMs / 1000)} s to be published and may be gone, so they were not; try again.`,
      );
    }
  };
}
