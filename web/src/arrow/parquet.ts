/** Columns as Parquet: what their types are there, and their cells as the writer takes them. */
import type { SchemaElement } from "hyparquet-writer";

import { bitAt, bounds, bytesAt, isNull, partAt, unscaled } from "./column.js";
import { type ColumnData, type ColumnType, type Field, nsOf, type TimeUnit } from "./column-data.js";

/** A cell as the writer takes it: integers of 64 bits and decimals are bigints, texts their bytes. */
type Cell = null | boolean | number | bigint | Uint8Array | readonly Cell[] | { readonly [name: string]: Cell };

/** Names of columns that differ: a result may have one twice, a file may not. */
export function distinctNames(names: readonly string[]): readonly string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let distinct = name;
    for (let count = 1; taken.has(distinct); count++) {
      distinct = `${name}_${count}`;
    }
    taken.add(distinct);
    return distinct;
  });
}

/** The schema of a file, depth first. @throws Error for a column that Parquet has no type for */
export function schemaOf(fields: readonly Field[]): SchemaElement[] {
  return [
    { name: "root", num_children: fields.length },
    ...fields.flatMap(({ name, type }) => elementsOf(name, type, "OPTIONAL")),
  ];
}

function elementsOf(name: string, type: ColumnType, repetition: "OPTIONAL" | "REQUIRED"): SchemaElement[] {
  const leaf = (element: Omit<SchemaElement, "name" | "repetition_type">): SchemaElement[] => [
    { name, repetition_type: repetition, ...element },
  ];
  switch (type.kind) {
    case "null":
      return leaf({ type: "INT32" });
    case "bool":
      return leaf({ type: "BOOLEAN" });
    case "int":
      return leaf({
        type: type.bits === 64 ? "INT64" : "INT32",
        converted_type: `${type.signed ? "INT" : "UINT"}_${type.bits as 8 | 16 | 32 | 64}`,
      });
    case "float":
      return leaf({ type: type.bits === 64 ? "DOUBLE" : "FLOAT" });
    case "decimal":
      return leaf({
        type: "FIXED_LEN_BYTE_ARRAY",
        type_length: type.words * 4,
        converted_type: "DECIMAL",
        precision: type.precision,
        scale: type.scale,
      });
    case "timestamp": {
      // Readers that know no points in time with nanoseconds would cut them, so these are of the wall clock, which is UTC.
      const isAdjustedToUTC = type.zoned && type.unit !== "ns";
      return leaf({ type: "INT64", logical_type: { type: "TIMESTAMP", isAdjustedToUTC, unit: unitNames[type.unit] } });
    }
    case "date":
      return leaf({ type: "INT32", converted_type: "DATE" });
    case "time": {
      const unit = unitNames[type.unit];
      return leaf({
        type: unit === "MILLIS" ? "INT32" : "INT64",
        logical_type: { type: "TIME", isAdjustedToUTC: false, unit },
      });
    }
    case "duration":
      return leaf({ type: "INT64" });
    case "interval":
      return leaf({ type: "FIXED_LEN_BYTE_ARRAY", type_length: 12, converted_type: "INTERVAL" });
    case "text":
      return leaf({ type: "BYTE_ARRAY", converted_type: "UTF8" });
    case "bytes":
      return leaf({ type: "BYTE_ARRAY" });
    case "dictionary":
      return elementsOf(name, type.values, repetition);
    case "list":
      return [
        { name, repetition_type: repetition, converted_type: "LIST", num_children: 1 },
        { name: "list", repetition_type: "REPEATED", num_children: 1 },
        ...elementsOf("element", type.item, "OPTIONAL"),
      ];
    case "struct":
      return [
        { name, repetition_type: repetition, num_children: type.fields.length },
        ...type.fields.flatMap((field) => elementsOf(field.name, field.type, "OPTIONAL")),
      ];
    case "map":
      return [
        { name, repetition_type: repetition, converted_type: "MAP", num_children: 1 },
        { name: "key_value", repetition_type: "REPEATED", num_children: 2 },
        ...elementsOf("key", type.key, "REQUIRED"),
        ...elementsOf("value", type.value, "OPTIONAL"),
      ];
    case "unknown":
      throw new Error(
        `The column ${name} has the type ${type.name}, which Parquet lacks. Cast it, for example to VARCHAR.`,
      );
  }
}

