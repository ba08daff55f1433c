/**
 * DuckDB's C interface (duckdb.h) as functions, called through koffi. Pointers are numbers: addresses of user space fit
 * into 48 bits. A call costs 0.1 to 0.2 us beside what it does; one that takes a structure, 1 us.
 */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import koffi, { type LibraryHandle, type TypeObject } from "koffi";

import { loadTrim } from "../unused-memory.js";

/** An address; 0 is none. */
export type Pointer = number;

/** A 128-bit number as DuckDB keeps it. */
export interface Int128 {
  readonly lower: bigint;
  readonly upper: bigint;
}

/** What a duckdb_result is to its reader: five words that are no longer used, and what it holds. */
export interface ResultStruct {
  readonly unused: readonly number[];
  readonly internal: Pointer;
}

/** What each C type is in JavaScript. */
interface CTypes {
  void: void;
  ptr: Pointer;
  /** Memory that C reads while it is called. */
  array: Uint8Array | BigUint64Array;
  bool: boolean;
  int32: number;
  float: number;
  double: number;
  int64: number | bigint;
  uint64: number | bigint;
  texts: readonly string[];
  /** UTF-8 up to a NUL; copied both ways. */
  str: string;
  /** The same, where there may be none. */
  text: string | null;
  hugeint: Int128;
  uhugeint: Int128;
  decimal: { readonly width: number; readonly scale: number; readonly value: Int128 };
  interval: { readonly months: number; readonly days: number; readonly micros: bigint };
  result: ResultStruct;
  callback: Callback;
}

/** A function of ours that C calls: see {@link Libraries.callback}. */
export type Callback = bigint & { readonly brand: "Callback" };

type CType = keyof CTypes;
type Signature = readonly [result: CType, ...parameters: CType[]];

/**
 * The functions that are used, by their names without `duckdb_`. Structures of one number are passed as that number.
 */
const signatures = {
  library_version: ["text"],
  create_config: ["int32", "ptr"],
  set_config: ["int32", "ptr", "str", "str"],
  destroy_config: ["void", "ptr"],
  open_ext: ["int32", "text", "ptr", "ptr", "ptr"],
  close: ["void", "ptr"],
  connect: ["int32", "ptr", "ptr"],
  disconnect: ["void", "ptr"],
  connection_get_arrow_options: ["void", "ptr", "ptr"],
  destroy_arrow_options: ["void", "ptr"],
  free: ["void", "ptr"],

  query: ["int32", "ptr", "str", "ptr"],
  prepare: ["int32", "ptr", "str", "ptr"],
  prepare_error: ["text", "ptr"],
  destroy_prepare: ["void", "ptr"],
  nparams: ["uint64", "ptr"],
  parameter_name: ["ptr", "ptr", "uint64"],
  param_logical_type: ["ptr", "ptr", "uint64"],
  bind_value: ["int32", "ptr", "uint64", "ptr"],
  prepared_statement_column_count: ["uint64", "ptr"],
  prepared_statement_column_name: ["ptr", "ptr", "uint64"],
  prepared_statement_column_logical_type: ["ptr", "ptr", "uint64"],
  pending_prepared: ["int32", "ptr", "ptr"],
  pending_prepared_streaming: ["int32", "ptr", "ptr"],
  pending_execute_task: ["int32", "ptr"],
  pending_error: ["text", "ptr"],
  execute_pending: ["int32", "ptr", "ptr"],
  destroy_pending: ["void", "ptr"],

  result_error: ["text", "ptr"],
  result_error_type: ["int32", "ptr"],
  rows_changed: ["uint64", "ptr"],
  column_count: ["uint64", "ptr"],
  column_name: ["text", "ptr", "uint64"],
  column_logical_type: ["ptr", "ptr", "uint64"],
  destroy_result: ["void", "ptr"],
  fetch_chunk: ["ptr", "result"],

  create_data_chunk: ["ptr", "array", "uint64"],
  destroy_data_chunk: ["void", "ptr"],
  data_chunk_get_size: ["uint64", "ptr"],
  data_chunk_get_vector: ["ptr", "ptr", "uint64"],
  vector_get_data: ["ptr", "ptr"],
  vector_get_validity: ["ptr", "ptr"],
  destroy_logical_type: ["void", "ptr"],
  create_logical_type: ["ptr", "int32"],
  get_type_id: ["int32", "ptr"],
  decimal_width: ["int32", "ptr"],
  decimal_scale: ["int32", "ptr"],
  list_type_child_type: ["ptr", "ptr"],
  array_type_child_type: ["ptr", "ptr"],
  map_type_key_type: ["ptr", "ptr"],
  map_type_value_type: ["ptr", "ptr"],
  struct_type_child_count: ["uint64", "ptr"],
  struct_type_child_type: ["ptr", "ptr", "uint64"],
  union_type_member_count: ["uint64", "ptr"],
  union_type_member_type: ["ptr", "ptr", "uint64"],

  to_arrow_schema: ["ptr", "ptr", "array", "texts", "uint64", "ptr"],
  data_chunk_to_arrow: ["ptr", "ptr", "ptr", "ptr"],
  error_data_message: ["text", "ptr"],
  destroy_error_data: ["void", "ptr"],

  create_scalar_function: ["ptr"],
  scalar_function_set_name: ["void", "ptr", "str"],
  scalar_function_set_varargs: ["void", "ptr", "ptr"],
  scalar_function_set_return_type: ["void", "ptr", "ptr"],
  scalar_function_set_volatile: ["void", "ptr"],
  scalar_function_set_special_handling: ["void", "ptr"],
  scalar_function_set_bind: ["void", "ptr", "callback"],
  scalar_function_set_function: ["void", "ptr", "callback"],
  register_scalar_function: ["int32", "ptr", "ptr"],
  destroy_scalar_function: ["void", "ptr"],
  scalar_function_bind_get_argument_count: ["uint64", "ptr"],
  scalar_function_bind_get_argument: ["ptr", "ptr", "uint64"],
  scalar_function_bind_set_error: ["void", "ptr", "str"],
  scalar_function_set_error: ["void", "ptr", "str"],
  expression_return_type: ["ptr", "ptr"],
  destroy_expression: ["void", "ptr"],

  create_bool: ["ptr", "bool"],
  create_int8: ["ptr", "int32"],
  create_uint8: ["ptr", "int32"],
  create_int16: ["ptr", "int32"],
  create_uint16: ["ptr", "int32"],
  create_int32: ["ptr", "int32"],
  create_uint32: ["ptr", "uint64"],
  create_int64: ["ptr", "int64"],
  create_uint64: ["ptr", "uint64"],
  create_hugeint: ["ptr", "hugeint"],
  create_uhugeint: ["ptr", "uhugeint"],
  create_uuid: ["ptr", "uhugeint"],
  create_decimal: ["ptr", "decimal"],
  create_float: ["ptr", "float"],
  create_double: ["ptr", "double"],
  create_date: ["ptr", "int32"],
  create_time: ["ptr", "int64"],
  create_time_ns: ["ptr", "int64"],
  create_timestamp: ["ptr", "int64"],
  create_timestamp_tz: ["ptr", "int64"],
  create_timestamp_s: ["ptr", "int64"],
  create_timestamp_ms: ["ptr", "int64"],
  create_timestamp_ns: ["ptr", "int64"],
  create_interval: ["ptr", "interval"],
  create_varchar_length: ["ptr", "array", "uint64"],
  create_blob: ["ptr", "array", "uint64"],
  create_list_value: ["ptr", "ptr", "array", "uint64"],
  create_null_value: ["ptr"],
  destroy_value: ["void", "ptr"],
} as const satisfies Record<string, Signature>;

