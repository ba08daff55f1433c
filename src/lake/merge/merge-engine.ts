/**
 * The DuckDB that merges: an engine process of its own, with a bound on memory and on what it spills, which reaches the
 * objects of one audience in one table at a time and nothing else.
 */
import { mkdir } from "node:fs/promises";

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
  /** Runs a statement; `values` are bound to its parameters. @throws DuckDB's errors */
  run(sql: string, values?: readonly EngineValue[]): Promise<void>;
  /** Runs a query and returns its rows; BIGINT is text. @throws DuckDB's errors */
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

/** Most text that rows bring back: they are few, and narrow. */
const maxRowBytes = 64 << 20;

/** Starts a process. @throws ServiceError UNAVAILABLE when it does not come up */
export async function startMergeProcess(limits: MergeEngineLimits): Promise<MergeProcess> {
  const { tempDirectory, memoryLimitBytes, maxTempBytes, threads } = limits;
  await mkdir(tempDirectory, { recursive: true });
  const engines = await EngineSupervisor.start({
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
  const controller = new AbortController();
  const { signal } = controller;
  const ask = async (directory: string, step: EngineStep): Promise<StepResult | undefined> => {
    const key = `merge ${directory}`;
    const lease = await engines.lease(key, signal);
    try {
      const instance = { key, directories: [directory], paths: [], setup: [] };
      const outcome = await lease.run(instance, [step], { signal });
      if (outcome.kind === "lost") {
        const words = outcome.by === "memory" ? "Out of Memory Error: " : "";
        throw new Error(`${words}the process that merges has ended`);
      }
      if (outcome.end.error !== null) {
        throw new Error(outcome.end.error);
      }
      return outcome.results[0];
    } finally {
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
    close: () => engines.stop(),
  };
}
