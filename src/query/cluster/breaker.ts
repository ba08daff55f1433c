/** Keeps queries away from a cluster that has failed several times in a row. */
import type { Clock } from "../../runtime/clock.js";

const mostFailures = 3;
const pauseMs = 30_000;

/** After {@link mostFailures} it stays open for {@link pauseMs}; then one query tries. */
export class Breaker {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #failures = 0;
  #until = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** No query should go to the cluster. */
  get open(): boolean {
    return this.#clock.monotonicMs() < this.#until;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#until = Number.NEGATIVE_INFINITY;
  }

  failed(): void {
    this.#failures++;
    if (this.#failures >= mostFailures) {
      this.#until = this.#clock.monotonicMs() + pauseMs;
    }
  }
}
