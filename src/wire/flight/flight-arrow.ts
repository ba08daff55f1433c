/**
 * Arrow IPC metadata (format/Schema.fbs, format/Message.fbs): schemas and the headers of record and dictionary
 * batches as FlatBuffers.
 */
import { FlatBufferWriter } from "./flight-flatbuffers.js";

/** Unit of a time or timestamp: the values of Schema.fbs TimeUnit. */
export const timeUnits = { second: 0, millisecond: 1, microsecond: 2, nanosecond: 3 } as const;

/** A name of {@link timeUnits}. */
export type TimeUnit = keyof typeof timeUnits;

/** A logical type of Schema.fbs. */
export type ArrowType =
  | { readonly kind: "null" }
  | { readonly kind: "bool" }
  | { readonly kind: "int"; readonly bits: 8 | 16 | 32 | 64; readonly signed: boolean }
  | { readonly kind: "float"; readonly bits: 32 | 64 }
  | { readonly kind: "utf8" }
  | { readonly kind: "binary" }
  | {
      readonly kind: "decimal";
      readonly precision: number;
      readonly scale: number;
      readonly bits: 128 | 256;
    }
  | { readonly kind: "date32" }
  | { readonly kind: "time32"; readonly unit: "millisecond" }
  | { readonly kind: "time64"; readonly unit: "microsecond" | "nanosecond" }
  | { readonly kind: "timestamp"; readonly unit: TimeUnit; readonly timezone: string | null }
  /** Months, days, nanoseconds. */
  | { readonly kind: "interval" }
  /** One child. */
  | { readonly kind: "list" }
  /** One child. */
  | { readonly kind: "fixed_size_list"; readonly size: number }
  | { readonly kind: "struct" }
  /** One child: a struct of key and value. */
  | { readonly kind: "map" }
  /** A union of its children; the type id of a child is its place. */
  | { readonly kind: "union"; readonly mode: "sparse" | "dense" };

/** How a column refers to its dictionary; indices are unsigned. */
interface DictionaryEncoding {
  /** Unique among the dictionaries of a schema. */
  readonly id: number;
  readonly indexBits: 8 | 16 | 32;
}

/** A column, or the child of a nested one. */
export interface ArrowField {
  readonly name: string;
  readonly nullable: boolean;
  /** Of the values, also when what is sent are indices of a dictionary. */
  readonly type: ArrowType;
  readonly children: readonly ArrowField[];
  readonly dictionary?: DictionaryEncoding;
  /** Custom metadata. */
  readonly metadata?: Readonly<Record<string, string>>;
}

const metadataVersionV5 = 4;
const messageHeaderSchema = 1;
const messageHeaderDictionaryBatch = 2;
const messageHeaderRecordBatch = 3;

/** Numbers of the union Type in Schema.fbs. */
export const typeNumbers: Record<ArrowType["kind"], number> = {
  null: 1,
  int: 2,
  float: 3,
  binary: 4,
  utf8: 5,
  bool: 6,
  decimal: 7,
  date32: 8,
  time32: 9,
  time64: 9,
  timestamp: 10,
  interval: 11,
  list: 12,
  struct: 13,
  union: 14,
  fixed_size_list: 16,
  map: 17,
};

/** The Message that carries a schema: what FlightData.data_header holds first. */
export function encodeSchemaMessage(fields: readonly ArrowField[]): Uint8Array<ArrayBuffer> {
  const writer = new FlatBufferWriter();
  const vector = writer.offsetVector(fields.map((field) => writeField(writer, field)));
  writer.startTable();
  writer.fieldOffset(1, vector);
  const schema = writer.endTable();
  return finishMessage(writer, messageHeaderSchema, schema, 0);
}

/**
 * A schema message as FlightInfo.schema and SchemaResult.schema want it (Flight.proto): continuation
 * marker, length, FlatBuffer.
 */
export function encapsulateMessage(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const padded = (message.length + 7) & ~7;
  const encapsulated = new Uint8Array(8 + padded);
  const view = new DataView(encapsulated.buffer);
  view.setUint32(0, 0xffffffff, true);
  view.setUint32(4, padded, true);
  encapsulated.set(message, 8);
  return encapsulated;
}

/** Where a record batch has what in its body. */
export interface BatchLayout {
  readonly rows: number;
  /** Pairs of row count and null count, one per field in depth-first order. */
  readonly nodes: readonly number[];
  /** Pairs of offset and length in bytes within the body. */
  readonly buffers: readonly number[];
  readonly bodyBytes: number;
}

/** The Message that heads a record batch. */
export function encodeRecordBatchMessage(layout: BatchLayout): Uint8Array<ArrayBuffer> {
  const writer = new FlatBufferWriter();
  const batch = writeRecordBatch(writer, layout);
  return finishMessage(writer, messageHeaderRecordBatch, batch, layout.bodyBytes);
}

/**
 * The Message that heads a whole dictionary, whose values are laid out as a record batch of one column.
 * @param id as {@link DictionaryEncoding} names it
 */
