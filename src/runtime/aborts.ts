/** Waiting that ends when a signal is aborted. Nothing stays on a signal that outlives what waited. */
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

/** Waits for work that others may wait for, too; who leaves does not end it. @throws ServiceError when aborted */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let leave = (): void => undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      leave = onAbort(signal, reject);
      work.then(resolve, reject);
    });
  } finally {
    leave();
  }
}
