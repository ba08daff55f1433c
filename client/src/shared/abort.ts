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
  const releases = signals.map((signal) => onAbort(signal, () => controller.abort(signal.reason)));
  return {
    controller,
    release() {
      for (const release of releases) {
        release();
      }
    },
  };
}

interface Followers {
  readonly acts: Set<() => void>;
  /** What is on the signal. */
  readonly listener: () => void;
}

/** Of each signal. They share one listener: Node.js takes more than ten on a signal for a leak. */
const followers = new WeakMap<AbortSignal, Followers>();

/** Does something when a signal aborts. @returns takes it back */
function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) {
    act();
    return () => undefined;
  }
  const { acts, listener } = followers.get(signal) ?? firstOf(signal);
  acts.add(act);
  return () => {
    if (acts.delete(act) && acts.size === 0) {
      followers.delete(signal);
      signal.removeEventListener("abort", listener);
    }
  };
}

function firstOf(signal: AbortSignal): Followers {
  const acts = new Set<() => void>();
  const listener = (): void => {
    for (const act of acts) {
      act();
    }
  };
  const found = { acts, listener };
  followers.set(signal, found);
  signal.addEventListener("abort", listener, { once: true });
  return found;
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
