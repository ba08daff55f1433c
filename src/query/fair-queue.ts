/**
 * Places for queries, given out fairly: whoever has the fewest queries running is next, and among equals
 * whoever got a place the longest ago, so that one caller's thousand queries do not keep another's one waiting.
 */
import { ServiceError } from "../runtime/errors.js";

/** Options of {@link FairQueue}. */
export interface FairQueueOptions {
  /** Queries that run at a time. */
  readonly places: number;
  /** Queries that may wait; further ones are refused with OVERLOADED. */
  readonly maxWaiting: number;
}

/** Gives a place back; calling it again does nothing. */
export type Release = () => void;

interface Waiter {
  readonly give: (release: Release) => void;
}

interface Caller {
  running: number;
  /** When it got its last place: a number that grows. 0: not yet. */
  served: number;
  readonly waiting: Set<Waiter>;
}

/** With as many places as this, one caller leaves the last one to others. */
const placesToSpare = 4;

function isBefore(a: Caller, b: Caller): boolean {
  return a.running === b.running ? a.served < b.served : a.running < b.running;
}

/** A semaphore with a queue per caller. */
export class FairQueue {
  readonly #o: FairQueueOptions;
  readonly #callers = new Map<string, Caller>();
  #running = 0;
  #waiting = 0;
  #served = 0;

  constructor(o: FairQueueOptions) {
    this.#o = o;
  }

  /** Queries that hold a place. */
  get running(): number {
    return this.#running;
  }

  /** Queries that wait for one. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Waits for a place.
   * @throws ServiceError OVERLOADED when too many wait; the reason of `signal`, or CANCELLED, when it is aborted
   */
  acquire(name: string, signal: AbortSignal): Promise<Release> {
    return new Promise((resolve, reject) => {
      const caller: Caller = this.#callers.get(name) ?? {
        running: 0,
        served: 0,
        waiting: new Set(),
      };
      const aborted = (): ServiceError =>
        signal.reason instanceof ServiceError ? signal.reason : new ServiceError("CANCELLED");
      if (signal.aborted) {
        reject(aborted());
        return;
      }
      if (this.#waiting >= this.#o.maxWaiting) {
        reject(new ServiceError("OVERLOADED", undefined, { retryAfterSeconds: 1 }));
        return;
      }
      this.#callers.set(name, caller);
      const onAbort = (): void => {
        if (!caller.waiting.delete(waiter)) return;
        this.#waiting--;
        this.#forget(name, caller);
        reject(aborted());
      };
      const waiter: Waiter = {
        give: (release) => {
          signal.removeEventListener("abort", onAbort);
          resolve(release);
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      caller.waiting.add(waiter);
      this.#waiting++;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    for (;;) {
      const next = this.#next();
      if (next === null) return;
      const { name, caller, waiter } = next;
      caller.waiting.delete(waiter);
      caller.running++;
      this.#waiting--;
      this.#running++;
      caller.served = ++this.#served;
      let held = true;
      waiter.give(() => {
        if (!held) return;
        held = false;
        caller.running--;
        this.#running--;
        this.#forget(name, caller);
        this.#dispatch();
      });
    }
  }

  #next(): { readonly name: string; readonly caller: Caller; readonly waiter: Waiter } | null {
    const { places } = this.#o;
    if (this.#running >= places) return null;
    const last = places >= placesToSpare && this.#running === places - 1;
    let best: { name: string; caller: Caller; waiter: Waiter } | null = null;
    for (const [name, caller] of this.#callers) {
      const [waiter] = caller.waiting;
      if (waiter === undefined || (last && caller.running > 0)) continue;
      if (best === null || isBefore(caller, best.caller)) best = { name, caller, waiter };
    }
    return best;
  }

  #forget(name: string, caller: Caller): void {
    if (caller.running === 0 && caller.waiting.size === 0 && this.#callers.get(name) === caller) {
      this.#callers.delete(name);
    }
  }
}
