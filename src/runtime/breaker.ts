/**
 * Keeps from asking what does not answer. Closed: everybody asks. After some failures in a row it is open: nobody does.
 * After a pause one may try (half open): that closes it, or opens it for another pause.
 */

/** Somebody who may ask; one of the last three is called at the end, once. */
export interface Attempt {
  /** What was asked answers, though its end may be far: others may ask again. */
  answered(): void;
  succeeded(): void;
  failed(): void;
  /** The asker has left before anything could be told. */
  left(): void;
}

/** Options of {@link Breaker}. */
interface BreakerOptions {
  /** Failures in a row that open it. */
  readonly failures: number;
  readonly pauseMs: number;
  readonly monotonicMs: () => number;
  /** Told when it opens and when it closes again. */
  readonly onChange: (open: boolean) => void;
}

/** See the head of the file. */
export class Breaker {
  readonly #o: BreakerOptions;
  #failures = 0;
  /** Null while it is closed. */
  #opensAgainMs: number | null = null;
  #tried = false;

  constructor(o: BreakerOptions) {
    this.#o = o;
  }

  /** Whether it has opened and not closed again, though somebody may try by now. */
  get open(): boolean {
    return this.#opensAgainMs !== null;
  }

  /** Null while it is open, and while somebody else tries. */
  enter(): Attempt | null {
    if (this.#opensAgainMs === null) {
      return this.#oneOfMany();
    }
    if (this.#tried || this.#o.monotonicMs() < this.#opensAgainMs) {
      return null;
    }
    this.#tried = true;
    const trial = {
      succeeded: () => this.#close(),
      failed: () => this.#open(),
      left: () => {
        this.#tried = false;
      },
    };
    let attempt: Omit<Attempt, "answered"> = trial;
    return {
      answered: () => {
        if (attempt === trial) {
          this.#close();
          attempt = this.#oneOfMany();
        }
      },
      succeeded: () => attempt.succeeded(),
      failed: () => attempt.failed(),
      left: () => attempt.left(),
    };
  }

  #oneOfMany(): Attempt {
    return {
      answered: () => undefined,
      succeeded: () => this.#succeeded(),
      failed: () => this.#failed(),
      left: () => undefined,
    };
  }

  /** Who began before it opened says nothing about now. */
  #succeeded(): void {
    if (this.#opensAgainMs === null) {
      this.#failures = 0;
    }
  }

  #failed(): void {
    if (this.#opensAgainMs === null && ++this.#failures >= this.#o.failures) {
      this.#o.onChange(true);
      this.#open();
    }
  }

  #open(): void {
    this.#tried = false;
    this.#opensAgainMs = this.#o.monotonicMs() + this.#o.pauseMs;
  }

  #close(): void {
    this.#tried = false;
    this.#failures = 0;
    this.#opensAgainMs = null;
    this.#o.onChange(false);
  }
}
