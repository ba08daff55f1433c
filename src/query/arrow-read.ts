/**
 * DuckDB vectors to Arrow: which Arrow type a DuckDB type becomes, and how a vector's memory becomes
 * Arrow buffers. Hot code; fixed-width values are moved as buffers, never row by row.
 *
 * A vector is read as `ranges` of rows, because the elements of lists need not lie in order; what
 * comes out (a `Piece`) is in order and starts at bit and byte 0.
 */
import {
  DuckDBArrayType,
  DuckDBDecimalType,
  DuckDBEnumType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from "@duckdb/node-api";

import { ServiceError } from "../runtime/errors.js";
import type { ArrowField, ArrowType } from "../wire/flight-arrow.js";
import type { RawBindings, RawVector } from "./duckdb-bindings.js";
import { readStrings } from "./vector-strings.js";

/** Some rows of a column as Arrow buffers. */
export interface Piece {
  readonly rows: number;
  readonly nulls: number;
  /** Bit i says whether row i holds a value; null when all do. */
  readonly validity: Uint8Array | null;
  /** Fixed-width values (bits for bool), or null. */
  readonly values: Uint8Array | null;
  /** End offsets of strings or lists, starting from 0, or null. */
  readonly ends: Int32Array | null;
  /** Bytes of strings, or null. */
  readonly bytes: Uint8Array | null;
  readonly children: readonly Piece[];
}

/** A column: its Arrow field and how to read it. */
export interface Codec {
  readonly field: ArrowField;
  /** @param ranges pairs of first row and row count; `rows` is their sum */
  readonly read: (vector: RawVector, ranges: Int32Array, rows: number) => Piece;
}

/**
 * The codec of a column.
 * @throws ServiceError BAD_REQUEST for a type that has no counterpart here; the message names the column
 */
export function createCodec(bindings: RawBindings, name: string, type: DuckDBType): Codec {
  const reader = createReader(bindings, type, name);
  return { field: field(name, true, reader), read: reader.read };
}

interface Reader {
  readonly type: ArrowType;
  readonly children: readonly ArrowField[];
  readonly read: Codec["read"];
}

const field = (name: string, nullable: boolean, reader: Reader): ArrowField => ({
  name,
  nullable,
  type: reader.type,
  children: reader.children,
});

function createReader(bindings: RawBindings, type: DuckDBType, column: string): Reader {
  const fixed = (arrow: ArrowType, width: number): Reader => ({
    type: arrow,
    children: [],
    read: (vector, ranges, rows) => ({
      ...bits(bindings, vector, ranges, rows),
      values: gather(bindings, vector, ranges, rows, width),
      ends: null,
      bytes: null,
      children: [],
    }),
  });
  const converted = (
    arrow: ArrowType,
    width: number,
    convert: (data: Uint8Array, rows: number) => Uint8Array,
  ): Reader => ({
    type: arrow,
    children: [],
    read: (vector, ranges, rows) => ({
      ...bits(bindings, vector, ranges, rows),
      values: convert(gather(bindings, vector, ranges, rows, width), rows),
      ends: null,
      bytes: null,
      children: [],
    }),
  });
  const int = (bitCount: 8 | 16 | 32 | 64, signed: boolean): Reader =>
    fixed({ kind: "int", bits: bitCount, signed }, bitCount / 8);
  const text = (
    width: number,
    textsOf: (data: Uint8Array, rows: number) => StringTable,
  ): Reader => ({
    type: { kind: "utf8" },
    children: [],
    read: (vector, ranges, rows) => {
      const validity = bits(bindings, vector, ranges, rows);
      const table = textsOf(gather(bindings, vector, ranges, rows, width), rows);
      return { ...validity, values: null, ...spread(table, rows, validity.validity), children: [] };
    },
  });

  switch (type.typeId) {
    case DuckDBTypeId.BOOLEAN:
      return converted({ kind: "bool" }, 1, packBits);
    case DuckDBTypeId.TINYINT:
      return int(8, true);
    case DuckDBTypeId.SMALLINT:
      return int(16, true);
    case DuckDBTypeId.INTEGER:
      return int(32, true);
    case DuckDBTypeId.BIGINT:
      return int(64, true);
    case DuckDBTypeId.UTINYINT:
      return int(8, false);
    case DuckDBTypeId.USMALLINT:
      return int(16, false);
    case DuckDBTypeId.UINTEGER:
      return int(32, false);
    case DuckDBTypeId.UBIGINT:
      return int(64, false);
    case DuckDBTypeId.FLOAT:
      return fixed({ kind: "float", bits: 32 }, 4);
    case DuckDBTypeId.DOUBLE:
      return fixed({ kind: "float", bits: 64 }, 8);
    case DuckDBTypeId.HUGEINT:
      // As DuckDB's own Arrow export has it, although the widest values have 39 digits.
      return fixed({ kind: "decimal", precision: 38, scale: 0, bits: 128 }, 16);
    case DuckDBTypeId.UHUGEINT:
      return converted({ kind: "decimal", precision: 39, scale: 0, bits: 256 }, 16, widenUnsigned);
    case DuckDBTypeId.DECIMAL:
      if (!(type instanceof DuckDBDecimalType)) break;
      return decimalReader(type, fixed, converted);
    case DuckDBTypeId.DATE:
      return fixed({ kind: "date32" }, 4);
    case DuckDBTypeId.TIME:
      return fixed({ kind: "time64", unit: "microsecond" }, 8);
    case DuckDBTypeId.TIME_NS:
      return fixed({ kind: "time64", unit: "nanosecond" }, 8);
    case DuckDBTypeId.TIMESTAMP_S:
      return fixed({ kind: "timestamp", unit: "second", timezone: null }, 8);
    case DuckDBTypeId.TIMESTAMP_MS:
      return fixed({ kind: "timestamp", unit: "millisecond", timezone: null }, 8);
    case DuckDBTypeId.TIMESTAMP:
      return fixed({ kind: "timestamp", unit: "microsecond", timezone: null }, 8);
    case DuckDBTypeId.TIMESTAMP_NS:
      // The times of the lake are instants (decisions.md, "SQL surface").
      return fixed({ kind: "timestamp", unit: "nanosecond", timezone: "UTC" }, 8);
    case DuckDBTypeId.TIMESTAMP_TZ:
      return fixed({ kind: "timestamp", unit: "microsecond", timezone: "UTC" }, 8);
    case DuckDBTypeId.INTERVAL:
      return converted({ kind: "interval" }, 16, microsToNanos);
    case DuckDBTypeId.UUID:
      return text(16, uuidTexts);
    case DuckDBTypeId.ENUM:
      if (!(type instanceof DuckDBEnumType)) break;
      return enumReader(type, text);
    case DuckDBTypeId.VARCHAR:
      return stringReader(bindings, { kind: "utf8" });
    case DuckDBTypeId.BLOB:
      return stringReader(bindings, { kind: "binary" });
    case DuckDBTypeId.SQLNULL:
      return {
        type: { kind: "null" },
        children: [],
        read: (_vector, _ranges, rows) => ({
          rows,
          nulls: rows,
          validity: null,
          values: null,
          ends: null,
          bytes: null,
          children: [],
        }),
      };
    case DuckDBTypeId.LIST:
      if (!(type instanceof DuckDBListType)) break;
      return listReader(bindings, createReader(bindings, type.valueType, column));
    case DuckDBTypeId.ARRAY:
      if (!(type instanceof DuckDBArrayType)) break;
      return arrayReader(bindings, type.length, createReader(bindings, type.valueType, column));
    case DuckDBTypeId.STRUCT:
      if (!(type instanceof DuckDBStructType)) break;
      return structReader(
        bindings,
        type.entryNames,
        type.entryTypes.map((entry) => createReader(bindings, entry, column)),
      );
    case DuckDBTypeId.MAP:
      if (!(type instanceof DuckDBMapType)) break;
      return mapReader(
        bindings,
        createReader(bindings, type.keyType, column),
        createReader(bindings, type.valueType, column),
      );
    case DuckDBTypeId.UNION:
    case DuckDBTypeId.BIT:
    case DuckDBTypeId.TIME_TZ:
    case DuckDBTypeId.BIGNUM:
    case DuckDBTypeId.GEOMETRY:
    case DuckDBTypeId.VARIANT:
    case DuckDBTypeId.ANY:
    case DuckDBTypeId.STRING_LITERAL:
    case DuckDBTypeId.INTEGER_LITERAL:
      break;
  }
  throw new ServiceError(
    "BAD_REQUEST",
    `The column "${column}" has the type ${type.toString()}, which has no counterpart in Arrow; cast it to VARCHAR.`,
  );
}

function stringReader(bindings: RawBindings, type: ArrowType): Reader {
  return {
    type,
    children: [],
    read: (vector, ranges, rows) => {
      const end = endOf(ranges);
      const validity = bindings.vector_get_validity(vector, validityBytes(end));
      const entries = bindings.vector_get_data(vector, end * 16);
      const { ends, bytes } = readStrings(bindings, entries, ranges, rows, validity);
      return { ...compactBits(validity, ranges, rows), values: null, ends, bytes, children: [] };
    },
  };
}

function listReader(bindings: RawBindings, element: Reader): Reader {
  return {
    type: { kind: "list" },
    children: [field("item", true, element)],
    read: (vector, ranges, rows) => {
      const end = endOf(ranges);
      const rawValidity = bindings.vector_get_validity(vector, validityBytes(end));
      const raw = bindings.vector_get_data(vector, end * 16);
      const elements = elementRanges(raw, ranges, rows, rawValidity);
      return {
        ...compactBits(rawValidity, ranges, rows),
        values: null,
        ends: elements.ends,
        bytes: null,
        children: [
          element.read(bindings.list_vector_get_child(vector), elements.ranges, elements.count),
        ],
      };
    },
  };
}

function mapReader(bindings: RawBindings, key: Reader, value: Reader): Reader {
  const list = listReader(bindings, structReader(bindings, ["key", "value"], [key, value]));
  return {
    type: { kind: "map" },
    children: [
      {
        name: "entries",
        nullable: false,
        type: { kind: "struct" },
        children: [field("key", false, key), field("value", true, value)],
      },
    ],
    read: list.read,
  };
}

function structReader(
  bindings: RawBindings,
  names: readonly string[],
  entries: readonly Reader[],
): Reader {
  return {
    type: { kind: "struct" },
    children: entries.map((entry, i) => field(names[i] ?? "", true, entry)),
    read: (vector, ranges, rows) => ({
      ...bits(bindings, vector, ranges, rows),
      values: null,
      ends: null,
      bytes: null,
      children: entries.map((entry, i) =>
        entry.read(bindings.struct_vector_get_child(vector, i), ranges, rows),
      ),
    }),
  };
}

function arrayReader(bindings: RawBindings, size: number, element: Reader): Reader {
  return {
    type: { kind: "fixed_size_list", size },
    children: [field("item", true, element)],
    read: (vector, ranges, rows) => ({
      ...bits(bindings, vector, ranges, rows),
      values: null,
      ends: null,
      bytes: null,
      children: [
        element.read(
          bindings.array_vector_get_child(vector),
          ranges.map((word) => word * size),
          rows * size,
        ),
      ],
    }),
  };
}

function decimalReader(
  type: DuckDBDecimalType,
  fixed: (arrow: ArrowType, width: number) => Reader,
  converted: (
    arrow: ArrowType,
    width: number,
    convert: (data: Uint8Array, rows: number) => Uint8Array,
  ) => Reader,
): Reader {
  const arrow: ArrowType = {
    kind: "decimal",
    precision: type.width,
    scale: type.scale,
    bits: 128,
  };
  if (type.width > 18) return fixed(arrow, 16);
  if (type.width > 9) {
    return converted(arrow, 8, (data, rows) =>
      widen(new BigInt64Array(data.buffer, data.byteOffset, rows)),
    );
  }
  if (type.width > 4) {
    return converted(arrow, 4, (data, rows) =>
      widen(new Int32Array(data.buffer, data.byteOffset, rows)),
    );
  }
  return converted(arrow, 2, (data, rows) =>
    widen(new Int16Array(data.buffer, data.byteOffset, rows)),
  );
}

/** Signed integers to 128 bits. */
function widen(values: BigInt64Array | Int32Array | Int16Array): Uint8Array {
  const wide = new BigInt64Array(values.length * 2);
  for (let i = 0; i < values.length; i++) {
    const value = BigInt(values[i]!);
    wide[2 * i] = value;
    wide[2 * i + 1] = value < 0n ? -1n : 0n;
  }
  return new Uint8Array(wide.buffer);
}

/** Unsigned 128 bits to 256 bits. */
function widenUnsigned(data: Uint8Array, rows: number): Uint8Array {
  const wide = new Uint8Array(rows * 32);
  for (let i = 0; i < rows; i++) wide.set(data.subarray(i * 16, i * 16 + 16), i * 32);
  return wide;
}

/** DuckDB: months, days, microseconds. Arrow: months, days, nanoseconds. */
function microsToNanos(data: Uint8Array, rows: number): Uint8Array {
  const words = new BigInt64Array(data.buffer, data.byteOffset, rows * 2);
  for (let i = 0; i < rows; i++) words[2 * i + 1] = words[2 * i + 1]! * 1000n;
  return data;
}

function packBits(data: Uint8Array, rows: number): Uint8Array {
  const packed = new Uint8Array((rows + 7) >> 3);
  for (let i = 0; i < rows; i++) {
    if (data[i] !== 0) packed[i >> 3] = packed[i >> 3]! | (1 << (i & 7));
  }
  return packed;
}

/** Distinct texts and which of them each row holds. */
interface StringTable {
  readonly texts: readonly Uint8Array[];
  readonly indexOf: (row: number) => number;
}

function enumReader(
  type: DuckDBEnumType,
  text: (width: number, textsOf: (data: Uint8Array, rows: number) => StringTable) => Reader,
): Reader {
  const encoder = new TextEncoder();
  const texts = type.values.map((value) => encoder.encode(value));
  const width = texts.length <= 0xff ? 1 : texts.length <= 0xffff ? 2 : 4;
  return text(width, (data) => {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    return {
      texts,
      indexOf: (row) =>
        width === 1
          ? view.getUint8(row)
          : width === 2
            ? view.getUint16(row * 2, true)
            : view.getUint32(row * 4, true),
    };
  });
}

/** DuckDB stores a UUID as a 128-bit integer whose top bit is flipped, so that it sorts as signed. */
function uuidTexts(data: Uint8Array, rows: number): StringTable {
  const encoder = new TextEncoder();
  const texts: Uint8Array[] = [];
  for (let row = 0; row < rows; row++) {
    const bigEndian = data.slice(row * 16, row * 16 + 16).toReversed();
    bigEndian[0] = bigEndian[0]! ^ 0x80;
    const digits = Buffer.from(bigEndian.buffer).toString("hex");
    texts.push(
      encoder.encode(
        `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`,
      ),
    );
  }
  return { texts, indexOf: (row) => row };
}

function spread(
  table: StringTable,
  rows: number,
  validity: Uint8Array | null,
): { readonly ends: Int32Array; readonly bytes: Uint8Array } {
  const ends = new Int32Array(rows);
  const parts: Uint8Array[] = [];
  let total = 0;
  for (let row = 0; row < rows; row++) {
    if (validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0) {
      const part = table.texts[table.indexOf(row)];
      if (part !== undefined) {
        parts.push(part);
        total += part.length;
      }
    }
    ends[row] = total;
  }
  return { ends, bytes: Buffer.concat(parts, total) };
}

const validityBytes = (rows: number): number => ((rows + 63) >> 6) * 8;

/** One more than the last row of the ranges. */
function endOf(ranges: Int32Array): number {
  let end = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const last = ranges[r]! + ranges[r + 1]!;
    if (last > end) end = last;
  }
  return end;
}

