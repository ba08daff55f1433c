/** Work that is done from time to time, and once more at the end. */
import { SingleFlight } from "./single-flight.js";

/** Runs `work` at intervals, never twice at once. */
export class Periodic {
  readonly #runs: SingleFlight<void>;
  readonly #timer: NodeJS.Timeout;
  #stopped = false;

  /** @param work reports its own failures, and never rejects */
  constructor(work: () => Promise<void>, intervalMs: number) {
    this.#runs = new SingleFlight(work);
    this.#timer = setInterval(() => void this.run(), intervalMs);
    this.#timer.unref();
  }

  /** Runs it now, or joins the run that is under way. */
  run(): Promise<void> {
    return this.#runs.run();
  }

  /** Stops the timer, waits for a run that is under way, and then does `last`, if anything. Later calls do nothing. */
  async stop(last?: () => Promise<void>): Promise<void> {
    if (this.#stopped) {
      return;
    }
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#runs.idle();
    await last?.();
  }
}
