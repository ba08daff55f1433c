/** The clock of the shared caches. */

/** Milliseconds on a monotonic line that every thread of the process shares. */
export type SharedClock = () => number;

/**
 * `performance.now()` counts from each thread's own start, so instants of two threads do not compare; `process.hrtime`
 * does, but costs twice as much. Both read the same steady clock, so one constant per thread turns the one into the
 * other. Steps of the wall clock change neither: no correction of the time of day ever lengthens a TTL.
 */
export function createSharedClock(): SharedClock {
  const [seconds, nanos] = process.hrtime();
  const offsetMs = seconds * 1000 + nanos / 1e6 - performance.now();
  return () => performance.now() + offsetMs;
}
