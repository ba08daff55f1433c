/**
 * Arrow IPC from a client (format/Message.fbs, format/Schema.fbs): the schema, dictionaries and record
 * batches of a DoPut. Nothing in them is trusted: every offset is checked, the bytes present bound the
 * counts, and everything else is BAD_REQUEST.
 */
import { ServiceError } from "../../runtime/errors.js";

/** Logical types that can be read (Schema.fbs Type). */
export type ReadType =
  | { readonly kind: "null" | "bool" }
  | { readonly kind: "int"; readonly bits: number; readonly signed: boolean }
  | { readonly kind: "float"; readonly bits: 16 | 32 | 64 }
  | { readonly kind: "utf8" | "binary"; readonly layout: BytesLayout }
  | { readonly kind: "fixed_binary"; readonly bytes: number }
  /** 16 bytes, of the extension type `arrow.uuid`. */
  | { readonly kind: "uuid" }
  | {
      readonly kind: "decimal";
      readonly precision: number;
      readonly scale: number;
      readonly bits: number;
    }
  | { readonly kind: "date"; readonly unit: "day" | "millisecond" }
  | { readonly kind: "time"; readonly unit: number; readonly bits: number }
  | { readonly kind: "timestamp"; readonly unit: number }
  | { readonly kind: "duration"; readonly unit: number }
  /** Months, days, nanoseconds. */
  | { readonly kind: "interval" }
  /** By offsets, or all of one length. */
  | { readonly kind: "list"; readonly layout: ListLayout; readonly item: ReadType };

/** How many values the lists of a column have: offsets of 32 or 64 bits say it, or all have this many. */
type ListLayout = "offsets32" | "offsets64" | number;

/** How values of variable length are found: by offsets of 32 or 64 bits, or by views (Utf8View, BinaryView). */
export type BytesLayout = "offsets32" | "offsets64" | "views";

/** Places in a dictionary, which a column has instead of values. */
interface ReadIndices {
  readonly dictionaryId: number;
  readonly type: ReadType & { readonly kind: "int" };
}

/** A column of a schema. */
export interface ReadField {
  readonly name: string;
  /** Of the values, also when what is sent are indices of a dictionary. */
  readonly type: ReadType;
  readonly indices: ReadIndices | null;
}

/** A column of a batch as its buffers. */
export interface ReadColumn {
  readonly rows: number;
  /** Validity first, as the format lays them out; none for the null type. */
  readonly buffers: readonly Uint8Array[];
  /** Values of lists. */
  readonly items: ReadColumn | null;
}

/** Rows of all columns of a schema. */
export interface ReadBatch {
  readonly kind: "batch";
  readonly rows: number;
  readonly columns: readonly ReadColumn[];
}

/** Values of a dictionary. */
export interface ReadDictionary {
  readonly kind: "dictionary";
  readonly id: number;
  /** The values come behind those that the dictionary has already. */
  readonly delta: boolean;
  readonly values: ReadColumn;
}

type MessageKind = "schema" | "dictionary" | "batch";

/** A message. */
type ReadMessage = { readonly kind: "schema"; readonly fields: readonly ReadField[] } | ReadBatch | ReadDictionary;

const maxColumns = 2000;
/** Columns may share a name and pairs of metadata in a message: its bytes bound neither what is read nor what is kept. */
const maxNameBytes = 1000;
const maxPairs = 100;
/** Bits of each Precision of Schema.fbs. */
const floatBits = [16, 32, 64] as const;
/** Schema.fbs IntervalUnit. */
const monthDayNano = 2;
/** Message.fbs MessageHeader. */
const headerKinds: Readonly<Record<number, MessageKind>> = { 1: "schema", 2: "dictionary", 3: "batch" };

/**
 * Reads one message.
 * @param fields of the schema that came before; empty before it
 * @throws ServiceError BAD_REQUEST
 */
export function readMessage(header: Uint8Array, body: Uint8Array, fields: readonly ReadField[]): ReadMessage {
  return readHeader(header, (kind, buffer, content) => {
    switch (kind) {
      case "schema":
        return { kind, fields: readSchema(buffer, content) };
      case "batch":
        return readBatch(
          buffer,
          content,
          body,
          fields.map(({ type, indices }) => indices?.type ?? type),
        );
      case "dictionary":
        return readDictionary(buffer, content, body, fields);
    }
  });
}

/** What a message is, by its header alone. */
export interface MessageHead {
  readonly kind: MessageKind;
  /** Of a record batch; 0 of all others. */
  readonly rows: number;
}

