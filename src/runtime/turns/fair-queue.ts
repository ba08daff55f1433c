/**
 * Places for queries, and for calls of the administration, given out fairly: the caller with the fewest running ones is
 * next, and among equals the one that came, or got a place, the longest ago, so that a thousand of one caller do not delay
 * one of another. While another caller has asked within a minute, nobody gets more than half of the places: on few
 * processors, what all the others run delays a query that has a place, too. A query whose reader stalls gives up its place
 * when somebody who waits may have it.
 */
import { followSignals } from "telemetry-service-client/shared/abort";
import { type Clock, systemClock, type Timer } from "../clock.js";
import { onAbort } from "../aborts.js";
import { abortReason, ServiceError } from "../errors.js";

/** Options of {@link FairQueue}. */
interface FairQueueOptions {
  /** Queries that run at a time. */
  readonly places: number;
  /** Queries that may wait; beyond them the newest of the caller with the most is refused with OVERLOADED. */
  readonly maxWaiting: number;
  /**
   * A reader that has taken nothing for so long gives its place up to one who waits for it, in milliseconds. Default
   * 30,000.
   */
  readonly stalledMs?: number;
  /** With as many places as this, one caller leaves the last one to others, also where none has asked. Default 4. */
  readonly placesToSpare?: number;
  readonly clock?: Clock;
}

/** A place that somebody has. */
export interface Place {
  /** Aborted when the place is taken away, and with the signal that it was asked for with. */
  readonly signal: AbortSignal;
  /** Told that something is ready for the reader. */
  offered(): void;
  /** Told that the reader has taken it. */
  taken(): void;
  /** Gives the place back; calling it again does nothing. */
  release(): void;
}

interface Waiter {
  readonly signal: AbortSignal;
  readonly give: (place: Place) => void;
  readonly refuse: (error: ServiceError) => void;
}

interface Held {
  /** Whose place it is. */
  readonly name: string;
  readonly controller: AbortController;
  /** Since when something waits for the reader; null: nothing does. */
  offeredMs: number | null;
}

interface CallerQueue {
  running: number;
  /** The number of the place that it got last, counted over all callers. */
  turn: number;
  readonly waiting: Set<Waiter>;
}

interface Seen {
  readonly name: string;
  readonly atMs: number;
}

const checkEveryMs = 1000;
/** A caller counts for so long after he asked. */
const aboutMs = 60_000;

function isBefore(a: CallerQueue, b: CallerQueue): boolean {
  return a.running === b.running ? a.turn < b.turn : a.running < b.running;
}

/** A semaphore with a queue per caller. */
export class FairQueue {
  readonly #o: FairQueueOptions;
  readonly #callers = new Map<string, CallerQueue>();
  readonly #held = new Set<Held>();
  readonly #clock: Clock;
  readonly #stalledMs: number;
  readonly #placesToSpare: number;
  #check: Timer | null = null;
  /** Who asked last, and who of the others did. */
  #seen: readonly Seen[] = [];
  #running = 0;
  #waiting = 0;
  #given = 0;

  constructor(o: FairQueueOptions) {
    this.#o = o;
    this.#clock = o.clock ?? systemClock;
    this.#stalledMs = o.stalledMs ?? 30_000;
    this.#placesToSpare = o.placesToSpare ?? 4;
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
   * @throws ServiceError OVERLOADED when too many wait and nobody has more of them, also after a wait; the reason of
   *   `signal`, or CANCELLED, when it is aborted
   */
  acquire(name: string, signal: AbortSignal): Promise<Place> {
    return new Promise((resolve, reject) => {
      const caller: CallerQueue = this.#callers.get(name) ?? {
        running: 0,
        // Who comes, or comes back, goes before the one who was served last, and behind all who have waited since.
        turn: this.#given - 0.5,
        waiting: new Set(),
      };
      if (signal.aborted) {
        reject(abortReason(signal));
        return;
      }
      this.#see(name);
      this.#callers.set(name, caller);
      const refuse = (error: ServiceError): void => {
        leave();
        if (!caller.waiting.delete(waiter)) {
          return;
        }
        this.#waiting--;
        this.#forget(name, caller);
        reject(error);
      };
      const waiter: Waiter = {
        signal,
        give: (place) => {
          leave();
          resolve(place);
        },
        refuse,
      };
      const leave = onAbort(signal, refuse);
      caller.waiting.add(waiter);
      this.#waiting++;
      // First, because the newcomer may have a place that none of those who wait may.
      this.#dispatch();
      if (this.#waiting > this.#o.maxWaiting) {
        this.#refuseOne(caller);
      }
    });
  }

