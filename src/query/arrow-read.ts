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
  DuckDBGeometryType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionType,
} from "@duckdb/node-api";

import { ServiceError } from "../runtime/errors.js";
import type { ArrowField, ArrowType, DictionaryEncoding } from "../wire/flight-arrow.js";
import {
  microsToNanos,
  packBits,
  timeOfTimeTz,
  uuidTexts,
  widen,
  widenUnsigned,
} from "./arrow-convert.js";
import {
  bits,
  compactBits,
  elementRanges,
  endOf,
  gather,
  type PieceBits,
  validityBytes,
  withNulls,
} from "./arrow-vectors.js";
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

/** A piece of a shape that all pieces share; spreading objects into each other would make a new shape each time. */
function piece(
  { rows, nulls, validity }: PieceBits,
  values: Uint8Array | null,
  ends: Int32Array | null,
  bytes: Uint8Array | null,
  children: readonly Piece[],
): Piece {
  return { rows, nulls, validity, values, ends, bytes, children };
}

const noChildren: readonly Piece[] = [];

/** A column: its Arrow field and how to read it. */
export interface Codec {
  readonly field: ArrowField;
  /** @param ranges pairs of first row and row count; `rows` is their sum */
  readonly read: (vector: RawVector, ranges: Int32Array, rows: number) => Piece;
}

/** Texts that columns refer to by their place. */
export interface ArrowDictionary {
  readonly id: number;
  readonly texts: readonly Uint8Array[];
}

/** Columns of a result, and the dictionaries that go before their rows. */
export interface Codecs {
  readonly codecs: readonly Codec[];
  readonly dictionaries: readonly ArrowDictionary[];
}

/** A column of a result; asking for its type throws when @duckdb/node-api does not know it. */
export interface DuckDBColumn {
  readonly name: string;
  readonly type: () => DuckDBType;
}

/**
 * The codecs of the columns of a result: the same for the same columns, so that the schemas of GetFlightInfo
 * and DoGet agree.
 * @throws ServiceError BAD_REQUEST for a type that has no counterpart here; the message names the column
 */
export function createCodecs(bindings: RawBindings, columns: readonly DuckDBColumn[]): Codecs {
  const dictionaries = new Dictionaries();
  const codecs = columns.map((column): Codec => {
    const { name } = column;
    const reader = createReader({ bindings, dictionaries, column: name }, typeOf(column));
    return { field: field(name, true, reader), read: reader.read };
  });
  return { codecs, dictionaries: dictionaries.all };
}

/** The type of a column. @throws ServiceError BAD_REQUEST when @duckdb/node-api does not know it */
export function typeOf(column: DuckDBColumn): DuckDBType {
  try {
    return column.type();
  } catch (error) {
    // Types of types and states of aggregates.
    throw noCounterpart(column.name, "a type", error);
  }
}

function noCounterpart(column: string, type: string, cause?: unknown): ServiceError {
  return new ServiceError(
    "BAD_REQUEST",
    `The column "${column.slice(0, 80)}" has ${type.slice(0, 80)} that has no counterpart in Arrow; cast it to VARCHAR.`,
    { cause },
  );
}

/** One dictionary for each list of values, however many columns refer to it. */
class Dictionaries {
  readonly #known: { readonly values: readonly string[]; readonly id: number }[] = [];
  readonly all: ArrowDictionary[] = [];

  idOf(values: readonly string[]): number {
    const known = this.#known.find(
      (other) =>
        other.values.length === values.length && values.every((v, i) => v === other.values[i]),
    );
    if (known !== undefined) return known.id;
    const id = this.all.length;
    const encoder = new TextEncoder();
    this.#known.push({ values, id });
    this.all.push({ id, texts: values.map((value) => encoder.encode(value)) });
    return id;
  }
}

/** What the readers of a column share. */
interface ReaderContext {
  readonly bindings: RawBindings;
  readonly dictionaries: Dictionaries;
  readonly column: string;
}

interface Reader {
  readonly type: ArrowType;
  readonly children: readonly ArrowField[];
  readonly dictionary?: DictionaryEncoding;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly read: Codec["read"];
}

const field = (name: string, nullable: boolean, reader: Reader): ArrowField => ({
  name,
  nullable,
  type: reader.type,
  children: reader.children,
  ...(reader.dictionary === undefined ? {} : { dictionary: reader.dictionary }),
  ...(reader.metadata === undefined ? {} : { metadata: reader.metadata }),
});