const unitNames = { s: "MILLIS", ms: "MILLIS", us: "MICROS", ns: "NANOS" } as const satisfies Record<TimeUnit, string>;
const dayMs = 86_400_000;

/** The cells of a batch. */
export function cellsOf(type: ColumnType, data: ColumnData): Cell[] {
  return Array.from({ length: data.length }, (_, i) => cellAt(type, data, i));
}

function cellAt(type: ColumnType, data: ColumnData, i: number): Cell {
  if (isNull(data, i)) {
    return null;
  }
  const { values, children } = data;
  switch (type.kind) {
    case "null":
    case "unknown":
      return null;
    case "bool":
      return bitAt(data, i);
    case "int":
      return type.bits === 64 ? BigInt(values?.[i] ?? 0) : Number(values?.[i]);
    case "float":
      return Number(values?.[i]);
    case "decimal":
      return unscaled(values as Uint32Array, i, type.words);
    case "timestamp": {
      const value = BigInt(values?.[i] ?? 0);
      return type.unit === "s" ? value * 1000n : value;
    }
    case "date":
      return type.unit === "day" ? Number(values?.[i]) : Math.floor(Number(values?.[i]) / dayMs);
    case "time": {
      const value = values?.[i] ?? 0;
      return type.unit === "s" ? Number(value) * 1000 : type.unit === "ms" ? Number(value) : BigInt(value);
    }
    case "duration":
      return BigInt(values?.[i] ?? 0) * nsOf[type.unit];
    case "interval":
      return intervalBytes(values as Int32Array, i, type.unit);
    case "text":
    case "bytes":
      return bytesAt(data, i);
    case "dictionary": {
      const found = partAt(data.dictionary ?? [], Number(values?.[i]));
      return found === null ? null : cellAt(type.values, ...found);
    }
    case "list": {
      const [begin, end] = type.fixedSize === null ? bounds(data, i) : [i * type.fixedSize, (i + 1) * type.fixedSize];
      return cellsFrom(type.item, children[0], begin, end);
    }
    case "struct":
      return Object.fromEntries(
        type.fields.map((field, at) => {
          const child = children[at];
          return [field.name, child === undefined ? null : cellAt(field.type, child, i)];
        }),
      );
    case "map": {
      const [begin, end] = bounds(data, i);
      const keys = cellsFrom(type.key, children[0]?.children[0], begin, end);
      const mapped = cellsFrom(type.value, children[0]?.children[1], begin, end);
      return keys.map((key, at) => ({ key, value: mapped[at] ?? null }));
    }
  }
}

function cellsFrom(type: ColumnType, data: ColumnData | undefined, begin: number, end: number): Cell[] {
  return data === undefined ? [] : Array.from({ length: end - begin }, (_, at) => cellAt(type, data, begin + at));
}

/** Months, days and milliseconds, which is all that Parquet's type holds. */
function intervalBytes(values: Int32Array, i: number, unit: "months" | "day-time" | "month-day-nano"): Uint8Array {
  const view = new DataView(new ArrayBuffer(12));
  if (unit === "months") {
    view.setInt32(0, values[i] ?? 0, true);
  } else if (unit === "day-time") {
    view.setInt32(4, values[i * 2] ?? 0, true);
    view.setInt32(8, values[i * 2 + 1] ?? 0, true);
  } else {
    const ns = (BigInt(values[i * 4 + 3] ?? 0) << 32n) | BigInt((values[i * 4 + 2] ?? 0) >>> 0);
    view.setInt32(0, values[i * 4] ?? 0, true);
    view.setInt32(4, values[i * 4 + 1] ?? 0, true);
    view.setInt32(8, Number(ns / 1_000_000n), true);
  }
  return new Uint8Array(view.buffer);
}
