/** Work of which so many run at a time. */
import { abortReason } from "../errors.js";

/** Gives turns to groups one after the other, and within a group in the order in which they are asked for. */
export class Turns {
  #free: number;
  /** By group; the next one's first. None is empty. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(parallel: number) {
    this.#free = parallel;
  }

  /** Runs `work` when it is its turn. @throws what `work` throws; what `signal` was aborted with before its turn */
  async run<T>(signal: AbortSignal, work: () => Promise<T>, group = ""): Promise<T> {
    if (this.#free > 0) {
      this.#free--;
    } else {
      await new Promise<void>((resolve) => {
        const others = this.#waiting.get(group);
        if (others === undefined) {
          this.#waiting.set(group, [resolve]);
        } else {
          others.push(resolve);
        }
      });
    }
    try {
      if (signal.aborted) {
        throw abortReason(signal);
      }
      return await work();
    } finally {
      const next = this.#next();
      if (next === undefined) {
        this.#free++;
      } else {
        next();
      }
    }
  }

  #next(): (() => void) | undefined {
    for (const [group, waiting] of this.#waiting) {
      const next = waiting.shift();
      this.#waiting.delete(group);
      if (waiting.length > 0) {
        // Behind the others.
        this.#waiting.set(group, waiting);
      }
      return next;
    }
    return undefined;
  }
}
