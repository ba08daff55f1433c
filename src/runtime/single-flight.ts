/** Work of which at most one is under way. */

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
