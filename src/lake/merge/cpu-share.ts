/** A share of the machine's CPUs: what is spent beyond it is waited for before more is begun. */
import { setTimeout as wait } from "node:timers/promises";

import type { Clock } from "../../runtime/clock.js";

/** What may be saved while nothing is done, in seconds of the share: so the share holds over a minute. */
const savedSeconds = 5;
const longestWaitMs = 250;

/** Accounts for CPU time. Not spending saves a little; spending more than there is makes a debt. */
export class CpuShare {
  readonly #clock: Clock;
  /** CPU seconds per second. */
  readonly #rate: number;
  /** CPU seconds that may be spent; below zero: debt. */
  #balance: number;
  #sinceMs: number;

  /** @param percent of `cpus`, 1 to 100; a whole machine is never waited for */
  constructor(o: { readonly percent: number; readonly cpus: number; readonly clock: Clock }) {
    this.#clock = o.clock;
    this.#rate = o.percent >= 100 ? Number.POSITIVE_INFINITY : (o.percent / 100) * o.cpus;
    this.#balance = this.#rate * savedSeconds;
    this.#sinceMs = o.clock.monotonicMs();
  }

  /** Counts seconds of CPU that were used. */
  spend(cpuSeconds: number): void {
    this.#settle();
    this.#balance -= cpuSeconds;
  }

  /** Milliseconds until the debt is paid; 0: there is none. */
  get debtMs(): number {
    this.#settle();
    return this.#balance >= 0 ? 0 : (-this.#balance / this.#rate) * 1000;
  }

  /** Waits until the debt is paid, or the caller has given up. */
  async rest(cancelled: () => boolean): Promise<void> {
    for (let ms = this.debtMs; ms > 0 && !cancelled(); ms = this.debtMs) {
      await wait(Math.min(Math.ceil(ms), longestWaitMs));
    }
  }

  #settle(): void {
    const nowMs = this.#clock.monotonicMs();
    if (Number.isFinite(this.#rate)) {
      const earned = (this.#rate * (nowMs - this.#sinceMs)) / 1000;
      this.#balance = Math.min(this.#rate * savedSeconds, this.#balance + earned);
    }
    this.#sinceMs = nowMs;
  }
}
