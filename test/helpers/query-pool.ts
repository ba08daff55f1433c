/** Query threads without a server around them, and their results as Arrow tables. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { type Table, tableFromIPC } from "apache-arrow";

import type { QuerySources } from "../../src/query/run.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { QueryPool } from "../../src/workers/query-client.js";
import { createTappedLogger } from "./cleartext-tap.js";
import { ipcOf } from "./flight-ipc.js";

export interface TestPool {
  readonly pool: QueryPool;
  readonly lakeDirectory: string;
  /** Runs a query to its end. */
  query(sql: string, sources?: QuerySources): Promise<Table>;
  stop(): Promise<void>;
}

export const noSources: QuerySources = { files: [], rows: [] };

/** Starts a pool over an empty directory. */
export async function startTestPool(o?: {
  readonly threads?: number;
  readonly queriesPerThread?: number;
  readonly memoryLimitBytes?: number;
  readonly maxResultRows?: number;
  readonly maxResultBytes?: number;
}): Promise<TestPool> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-query-"));
  const lakeDirectory = path.join(directory, "lake");
  const pool = await QueryPool.start({
    lakeDirectory,
    tempDirectory: path.join(directory, "temp"),
    memoryLimitBytes: o?.memoryLimitBytes ?? 256 << 20,
    maxTempBytes: 256 << 20,
    maxResultRows: o?.maxResultRows ?? 0,
    maxResultBytes: o?.maxResultBytes ?? 0,
    threads: 2,
    poolThreads: o?.threads ?? 1,
    queriesPerThread: o?.queriesPerThread ?? 4,
    maxQueue: 100,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
  return {
    pool,
    lakeDirectory,
    query: async (sql, sources = noSources) => {
      const { executable } = await pool.inspect(sql);
      const parts: Uint8Array[] = [];
      for await (const message of pool.run(executable, sources, new AbortController().signal)) {
        parts.push(...ipcOf(message));
      }
      return tableFromIPC(parts);
    },
    stop: async () => {
      await pool.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
