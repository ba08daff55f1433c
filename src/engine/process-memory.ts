/** The memory of another process. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import koffi from "koffi";

const everyMs = 200;

/** What a process has taken of its RLIMIT_DATA, in bytes (proc(5), VmData); 0 where the system does not say. */
export function dataSegmentBytes(pid: number): number {
  try {
    const [, kilobytes] = /^VmData:\s*(\d+) kB$/mu.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return Number(kilobytes ?? 0) * 1024;
  } catch {
    // It has gone, or there is no /proc.
    return 0;
  }
}

/** RLIMIT_DATA of Linux. */
const dataLimit = 2;

/**
 * Lets a process have no more than so many bytes of private writable memory (RLIMIT_DATA, stacks of threads included),
 * for good. Where a lower limit is set already, that stays. Linux only (prlimit(2)).
 * @throws Error when it cannot be set
 */
export function limitDataSegment(pid: number, bytes: number): void {
  const prlimit = koffi.load(null).func("prlimit", "int", ["int", "int", "const void *", "void *"]);
  const present = new BigUint64Array(2);
  const read = prlimit(pid, dataLimit, null, present);
  const [, hard = 0n] = present;
  const most = hard < BigInt(bytes) ? hard : BigInt(bytes);
  if (read !== 0 || prlimit(pid, dataLimit, new BigUint64Array([most, most]), null) !== 0) {
    throw new Error(`the memory of process ${pid} cannot be limited`);
  }
}

/**
 * Watches the resident memory of a process where the system sets no limit to it (macOS): asks from time to time, and
 * calls `exceeded` once when there is too much.
 * @returns what ends the watch
 */
export function watchResident(pid: number, maxBytes: number, exceeded: () => void): { readonly stop: () => void } {
  let timer: NodeJS.Timeout | null = null;
  let stopped = false;
  const ask = (): void => {
    timer = setTimeout(() => {
      execFile("ps", ["-o", "rss=", "-p", String(pid)], (error, kilobytes) => {
        if (stopped) {
          return;
        }
        // A process that has gone needs no watch.
        if (error === null && Number(kilobytes) * 1024 > maxBytes) {
          exceeded();
        } else {
          ask();
        }
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