function bits(
  bindings: RawBindings,
  vector: RawVector,
  ranges: Int32Array,
  rows: number,
): Pick<Piece, "rows" | "nulls" | "validity"> {
  const validity = bindings.vector_get_validity(vector, validityBytes(endOf(ranges)));
  return compactBits(validity, ranges, rows);
}

/** Validity of the rows in the ranges, starting at bit 0, and its count of nulls. */
function compactBits(
  validity: Uint8Array | null,
  ranges: Int32Array,
  rows: number,
): Pick<Piece, "rows" | "nulls" | "validity"> {
  if (validity === null || rows === 0) return { rows, nulls: 0, validity: null };
  const compact = new Uint8Array((rows + 7) >> 3);
  let at = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    copyBits(compact, at, validity, ranges[r]!, ranges[r + 1]!);
    at += ranges[r + 1]!;
  }
  let valid = 0;
  for (const byte of compact) valid += bitCounts[byte]!;
  return valid === rows
    ? { rows, nulls: 0, validity: null }
    : { rows, nulls: rows - valid, validity: compact };
}

const bitCounts = Uint8Array.from({ length: 256 }, (_, byte) => {
  let count = 0;
  for (let rest = byte; rest !== 0; rest >>= 1) count += rest & 1;
  return count;
});

