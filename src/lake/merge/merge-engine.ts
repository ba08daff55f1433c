/**
 * The DuckDB that merges: an engine process of its own, with a bound on memory and on what it spills, which reaches the
 * objects of one audience in one table at a time and nothing else. Merges that follow each other may share it.
 */
import { processCpuSeconds } from "../../engine/process-cpu.js";
import type { EngineStep, EngineValue, RowValue, StepResult } from "../../engine/protocol.js";
import { EngineSupervisor } from "../../engine/supervisor.js";
import { createSilentLogger } from "../../runtime/log/log.js";
import { createMetrics } from "../../runtime/metrics.js";
import type { MergeContext } from "./merge.js";

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
  /** Ends it, or leaves it to the next merge. */
  close(): Promise<void>;
}

/** The message of what a job throws whose engine ended, but for its memory. */
export const engineHasEnded = "the process that merges has ended";

/** Whether a job failed because its engine was killed, by the system for its memory or by somebody. */
export function isOfEndedEngine(error: unknown): boolean {
  return error instanceof Error && (error.message.endsWith(engineHasEnded) || isOfEndedEngine(error.cause));
}

/** How often is asked whether the caller has given up. */
const watchEveryMs = 10;
/** Most text that rows bring back: they are few, and narrow. */
const maxRowBytes = 64 << 20;
/** A start costs as much CPU as sorting some 50,000 rows, and in a look several merges follow each other. */
const idleMs = 10_000;

/** Engine processes for merges, one at a time: it starts with the first job, and ends when none follows for a while. */
export class MergeEngines {
  readonly #limits: MergeEngineLimits;
  #starting: Promise<EngineSupervisor> | null = null;
  #counted: { readonly pid: number; readonly seconds: number } | null = null;

  constructor(limits: MergeEngineLimits) {
    this.#limits = limits;
  }

  /** Who lends the process. */
  supervisor(): Promise<EngineSupervisor> {
    this.#starting ??= this.#start().catch((error: unknown) => {
      this.#starting = null;
      throw error;
    });
    return this.#starting;
  }

  /** CPU seconds that were used since this was last asked, that of a start included. Starts nothing. */
  async usedSeconds(): Promise<number> {
    const engines = await this.#starting?.catch(() => null); // who asked for it has the error
    let used = 0;
    for (const pid of engines?.pids ?? []) {
      const seconds = processCpuSeconds(pid);
      used += seconds - (this.#counted?.pid === pid ? this.#counted.seconds : 0);
      this.#counted = { pid, seconds };
    }
    return used;
  }

  /** Ends the process, whatever it does; the next job starts another. */
  async stop(): Promise<void> {
    const engines = await this.#starting?.catch(() => null); // who asked has the error
    this.#starting = null;
    await engines?.stop();
  }

  async #start(): Promise<EngineSupervisor> {
    const { tempDirectory, memoryLimitBytes, maxTempBytes, threads } = this.#limits;
    return EngineSupervisor.start({
      engines: 1,
      spares: 0,
      idleMs,
      memoryBytes: memoryLimitBytes,
      tempBytes: maxTempBytes,
      tempDirectory,
      threads,
      // The caller of a merge gets its errors.
      logger: createSilentLogger(),
      metrics: createMetrics(),
    });
  }
}

/**
 * A process that starts with its first job.
 * @param spend is told the CPU seconds of each job, and of the start
 * @param shared whose process it is; absent: one of its own
 */
export function startMergeProcess(
  limits: MergeEngineLimits,
  spend: (cpuSeconds: number) => void = () => undefined,
  shared?: MergeEngines,
): MergeProcess {
  const engines = shared ?? new MergeEngines(limits);
  const controller = new AbortController();
  const { signal } = controller;
  const ask = async (directory: string, step: EngineStep): Promise<StepResult | undefined> => {
    const instance = { key: `merge ${directory}`, directories: [directory], paths: [], setup: [] };
    const lease = await (await engines.supervisor()).lease(instance, signal);
    try {
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
      // An engine that is not used again is gone once it is released.
      const used = await engines.usedSeconds();
      lease.release();
      spend(used);
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
      if (shared === undefined) {
        await engines.stop();
      }
    },
  };
}

/** Does `work` with a process, which is interrupted when the caller gives up, and closed at the end. */
export async function withMergeProcess<T>(
  { limits, share, engines, cancelled }: MergeContext,
  work: (process: MergeProcess) => Promise<T>,
): Promise<T> {
  const process = startMergeProcess(limits, (seconds) => share?.spend(seconds), engines);
  const watch = setInterval(() => {
    if (cancelled()) {
      process.interrupt();
    }
  }, watchEveryMs);
  try {
    return await work(process);
  } finally {
    clearInterval(watch);
    await process.close();
  }
}
