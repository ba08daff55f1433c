/**
 * Reads single values out of Arrow columns, exactly: 64-bit integers and nanosecond timestamps keep
 * every digit, which apache-arrow's own `get` (milliseconds in a double) does not.
 */
import {
  type Data,
  DataType,
  DateUnit,
  type Decimal,
  type Duration,
  type FixedSizeList,
  IntervalUnit,
  Precision,
  type RecordBatch,
  type Schema,
  TimeUnit,
  type Union,
  Vector,
} from "apache-arrow";

import { asBuffer } from "../shared/as-buffer.js";

/** A decimal number as its exact digits, for example `-12.50`. */
export class ExactDecimal {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toString(): string {
    return this.text;
  }
}

/**
 * One value of a result. Timestamps are ISO 8601 text in UTC with as many fractional digits as the
 * column's unit has (9 for nanoseconds), dates `YYYY-MM-DD`, times `HH:MM:SS[.f]`, durations and
 * intervals ISO 8601 durations, binary lower-case hex; lists are arrays, structs and maps objects, whose
 * second field of a name `a` becomes `a_2`.
 */
export type CellValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | ExactDecimal
  | readonly CellValue[]
  | { readonly [name: string]: CellValue };

/** Names for the columns of a schema or the fields of a struct, made unique: a second `a` becomes `a_2`. */
export function uniqueNames({ fields }: Pick<Schema, "fields">): string[] {
  const taken = new Set<string>();
  return fields.map(({ name }) => {
    let unique = name;
    for (let n = 2; taken.has(unique); n++) {
      unique = `${name}_${n}`;
    }
    taken.add(unique);
    return unique;
  });
}

/** Reads the value at a row of one column of one batch. */
export type CellReader = (row: number) => CellValue;

/** One reader per column of `batch`, in the order of its schema. */
export function columnReaders(batch: RecordBatch): CellReader[] {
  return batch.data.children.map((data) => cellReader(data));
}

/** A reader over one column. Cost: one closure per column and batch, none per value. */
export function cellReader(data: Data): CellReader {
  if (DataType.isUnion(data.type)) {
    return unionReader(data as Data<Union>);
  }
  const read = valueReader(data);
  if (data.nullCount === 0 || DataType.isNull(data.type)) {
    return read;
  }
  return (row) => (data.getValid(row) ? read(row) : null);
}

function valueReader(data: Data): CellReader {
  const { type } = data;
  if (DataType.isNull(type)) {
    return () => null;
  }
  if (DataType.isUtf8(type)) {
    return utf8Reader(data);
  }
  if (DataType.isInt(type)) {
    return numberReader(data);
  }
  if (DataType.isFloat(type) && type.precision !== Precision.HALF) {
    return numberReader(data);
  }
  if (DataType.isTimestamp(type)) {
    return integerReader(data, (v) => formatTimestamp(v, type.unit));
  }
  if (DataType.isDate(type)) {
    return type.unit === DateUnit.DAY
      ? integerReader(data, (v) => formatDate(v * 86_400_000n))
      : integerReader(data, formatDate);
  }
  if (DataType.isTime(type)) {
    return integerReader(data, (v) => formatTimeOfDay(v, type.unit));
  }
  if (DataType.isDuration(type)) {
    return durationReader(data as Data<Duration>);
  }
  if (DataType.isInterval(type) && type.unit === IntervalUnit.MONTH_DAY_NANO) {
    return intervalReader(data);
  }
  if (DataType.isDecimal(type)) {
    return decimalReader(data as Data<Decimal>);
  }
  if (DataType.isBinary(type)) {
    return binaryReader(data);
  }
  if (DataType.isFixedSizeBinary(type)) {
    return fixedBinaryReader(data, type.byteWidth);
  }
  if (DataType.isList(type)) {
    return listReader(data);
  }
  if (DataType.isFixedSizeList(type)) {
    return fixedListReader(data as Data<FixedSizeList>);
  }
  if (DataType.isStruct(type)) {
    return structReader(data);
  }
  if (DataType.isMap(type)) {
    return mapReader(data);
  }
  if (DataType.isDictionary(type)) {
    return dictionaryReader(data);
  }
  const vector = new Vector([data]);
  return (row) => plainValue(vector.get(row));
}

function numberReader(data: Data): CellReader {
  const values = data.values as ArrayLike<number | bigint>;
  return (row) => values[row] ?? null;
}

function integerReader(data: Data, format: (value: bigint) => CellValue): CellReader {
  const values = data.values as ArrayLike<number | bigint>;
  return (row) => {
    const value = values[row];
    return value === undefined ? null : format(BigInt(value));
  };
}

