/**
 * The DuckDB that merges: one instance for the objects of one audience in one table, which can reach
 * their directory and nothing else, with a bound on memory and on what it spills.
 */
import { type DuckDBConnection, DuckDBInstance, type DuckDBValue } from "@duckdb/node-api";

import { quoteText } from "./duckdb-types.js";

/** How much an instance may use. */
export interface MergeEngineLimits {
  /** Absolute path for what does not fit into memory. */
  readonly tempDirectory: string;
  readonly memoryLimitBytes: number;
  readonly maxTempBytes: number;
  /** Threads, at least 1. */
  readonly threads: number;
}

/** A locked instance with its one connection. */
export interface MergeEngine {
  /** Runs a statement. @throws DuckDB's errors */
  run(sql: string): Promise<void>;
  /** Runs a query and returns its rows; BIGINT is bigint. @throws DuckDB's errors */
  rows(sql: string): Promise<DuckDBValue[][]>;
  /** Interrupts what it is doing. */
  interrupt(): void;
  /** Closes it; nothing may be running. */
  close(): void;
}

/** Opens an instance that reads and writes below `directory` (absolute) only, and locks it. */
export async function openMergeEngine(
  directory: string,
  limits: MergeEngineLimits,
): Promise<MergeEngine> {
  const instance = await DuckDBInstance.create(":memory:", {
    threads: String(limits.threads),
    memory_limit: `${limits.memoryLimitBytes}B`,
    temp_directory: limits.tempDirectory,
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
    allow_community_extensions: "false",
  });
  let connection: DuckDBConnection | null = null;
  try {
    const opened = await instance.connect();
    connection = opened;
    for (const [name, value] of [
      // Told when the instance is made, it would be ignored.
      ["max_temp_directory_size", `'${limits.maxTempBytes}B'`],
      ["parquet_metadata_cache", "true"],
      // A file's order is read back by its row numbers, and a sort's must survive writing.
      ["preserve_insertion_order", "true"],
      ["allowed_directories", `[${quoteText(directory)}]`],
      ["enable_external_access", "false"],
      ["lock_configuration", "true"],
    ] as const) {
      await opened.run(`SET GLOBAL ${name} = ${value}`);
    }
    return {
      run: async (sql) => {
        await opened.run(sql);
      },
      rows: async (sql) => (await opened.runAndReadAll(sql)).getRows(),
      interrupt: () => {
        opened.interrupt();
      },
      close: () => {
        opened.closeSync();
        instance.closeSync();
      },
    };
  } catch (error) {
    connection?.closeSync();
    instance.closeSync();
    throw error;
  }
}
