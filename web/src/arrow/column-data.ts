/**
 * Columns as plain data that crosses from the worker to the page without a copy: views of the memory that the server's
 * messages arrived in, and what they mean.
 */

export type TimeUnit = "s" | "ms" | "us" | "ns";
/** Nanoseconds of one. */
export const nsOf: Readonly<Record<TimeUnit, bigint>> = { s: 1_000_000_000n, ms: 1_000_000n, us: 1000n, ns: 1n };

/** What the values of a column mean. */
export type ColumnType =
  | { readonly kind: "null" | "bool" | "text" | "bytes" }
  | { readonly kind: "int"; readonly bits: number; readonly signed: boolean }
  | { readonly kind: "float"; readonly bits: number }
  /** `words` of 32 bits. */
  | { readonly kind: "decimal"; readonly precision: number; readonly scale: number; readonly words: number }
  /** `zoned`: a point in time; otherwise one of the wall clock, which here is UTC. */
  | { readonly kind: "timestamp"; readonly unit: TimeUnit; readonly zoned: boolean }
  | { readonly kind: "date"; readonly unit: "day" | "ms" }
  | { readonly kind: "time" | "duration"; readonly unit: TimeUnit }
  | { readonly kind: "interval"; readonly unit: "months" | "day-time" | "month-day-nano" }
  | { readonly kind: "dictionary"; readonly values: ColumnType }
  | { readonly kind: "list"; readonly item: ColumnType; readonly fixedSize: number | null }
  | { readonly kind: "struct"; readonly fields: readonly Field[] }
  | { readonly kind: "map"; readonly key: ColumnType; readonly value: ColumnType }
  | { readonly kind: "unknown"; readonly name: string };

export interface Field {
  readonly name: string;
  readonly type: ColumnType;
}

export type Values =
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** A batch of one column, laid out as Arrow has it. */
export interface ColumnData {
  readonly length: number;
  /** A bit for each row, the lowest first; null: no row is null. */
  readonly validity: Uint8Array | null;
  /** Numbers, bits of booleans, bytes of texts, indexes of a dictionary. */
  readonly values: Values | null;
  /** Of texts, lists and maps: where each row's values begin; one more than there are rows. */
  readonly offsets: Int32Array | BigInt64Array | null;
  /** Of lists one, of structs one for each field, of maps one struct of key and value. */
  readonly children: readonly ColumnData[];
  /** The distinct values, in parts. */
  readonly dictionary: readonly ColumnData[] | null;
}
