/**
 * Where a vitest run keeps its files: databases, lakes, what queries spill. In memory where there is plenty, because
 * making, copying and removing small files by the ten thousand takes a disk longer than most tests take.
 */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { freemem, tmpdir } from "node:os";
import path from "node:path";

const prefix = "tsvc-test-run-";
/** Several times what a run ever keeps. */
const neededBytes = 3 * 2 ** 30;
const lastingVariable = "TEST_LASTING_DIRECTORY";

/**
 * Makes the directory of this run and has it removed when this process ends; from now on `tmpdir()` is it, here and in
 * child processes. Whoever set `TMPDIR` decides where it lies. Further calls do nothing.
 */
export function useRunDirectory(): void {
  if (process.env[lastingVariable] !== undefined) {
    return;
  }
  const lasting = tmpdir();
  const parent = process.env["TMPDIR"] === undefined ? (memoryDirectory() ?? lasting) : lasting;
  removeAbandoned(parent);
  const directory = mkdtempSync(path.join(parent, `${prefix}${process.pid}-`));
  // As /tmp: some tests run programs as other users.
  chmodSync(directory, 0o1777);
  process.env[lastingVariable] = lasting;
  process.env["TMPDIR"] = directory;
  process.once("exit", () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
}

/** Where programs are kept that were fetched for tests, so that the next run finds them. */
export function lastingDirectory(): string {
  return process.env[lastingVariable] ?? tmpdir();
}

/** A directory in memory that has room for a run and lets programs be started; null without one. */
function memoryDirectory(): string | null {
  const directory = "/dev/shm";
  const line = mounts().findLast((mount) => mount[1] === directory);
  if (line?.[2] !== "tmpfs" || line[3]?.split(",").some((option) => ["ro", "noexec"].includes(option)) !== false) {
    return null;
  }
  const { bavail, bsize } = statfsSync(directory);
  const limit = process.constrainedMemory();
  const room = Math.min(bavail * bsize, freemem() / 2, limit > 0 ? limit / 2 : Infinity);
  return room < neededBytes ? null : directory;
}

/** Of each mount its device, directory, type and options. */
function mounts(): string[][] {
  try {
    return readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .map((line) => line.split(" "));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return []; // not Linux
    }
    throw error;
  }
}

/** Runs that were killed could not remove theirs. */
function removeAbandoned(parent: string): void {
  for (const entry of readdirSync(parent)) {
    const pid = entry.startsWith(prefix) ? Number.parseInt(entry.slice(prefix.length), 10) : Number.NaN;
    if (!Number.isNaN(pid) && !isRunning(pid)) {
      rmSync(path.join(parent, entry), { recursive: true, force: true, maxRetries: 5 });
    }
  }
}

/** Whether there is such a process. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