/** Reads a header and no value behind it. @throws ServiceError BAD_REQUEST */
export function readMessageHead(header: Uint8Array): MessageHead {
  return readHeader(header, (kind, buffer, content) => ({
    kind,
    rows: kind === "batch" ? buffer.int64(content, 0) : 0,
  }));
}

/** Gives `read` the table that a header holds. @throws ServiceError BAD_REQUEST */
function readHeader<T>(header: Uint8Array, read: (kind: MessageKind, buffer: FlatBuffer, content: number) => T): T {
  try {
    const buffer = new FlatBuffer(header);
    const message = buffer.root();
    const kind = headerKinds[buffer.uint8(message, 1)];
    if (kind === undefined) {
      throw malformed("holds neither a schema nor a record batch nor a dictionary");
    }
    return read(kind, buffer, buffer.table(message, 2));
  } catch (error) {
    if (error instanceof RangeError) {
      throw malformed("is cut short", error);
    }
    throw error;
  }
}

function readSchema(buffer: FlatBuffer, schema: number): ReadField[] {
  const count = buffer.vectorLength(schema, 1, 4);
  if (count > maxColumns) {
    throw malformed("has too many columns");
  }
  return Array.from({ length: count }, (_, i) => {
    const field = buffer.tableOf(schema, 1, i);
    if (buffer.vectorLength(field, 0, 1) > maxNameBytes) {
      throw malformed(`has a column whose name takes more than ${maxNameBytes} bytes`);
    }
    const name = buffer.string(field, 0);
    const type = readType(buffer, field, name);
    return { name, type, indices: buffer.has(field, 4) ? readIndices(buffer, field) : null };
  });
}

/** Schema.fbs DictionaryEncoding. */
function readIndices(buffer: FlatBuffer, field: number): ReadIndices {
  const encoding = buffer.table(field, 4);
  const dictionaryId = buffer.int64(encoding, 0);
  // Left out: signed integers of 32 bits.
  if (!buffer.has(encoding, 1)) {
    return { dictionaryId, type: { kind: "int", bits: 32, signed: true } };
  }
  const type = readInt(buffer, buffer.table(encoding, 1));
  if (![8, 16, 32, 64].includes(type.bits)) {
    throw malformed("has a dictionary with indices of a strange width");
  }
  return { dictionaryId, type };
}

function readInt(buffer: FlatBuffer, type: number): ReadIndices["type"] {
  return { kind: "int", bits: buffer.int32(type, 0, 0), signed: buffer.uint8(type, 1) !== 0 };
}

function readType(buffer: FlatBuffer, field: number, name: string): ReadType {
  const number = buffer.uint8(field, 2);
  if (number === 1) {
    return { kind: "null" };
  }
  if (number === 6) {
    return { kind: "bool" };
  }
  const type = buffer.table(field, 3);
  switch (number) {
    case 2:
      return readInt(buffer, type);
    case 3: {
      const bits = floatBits[buffer.int16(type, 0, 0)];
      if (bits === undefined) {
        break;
      }
      return { kind: "float", bits };
    }
    case 4:
      return { kind: "binary", layout: "offsets32" };
    case 19:
      return { kind: "binary", layout: "offsets64" };
    case 23:
      return { kind: "binary", layout: "views" };
    case 5:
      return { kind: "utf8", layout: "offsets32" };
    case 20:
      return { kind: "utf8", layout: "offsets64" };
    case 24:
      return { kind: "utf8", layout: "views" };
    case 7: {
      const bits = buffer.int32(type, 2, 128);
      const precision = buffer.int32(type, 0, 0);
      const scale = buffer.int32(type, 1, 0);
      if (![32, 64, 128, 256].includes(bits) || precision < 1 || precision > 76) {
        break;
      }
      return { kind: "decimal", precision, scale, bits };
    }
    case 8:
      return { kind: "date", unit: buffer.int16(type, 0, 1) === 0 ? "day" : "millisecond" };
    case 9:
      return { kind: "time", unit: buffer.int16(type, 0, 1), bits: buffer.int32(type, 1, 32) };
    case 10:
      return { kind: "timestamp", unit: buffer.int16(type, 0, 0) };
    case 11:
      if (buffer.int16(type, 0, 0) !== monthDayNano) {
        break;
      }
      return { kind: "interval" };
    case 12:
      return readList(buffer, field, name, "offsets32");
    case 21:
      return readList(buffer, field, name, "offsets64");
    case 16:
      return readList(buffer, field, name, buffer.int32(type, 0, 0));
    case 15: {
      const bytes = buffer.int32(type, 0, 0);
      return bytes === 16 && isExtension(buffer, field, "arrow.uuid")
        ? { kind: "uuid" }
        : { kind: "fixed_binary", bytes };
    }
    case 18:
      return { kind: "duration", unit: buffer.int16(type, 0, 1) };
    default:
      break;
  }
  throw notTaken(name);
}

