/**
 * The directory that engines spill into. A killed process leaves its own behind, often with gigabytes in
 * it; the next start removes it.
 */
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";

import { ServiceError } from "../runtime/errors.js";

const prefix = "telemetry-query-";
/** Says whose the directory is. */
const ownerFile = "owner.json";

/** A process, told from every other that may see the same directory: those of other containers included. */
interface Owner {
  readonly pid: number;
  readonly hostname: string;
  /** Identity of the namespace that the pid is of; empty where there are none. */
  readonly pidNamespace: string;
  /** When the process started, as the system counts; empty where it does not say. */
  readonly started: string;
}

/**
 * Makes a directory below `root` and removes those of processes that are dead.
 * @returns its absolute path
 * @throws ServiceError UNAVAILABLE when `root` cannot be used
 */
export async function makeTempDirectory(root: string): Promise<string> {
  const owner: Owner = {
    pid: process.pid,
    hostname: hostname(),
    pidNamespace: await pidNamespace(),
    started: (await startOf(process.pid)) ?? "",
  };
  try {
    await removeAbandoned(root, owner);
    const directory = await mkdtemp(path.join(root, prefix));
    await writeFile(path.join(directory, ownerFile), JSON.stringify(owner));
    return directory;
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? String(cause.code) : "no reason";
    throw new ServiceError(
      "UNAVAILABLE",
      `no directory for temporary files can be made in ${root} (${code}): set TMPDIR to one that this user may write`,
      { cause },
    );
  }
}

async function removeAbandoned(root: string, self: Owner): Promise<void> {
  for (const name of await readdir(root)) {
    if (!name.startsWith(prefix)) {
      continue;
    }
    const directory = path.join(root, name);
    const owner = await ownerOf(directory);
    // Of another machine or container: whether its process lives cannot be told from here.
    if (owner?.hostname !== self.hostname || owner.pidNamespace !== self.pidNamespace) {
      continue;
    }
    if (await isAlive(owner)) {
      continue;
    }
    // Another process may be removing it too, or it may be another user's.
    await rm(directory, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function ownerOf(directory: string): Promise<Owner | null> {
  try {
    const owner = JSON.parse(await readFile(path.join(directory, ownerFile), "utf8")) as Partial<Owner>;
    const { pid, hostname: host, pidNamespace: namespace, started } = owner;
    if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid <= 0) {
      return null;
    }
    if (typeof host !== "string" || typeof namespace !== "string") {
      return null;
    }
    return typeof started === "string" ? { pid, hostname: host, pidNamespace: namespace, started } : null;
  } catch {
    // No directory of ours, or one that is being made at this moment.
    return null;
  }
}

async function isAlive({ pid, started }: Owner): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it lives, and is somebody else's.
    if ((error as NodeJS.ErrnoException).code === "ESRCH") {
      return false;
    }
  }
  // A number is given out again; the time of its start is not.
  const now = await startOf(pid);
  return now === null || started === "" || now === started;
}

async function pidNamespace(): Promise<string> {
  try {
    return await readlink("/proc/self/ns/pid");
  } catch {
    // No such thing on this system.
    return "";
  }
}

/** Field 22 of proc(5)'s stat, null where there is no /proc. */
async function startOf(pid: number): Promise<string | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}
