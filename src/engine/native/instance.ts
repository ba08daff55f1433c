/**
 * One locked DuckDB: in memory, no access but to the directories and files that it is given, no
 * extensions beyond those built in, no setting that can be changed. Opening one costs 11 ms.
 */
import { quoteText } from "../../runtime/text/sql-text.js";
import type { InstanceOptions } from "../protocol.js";
import { Connection, DuckDbError, type Native } from "./connection.js";
import type { Pointer } from "./library.js";
import type { RowFunction } from "./row-function.js";

/** An instance; close it when all its connections are closed. */
export class Instance {
  readonly key: string;
  readonly #native: Native;
  readonly #handle: Pointer;
  readonly #memoryBytes: number;
  /** Opened ahead, which takes a third of a millisecond; it has done nothing yet. */
  #next: Connection | null = null;

  private constructor({ key, memoryBytes }: InstanceOptions, native: Native, handle: Pointer) {
    this.key = key;
    this.#native = native;
    this.#handle = handle;
    this.#memoryBytes = memoryBytes;
  }

  /**
   * Opens an instance and locks it.
   * @param rows known to it, which then has its caller's thread alone; null: none
   * @throws DuckDbError
   */
  static open(native: Native, options: InstanceOptions, rows: RowFunction | null): Instance {
    // Two instances in one directory would overwrite each other's files.
    const o = rows === null ? options : { ...options, tempDirectory: `${options.tempDirectory}-in-place` };
    const instance = new Instance(o, native, openDatabase(native, rows === null ? o : { ...o, threads: 1 }));
    try {
      const connection = instance.connect();
      try {
        rows?.define(connection);
        for (const sql of o.setup) {
          connection.run(sql);
        }
        for (const [name, value] of lockedSettings(o)) {
          connection.run(`SET GLOBAL ${name} = ${value}`);
        }
      } finally {
        connection.close();
      }
    } catch (error) {
      instance.close();
      throw error;
    }
    return instance;
  }

  /** A connection that nobody has used. @throws DuckDbError */
  connect(): Connection {
    const connection = this.#next ?? this.#open();
    this.#next = null;
    return connection;
  }

  /** Opens the next connection ahead. */
  prepareNext(): void {
    try {
      this.#next ??= this.#open();
    } catch (error) {
      // Who asks for one is told what is wrong.
      if (!(error instanceof DuckDbError)) {
        throw error;
      }
    }
  }

  #open(): Connection {
    const connection = new Connection(this.#native, this.#handle, this.#memoryBytes);
    try {
      computeAhead(connection, "any");
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  close(): void {
    this.#next?.close();
    this.#native.duckdb.close(this.#native.memory.box(this.#handle));
  }
}

/**
 * So far DuckDB computes ahead of what is fetched, at most. Four times as much makes no stream with texts shorter, and the
 * first rows late. Numbers are quick to make, and their streams a fifth shorter.
 */
const aheadBytes = { any: 1_000_000, numbers: 32_000_000 } as const;

/**
 * The part of its memory that is. DuckDB counts a text as 16 bytes, so rows of a time, a number and a text of 20,000
 * bytes take a sixth of the memory.
 */
const partAhead = { any: 4096, numbers: 8 } as const;

/** For the statements of a connection that are started from now on. @throws DuckDbError */
export function computeAhead(connection: Connection, far: keyof typeof aheadBytes): void {
  const bytes = Math.min(aheadBytes[far], Math.floor(connection.memoryBytes / partAhead[far]));
  connection.run(`SET streaming_buffer_size = '${bytes}B'`);
}

/** The thread that asks is one of its threads. */
function openDatabase({ duckdb, memory }: Native, o: InstanceOptions): Pointer {
  duckdb.create_config(memory.out());
  const config = memory.taken();
  try {
    for (const [name, value] of Object.entries({
      threads: String(o.threads),
      memory_limit: `${o.memoryBytes}B`,
      temp_directory: o.tempDirectory,
      autoinstall_known_extensions: "false",
      autoload_known_extensions: "false",
      allow_community_extensions: "false",
      // Syntax trees of every statement can be printed, not only of those that DuckDB 0.10 knew.
      storage_compatibility_version: "latest",
    })) {
      if (duckdb.set_config(config, name, value) !== 0) {
        throw new DuckDbError(`Invalid Configuration Error: ${name} cannot be ${value}`);
      }
    }
    if (duckdb.open_ext(null, memory.out(0), config, memory.out(1)) !== 0) {
      const message = memory.text(memory.taken(1));
      duckdb.free(memory.taken(1));
      throw new DuckDbError(message);
    }
    return memory.taken(0);
  } finally {
    duckdb.destroy_config(memory.box(config));
  }
}

function lockedSettings(o: InstanceOptions): readonly (readonly [name: string, value: string])[] {
  return [
    // Objects never change, so what was learnt about one holds.
    ["parquet_metadata_cache", "true"],
    // Told when the instance is made, it would be ignored.
    ["max_temp_directory_size", `'${o.tempBytes}B'`],
    ["TimeZone", "'UTC'"],
    ["allowed_directories", textList(o.directories)],
    ["allowed_paths", textList(o.paths)],
    // The one that can be set for a connection only.
    ["allowed_configs", "['streaming_buffer_size']"],
    ["enable_external_access", "false"],
    ["lock_configuration", "true"],
  ];
}

function textList(texts: readonly string[]): string {
  return `[${texts.map(quoteText).join(", ")}]`;
}
