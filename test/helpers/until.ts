/** Waiting for something to become true. */
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Polls until `condition` holds.
 * @throws Error when it does not within `withinMs`, and what the condition throws
 */
export async function until(condition: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> {
  const deadlineMs = performance.now() + withinMs;
  for (;;) {
    if (await condition()) {
      return;
    }
    if (performance.now() > deadlineMs) {
      throw new Error(`did not happen within ${withinMs} ms`);
    }
    await sleep(20);
  }
}