/** Copies bits into a target whose bits from `to` on are 0. */
export function copyBits(
  target: Uint8Array,
  to: number,
  source: Uint8Array,
  from: number,
  count: number,
): void {
  if (((to | from) & 7) === 0) {
    const whole = count >> 3;
    target.set(source.subarray(from >> 3, (from >> 3) + whole), to >> 3);
    const rest = count & 7;
    if (rest !== 0) {
      target[(to >> 3) + whole] = source[(from >> 3) + whole]! & ((1 << rest) - 1);
    }
    return;
  }
  for (let i = 0; i < count; i++) {
    if ((source[(from + i) >> 3]! & (1 << ((from + i) & 7))) !== 0) {
      target[(to + i) >> 3] = target[(to + i) >> 3]! | (1 << ((to + i) & 7));
    }
  }
}

/** Fixed-width values of the ranges, in a buffer of their own that is aligned for any width. */
function gather(
  bindings: RawBindings,
  vector: RawVector,
  ranges: Int32Array,
  rows: number,
  width: number,
): Uint8Array {
  if (rows === 0) return new Uint8Array(0);
  const data = bindings.vector_get_data(vector, endOf(ranges) * width);
  if (ranges.length === 2 && ranges[0] === 0 && data.byteOffset % 16 === 0) return data;
  const gathered = new Uint8Array(rows * width);
  let at = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const from = ranges[r]! * width;
    const bytes = ranges[r + 1]! * width;
    gathered.set(data.subarray(from, from + bytes), at);
    at += bytes;
  }
  return gathered;
}

/** Where the elements of the rows' lists lie in the child vector. An entry is an offset and a length of 64 bits each. */
function elementRanges(
  raw: Uint8Array,
  ranges: Int32Array,
  rows: number,
  validity: Uint8Array | null,
): { readonly ends: Int32Array; readonly ranges: Int32Array; readonly count: number } {
  const words = new Uint32Array(raw.buffer, raw.byteOffset, raw.byteLength >> 2);
  const ends = new Int32Array(rows);
  const elements: number[] = [];
  let next = -1;
  let count = 0;
  let at = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const last = ranges[r]! + ranges[r + 1]!;
    for (let row = ranges[r]!; row < last; row++) {
      if (validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0) {
        const length = words[row * 4 + 2]!;
        if (length > 0) {
          const offset = words[row * 4]!;
          if (offset === next) elements[elements.length - 1]! += length;
          else elements.push(offset, length);
          next = offset + length;
          count += length;
        }
      }
      ends[at++] = count;
    }
  }
  return { ends, ranges: Int32Array.from(elements), count };
}
