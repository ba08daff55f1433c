/**
 * A bench in a process and session of its own, with a directory of its own, its `tmpdir()`. When it ends, however it
 * ends, nothing of it is left: neither processes nor files.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { signal } from "../../test/helpers/processes.js";
import type { Figure } from "../figures.js";

/** How a bench ended. */
export interface Ended {
  /** `unable`: it said that it cannot measure here. `stopped`: by the signal of `runBench`. */
  readonly how: "done" | "failed" | "unable" | "stopped";
  /** Exit code of its process; 1 when a signal ended it. */
  readonly code: number;
  readonly figures: readonly Figure[];
  /** The last that it printed, when that was kept. */
  readonly tail: string;
}

/** Exit code of a bench that cannot measure here. */
export const cannotMeasureCode = 3;

const keptCharacters = 4000;
const patienceMs = 10_000;

/**
 * Runs `pnpm bench ID ARGV`.
 * @param o.output where its prints go: to ours, to our stderr, or into `tail`
 * @param o.stop ends it early
 * @param o.environment more variables for it
 * @param o.nodeArguments more arguments of Node.js for it
 */
export async function runBench(
  id: string,
  argv: readonly string[],
  o: {
    readonly output: "inherit" | "stderr" | "keep";
    readonly stop: AbortSignal;
    readonly environment?: Readonly<Record<string, string>>;
    readonly nodeArguments?: readonly string[];
  },
): Promise<Ended> {
  const parent = process.env["BENCH_DIR"] ?? tmpdir();
  mkdirSync(parent, { recursive: true });
  const directory = mkdtempSync(join(parent, "telemetry-bench-"));
  const out = { inherit: "inherit", stderr: 2, keep: "pipe" } as const;
  const child = spawn(
    process.execPath,
    [
      ...(o.nodeArguments ?? []),
      "--enable-source-maps",
      fileURLToPath(new URL("./run-bench.js", import.meta.url)),
      id,
      ...argv,
    ],
    {
      // A terminal's signals go to us alone: we end the processes, in order.
      detached: true,
      env: {
        ...process.env,
        // For what is made once and found again by the next run.
        BENCH_KEEP_DIR: process.env["BENCH_KEEP_DIR"] ?? tmpdir(),
        TMPDIR: directory,
        ...o.environment,
      },
      stdio: ["ignore", out[o.output], o.output === "keep" ? "pipe" : "inherit", "ipc"],
    },
  );
  let figures: readonly Figure[] = [];
  let tail = "";
  const keep = (chunk: Buffer): void => {
    tail = (tail + chunk.toString()).slice(-keptCharacters);
  };
  child.stdout?.on("data", keep);
  child.stderr?.on("data", keep);
  child.on("message", (message) => {
    figures = message as readonly Figure[];
  });
  const ended = once(child, "exit");
  const onStop = (): void => {
    child.kill("SIGKILL");
  };
  o.stop.addEventListener("abort", onStop);
  if (o.stop.aborted) {
    onStop();
  }
  try {
    const [code] = (await ended) as [number | null];
    const how = code === 0 ? "done" : o.stop.aborted ? "stopped" : code === cannotMeasureCode ? "unable" : "failed";
    return { how, code: code ?? 1, figures, tail };
  } finally {
    o.stop.removeEventListener("abort", onStop);
    await endProcesses(child, directory);
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Ends what a bench has left running. Processes of its session go at once: their data goes, too. Others are databases and
 * browsers, which leave shared memory behind unless they end in order.
 */
async function endProcesses(bench: ChildProcess, directory: string): Promise<void> {
  const session = String(bench.pid);
  const startedMs = performance.now();
  const asked = new Set<number>();
  for (;;) {
    const left = processesOf(session, directory);
    if (left.length === 0) {
      return;
    }
    const isLate = performance.now() - startedMs > patienceMs;
    for (const { pid, isOfSession } of left) {
      if (isOfSession || isLate) {
        signal(pid, "SIGKILL");
      } else if (!asked.has(pid)) {
        asked.add(pid);
        signal(pid, "SIGINT");
      }
    }
    await sleep(50);
  }
}

/** Living processes of a session, and those that work in the directory or whose command line or environment names it. */
function processesOf(session: string, directory: string): { pid: number; isOfSession: boolean }[] {
  const found: { pid: number; isOfSession: boolean }[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/u.test(name) || Number(name) === process.pid) {
      continue;
    }
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      // proc(5): state and session.
      const [state, , , of] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const isOfSession = of === session;
      const named = (file: string): boolean => readFileSync(`/proc/${name}/${file}`, "latin1").includes(directory);
      const isInside = (): boolean => readlinkSync(`/proc/${name}/cwd`).startsWith(directory);
      if (state !== "Z" && (isOfSession || named("cmdline") || named("environ") || isInside())) {
        found.push({ pid: Number(name), isOfSession });
      }
    } catch (error) {
      // Ended meanwhile, or somebody else's.
      if (!["ENOENT", "ESRCH", "EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "")) {
        throw error;
      }
    }
  }
  return found;
}
