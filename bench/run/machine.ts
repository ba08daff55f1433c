/** What every bench records about where and what it ran, and how it reads a process's CPU and memory. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { cpus, tmpdir, totalmem } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/** The machine, runtime and commit a figure belongs to. */
export interface Environment {
  readonly date: string;
  readonly commit: string;
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /**
   * SHA-256 of 64 bytes by `createHash`, a second: what a core gave at the time. A shared machine varies by a factor of
   * 2.
   */
  readonly hashesPerSecond: number;
}

/** Reads the environment once per run. */
export function describeEnvironment(): Environment {
  return {
    date: new Date().toISOString(),
    commit: describeCommit(),
    node: process.version,
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memoryBytes: totalmem(),
    hashesPerSecond: hashesPerSecond(),
  };
}

/** The commit of the work tree, with `+` when it has changes; `unknown` in a downloaded archive, or without git. */
function describeCommit(): string {
  const git = (...args: string[]): string =>
    execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    const dirty = git("status", "--porcelain", "--untracked-files=no") === "" ? "" : "+";
    return git("rev-parse", "--short", "HEAD") + dirty;
  } catch {
    return "unknown";
  }
}

/** What a server under test inherits of our environment: no settings, but the directory that is removed in the end. */
export const bareEnvironment = (): Record<string, string> => ({ PATH: process.env["PATH"] ?? "", TMPDIR: tmpdir() });

/**
 * `SVC_*` of our environment, for servers that are measured with other settings. Spread it first: what a bench sets itself,
 * such as where data goes, must not lead to a database or a bucket that somebody uses.
 */
export const givenSettings = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      name.startsWith("SVC_") && value !== undefined ? [[name, value]] : [],
    ),
  );

/**
 * Waits until nothing has taken a quarter of a core for a second: what was sent is merged, and caches are written.
 * @returns false when that did not come in time
 */
export async function idleMachine(withinMs: number): Promise<boolean> {
  const startMs = performance.now();
  while (performance.now() - startMs < withinMs) {
    const before = busyMs();
    await sleep(1000);
    if (busyMs() - before < 250) {
      return true;
    }
  }
  return false;
}

/** Of all cores since the machine started. */
function busyMs(): number {
  return cpus().reduce((total, { times: { user, nice, sys, irq } }) => total + user + nice + sys + irq, 0);
}

/** How fast the machine is at this moment: a fixed loop, by the wall and in CPU time. Neighbours lengthen the first. */
export interface MachineSpeed {
  readonly wallMs: number;
  readonly cpuMs: number;
}

/** Times the fixed loop, some 0.1 s of CPU. */
export function machineSpeed(): MachineSpeed {
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  let state = 1;
  for (let i = 0; i < 50_000_000; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  const wallMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(cpu);
  if (state === 0) {
    throw new Error("the loop came to zero, which it cannot");
  }
  return { wallMs: Math.round(wallMs * 10) / 10, cpuMs: Math.round((user + system) / 100) / 10 };
}

function hashesPerSecond(): number {
  const bytes = Buffer.alloc(64);
  const startMs = performance.now();
  const count = 200_000;
  for (let i = 0; i < count; i++) {
    createHash("sha256").update(bytes).digest();
  }
  return Math.round((count * 1000) / (performance.now() - startMs));
}

const clockTicksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/** CPU seconds of a process and all its descendants so far, those that have ended included. */
export function treeCpuSeconds(pid: number): number {
  const children = new Map<number, number[]>();
  const seconds = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/u.test(name)) {
      continue;
    }
    const fields = statFields(Number(name));
    if (fields === null) {
      continue;
    }
    const parent = Number(fields[1]);
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    // Fields 14 to 17: its own, and those of children that it has waited for.
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    seconds.set(Number(name), ticks / clockTicksPerSecond);
  }
  const sumOf = (root: number): number =>
    (children.get(root) ?? []).reduce((sum, child) => sum + sumOf(child), seconds.get(root) ?? 0);
  return sumOf(pid);
}

/** Fields of proc(5)'s stat from the third on; null for a process that is gone. */
function statFields(pid: number): string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
  }
}

/** CPU seconds of every thread so far, by name and order of creation; the first one is the main thread. */
export function threadCpuSeconds(pid: number): Map<string, number> {
  const totals = new Map<string, number>();
  const threads = readdirSync(`/proc/${pid}/task`).toSorted((a, b) => Number(a) - Number(b));
  for (const [index, thread] of threads.entries()) {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
    const name = stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const seconds = (Number(fields[11]) + Number(fields[12])) / clockTicksPerSecond;
    totals.set(index === 0 ? "main" : `${name} ${index}`, seconds);
  }
  return totals;
}

/** Resident and peak resident memory of a process in bytes (proc(5), VmRSS and VmHWM). */
export function processMemory(pid: number): { residentBytes: number; peakBytes: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const read = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0) * 1024;
  return { residentBytes: read("VmRSS"), peakBytes: read("VmHWM") };
}
