import type { Clock } from "../../src/runtime/clock.js";

/** A clock that moves only when told to. */
export interface ManualClock extends Clock {
  /** Moves time forward by `ms` and runs what becomes due, in order of due time. */
  advance(ms: number): void;
}

interface ManualTimer {
  readonly dueMs: number;
  readonly order: number;
  readonly fn: () => void;
}

/** Creates a {@link ManualClock} that starts at `startMs` (milliseconds since the Unix epoch, default 0). */
export function createManualClock(startMs = 0): ManualClock {
  let nowMs = startMs;
  let nextOrder = 0;
  const timers = new Set<ManualTimer>();
  const nextDue = (untilMs: number): ManualTimer | undefined => {
    let first: ManualTimer | undefined;
    for (const t of timers) {
      if (t.dueMs > untilMs) {
        continue;
      }
      if (first === undefined || t.dueMs < first.dueMs || (t.dueMs === first.dueMs && t.order < first.order)) {
        first = t;
      }
    }
    return first;
  };
  return {
    nowMs: () => nowMs,
    nowUnixNano: () => BigInt(Math.round(nowMs * 1000)) * 1000n,
    monotonicMs: () => nowMs - startMs,
    schedule(fn, delayMs) {
      const timer: ManualTimer = { dueMs: nowMs + Math.max(0, delayMs), order: nextOrder++, fn };
      timers.add(timer);
      return {
        cancel: () => {
          timers.delete(timer);
        },
      };
    },
    advance(ms) {
      const endMs = nowMs + ms;
      for (let t = nextDue(endMs); t !== undefined; t = nextDue(endMs)) {
        timers.delete(t);
        nowMs = t.dueMs;
        t.fn();
      }
      nowMs = endMs;
    },
  };
}
