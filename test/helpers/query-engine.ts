/** A locked DuckDB without a lake, for the gate and what it lets through. */
import type { DuckDBConnection } from "@duckdb/node-api";

import { connectEngine, openEngine } from "../../src/query/engine.js";

export interface TestEngine {
  readonly connection: DuckDBConnection;
  /** Another connection; whoever takes it closes it. */
  connect(): Promise<DuckDBConnection>;
  close(): void;
}

/** Opens an instance whose directories do not exist, with one connection. */
export async function openTestEngine(): Promise<TestEngine> {
  const instance = await openEngine({
    lakeDirectory: "/nonexistent/lake",
    tempDirectory: "/nonexistent/temp",
    memoryLimitBytes: 256 << 20,
    maxTempBytes: 0,
    threads: 1,
  });
  const connection = await connectEngine(instance);
  return {
    connection,
    connect: () => connectEngine(instance),
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
}
