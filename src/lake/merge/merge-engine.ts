/**
 * The DuckDB that merges: an engine process of its own, with a bound on memory and on what it spills, which reaches the
 * objects of one audience in one table at a time and nothing else.
 */
import { mkdir } from "node:fs/promises";

import { processCpuSeconds } from "../../engine/process-cpu.js";
import type { EngineStep, EngineValue, RowValue, StepResult } from "../../engine/protocol.js";
import { EngineSupervisor } from "../../engine/supervisor.js";
import { createSilentLogger } from "../../runtime/log/log.js";
import { createMetrics } from "../../runtime/metrics.js";

/** How much the process may use. */
export interface MergeEngineLimits {
  /** Absolute path for what does not fit into memory. */
  readonly tempDirectory: string;
  readonly memoryLimitBytes: number;
  readonly maxTempBytes: number;
  /** Threads, at least 1. */
  readonly threads: number;
}

/** DuckDB within one directory. */
export interface MergeEngine {
  /**
   * Runs a statement; `values` are bound to its parameters.
   * @throws DuckDB's errors; ServiceError UNAVAILABLE when the process does not come up
   */
  run(sql: string, values?: readonly EngineValue[]): Promise<void>;
  /** Runs a query and returns its rows; BIGINT is text. @throws as `run` */
  rows(sql: string, values?: readonly EngineValue[]): Promise<readonly (readonly RowValue[])[]>;
}

/** A process that merges. */
export interface MergeProcess {
  /** Reads and writes below `directory` (absolute) only. */
  within(directory: string): MergeEngine;
  /** Interrupts the running job; no other follows. */
  interrupt(): void;
  /** Ends it. */
  close(): Promise<void>;
}

/** The message of what a job throws whose engine ended, but for its memory. */
export const engineHasEnded = "the process that merges has ended";

/** Most text that rows bring back: they are few, and narrow. */
const maxRowBytes = 64 << 20;

/**
 * A process that starts with its first job.
 * @param spend is told the CPU seconds of each job, and of the start
 */
export function startMergeProcess(
  limits: MergeEngineLimits,
  spend: (cpuSeconds: number) => void = () => undefined,
): MergeProcess {
  let starting: Promise<EngineSupervisor> | null = null;
  const controller = new AbortController();
  const { signal } = controller;
  let counted: { readonly pid: number; readonly seconds: number } | null = null;
  const countCpu = (engines: EngineSupervisor): void => {
    for (const pid of engines.pids) {
      const seconds = processCpuSeconds(pid);
      spend(seconds - (counted?.pid === pid ? counted.seconds : 0));
      counted = { pid, seconds };
    }
  };
  const ask = async (directory: string, step: EngineStep): Promise<StepResult | undefined> => {
    starting ??= startEngine(limits);
    const engines = await starting;
    const key = `merge ${directory}`;
    const lease = await engines.lease(key, signal);
    try {
      const instance = { key, directories: [directory], paths: [], setup: [] };
      const outcome = await lease.run(instance, [step], { signal });
      if (outcome.kind === "lost") {
        const words = outcome.by === "memory" ? "Out of Memory Error: " : "";
        throw new Error(`${words}${engineHasEnded}`);
      }
      if (outcome.end.error !== null) {
        throw new Error(outcome.end.error);
      }
      return outcome.results[0];
    } finally {
      countCpu(engines);
      lease.release();
    }
  };
  return {
    within: (directory) => ({
      run: async (sql, values = []) => {
        await ask(directory, { kind: "execute", sql, values });
      },
      rows: async (sql, values = []) =>
        (await ask(directory, { kind: "rows", sql, values, maxBytes: maxRowBytes }))?.rows ?? [],
    }),
    interrupt: () => {
      controller.abort();
    },
    close: async () => {
      const engines = await starting?.catch(() => null); // who asked has the error
      await engines?.stop();
    },
  };
}

async function startEngine(limits: MergeEngineLimits): Promise<EngineSupervisor> {
  const { tempDirectory, memoryLimitBytes, maxTempBytes, threads } = limits;
  await mkdir(tempDirectory, { recursive: true });
  return EngineSupervisor.start({
    engines: 1,
    spares: 1,
    memoryBytes: memoryLimitBytes,
    tempBytes: maxTempBytes,
    tempDirectory,
    threads,
    // The caller of a merge gets its errors.
    logger: createSilentLogger(),
    metrics: createMetrics(),
  });
}