/** Whether a field is of an extension type (Arrow columnar format, "Extension Types"). */
function isExtension(buffer: FlatBuffer, field: number, name: string): boolean {
  const is = (pair: number, slot: number, text: string): boolean =>
    // Its length first: many pairs may share one long text.
    buffer.vectorLength(pair, slot, 1) === text.length && buffer.string(pair, slot) === text;
  const pairs = buffer.vectorLength(field, 6, 4);
  if (pairs > maxPairs) {
    throw malformed(`has a column with more than ${maxPairs} pairs of metadata`);
  }
  return Array.from({ length: pairs }, (_, i) => buffer.tableOf(field, 6, i)).some(
    (pair) => is(pair, 0, "ARROW:extension:name") && is(pair, 1, name),
  );
}

/** Schema.fbs Field of a list. @throws ServiceError BAD_REQUEST also for lists of lists, and of dictionaries */
function readList(buffer: FlatBuffer, field: number, name: string, layout: ListLayout): ReadType {
  if (buffer.vectorLength(field, 5, 4) !== 1 || (typeof layout === "number" && layout < 0)) {
    throw malformed("does not match its schema");
  }
  const child = buffer.tableOf(field, 5, 0);
  if (listTypes.has(buffer.uint8(child, 2)) || buffer.has(child, 4)) {
    throw notTaken(name);
  }
  return { kind: "list", layout, item: readType(buffer, child, name) };
}

/** Schema.fbs Type: List, FixedSizeList, LargeList. */
const listTypes: ReadonlySet<number> = new Set([12, 16, 21]);

function notTaken(name: string): ServiceError {
  return malformed(
    `has a column ${JSON.stringify(name.slice(0, 80))} of a type that is not taken: send numbers, texts, bytes, booleans, times, durations, intervals of months, days and nanoseconds, or lists of numbers, texts, booleans or times`,
  );
}

/** @param types of what the columns hold: values, or indices of a dictionary */
function readBatch(buffer: FlatBuffer, batch: number, body: Uint8Array, types: readonly ReadType[]): ReadBatch {
  if (buffer.has(batch, 3)) {
    throw malformed("is compressed");
  }
  const rows = buffer.int64(batch, 0);
  const nodes = buffer.vectorLength(batch, 1, 16);
  const buffers = buffer.vectorLength(batch, 2, 16);
  const variadic = buffer.vectorLength(batch, 4, 8);
  let next = 0;
  const take = (): Uint8Array => {
    if (next >= buffers) {
      throw malformed("does not match its schema");
    }
    const at = buffer.vectorAt(batch, 2) + next * 16;
    next++;
    const offset = buffer.int64At(at);
    const length = buffer.int64At(at + 8);
    if (offset + length > body.length) {
      throw malformed("is cut short");
    }
    return body.subarray(offset, offset + length);
  };
  let nextVariadic = 0;
  /** Buffers that the next column of views refers to. */
  const takeVariadic = (): number => {
    if (nextVariadic >= variadic) {
      throw malformed("does not match its schema");
    }
    const count = buffer.int64At(buffer.vectorAt(batch, 4) + nextVariadic * 8);
    if (count > buffers) {
      throw malformed("does not match its schema");
    }
    nextVariadic++;
    return count;
  };
  let nextNode = 0;
  const column = (type: ReadType): ReadColumn => {
    if (nextNode >= nodes) {
      throw malformed("does not match its schema");
    }
    const at = buffer.vectorAt(batch, 1) + nextNode * 16;
    nextNode++;
    const count = fixedBuffers(type) + (hasViews(type) ? takeVariadic() : 0);
    return {
      // The count of nulls behind it tells nothing that the validity does not; some writers say -1.
      rows: buffer.int64At(at),
      buffers: Array.from({ length: count }, take),
      items: type.kind === "list" ? column(type.item) : null,
    };
  };
  const columns = types.map((type) => column(type));
  if (nextNode !== nodes) {
    throw malformed("does not match its schema");
  }
  if (columns.some((own) => own.rows !== rows)) {
    throw malformed("has columns of different lengths");
  }
  return { kind: "batch", rows, columns };
}

