/**
 * Processes as Linux shows them: children, and the TCP ports that a process connects from. Read without giving way: on a
 * busy machine each turn of the event loop may take long, and there are hundreds of files.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** What has ended since it was listed has none. */
function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (!/ENOENT|ESRCH|EACCES/u.test(String(error))) {
      throw error;
    }
    return null;
  }
}

/** Direct children of a process; with `name`, those whose command line contains it. */
export function childrenOf(parent: number, name = ""): number[] {
  const found: number[] = [];
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/u.test(entry)) {
      continue;
    }
    const stat = orNull(() => readFileSync(`/proc/${entry}/stat`, "utf8"));
    const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A process that has ended and was not waited for cannot be killed any more.
    const isChild = Number(fields?.[1]) === parent && fields?.[0] !== "Z";
    if (isChild && orNull(() => readFileSync(`/proc/${entry}/cmdline`, "utf8"))?.includes(name) === true) {
      found.push(Number(entry));
    }
  }
  return found;
}

/** Whether a process has loaded a file whose path contains `name`. */
export function hasLoaded(pid: number, name: string): boolean {
  return orNull(() => readFileSync(`/proc/${pid}/maps`, "utf8"))?.includes(name) ?? false;
}

/** Local ports of the TCP connections (IPv4) of a process. */
export function portsOf(pid: number): number[] {
  const inodes = new Set<string>();
  for (const descriptor of orNull(() => readdirSync(`/proc/${pid}/fd`)) ?? []) {
    const target = orNull(() => readlinkSync(`/proc/${pid}/fd/${descriptor}`));
    const inode = /^socket:\[(\d+)\]$/u.exec(target ?? "")?.[1];
    if (inode !== undefined) {
      inodes.add(inode);
    }
  }
  const table = orNull(() => readFileSync(`/proc/${pid}/net/tcp`, "utf8")) ?? "";
  return table
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/u))
    .filter((fields) => inodes.has(fields[9] ?? ""))
    .map((fields) => Number.parseInt(fields[1]?.split(":")[1] ?? "", 16));
}

/** Sends a signal. @returns false when the process was gone */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  return orNull(() => process.kill(pid, name)) ?? false;
}
