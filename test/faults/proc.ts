/** Processes as Linux shows them: children, and the TCP ports that a process connects from. */
import { readdir, readFile, readlink } from "node:fs/promises";

/** What has ended since it was listed has none. */
const absent = (error: unknown): null => {
  if (!/ENOENT|ESRCH|EACCES/u.test(String(error))) {
    throw error;
  }
  return null;
};

/** Direct children of a process. */
export async function childrenOf(parent: number): Promise<number[]> {
  const found: number[] = [];
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/u.test(entry)) {
      continue;
    }
    const stat = await readFile(`/proc/${entry}/stat`, "utf8").catch(absent);
    const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A process that has ended and was not waited for cannot be killed any more.
    if (Number(fields?.[1]) === parent && fields?.[0] !== "Z") {
      found.push(Number(entry));
    }
  }
  return found;
}

/** Local ports of the TCP connections (IPv4) of a process. */
export async function portsOf(pid: number): Promise<number[]> {
  const inodes = new Set<string>();
  for (const descriptor of (await readdir(`/proc/${pid}/fd`).catch(absent)) ?? []) {
    const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(absent);
    const inode = /^socket:\[(\d+)\]$/u.exec(target ?? "")?.[1];
    if (inode !== undefined) {
      inodes.add(inode);
    }
  }
  const table = (await readFile(`/proc/${pid}/net/tcp`, "utf8").catch(absent)) ?? "";
  return table
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/u))
    .filter((fields) => inodes.has(fields[9] ?? ""))
    .map((fields) => Number.parseInt(fields[1]?.split(":")[1] ?? "", 16));
}

/** Sends a signal. @returns false when the process was gone */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch (error) {
    return absent(error) !== null;
  }
}
