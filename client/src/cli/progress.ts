/** One line on a terminal's stderr while a long result comes in. */
import type { OutputStream } from "./terminal.js";

const startAfterMs = 1000;
const everyMs = 250;

/** Reports rows that have arrived. */
export interface Progress {
  add(rows: number): void;
  /** Removes the line. Call it before writing anything else to the same terminal. */
  stop(): void;
}

/**
 * Shows rows and seconds, from one second after the start on, four times a second. Writes nothing
 * when `stderr` is no terminal.
 */
export function startProgress(stderr: OutputStream, now: () => number): Progress {
  if (stderr.isTTY !== true) {
    return { add: () => {}, stop: () => {} };
  }
  const startedMs = now();
  let rows = 0;
  let shown = false;
  const timer = setInterval(() => {
    const elapsedMs = now() - startedMs;
    if (elapsedMs < startAfterMs) {
      return;
    }
    stderr.write(`\r\u001b[K${rows.toLocaleString("en-US")} rows, ${(elapsedMs / 1000).toFixed(1)} s`);
    shown = true;
  }, everyMs);
  timer.unref();
  return {
    add(count) {
      rows += count;
    },
    stop() {
      clearInterval(timer);
      if (shown) {
        stderr.write("\r\u001b[K");
      }
      shown = false;
    },
  };
}