type Parameters<S extends Signature> = S extends readonly [CType, ...infer P]
  ? { [I in keyof P]: P[I] extends CType ? CTypes[P[I]] : never }
  : never;

/** The functions of {@link signatures}. */
export type DuckDb = {
  readonly [N in keyof typeof signatures]: (
    ...args: Parameters<(typeof signatures)[N]>
  ) => CTypes[(typeof signatures)[N][0]];
};

/** Functions of the C library. */
export interface CLibrary {
  readonly memcpy: (to: Pointer, from: Pointer, bytes: number) => Pointer;
  /** Zeroed memory; 0 when there is none. */
  readonly calloc: (count: number, bytes: number) => Pointer;
  readonly free: (memory: Pointer) => void;
  readonly strlen: (text: Pointer) => number;
  /** Bytes written, or -1: see {@link errno}. */
  readonly write: (fd: number, from: Pointer, bytes: number) => number;
}

/** The error of the last call into the C library. */
export function errno(): number {
  return koffi.errno();
}

/** Calls the `release` function of an ArrowSchema or ArrowArray (Arrow C data interface). */
export type Release = (release: Pointer, structure: Pointer) => void;

/** Everything native. */
export interface Libraries {
  readonly duckdb: DuckDb;
  /** Gives memory that nobody uses back to the system, as far as the allocators of this platform do that. */
  readonly giveBack: () => void;
  readonly c: CLibrary;
  readonly release: Release;
  /**
   * Has C call a function with up to three words, for as long as the process lives. It must not throw, and be called by
   * the thread that made it, within a call of that thread's: any other thread would wait for its event loop.
   */
  readonly callback: (call: (...words: Pointer[]) => void) => Callback;
}

/** Calls run on a stack of koffi's own, of 2 MiB: planning some hundred CTEs takes more. It takes no larger one. */
const callStackBytes = 16 << 20;

