/** Work of which at most one is under way. */
import { setTimeout as sleep } from "node:timers/promises";

/** Runs `work`; callers during a run share it. */
export class SingleFlight<T> {
  readonly #work: () => Promise<T>;
  #running: Promise<T> | null = null;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  get underWay(): boolean {
    return this.#running !== null;
  }

  /** Starts the work, or joins the run that is under way. */
  run(): Promise<T> {
    this.#running ??= this.#work().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Resolves when no run is under way, however it has ended. */
  async idle(): Promise<void> {
    await this.#running?.catch(() => undefined); // its callers have the error
  }
}

/** Paced work takes at most one part in so many of the time. */
const parts = 10;
const maxPauseMs = 1000;

/**
 * Work that anybody may ask for, and that must not take the thread from others. Whoever asks gets a run that begins
 * afterwards; those who ask before it begins share it.
 */
export function paced<T>(work: () => Promise<T>): () => Promise<T> {
  let next: Promise<T> | null = null;
  let rested: Promise<unknown> = Promise.resolve();
  const run = (): Promise<T> => {
    next = null;
    const startMs = performance.now();
    const result = work();
    const rest = (): Promise<void> => {
      const pauseMs = (performance.now() - startMs) * (parts - 1);
      return sleep(Math.min(pauseMs, maxPauseMs), undefined, { ref: false });
    };
    rested = result.then(rest, rest);
    return result;
  };
  return () => (next ??= rested.then(run));
}
