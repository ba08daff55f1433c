/** Time as an argument: code that waits or stamps takes a {@link Clock}, so that a test can move it. */

/** A pending call of {@link Clock.schedule}. */
export interface Timer {
  /** Prevents the call if it has not happened; harmless afterwards. */
  cancel(): void;
}

/** Wall time, monotonic time and timers. */
export interface Clock {
  /** Wall time in milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Wall time in nanoseconds since the Unix epoch, as precise as the platform gives it. */
  nowUnixNano(): bigint;
  /** Milliseconds since an arbitrary point; never goes backwards. For durations. */
  monotonicMs(): number;
  /** Calls `fn` once after `delayMs`. A pending timer does not keep the process alive. */
  schedule(fn: () => void, delayMs: number): Timer;
}

/** What `performance.now()` counts from, by the wall clock. */
let originMs = performance.timeOrigin;
/** `Date.now()` may differ by this from what was counted since: it has whole milliseconds, and is read a moment later. */
const agreeMs = 100;

/** The machine's own clock. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  nowUnixNano: () => {
    const monotonicMs = performance.now();
    const setByMs = Date.now() - (originMs + monotonicMs);
    // The clock was set, or the machine slept: counting goes on from what the clock says now.
    if (Math.abs(setByMs) > agreeMs) {
      originMs += setByMs;
    }
    return BigInt(Math.round((originMs + monotonicMs) * 1000)) * 1000n;
  },
  monotonicMs: () => performance.now(),
  schedule(fn, delayMs) {
    const handle = setTimeout(fn, delayMs);
    handle.unref();
    return {
      cancel: () => {
        clearTimeout(handle);
      },
    };
  },
};
