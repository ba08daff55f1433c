/** Waiting with a bound. */

/**
 * Waits for `work`, but no longer than the given milliseconds; rejects when it does.
 * @param work ends with the waiting: a promise that outlives many waits would keep what each has left on it
 * @returns the value, or null when time was up
 */
export async function atMost<T>(work: Promise<T>, ms: number): Promise<{ readonly value: T } | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, ms, null);
  });
  try {
    return await Promise.race([work.then((value) => ({ value })), late]);
  } finally {
    clearTimeout(timer);
  }
}
