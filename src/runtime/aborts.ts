/** Waiting that ends when a signal is aborted. Nothing stays on a signal that outlives what waited. */
import { unlessAborted as unlessGivenUp } from "telemetry-service-client/shared/abort";

import { abortReason, type ServiceError } from "./errors.js";

/**
 * Calls `act` once with the reason when the signal is aborted, at once when it has been.
 * @returns what stops listening
 */
export function onAbort(signal: AbortSignal, act: (reason: ServiceError) => void): () => void {
  const listener = (): void => {
    act(abortReason(signal));
  };
  if (signal.aborted) {
    listener();
    return () => undefined;
  }
  signal.addEventListener("abort", listener, { once: true });
  return () => {
    signal.removeEventListener("abort", listener);
  };
}

/** Work that several wait for; who leaves last ends it. */
export class SharedWork<T> {
  /** Settles when the work has ended. */
  readonly done: Promise<T>;
  readonly #ending = new AbortController();
  #waiting = 0;

  constructor(work: (signal: AbortSignal) => Promise<T>) {
    this.done = work(this.#ending.signal);
    // Whoever waits has the failure.
    this.done.catch(() => undefined);
  }

  /** All who waited have left. Who comes now has to begin anew. */
  get abandoned(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Waits for the work, or for nothing more once `signal` is aborted. */
  async join(signal: AbortSignal): Promise<T> {
    this.#waiting++;
    try {
      return await unlessAborted(this.done, signal);
    } finally {
      this.#waiting--;
      if (this.#waiting === 0) {
        this.#ending.abort();
      }
    }
  }
}

/** Waits for work that others may wait for, too; who leaves does not end it. @throws ServiceError when aborted */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return unlessGivenUp(work, signal, () => abortReason(signal));
}
