/** An engine without a lake, for the gate and what it lets through. */
import { resultsOf } from "../../../src/query/backend/engine-backend.js";
import { inspectInstance, type RunSteps } from "../../../src/query/backend/engine-instances.js";
import { gateTrees } from "../../../src/query/backend/gate-trees.js";
import type { Inspector } from "../../../src/query/backend/inspect.js";
import { metricMacros } from "../../../src/query/sql/metric-macros.js";
import type { EngineStep, RowValue } from "../../../src/engine/protocol.js";
import { startTestBackend } from "./query-backend.js";

export interface TestEngine extends Inspector {
  /** Runs a query, which may call all macros. */
  rows(sql: string): Promise<readonly (readonly RowValue[])[]>;
  close(): Promise<void>;
}

/** Makes the macros that a text names; none of them calls another. */
function macrosOf(text: string): EngineStep[] {
  const named = Object.entries(metricMacros).filter(([name]) => text.includes(name));
  return named.map(([, definition]) => ({ kind: "execute", sql: `CREATE TEMP MACRO ${definition}` }));
}

/** Starts a process and takes it. */
export async function openTestEngine(): Promise<TestEngine> {
  const t = await startTestBackend({ engines: 1, memoryBytes: 4 * 2 ** 30 });
  const lease = await t.engines.lease(inspectInstance, new AbortController().signal);
  const run: RunSteps = async (steps) => resultsOf(await lease.run(inspectInstance, steps));
  return {
    run,
    gate: (work) => Promise.resolve(gateTrees(work)),
    rows: async (sql) => {
      const results = await run([...macrosOf(sql), { kind: "rows", sql, maxBytes: 1 << 20 }]);
      return results.at(-1)?.rows ?? [];
    },
    close: async () => {
      lease.release();
      await t.stop();
    },
  };
}