export function encodeDictionaryBatchMessage(id: number, layout: BatchLayout): Uint8Array<ArrayBuffer> {
  const writer = new FlatBufferWriter();
  const batch = writeRecordBatch(writer, layout);
  writer.startTable();
  writer.fieldInt64(0, id);
  writer.fieldOffset(1, batch);
  const dictionary = writer.endTable();
  return finishMessage(writer, messageHeaderDictionaryBatch, dictionary, layout.bodyBytes);
}

function writeRecordBatch(writer: FlatBufferWriter, { rows, nodes, buffers }: BatchLayout): number {
  const bufferVector = writer.int64StructVector(buffers, 2);
  const nodeVector = writer.int64StructVector(nodes, 2);
  writer.startTable();
  writer.fieldInt64(0, rows);
  writer.fieldOffset(1, nodeVector);
  writer.fieldOffset(2, bufferVector);
  return writer.endTable();
}

function finishMessage(
  writer: FlatBufferWriter,
  headerType: number,
  header: number,
  bodyBytes: number,
): Uint8Array<ArrayBuffer> {
  writer.startTable();
  // Left out at its default: arrow-rs checks the alignment of an encapsulated schema from its length
  // word on, where a 64-bit field would lie askew.
  if (bodyBytes !== 0) {
    writer.fieldInt64(3, bodyBytes);
  }
  writer.fieldOffset(2, header);
  writer.fieldInt16(0, metadataVersionV5);
  writer.fieldInt8(1, headerType);
  return writer.finish(writer.endTable());
}

function writeField(writer: FlatBufferWriter, field: ArrowField): number {
  const children = writer.offsetVector(field.children.map((child) => writeField(writer, child)));
  const name = writer.string(field.name);
  const type = writeType(writer, field.type, field.children.length);
  const metadata =
    field.metadata === undefined
      ? null
      : writer.offsetVector(Object.entries(field.metadata).map(([key, value]) => writeKeyValue(writer, key, value)));
  const dictionary = field.dictionary === undefined ? null : writeDictionaryEncoding(writer, field.dictionary);
  writer.startTable();
  if (metadata !== null) {
    writer.fieldOffset(6, metadata);
  }
  if (dictionary !== null) {
    writer.fieldOffset(4, dictionary);
  }
  writer.fieldOffset(0, name);
  writer.fieldOffset(3, type);
  writer.fieldOffset(5, children);
  writer.fieldInt8(1, field.nullable ? 1 : 0);
  writer.fieldInt8(2, typeNumbers[field.type.kind]);
  return writer.endTable();
}

function writeDictionaryEncoding(writer: FlatBufferWriter, o: DictionaryEncoding): number {
  writer.startTable();
  writer.fieldInt32(0, o.indexBits);
  writer.fieldInt8(1, 0);
  const indexType = writer.endTable();
  writer.startTable();
  // Left out at its default for the same reason as the length of a body.
  if (o.id !== 0) {
    writer.fieldInt64(0, o.id);
  }
  writer.fieldOffset(1, indexType);
  return writer.endTable();
}

function writeKeyValue(writer: FlatBufferWriter, key: string, value: string): number {
  const keyAt = writer.string(key);
  const valueAt = writer.string(value);
  writer.startTable();
  writer.fieldOffset(0, keyAt);
  writer.fieldOffset(1, valueAt);
  return writer.endTable();
}

function writeType(writer: FlatBufferWriter, type: ArrowType, children: number): number {
  const timezone = type.kind === "timestamp" && type.timezone !== null ? writer.string(type.timezone) : null;
  // The type ids could be left out at this default, but not every reader knows it.
  const typeIds = type.kind === "union" ? writer.int32Vector(Array.from({ length: children }, (_, i) => i)) : null;
  writer.startTable();
  switch (type.kind) {
    case "int":
      writer.fieldInt32(0, type.bits);
      writer.fieldInt8(1, type.signed ? 1 : 0);
      break;
    case "float":
      writer.fieldInt16(0, type.bits === 32 ? 1 : 2);
      break;
    case "decimal":
      writer.fieldInt32(0, type.precision);
      writer.fieldInt32(1, type.scale);
      writer.fieldInt32(2, type.bits);
      break;
    case "date32":
      writer.fieldInt16(0, 0);
      break;
    case "time32":
      writer.fieldInt32(1, 32);
      writer.fieldInt16(0, timeUnits[type.unit]);
      break;
    case "time64":
      writer.fieldInt32(1, 64);
      writer.fieldInt16(0, timeUnits[type.unit]);
      break;
    case "timestamp":
      if (timezone !== null) {
        writer.fieldOffset(1, timezone);
      }
      writer.fieldInt16(0, timeUnits[type.unit]);
      break;
    case "interval":
      writer.fieldInt16(0, 2);
      break;
    case "fixed_size_list":
      writer.fieldInt32(0, type.size);
      break;
    case "map":
      writer.fieldInt8(0, 0);
      break;
    case "union":
      if (typeIds !== null) {
        writer.fieldOffset(1, typeIds);
      }
      writer.fieldInt16(0, type.mode === "sparse" ? 0 : 1);
      break;
    case "null":
    case "bool":
    case "utf8":
    case "binary":
    case "list":
    case "struct":
      break;
  }
  return writer.endTable();
}
