/** Parquet files as DuckDB and as parquet-wasm read them, brought to the same plain values. */
import {
  type DuckDBConnection,
  DuckDBListValue,
  DuckDBStructValue,
  DuckDBTimestampNanosecondsValue,
  type DuckDBValue,
} from "@duckdb/node-api";
import { type Data, tableFromIPC, Type } from "apache-arrow";
import { readParquet } from "parquet-wasm";
import type { PlainValue } from "./lake-rows.js";

/** Columns by name, values in row order. */
type PlainColumns = Record<string, PlainValue[]>;

/** A value of DuckDB as a plain one. */
export function plainOfDuckDb(value: DuckDBValue): PlainValue {
  if (value instanceof DuckDBTimestampNanosecondsValue) {
    return value.nanos;
  }
  if (value instanceof DuckDBListValue) {
    return value.items.map(plainOfDuckDb);
  }
  if (value instanceof DuckDBStructValue) {
    return Object.fromEntries(Object.entries(value.entries).map(([name, inner]) => [name, plainOfDuckDb(inner)]));
  }
  if (value === null || typeof value !== "object") {
    return value ?? null;
  }
  throw new Error(`a value of an unexpected type: ${value.constructor.name}`);
}

/** Reads a file with DuckDB, in file order. */
export async function readWithDuckDb(connection: DuckDBConnection, file: string): Promise<PlainColumns> {
  const reader = await connection.runAndReadAll(`select * from read_parquet('${file}')`);
  const columns = reader.getColumns();
  const result: PlainColumns = {};
  for (const [index, name] of reader.columnNames().entries()) {
    result[name] = (columns[index] ?? []).map(plainOfDuckDb);
  }
  return result;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** One value out of Arrow's buffers; apache-arrow's own getters round nanoseconds. */
export function plainOfArrow(data: Data, index: number): PlainValue {
  const at = data.offset + index;
  if (data.nullCount > 0 && ((data.nullBitmap[at >> 3] ?? 0) & (1 << (at & 7))) === 0) {
    return null;
  }
  const type: Type = data.typeId;
  if (type === Type.List) {
    const child = data.children[0];
    if (child === undefined) {
      throw new Error("a list without elements");
    }
    const start = Number(data.valueOffsets[index]);
    const length = Number(data.valueOffsets[index + 1]) - start;
    return Array.from({ length }, (_, i) => plainOfArrow(child, start + i));
  }
  if (type === Type.Struct) {
    const fields = (data.type as unknown as { children: readonly { name: string }[] }).children;
    return Object.fromEntries(
      fields.map((field, i) => {
        const child = data.children[i];
        if (child === undefined) {
          throw new Error("a struct without children");
        }
        return [field.name, plainOfArrow(child, index)];
      }),
    );
  }
  if (type === Type.Bool) {
    return (((data.values as Uint8Array)[at >> 3] ?? 0) & (1 << (at & 7))) !== 0;
  }
  if (type === Type.Utf8) {
    const start = Number(data.valueOffsets[index]);
    const end = Number(data.valueOffsets[index + 1]);
    return utf8.decode((data.values as Uint8Array).subarray(start, end));
  }
  if (type === Type.Int || type === Type.Float || type === Type.Timestamp) {
    return (data.values as BigInt64Array | Int32Array)[index] ?? null;
  }
  throw new Error(`a column of an unexpected type: ${Type[type]}`);
}

/** Reads a file with parquet-wasm, in file order. */
export function readWithParquetWasm(bytes: Uint8Array): PlainColumns {
  const table = tableFromIPC(readParquet(bytes).intoIPCStream());
  const result: PlainColumns = {};
  for (const [index, field] of table.schema.fields.entries()) {
    const values: PlainValue[] = [];
    for (const data of table.getChildAt(index)?.data ?? []) {
      for (let i = 0; i < data.length; i++) {
        values.push(plainOfArrow(data, i));
      }
    }
    result[field.name] = values;
  }
  return result;
}