function utf8Reader(data: Data): CellReader {
  const offsets = data.valueOffsets as Int32Array;
  const bytes = asBuffer(data.values as Uint8Array);
  return (row) => bytes.toString("utf8", offsets[row], offsets[row + 1]);
}

function binaryReader(data: Data): CellReader {
  const offsets = data.valueOffsets as Int32Array;
  const bytes = asBuffer(data.values as Uint8Array);
  return (row) => bytes.toString("hex", offsets[row], offsets[row + 1]);
}

function fixedBinaryReader(data: Data, width: number): CellReader {
  const bytes = asBuffer(data.values as Uint8Array);
  return (row) => bytes.toString("hex", row * width, (row + 1) * width);
}

function listReader(data: Data): CellReader {
  const offsets = data.valueOffsets as Int32Array;
  const read = childReader(data, 0);
  return (row) => range(offsets[row] ?? 0, offsets[row + 1] ?? 0, read);
}

function fixedListReader(data: Data<FixedSizeList>): CellReader {
  const size = data.type.listSize;
  const read = childReader(data, 0);
  return (row) => range(row * size, (row + 1) * size, read);
}

function structReader(data: Data): CellReader {
  // Those of `row(1, 2)` have no names.
  const names = uniqueNames({ fields: data.type.children });
  const fields = names.map((name, i) => ({ name, read: childReader(data, i) }));
  return (row) => Object.fromEntries(fields.map((field) => [field.name, field.read(row)]));
}

function mapReader(data: Data): CellReader {
  const offsets = data.valueOffsets as Int32Array;
  const entries = data.children[0];
  if (entries === undefined) {
    return () => null;
  }
  const readKey = childReader(entries, 0);
  const readValue = childReader(entries, 1);
  return (row) =>
    Object.fromEntries(
      range(offsets[row] ?? 0, offsets[row + 1] ?? 0, (at) => at).map((at) => [
        cellText(readKey(Number(at))) ?? "",
        readValue(Number(at)),
      ]),
    );
}

function dictionaryReader(data: Data): CellReader {
  const keys = data.values as ArrayLike<number | bigint>;
  const chunks = (data.dictionary?.data ?? []).map((chunk) => ({
    length: chunk.length,
    read: cellReader(chunk),
  }));
  return (row) => {
    let index = Number(keys[row] ?? 0);
    for (const chunk of chunks) {
      if (index < chunk.length) {
        return chunk.read(index);
      }
      index -= chunk.length;
    }
    return null;
  };
}

/** A union has no nulls of its own: those of its members are. */
function unionReader(data: Data<Union>): CellReader {
  const { typeIds, valueOffsets } = data;
  const { typeIdToChildIndex } = data.type;
  const members = data.children.map((child) => cellReader(child));
  // A dense union's members have rows of their own; a sparse one's have all.
  const dense = DataType.isDenseUnion(data.type);
  return (row) => {
    const member = members[typeIdToChildIndex[typeIds[row] ?? 0] ?? 0];
    return member?.(dense ? (valueOffsets[row] ?? 0) : row) ?? null;
  };
}

function childReader(data: Data, index: number): CellReader {
  const child = data.children[index];
  return child === undefined ? () => null : cellReader(child);
}

function range(begin: number, end: number, read: CellReader): CellValue[] {
  const out: CellValue[] = [];
  for (let at = begin; at < end; at++) {
    out.push(read(at));
  }
  return out;
}

function decimalReader(data: Data<Decimal>): CellReader {
  const { scale, bitWidth } = data.type;
  const words = bitWidth / 32;
  const values = data.values;
  return (row) => {
    let value = 0n;
    for (let word = words - 1; word >= 0; word--) {
      value = (value << 32n) | BigInt(values[row * words + word] ?? 0);
    }
    value = BigInt.asIntN(bitWidth, value);
    return scale === 0 ? value : new ExactDecimal(formatDecimal(value, scale));
  };
}

function formatDecimal(value: bigint, scale: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(scale + 1, "0");
  const cut = digits.length - scale;
  return `${value < 0n ? "-" : ""}${digits.slice(0, cut)}.${digits.slice(cut)}`;
}

function unitsPerSecond(unit: TimeUnit): bigint {
  if (unit === TimeUnit.SECOND) {
    return 1n;
  }
  if (unit === TimeUnit.MILLISECOND) {
    return 1_000n;
  }
  return unit === TimeUnit.MICROSECOND ? 1_000_000n : 1_000_000_000n;
}

function fraction(value: bigint, perSecond: bigint): string {
  if (perSecond === 1n) {
    return "";
  }
  return `.${value.toString().padStart(perSecond.toString().length - 1, "0")}`;
}

