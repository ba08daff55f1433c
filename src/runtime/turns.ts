/** Work of which so many run at a time. */
import { abortReason } from "./errors.js";

/** Gives turns in the order in which they are asked for. */
export class Turns {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(parallel: number) {
    this.#free = parallel;
  }

  /** Runs `work` when it is its turn. @throws what `work` throws; what `signal` was aborted with before its turn */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) {
      this.#free--;
    } else {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
    try {
      if (signal.aborted) {
        throw abortReason(signal);
      }
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) {
        this.#free++;
      } else {
        next();
      }
    }
  }
}
