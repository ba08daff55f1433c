/** Signals that end with whichever of several comes first. */

/**
 * A controller that is aborted with the first of several signals, for its reason, until it is released. Nothing
 * is left on them then, so that one may live as long as the process; `AbortSignal.any` leaves its entry on each.
 */
export function followSignals(signals: readonly AbortSignal[]): {
  readonly controller: AbortController;
  readonly release: () => void;
} {
  const controller = new AbortController();
  const listeners = signals.map((signal) => {
    const abort = (): void => {
      controller.abort(signal.reason);
    };
    if (signal.aborted) {
      abort();
    } else {
      signal.addEventListener("abort", abort, { once: true });
    }
    return { signal, abort };
  });
  return {
    controller,
    release() {
      for (const { signal, abort } of listeners) {
        signal.removeEventListener("abort", abort);
      }
    },
  };
}

/** Runs something under a signal that is aborted with the first of several, as {@link followSignals}. */
export async function underSignals<T>(
  signals: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { controller, release } = followSignals(signals);
  try {
    return await work(controller.signal);
  } finally {
    release();
  }
}

/** The result of work that may go on without the caller: once the signal gives it up, `givenUp` makes the error. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, givenUp: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(givenUp());
    if (signal.aborted) {
      abort();
    } else {
      signal.addEventListener("abort", abort, { once: true });
    }
    void work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
