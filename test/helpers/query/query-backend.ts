/** Query engines without a server around them, and their results as Arrow tables. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { type Table, tableFromIPC } from "apache-arrow";

import { EngineSupervisor, type EngineSupervisorOptions } from "../../../src/engine/supervisor.js";
import type { AskOptions, QueryBackend, QueryStream } from "../../../src/query/backend/backend.js";
import { EngineBackend, type EngineBackendOptions } from "../../../src/query/backend/engine-backend.js";
import type { Executable, InspectOptions, Inspection } from "../../../src/query/backend/inspect.js";
import type { QuerySources, ResultLimits } from "../../../src/query/backend/run.js";
import { createScrubber } from "../../../src/query/backend/scrub.js";
import { createMetrics, type Metrics } from "../../../src/runtime/metrics.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";
import { ipcOf } from "../flight/flight-ipc.js";

/** Sources; what is not said may be read from the whole lake. */
export type TestSources = Omit<QuerySources, "directories"> & Partial<QuerySources>;

export interface TestBackend {
  readonly backend: QueryBackend;
  readonly engines: EngineSupervisor;
  readonly metrics: Metrics;
  readonly lakeDirectory: string;
  readonly tempDirectory: string;
  inspect(sql: string, o?: InspectOptions): Promise<Inspection>;
  /** Runs what has passed the gate, or is as if it had. */
  run(query: Executable, sources?: TestSources, ask?: Partial<AskOptions>): QueryStream;
  /** Runs a query to its end. */
  query(sql: string, sources?: TestSources): Promise<Table>;
  stop(): Promise<void>;
}

export const noSources: TestSources = { files: [], rows: [] };

/** Starts engines over an empty directory. */
export async function startTestBackend(
  o: Partial<EngineSupervisorOptions & ResultLimits & Pick<EngineBackendOptions, "planningMs" | "gateThread">> = {},
): Promise<TestBackend> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-query-"));
  const lakeDirectory = path.join(directory, "lake");
  const tempDirectory = path.join(directory, "temp");
  await mkdir(tempDirectory);
  const metrics = createMetrics();
  const engines = await EngineSupervisor.start({
    engines: 4,
    spares: 1,
    memoryBytes: 512 << 20,
    tempBytes: 256 << 20,
    tempDirectory,
    threads: 2,
    logger: createTappedLogger(),
    metrics,
    ...o,
  });
  const backend = new EngineBackend({
    engines,
    scrub: createScrubber([lakeDirectory, tempDirectory]),
    maxResultRows: o.maxResultRows ?? 0,
    maxResultBytes: o.maxResultBytes ?? 0,
    planningMs: o.planningMs ?? 60_000,
    ...(o.gateThread === undefined ? {} : { gateThread: o.gateThread }),
  });
  const never = new AbortController().signal;
  const run: TestBackend["run"] = (query, sources = noSources, ask = {}) =>
    backend.run(query, { directories: [lakeDirectory], ...sources }, { signal: never, ...ask });
  const inspect: TestBackend["inspect"] = (sql, options) => backend.inspect(sql, { signal: never }, options);
  return {
    backend,
    engines,
    metrics,
    lakeDirectory,
    tempDirectory,
    inspect,
    run,
    query: async (sql, sources) => {
      const { executable } = await inspect(sql);
      const parts: Uint8Array[] = [];
      for await (const message of run(executable, sources)) {
        parts.push(...ipcOf(message));
      }
      return tableFromIPC(parts);
    },
    stop: async () => {
      await engines.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
