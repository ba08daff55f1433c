/**
 * Who may be on one of Node's I/O threads. DuckDB's asynchronous calls hold one each until they return,
 * there are four of them (libuv's default), and everything else in the process needs them too.
 */

/** Options of {@link createLanes}. */
export interface LanesOptions {
  /** A call that has not returned after so many milliseconds lets the next one in beside it. */
  readonly patienceMs: number;
  /** How many such slow calls there may be; with as many, the next call waits. */
  readonly maxSlow: number;
}

/** Calls in the order they came: one at a time, and beside it those that turned out to be slow. */
export interface Lanes {
  /** Runs a call when its turn has come; settles as it does. */
  readonly enter: <T>(call: () => Promise<T>) => Promise<T>;
  /** Calls in progress. */
  readonly busy: number;
}

/** Creates lanes for one thread. */
export function createLanes({ patienceMs, maxSlow }: LanesOptions): Lanes {
  const waiting: (() => void)[] = [];
  let current: { slow: boolean } | null = null;
  let slow = 0;
  let timer: NodeJS.Timeout | null = null;

  const next = (): void => {
    if (current !== null) return;
    const start = waiting.shift();
    if (start !== undefined) start();
    watch();
  };
  /** The current call is looked at only when someone waits behind it. */
  const watch = (): void => {
    if (timer !== null || current === null || waiting.length === 0 || slow >= maxSlow) return;
    const watched = current;
    timer = setTimeout(() => {
      timer = null;
      if (current === watched && slow < maxSlow) {
        watched.slow = true;
        slow++;
        current = null;
        next();
      } else watch();
    }, patienceMs);
  };
  const run = async <T>(call: () => Promise<T>): Promise<T> => {
    const mine = { slow: false };
    current = mine;
    try {
      return await call();
    } finally {
      if (mine.slow) slow--;
      else current = null;
      next();
      watch();
    }
  };
  return {
    enter: (call) =>
      new Promise((resolve, reject) => {
        waiting.push(() => {
          run(call).then(resolve, reject);
        });
        next();
        watch();
      }),
    get busy() {
      return slow + (current === null ? 0 : 1);
    },
  };
}
