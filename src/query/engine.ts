/**
 * One locked DuckDB (architecture.md, "Queries": the second fence): in memory, no access but to the
 * lake's directory, no extensions beyond those built in, no setting that can be changed any more.
 */
import { DuckDBInstance, type DuckDBConnection } from "@duckdb/node-api";

import { boundedFunctions } from "./bounded-functions.js";
import { sqlMacros } from "./sql-macros.js";

/** How much an instance may use. */
export interface EngineOptions {
  /** Absolute path; the only directory that can be read. */
  readonly lakeDirectory: string;
  /** Absolute path for what does not fit into memory. */
  readonly tempDirectory: string;
  readonly memoryLimitBytes: number;
  readonly maxTempBytes: number;
  /** Threads of one instance, at least 1. */
  readonly threads: number;
}

/** Opens an instance and locks it. */
export async function openEngine(o: EngineOptions): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(":memory:", {
    threads: String(o.threads),
    // All of them are DuckDB's own, because no thread of Node's waits for a query to compute; and they
    // take turns among the queries, so that a short one is not behind a long one.
    external_threads: "0",
    scheduler_process_partial: "true",
    memory_limit: `${o.memoryLimitBytes}B`,
    temp_directory: o.tempDirectory,
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
    allow_community_extensions: "false",
    // Syntax trees of every statement can be printed, not only of those that DuckDB 0.10 knew.
    storage_compatibility_version: "latest",
  });
  const connection = await instance.connect();
  try {
    for (const macro of [...sqlMacros, ...boundedFunctions])
      await connection.run(`CREATE MACRO ${macro}`);
    for (const [name, value] of [
      // Objects never change, so what was learnt about one holds.
      ["parquet_metadata_cache", "true"],
      // Told when the instance is made, it would be ignored.
      ["max_temp_directory_size", `'${o.maxTempBytes}B'`],
      ["TimeZone", "'UTC'"],
      ["allowed_directories", `['${o.lakeDirectory.replaceAll("'", "''")}']`],
      ["enable_external_access", "false"],
      ["lock_configuration", "true"],
    ] as const) {
      await connection.run(`SET GLOBAL ${name} = ${value}`);
    }
  } finally {
    connection.closeSync();
  }
  return instance;
}

/** A connection for one query. Close it after the query. */
export function connectEngine(instance: DuckDBInstance): Promise<DuckDBConnection> {
  return instance.connect();
}

/** Fresh connections, one of them opened ahead: a query need not wait for its own. */
export interface ConnectionSource {
  /** A connection that nobody has used. Close it after the query. */
  take(): Promise<DuckDBConnection>;
  /** Closes the one that nobody has taken; call it before the instance is closed. */
  close(): Promise<void>;
}

/** Creates the source of an instance. */
export function createConnectionSource(instance: DuckDBInstance): ConnectionSource {
  let ahead: Promise<DuckDBConnection> | null = null;
  let closed = false;
  return {
    take: async () => {
      const taken = ahead ?? connectEngine(instance);
      ahead = null;
      const connection = await taken;
      if (!closed) {
        ahead ??= connectEngine(instance);
        // Reported to whoever takes it.
        ahead.catch(() => undefined);
      }
      return connection;
    },
    close: async () => {
      closed = true;
      const left = ahead;
      ahead = null;
      const connection = await left?.catch(() => null);
      connection?.closeSync();
    },
  };
}
