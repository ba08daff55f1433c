import { setTimeout as sleep } from "node:timers/promises";

/** Waits so long, or until it is told to stop. */
export async function pause(ms: number, stopped: () => boolean): Promise<void> {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs && !stopped()) {
    await sleep(50);
  }
}
