/**
 * One locked DuckDB (architecture.md, "Queries": the second fence): in memory, no access but to the
 * lake's directory, no extensions beyond those built in, no setting that can be changed any more.
 */
import { DuckDBInstance, type DuckDBConnection } from "@duckdb/node-api";

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

/** Result rows that DuckDB may compute ahead of the reader, for each query. */
const streamingBufferBytes = 4 << 20;

/** Opens an instance and locks it. */
export async function openEngine(o: EngineOptions): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(":memory:", {
    threads: String(o.threads),
    memory_limit: `${o.memoryLimitBytes}B`,
    temp_directory: o.tempDirectory,
    max_temp_directory_size: `${o.maxTempBytes}B`,
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
    allow_community_extensions: "false",
  });
  const connection = await instance.connect();
  try {
    for (const [name, value] of [
      ["streaming_buffer_size", `'${streamingBufferBytes}B'`],
      // Objects never change, so what was learnt about one holds.
      ["parquet_metadata_cache", "true"],
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

/**
 * What DuckDB lacks and the SQL surface has (decisions.md): `property_get(properties, 'a.b')` reads one
 * attribute, whose name may hold dots. A JSON pointer names it exactly, so `~` and `/` are escaped.
 */
const macros = `
  CREATE OR REPLACE TEMP MACRO property_get(properties, name) AS
    json_extract_string(properties, '/' || replace(replace(name, '~', '~0'), '/', '~1'))`;

/** A connection for one query, with our macros. Close it after the query. */
export async function connectEngine(instance: DuckDBInstance): Promise<DuckDBConnection> {
  const connection = await instance.connect();
  await connection.run(macros);
  return connection;
}
