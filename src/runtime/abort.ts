/** Signals that end with whichever of several comes first. */

/**
 * Runs something under a signal that is aborted with the first of several, for its reason. Nothing is left on
 * them afterwards, so that one may live as long as the process; `AbortSignal.any` leaves its entry on each.
 */
export async function underSignals<T>(
  signals: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const listeners = signals.map((signal) => {
    const abort = (): void => {
      controller.abort(signal.reason);
    };
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return { signal, abort };
  });
  try {
    return await work(controller.signal);
  } finally {
    for (const { signal, abort } of listeners) signal.removeEventListener("abort", abort);
  }
}