function createReader(context: ReaderContext, type: DuckDBType): Reader {
  const { bindings } = context;
  const fixed = (arrow: ArrowType, width: number): Reader => ({
    type: arrow,
    children: [],
    read: (vector, ranges, rows) => {
      const valid = bits(bindings, vector, ranges, rows);
      return piece(valid, gather(bindings, vector, ranges, rows, width), null, null, noChildren);
    },
  });
  const converted = (
    arrow: ArrowType,
    width: number,
    convert: (data: Uint8Array, rows: number, validity: Uint8Array | null) => Uint8Array,
  ): Reader => ({
    type: arrow,
    children: [],
    read: (vector, ranges, rows) => {
      const valid = bits(bindings, vector, ranges, rows);
      const data = gather(bindings, vector, ranges, rows, width);
      return piece(valid, convert(data, rows, valid.validity), null, null, noChildren);
    },
  });
  const int = (bitCount: 8 | 16 | 32 | 64, signed: boolean): Reader =>
    fixed({ kind: "int", bits: bitCount, signed }, bitCount / 8);
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
    case DuckDBTypeId.TIME_TZ:
      // As DuckDB's own Arrow export has it: the offset is lost.
      return converted({ kind: "time64", unit: "microsecond" }, 8, timeOfTimeTz);
    case DuckDBTypeId.TIME_NS:
      return fixed({ kind: "time64", unit: "nanosecond" }, 8);
    case DuckDBTypeId.TIMESTAMP_S:
      return fixed({ kind: "timestamp", unit: "second", timezone: null }, 8);
    case DuckDBTypeId.TIMESTAMP_MS:
      return fixed({ kind: "timestamp", unit: "millisecond", timezone: null }, 8);
    case DuckDBTypeId.TIMESTAMP:
      return fixed({ kind: "timestamp", unit: "microsecond", timezone: null }, 8);
    case DuckDBTypeId.TIMESTAMP_NS:
      // The times of the lake are UTC (decisions.md, "SQL surface"), but the type has no zone in SQL, and
      // the JDBC driver cannot show a timestamp that names one.
      return fixed({ kind: "timestamp", unit: "nanosecond", timezone: null }, 8);
    case DuckDBTypeId.TIMESTAMP_TZ:
      return fixed({ kind: "timestamp", unit: "microsecond", timezone: "UTC" }, 8);
    case DuckDBTypeId.INTERVAL:
      return converted({ kind: "interval" }, 16, microsToNanos);
    case DuckDBTypeId.UUID:
      return uuidReader(bindings);
    case DuckDBTypeId.ENUM:
      if (!(type instanceof DuckDBEnumType)) break;
      return enumReader(context, type);
    case DuckDBTypeId.VARCHAR:
      return stringReader(bindings, { kind: "utf8" });
    case DuckDBTypeId.BLOB:
      return stringReader(bindings, { kind: "binary" });
    case DuckDBTypeId.BIT:
      return { ...stringReader(bindings, { kind: "binary" }), metadata: opaque("bit") };
    case DuckDBTypeId.BIGNUM:
      return { ...stringReader(bindings, { kind: "binary" }), metadata: opaque("bignum") };
    case DuckDBTypeId.GEOMETRY:
      if (!(type instanceof DuckDBGeometryType)) break;
      return { ...stringReader(bindings, { kind: "binary" }), metadata: geometry(type) };
    case DuckDBTypeId.SQLNULL:
      return {
        type: { kind: "null" },
        children: [],
        read: (_vector, _ranges, rows) =>
          piece({ rows, nulls: rows, validity: null }, null, null, null, noChildren),
      };
    case DuckDBTypeId.LIST:
      if (!(type instanceof DuckDBListType)) break;
      return listReader(bindings, createReader(context, type.valueType));
    case DuckDBTypeId.ARRAY:
      if (!(type instanceof DuckDBArrayType)) break;
      return arrayReader(bindings, type.length, createReader(context, type.valueType));
    case DuckDBTypeId.STRUCT:
      if (!(type instanceof DuckDBStructType)) break;
      return structReader(
        bindings,
        type.entryNames,
        type.entryTypes.map((entry) => createReader(context, entry)),
      );
    case DuckDBTypeId.MAP:
      if (!(type instanceof DuckDBMapType)) break;
      return mapReader(
        bindings,
        createReader(context, type.keyType),
        createReader(context, type.valueType),
      );
    case DuckDBTypeId.UNION:
      if (!(type instanceof DuckDBUnionType)) break;
      return unionReader(
        bindings,
        type.memberTags,
        type.memberTypes.map((member) => createReader(context, member)),
      );
    // Variants have been cast to JSON before they get here, the others are no types of a result.
    case DuckDBTypeId.VARIANT:
    case DuckDBTypeId.ANY:
    case DuckDBTypeId.STRING_LITERAL:
    case DuckDBTypeId.INTEGER_LITERAL:
      break;
  }
  throw noCounterpart(context.column, `the type ${type.toString()}`);
}