/** Loads the libraries. Once in a thread. @throws Error that says what is missing */
export function loadLibraries(): Libraries {
  koffi.config({ sync_stack_size: callStackBytes });
  const path = libraryPath();
  const library = koffi.load(path);
  const int128 = (upper: string): TypeObject => koffi.struct({ lower: "uint64_t", upper });
  const hugeint = int128("int64_t");
  const types: Record<CType, string | TypeObject> = {
    void: "void",
    ptr: "uint64_t",
    array: "const void *",
    bool: "bool",
    int32: "int32_t",
    float: "float",
    double: "double",
    int64: "int64_t",
    uint64: "uint64_t",
    texts: "const char **",
    str: "str",
    text: "str",
    hugeint,
    uhugeint: int128("uint64_t"),
    decimal: koffi.struct({ width: "uint8_t", scale: "uint8_t", value: hugeint }),
    interval: koffi.struct({ months: "int32_t", days: "int32_t", micros: "int64_t" }),
    result: koffi.struct({ unused: koffi.array("uint64_t", 5), internal: "uint64_t" }),
    callback: "void *",
  };
  const functions = Object.entries(signatures).map(([name, [result, ...parameters]]) => [
    name,
    library.func(
      `duckdb_${name}`,
      types[result],
      parameters.map((parameter) => types[parameter]),
    ),
  ]);
  const libc = koffi.load(null);
  const releaseType = koffi.proto("void", ["uint64_t"]);
  // Words that C does not pass are never looked at.
  const callbackType = koffi.pointer(koffi.proto("void", ["uint64_t", "uint64_t", "uint64_t"]));
  return {
    duckdb: Object.fromEntries(functions) as DuckDb,
    giveBack: loadGiveBack(library),
    c: {
      memcpy: libc.func("memcpy", "uint64_t", ["uint64_t", "uint64_t", "size_t"]),
      calloc: libc.func("calloc", "uint64_t", ["size_t", "size_t"]),
      free: libc.func("free", "void", ["uint64_t"]),
      strlen: libc.func("strlen", "size_t", ["uint64_t"]),
      write: libc.func("write", "int64_t", ["int", "uint64_t", "size_t"]),
    },
    release: (release, structure) => {
      koffi.call(BigInt(release), releaseType, structure);
    },
    callback: (call) => koffi.register(call, callbackType) as Callback,
  };
}

/** All arenas (MALLCTL_ARENAS_ALL of jemalloc). */
const purge = "arena.4096.purge";

/** DuckDB brings an allocator of its own on Linux. */
function loadGiveBack(library: LibraryHandle): () => void {
  const mallctl = optional(() =>
    library.func("duckdb_je_mallctl", "int", ["str", ...Array<string>(3).fill("uint64_t"), "size_t"]),
  );
  const trim = loadTrim();
  return () => {
    mallctl?.(purge, 0, 0, 0, 0);
    trim();
  };
}

/** Null where the platform does not have it. */
function optional<T>(load: () => T): T | null {
  try {
    return load();
  } catch {
    return null;
  }
}

/** Has DuckDB's allocator keep no address space that it does not use. Call it before anything else is loaded. */
export function setUpAllocator(): void {
  // It reads its variable when the library is loaded; nothing else is in the environment.
  koffi.load(null).func("setenv", "int", ["str", "str", "int"])("DUCKDB_JE_MALLOC_CONF", "retain:false", 1);
}

/** `duckdb_interrupt` alone, which any thread may call. @throws Error that says what is missing */
export function loadInterrupt(): (connection: Pointer) => void {
  return koffi.load(libraryPath()).func("duckdb_interrupt", "void", ["uint64_t"]);
}

/**
 * Ends the process at once, with an exit code. `process.exit` waits for calls that are under way: a read
 * from the server, or one into DuckDB.
 */
export function endProcess(code: number): void {
  koffi.load(null).func("_exit", "void", ["int"])(code);
}

/** The library that comes with the package of DuckDB's bindings for this platform. */
function libraryPath(): string {
  const name = `@duckdb/node-bindings-${process.platform}-${process.arch}`;
  const file = process.platform === "darwin" ? "libduckdb.dylib" : "libduckdb.so";
  const here = createRequire(import.meta.url);
  // The package of the platform is a dependency of the bindings, not of this package.
  const bindings = createRequire(here.resolve("@duckdb/node-bindings"));
  let cause: unknown;
  for (const libc of ["", "-musl"]) {
    try {
      return join(dirname(bindings.resolve(`${name}${libc}/package.json`)), file);
    } catch (error) {
      cause = error;
    }
  }
  throw new Error(
    `DuckDB's library is missing: the package ${name} is not installed; install the dependencies on this platform, with the optional ones.`,
    { cause },
  );
}

/** The address of a buffer's memory, which stays where it is for as long as the buffer is referred to. */
export function addressOf(bytes: Uint8Array): Pointer {
  return Number(koffi.address(bytes));
}
