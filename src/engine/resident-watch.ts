/** The resident memory of another process, watched where the system sets no limit to it (macOS). */
import { execFile } from "node:child_process";

const everyMs = 200;

/**
 * Asks from time to time, and calls `exceeded` once when there is too much.
 * @returns what ends the watch
 */
export function watchResident(
  pid: number,
  maxBytes: number,
  exceeded: () => void,
): { readonly stop: () => void } {
  let timer: NodeJS.Timeout | null = null;
  let stopped = false;
  const ask = (): void => {
    timer = setTimeout(() => {
      execFile("ps", ["-o", "rss=", "-p", String(pid)], (error, kilobytes) => {
        if (stopped) return;
        // A process that has gone needs no watch.
        if (error === null && Number(kilobytes) * 1024 > maxBytes) exceeded();
        else ask();
      });
    }, everyMs);
  };
  ask();
  return {
    stop: () => {
      stopped = true;
      clearTimeout(timer ?? undefined);
    },
  };
}
