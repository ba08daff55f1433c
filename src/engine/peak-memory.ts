/** The most memory that this process has resident at a time, as Linux counts it (proc(5), `VmHWM`). */
import { readFileSync, writeFileSync } from "node:fs";

/** Begins to measure. @returns gives the peak since, in bytes; null where the system does not tell */
export function startPeakMemory(): () => number | null {
  try {
    // Makes the peak what is resident now.
    writeFileSync("/proc/self/clear_refs", "5");
  } catch {
    return () => null;
  }
  return () => {
    const [, kilobytes] = /^VmHWM:\s*(\d+) kB$/mu.exec(status()) ?? [];
    return kilobytes === undefined ? null : Number(kilobytes) * 1024;
  };
}

function status(): string {
  return readFileSync("/proc/self/status", "latin1");
}
