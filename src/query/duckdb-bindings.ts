/**
 * The few raw calls of DuckDB's C API that give a vector's memory at once; @duckdb/node-api offers
 * values one by one only. All of them copy out of DuckDB's memory, so what they return stays valid.
 */
import { createRequire } from "node:module";

import type { DuckDBDataChunk, DuckDBPendingResult } from "@duckdb/node-api";

/** A vector of a chunk; it lives as long as the chunk. */
export interface RawVector {
  readonly __duckdb_type: "duckdb_vector";
}

/** A statement that is being executed. */
export interface RawPending {
  readonly __duckdb_type: "duckdb_pending_result";
}

/** The calls used here, as @duckdb/node-bindings exports them. */
export interface RawBindings {
  /** The state of an execution; nothing is executed by asking. */
  pending_execute_check_state(pending: RawPending): number;
  /** What went wrong; empty or null when nothing did. */
  pending_error(pending: RawPending): string | null;
  /** Whether that state is one in which there is a result to be had, or an error. */
  pending_execution_is_finished(state: number): boolean;
  data_chunk_get_size(chunk: DuckDBDataChunk["chunk"]): number;
  data_chunk_get_vector(chunk: DuckDBDataChunk["chunk"], column: number): RawVector;
  vector_get_data(vector: RawVector, bytes: number): Uint8Array;
  /** Null when every row is valid; a multiple of 8 bytes, bit i of byte i >> 3 set when row i is valid. */
  vector_get_validity(vector: RawVector, bytes: number): Uint8Array | null;
  list_vector_get_child(vector: RawVector): RawVector;
  list_vector_get_size(vector: RawVector): number;
  struct_vector_get_child(vector: RawVector, index: number): RawVector;
  array_vector_get_child(vector: RawVector): RawVector;
  /** Copies `bytes` from the address that stands at `offset` of `buffer`. */
  get_data_from_pointer(buffer: ArrayBuffer, offset: number, bytes: number): Uint8Array;
}

/** Loads the bindings that @duckdb/node-api itself uses (a dependency of it, not of this package). */
export function loadRawBindings(): RawBindings {
  const here = createRequire(import.meta.url);
  const ofApi = createRequire(here.resolve("@duckdb/node-api"));
  return ofApi("@duckdb/node-bindings") as RawBindings;
}

/** The raw side of an execution, which @duckdb/node-api keeps to itself: it asks by executing only. */
export function pendingOf(pending: DuckDBPendingResult): RawPending {
  return (pending as unknown as { readonly pending_result: RawPending }).pending_result;
}