function hasViews(type: ReadType): boolean {
  return (type.kind === "utf8" || type.kind === "binary") && type.layout === "views";
}

/** Buffers of a column, without those that views refer to. */
function fixedBuffers(type: ReadType): number {
  if (type.kind === "null") {
    return 0;
  }
  if (type.kind === "list" && typeof type.layout === "number") {
    return 1;
  }
  return (type.kind === "utf8" || type.kind === "binary") && type.layout !== "views" ? 3 : 2;
}

/** Message.fbs DictionaryBatch. */
function readDictionary(
  buffer: FlatBuffer,
  dictionary: number,
  body: Uint8Array,
  fields: readonly ReadField[],
): ReadDictionary {
  const id = buffer.int64(dictionary, 0);
  const field = fields.find(({ indices }) => indices?.dictionaryId === id);
  if (field === undefined) {
    throw malformed("is a dictionary that no column refers to");
  }
  const { columns } = readBatch(buffer, buffer.table(dictionary, 1), body, [field.type]);
  const [values] = columns;
  if (values === undefined) {
    throw malformed("lacks a part");
  }
  return { kind: "dictionary", id, delta: buffer.uint8(dictionary, 2) !== 0, values };
}

/** A FlatBuffer, read with every access checked; out of bounds is a RangeError of DataView's. */
export class FlatBuffer {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  root(): number {
    return this.#view.getUint32(0, true);
  }

  /** Position of a field's value. */
  place(table: number, slot: number): number {
    const at = this.#field(table, slot);
    if (at === 0) {
      throw malformed("lacks a part");
    }
    return at;
  }

  has(table: number, slot: number): boolean {
    return this.#field(table, slot) !== 0;
  }

  uint8(table: number, slot: number): number {
    const at = this.#field(table, slot);
    return at === 0 ? 0 : this.#view.getUint8(at);
  }

  int16(table: number, slot: number, absent: number): number {
    const at = this.#field(table, slot);
    return at === 0 ? absent : this.#view.getInt16(at, true);
  }

  int32(table: number, slot: number, absent: number): number {
    const at = this.#field(table, slot);
    return at === 0 ? absent : this.#view.getInt32(at, true);
  }

  int64(table: number, slot: number): number {
    const at = this.#field(table, slot);
    return at === 0 ? 0 : this.int64At(at);
  }

  /** A count or an offset: never negative, and within what a number holds. */
  int64At(at: number): number {
    const value = this.#view.getBigInt64(at, true);
    if (value < 0n || value > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw malformed("is cut short");
    }
    return Number(value);
  }

  table(table: number, slot: number): number {
    const at = this.#field(table, slot);
    if (at === 0) {
      throw malformed("lacks a part");
    }
    return at + this.#view.getUint32(at, true);
  }

  string(table: number, slot: number): string {
    if (!this.has(table, slot)) {
      return "";
    }
    const at = this.table(table, slot);
    const length = this.#view.getUint32(at, true);
    if (length > this.#bytes.length - at - 4) {
      throw malformed("is cut short");
    }
    return Buffer.from(this.#bytes.subarray(at + 4, at + 4 + length)).toString("utf8");
  }

  /** Items of a vector; all of them lie within the buffer. */
  vectorLength(table: number, slot: number, itemBytes: number): number {
    if (!this.has(table, slot)) {
      return 0;
    }
    const at = this.table(table, slot);
    const length = this.#view.getUint32(at, true);
    if (length * itemBytes > this.#bytes.length - at - 4) {
      throw malformed("is cut short");
    }
    return length;
  }

  /** Where a vector's items start. */
  vectorAt(table: number, slot: number): number {
    return this.table(table, slot) + 4;
  }

  tableOf(table: number, slot: number, index: number): number {
    const at = this.vectorAt(table, slot) + index * 4;
    return at + this.#view.getUint32(at, true);
  }

  /** Position of a field, 0 when it is absent. */
  #field(table: number, slot: number): number {
    const vtable = table - this.#view.getInt32(table, true);
    const entry = 4 + slot * 2;
    if (entry >= this.#view.getUint16(vtable, true)) {
      return 0;
    }
    const offset = this.#view.getUint16(vtable + entry, true);
    return offset === 0 ? 0 : table + offset;
  }
}

function malformed(what: string, cause?: unknown): ServiceError {
  return new ServiceError("BAD_REQUEST", `The Arrow message ${what}.`, { cause });
}