  /** Refuses the newest of the caller with the most that wait: one keeps out no others. Of equals the newcomer's. */
  #refuseOne(newcomer: CallerQueue): void {
    let most = newcomer;
    for (const caller of this.#callers.values()) {
      if (caller.waiting.size > most.waiting.size) {
        most = caller;
      }
    }
    [...most.waiting].at(-1)?.refuse(new ServiceError("OVERLOADED", undefined, { retryAfterSeconds: 1 }));
  }

  #see(name: string): void {
    const other = this.#seen.find((seen) => seen.name !== name);
    this.#seen = [{ name, atMs: this.#clock.monotonicMs() }, ...(other === undefined ? [] : [other])];
  }

  /** Most places of a caller, as others have asked of late or have not. */
  #mostFor(name: string): number {
    const { places } = this.#o;
    const sinceMs = this.#clock.monotonicMs() - aboutMs;
    const othersAbout = this.#seen.some((seen) => seen.name !== name && seen.atMs > sinceMs);
    return othersAbout ? Math.max(1, places >> 1) : places;
  }

  #dispatch(): void {
    for (;;) {
      const next = this.#next();
      if (next === null) {
        this.#watch();
        return;
      }
      const { name, caller, waiter } = next;
      caller.waiting.delete(waiter);
      caller.running++;
      this.#waiting--;
      this.#running++;
      caller.turn = ++this.#given;
      const { controller, release } = followSignals([waiter.signal]);
      const held: Held = { name, controller, offeredMs: null };
      this.#held.add(held);
      waiter.give({
        signal: controller.signal,
        offered: () => {
          held.offeredMs = this.#clock.monotonicMs();
        },
        taken: () => {
          held.offeredMs = null;
        },
        release: () => {
          if (!this.#held.delete(held)) {
            return;
          }
          release();
          caller.running--;
          this.#running--;
          this.#forget(name, caller);
          this.#dispatch();
        },
      });
    }
  }

  /** As long as somebody waits, looks for who keeps a place without need, and for others who have not come back. */
  #watch(): void {
    if (this.#waiting === 0 || this.#check !== null) {
      return;
    }
    this.#check = this.#clock.schedule(() => {
      this.#check = null;
      this.#takeAway();
      this.#dispatch();
    }, checkEveryMs);
  }

  /** Ends queries of stalled readers, as many as that gives places to those who wait. */
  #takeAway(): void {
    const sinceMs = this.#clock.monotonicMs() - this.#stalledMs;
    const callers = new Map(
      [...this.#callers].map(([name, { running, waiting }]) => [name, { running, waiting: waiting.size }]),
    );
    let running = this.#running;
    /** Stalled ones, which are given up as soon as that gives somebody a place. */
    const idle: Held[] = [];
    for (const held of this.#held) {
      const owner = callers.get(held.name);
      if (owner === undefined || held.offeredMs === null || held.offeredMs > sinceMs) {
        continue;
      }
      owner.running--;
      running--;
      idle.push(held);
      for (const [name, next] of callers) {
        if (next.waiting > 0 && this.#mayHave(name, next.running, running)) {
          next.running++;
          next.waiting--;
          running++;
          for (const { controller } of idle.splice(0)) {
            controller.abort(this.#stalled());
          }
          break;
        }
      }
    }
  }

  #stalled(): ServiceError {
    return new ServiceError(
      "OVERLOADED",
      `Nothing of the result was read for ${this.#stalledMs / 1000} seconds while other queries waited; run the query again.`,
    );
  }

  /** Whether a caller who has `own` of the `running` places may have another. */
  #mayHave(name: string, own: number, running: number): boolean {
    const { places } = this.#o;
    const isLast = places >= this.#placesToSpare && running === places - 1;
    return running < places && !(isLast && own > 0) && own < this.#mostFor(name);
  }

  #next(): { readonly name: string; readonly caller: CallerQueue; readonly waiter: Waiter } | null {
    let best: { name: string; caller: CallerQueue; waiter: Waiter } | null = null;
    for (const [name, caller] of this.#callers) {
      const [waiter] = caller.waiting;
      if (waiter === undefined || !this.#mayHave(name, caller.running, this.#running)) {
        continue;
      }
      if (best === null || isBefore(caller, best.caller)) {
        best = { name, caller, waiter };
      }
    }
    return best;
  }

  #forget(name: string, caller: CallerQueue): void {
    if (caller.running === 0 && caller.waiting.size === 0 && this.#callers.get(name) === caller) {
      this.#callers.delete(name);
    }
  }
}
