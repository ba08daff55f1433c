/** Arrow's columns as plain data. In the worker only: the page does not load apache-arrow. */
import { type Data, DateUnit, DataType, type Dictionary, type Field as ArrowField, type Vector } from "apache-arrow";

import type { ColumnData, ColumnType, Field, TimeUnit, Values } from "./column-data.js";

const timeUnits: readonly TimeUnit[] = ["s", "ms", "us", "ns"];
const intervalUnits = ["months", "day-time", "month-day-nano"] as const;

export function fieldOf(field: ArrowField): Field {
  return { name: field.name, type: typeOf(field.type) };
}

function typeOf(type: DataType): ColumnType {
  if (DataType.isNull(type)) {
    return { kind: "null" };
  }
  if (DataType.isBool(type)) {
    return { kind: "bool" };
  }
  if (DataType.isInt(type)) {
    return { kind: "int", bits: type.bitWidth, signed: type.isSigned };
  }
  if (DataType.isFloat(type)) {
    return { kind: "float", bits: 16 << type.precision };
  }
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) {
    return { kind: "text" };
  }
  if (DataType.isBinary(type) || DataType.isLargeBinary(type)) {
    return { kind: "bytes" };
  }
  if (DataType.isDecimal(type)) {
    return { kind: "decimal", precision: type.precision, scale: type.scale, words: type.bitWidth / 32 };
  }
  if (DataType.isTimestamp(type)) {
    return { kind: "timestamp", unit: unitOf(type.unit), zoned: (type.timezone ?? "") !== "" };
  }
  if (DataType.isDate(type)) {
    return { kind: "date", unit: type.unit === DateUnit.DAY ? "day" : "ms" };
  }
  if (DataType.isTime(type)) {
    return { kind: "time", unit: unitOf(type.unit) };
  }
  if (DataType.isDuration(type)) {
    return { kind: "duration", unit: unitOf(type.unit) };
  }
  if (DataType.isInterval(type)) {
    return { kind: "interval", unit: intervalUnits[type.unit] ?? "month-day-nano" };
  }
  if (DataType.isDictionary(type)) {
    return { kind: "dictionary", values: typeOf(type.dictionary as DataType) };
  }
  if (DataType.isFixedSizeList(type)) {
    return { kind: "list", item: typeOf(type.valueType), fixedSize: type.listSize };
  }
  if (DataType.isList(type)) {
    return { kind: "list", item: typeOf(type.valueType), fixedSize: null };
  }
  if (DataType.isStruct(type)) {
    return { kind: "struct", fields: type.children.map((child) => fieldOf(child)) };
  }
  if (DataType.isMap(type)) {
    return { kind: "map", key: typeOf(type.keyType), value: typeOf(type.valueType) };
  }
  return { kind: "unknown", name: type.constructor.name };
}

const unitOf = (unit: number): TimeUnit => timeUnits[unit] ?? "ns";

/**
 * Views of the memory of `data`.
 * @param dictionaries what was made of a dictionary before; each is copied once, because later batches need it here.
 */
export function columnDataOf(data: Data, dictionaries: Map<Vector, readonly ColumnData[]>): ColumnData {
  const { dictionary } = data as Data<Dictionary>;
  return {
    length: data.length,
    validity: data.nullCount > 0 && data.nullBitmap.length > 0 ? data.nullBitmap : null,
    values: (data.values as Values | undefined) ?? null,
    offsets: (data.valueOffsets as Int32Array | BigInt64Array | undefined) ?? null,
    children: data.children.map((child) => columnDataOf(child, dictionaries)),
    dictionary: dictionary === undefined ? null : dictionaryOf(dictionary, dictionaries),
  };
}

function dictionaryOf(vector: Vector, dictionaries: Map<Vector, readonly ColumnData[]>): readonly ColumnData[] {
  let parts = dictionaries.get(vector);
  if (parts === undefined) {
    parts = vector.data.map((part) => copied(columnDataOf(part, dictionaries)));
    dictionaries.set(vector, parts);
  }
  return parts;
}

function copied(data: ColumnData): ColumnData {
  return {
    ...data,
    validity: data.validity?.slice() ?? null,
    values: data.values?.slice() ?? null,
    offsets: data.offsets?.slice() ?? null,
    children: data.children.map(copied),
  };
}

/** The memory that views of a batch look at, to be handed over with them. */
export function memoryOf(columns: readonly ColumnData[]): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>();
  const add = ({ validity, values, offsets, children }: ColumnData): void => {
    for (const view of [validity, values, offsets]) {
      if (view !== null && view.buffer instanceof ArrayBuffer && view.byteLength > 0) {
        found.add(view.buffer);
      }
    }
    for (const child of children) {
      add(child);
    }
  };
  for (const column of columns) {
    add(column);
  }
  return [...found];
}