/** Canonical extension `arrow.opaque`: bytes that only DuckDB understands, called by their type, as it exports them. */
function opaque(typeName: string): Readonly<Record<string, string>> {
  return {
    "ARROW:extension:name": "arrow.opaque",
    "ARROW:extension:metadata": JSON.stringify({ type_name: typeName, vendor_name: "DuckDB" }),
  };
}

/** GeoArrow's extension type of well-known binary. */
function geometry({ crs }: DuckDBGeometryType): Readonly<Record<string, string>> {
  return {
    "ARROW:extension:name": "geoarrow.wkb",
    "ARROW:extension:metadata": JSON.stringify(crs === undefined ? {} : { crs }),
  };
}

function uuidReader(bindings: RawBindings): Reader {
  return {
    type: { kind: "utf8" },
    children: [],
    read: (vector, ranges, rows) => {
      const valid = bits(bindings, vector, ranges, rows);
      const data = gather(bindings, vector, ranges, rows, 16);
      const { ends, bytes } = uuidTexts(data, rows, valid.validity);
      return piece(valid, null, ends, bytes, noChildren);
    },
  };
}

/** Indices as DuckDB holds them; the texts are sent once, as a dictionary. */
function enumReader({ bindings, dictionaries }: ReaderContext, type: DuckDBEnumType): Reader {
  const { values, internalTypeId } = type;
  const width =
    internalTypeId === DuckDBTypeId.UTINYINT
      ? 1
      : internalTypeId === DuckDBTypeId.USMALLINT
        ? 2
        : 4;
  return {
    type: { kind: "utf8" },
    children: [],
    dictionary: {
      id: dictionaries.idOf(values),
      indexBits: width === 1 ? 8 : width === 2 ? 16 : 32,
    },
    read: (vector, ranges, rows) => {
      const valid = bits(bindings, vector, ranges, rows);
      const indices = gather(bindings, vector, ranges, rows, width);
      // Readers may look up an index before they ask whether there is a value.
      if (valid.validity !== null) clearNulls(indices, width, valid.validity, rows);
      return piece(valid, indices, null, null, noChildren);
    },
  };
}

function clearNulls(values: Uint8Array, width: number, validity: Uint8Array, rows: number): void {
  for (let row = 0; row < rows; row++) {
    if ((validity[row >> 3]! & (1 << (row & 7))) === 0) {
      values.fill(0, row * width, (row + 1) * width);
    }
  }
}

/**
 * A sparse union, as DuckDB's own Arrow export has it: DuckDB keeps a union as a struct of tag and members.
 * A null has no member; it is a null of the first.
 */
function unionReader(
  bindings: RawBindings,
  tags: readonly string[],
  members: readonly Reader[],
): Reader {
  return {
    type: { kind: "union", mode: "sparse" },
    children: members.map((member, i) => field(tags[i] ?? "", true, member)),
    read: (vector, ranges, rows) => {
      const tag = bindings.struct_vector_get_child(vector, 0);
      const { validity } = bits(bindings, tag, ranges, rows);
      const typeIds = gather(bindings, tag, ranges, rows, 1);
      if (validity !== null) clearNulls(typeIds, 1, validity, rows);
      const children = members.map((member, i) => {
        const child = member.read(bindings.struct_vector_get_child(vector, i + 1), ranges, rows);
        const nullable = member.type.kind !== "null" && member.type.kind !== "union";
        return i === 0 && nullable ? withNulls(child, validity) : child;
      });
      return piece({ rows, nulls: 0, validity: null }, typeIds, null, null, children);
    },
  };
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
      return piece(compactBits(validity, ranges, rows), null, ends, bytes, noChildren);
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
      return piece(compactBits(rawValidity, ranges, rows), null, elements.ends, null, [
        element.read(bindings.list_vector_get_child(vector), elements.ranges, elements.count),
      ]);
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
    read: (vector, ranges, rows) => {
      const children = entries.map((entry, i) =>
        entry.read(bindings.struct_vector_get_child(vector, i), ranges, rows),
      );
      return piece(bits(bindings, vector, ranges, rows), null, null, null, children);
    },
  };
}

function arrayReader(bindings: RawBindings, size: number, element: Reader): Reader {
  return {
    type: { kind: "fixed_size_list", size },
    children: [field("item", true, element)],
    read: (vector, ranges, rows) => {
      const elements = element.read(
        bindings.array_vector_get_child(vector),
        ranges.map((word) => word * size),
        rows * size,
      );
      return piece(bits(bindings, vector, ranges, rows), null, null, null, [elements]);
    },
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