/**
 * A point in time as ISO 8601 in UTC, for example `2026-11-21T10:00:00.123456789Z`. Values beyond
 * the years a JavaScript date can hold stay integers of their unit.
 */
function formatTimestamp(value: bigint, unit: TimeUnit): string {
  const perSecond = unitsPerSecond(unit);
  const within = ((value % perSecond) + perSecond) % perSecond;
  const ms = ((value - within) / perSecond) * 1000n;
  if (ms > 8_640_000_000_000_000n || ms < -8_640_000_000_000_000n) {
    return value.toString();
  }
  return `${new Date(Number(ms)).toISOString().slice(0, -5)}${fraction(within, perSecond)}Z`;
}

function formatDate(ms: bigint): string {
  if (ms > 8_640_000_000_000_000n || ms < -8_640_000_000_000_000n) {
    return ms.toString();
  }
  const iso = new Date(Number(ms)).toISOString();
  return iso.slice(0, iso.indexOf("T"));
}

function formatTimeOfDay(value: bigint, unit: TimeUnit): string {
  const perSecond = unitsPerSecond(unit);
  const seconds = value / perSecond;
  const two = (n: bigint): string => n.toString().padStart(2, "0");
  const clock = `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}`;
  return `${clock}${fraction(value % perSecond, perSecond)}`;
}

function durationReader(data: Data<Duration>): CellReader {
  const perSecond = unitsPerSecond(data.type.unit);
  return integerReader(data, (v) => {
    const magnitude = v < 0n ? -v : v;
    const whole = (magnitude / perSecond).toString();
    return `${v < 0n ? "-" : ""}PT${whole}${fraction(magnitude % perSecond, perSecond)}S`;
  });
}

function intervalReader(data: Data): CellReader {
  const words = data.values as Int32Array;
  const view = new DataView(words.buffer, words.byteOffset, words.byteLength);
  return (row) => {
    const months = view.getInt32(row * 16, true);
    const days = view.getInt32(row * 16 + 4, true);
    const ns = view.getBigInt64(row * 16 + 8, true);
    if (months === 0 && days === 0 && ns === 0n) {
      return "PT0S";
    }
    const magnitude = ns < 0n ? -ns : ns;
    const rest = magnitude % 1_000_000_000n;
    const seconds = `${ns < 0n ? "-" : ""}${magnitude / 1_000_000_000n}${rest === 0n ? "" : fraction(rest, 1_000_000_000n)}`;
    return `P${months === 0 ? "" : `${months}M`}${days === 0 ? "" : `${days}D`}${ns === 0n ? "" : `T${seconds}S`}`;
  };
}

/** What apache-arrow's own accessor gave for a type without a reader of its own. */
function plainValue(value: unknown): CellValue {
  if (value === null || value === undefined) {
    return null;
  }
  if (typeof value === "string" || typeof value === "boolean") {
    return value;
  }
  if (typeof value === "number" || typeof value === "bigint") {
    return value;
  }
  if (value instanceof Uint8Array) {
    return asBuffer(value).toString("hex");
  }
  if (value instanceof Vector) {
    return Array.from(value, plainValue);
  }
  if (ArrayBuffer.isView(value)) {
    return Array.from(value as unknown as Iterable<unknown>, plainValue);
  }
  return JSON.stringify(value) ?? null;
}

/** A value as plain text: null stays null, nested values become JSON. */
export function cellText(value: CellValue): string | null {
  if (value === null) {
    return null;
  }
  if (typeof value === "string") {
    return value;
  }
  if (typeof value === "object" && !(value instanceof ExactDecimal)) {
    return cellJson(value);
  }
  return value instanceof ExactDecimal ? value.text : typeof value === "number" ? numberText(value) : String(value);
}

/** JavaScript drops the sign of a zero. */
function numberText(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

/**
 * A value as JSON. 64-bit integers and decimals are numbers with all their digits; NaN and the
 * infinities, which JSON has no number for, are strings.
 */
export function cellJson(value: CellValue): string {
  if (value === null) {
    return "null";
  }
  if (typeof value === "string") {
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    return Number.isFinite(value) ? numberText(value) : `"${value}"`;
  }
  if (typeof value === "bigint" || typeof value === "boolean") {
    return String(value);
  }
  if (value instanceof ExactDecimal) {
    return value.text;
  }
  if (isList(value)) {
    return `[${value.map(cellJson).join(",")}]`;
  }
  return `{${Object.entries(value)
    .map(([name, inner]) => `${JSON.stringify(name)}:${cellJson(inner)}`)
    .join(",")}}`;
}

function isList(value: CellValue): value is readonly CellValue[] {
  return Array.isArray(value);
}
