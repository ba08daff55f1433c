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

/** The machine's own clock. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  nowUnixNano: () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)) * 1000n,
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
