/** The CPU time of another process. */
import { readFileSync } from "node:fs";

/** Clock ticks a second (proc(5), `sysconf(_SC_CLK_TCK)`), the same on every Linux that Node.js runs on. */
const ticksPerSecond = 100;

/** CPU seconds that a process has used with all its threads (proc(5)); 0 where the system does not say. */
export function processCpuSeconds(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name of the program, in parentheses, may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  } catch {
    // It has gone, or there is no /proc.
    return 0;
  }
}
