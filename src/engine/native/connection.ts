/** Connections, statements and results of DuckDB's C interface, with its errors as exceptions. */
import { type Libraries, loadLibraries, type Pointer, type ResultStruct } from "./library.js";
import { NativeMemory } from "./memory.js";

/** A failure that DuckDB words: its sentence, with the class in front and the position behind. */
export class DuckDbError extends Error {
  override readonly name = "DuckDbError";
}

/** What every native call of a thread needs. */
export interface Native extends Libraries {
  readonly memory: NativeMemory;
}

/** Loads everything native. Once in a thread. @throws Error that says what is missing */
export function loadNative(): Native {
  const libraries = loadLibraries();
  return { ...libraries, memory: new NativeMemory(libraries.c) };
}

/** A connection; close it. */
export class Connection {
  readonly native: Native;
  readonly handle: Pointer;
  /** Of its instance, in bytes. */
  readonly memoryBytes: number;
  #closed = false;

  /** @throws DuckDbError */
  constructor(native: Native, database: Pointer, memoryBytes: number) {
    const { duckdb, memory } = native;
    if (duckdb.connect(database, memory.out()) !== 0) {
      throw new DuckDbError("Connection Error: no connection to DuckDB could be opened");
    }
    this.native = native;
    this.memoryBytes = memoryBytes;
    this.handle = memory.taken();
  }

  /** Runs SQL to its end. @returns how many rows it changed. @throws DuckDbError */
  run(sql: string): number {
    const result = new Result(this.native);
    try {
      result.made(this.native.duckdb.query(this.handle, cString(sql), result.address));
      return result.changed();
    } finally {
      result.close();
    }
  }

  /** Prepares one statement. @throws DuckDbError */
  prepare(sql: string): Statement {
    return new Statement(this.native, this.handle, sql);
  }

  close(): void {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.native.duckdb.disconnect(this.native.memory.box(this.handle));
  }
}

/** A prepared statement; close it. */
export class Statement {
  readonly #native: Native;
  readonly handle: Pointer;

  constructor(native: Native, connection: Pointer, sql: string) {
    const { duckdb, memory } = native;
    this.#native = native;
    const state = duckdb.prepare(connection, cString(sql), memory.out());
    this.handle = memory.taken();
    if (state === 0) {
      return;
    }
    const message = duckdb.prepare_error(this.handle) ?? "Error: the statement was not prepared";
    this.close();
    throw new DuckDbError(message);
  }

  /** Starts it. @param mode `all`: every row is there when this returns. @throws DuckDbError */
  execute(mode: "stream" | "all"): Result {
    const result = new Result(this.#native);
    try {
      this.#run(mode, result);
    } catch (error) {
      result.close();
      throw error;
    }
    return result;
  }

  close(): void {
    this.#native.duckdb.destroy_prepare(this.#native.memory.box(this.handle));
  }

  /**
   * Waits for the first rows, or for all. DuckDB's own call asks for them again and again without a pause, which takes a
   * core from the threads that compute them: 60% more processor time for an aggregation on two cores, and several times
   * as much for writing a file, which other threads do.
   */
  #run(mode: "stream" | "all", result: Result): void {
    const { duckdb, memory } = this.#native;
    const start = mode === "stream" ? duckdb.pending_prepared_streaming : duckdb.pending_prepared;
    const state = start(this.handle, memory.out());
    const pending = memory.taken();
    const failed = (): DuckDbError => new DuckDbError(duckdb.pending_error(pending) ?? "Error: the statement failed");
    try {
      if (state !== 0) {
        throw failed();
      }
      /** Since when there has been nothing to compute here. */
      let idleFromMs: number | null = null;
      for (;;) {
        const found = duckdb.pending_execute_task(pending);
        if (found === pendingStates.ready) {
          break;
        }
        // Here and not below, where it would come wrapped into another one.
        if (found === pendingStates.error) {
          throw failed();
        }
        if (found === pendingStates.noTasks) {
          const nowMs = performance.now();
          idleFromMs ??= nowMs;
          pause((nowMs - idleFromMs) / 2);
        } else {
          idleFromMs = null;
        }
      }
      result.made(duckdb.execute_pending(pending, result.address));
    } finally {
      duckdb.destroy_pending(memory.box(pending));
    }
  }
}

/** duckdb_pending_state */
const pendingStates = { ready: 0, error: 2, noTasks: 3 } as const;
const nobodyWakes = new Int32Array(new SharedArrayBuffer(4));
/**
 * Each pause that ends takes some 30 us from the threads that compute, and a result waits for the end of one. So pauses
 * grow: mostly the others have what is left of a pipeline, and are done in a millisecond.
 */
const pauseMs = { least: 0.05, most: 3 } as const;

function pause(ms: number): void {
  Atomics.wait(nobodyWakes, 0, 0, Math.min(Math.max(ms, pauseMs.least), pauseMs.most));
}

/** What DuckDB puts before the error of a statement that fails between its first rows and the call for its result. */
const askedAgain =
  /^Invalid Input Error: Attempting to execute an unsuccessful or closed pending query result\s+Error: /u;

/** duckdb_result: five words that are no longer used, and the address of what it holds. */
const resultWords = 6;

/** A result; close it. */
export class Result {
  readonly #native: Native;
  /** Where DuckDB puts it. */
  readonly address: Pointer;
  #handle: ResultStruct = { unused: [0, 0, 0, 0, 0], internal: 0 };

  constructor(native: Native) {
    this.#native = native;
    this.address = native.c.calloc(resultWords, 8);
    if (this.address === 0) {
      throw new DuckDbError("Out of Memory Error: no room for a result");
    }
  }

  /** Call it when DuckDB has. @throws DuckDbError when that was a failure */
  made(state: number): void {
    if (state !== 0) {
      throw this.error();
    }
    const internal = this.#native.memory.pointerAt(this.address + (resultWords - 1) * 8);
    this.#handle = { ...this.#handle, internal };
  }

  /** The next chunk, 0 behind the last; destroy it. @throws DuckDbError */
  fetch(): Pointer {
    const { duckdb } = this.#native;
    const chunk = duckdb.fetch_chunk(this.#handle);
    // A fetch that failed looks like the end.
    if (chunk === 0 && duckdb.result_error_type(this.address) !== 0) {
      throw this.error();
    }
    return chunk;
  }

  /** Rows that the statement changed. */
  changed(): number {
    return Number(this.#native.duckdb.rows_changed(this.address));
  }

  /** What DuckDB says went wrong. */
  error(): DuckDbError {
    const words = this.#native.duckdb.result_error(this.address) ?? "Error: the statement failed";
    return new DuckDbError(words.replace(askedAgain, ""));
  }

  close(): void {
    this.#native.duckdb.destroy_result(this.address);
    this.#native.c.free(this.address);
  }
}

/** @throws DuckDbError for a NUL, behind which C sees nothing */
function cString(text: string): string {
  if (text.includes("\0")) {
    throw new DuckDbError("Parser Error: the text holds a NUL character");
  }
  return text;
}
