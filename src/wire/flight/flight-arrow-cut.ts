/**
 * Shortens a record batch without touching its values: only the lengths in its header change, and the counts of nulls
 * that belong to them (format/Message.fbs, RecordBatch and FieldNode). What the buffers hold behind the new end is not
 * part of the batch any more.
 */
import { FlatBuffer } from "./flight-arrow-read.js";

/** Schema.fbs Type. */
const nullType = 1;
const struct = 13;
const union = 14;
const fixedSizeList = 16;
const runEndEncoded = 22;
/** Utf8View and BinaryView have buffers whose number the batch tells. */
const views: ReadonlySet<number> = new Set([23, 24]);
/** Buffers of a type where it has not two: validity and values. */
const buffersOfType: Readonly<Record<number, number>> = {
  [nullType]: 0,
  4: 3, // Binary
  5: 3, // Utf8
  19: 3, // LargeBinary
  20: 3, // LargeUtf8
  [struct]: 1,
  [fixedSizeList]: 1,
  25: 3, // ListView
  26: 3, // LargeListView
};

/** Bits that are set in a byte. */
const ones = Uint8Array.from({ length: 256 }, (_, byte) => {
  let bits = 0;
  for (let rest = byte; rest > 0; rest >>= 1) {
    bits += rest & 1;
  }
  return bits;
});

/** Most columns, and parts of columns. */
const maxShapes = 10_000;

/** A column or a part of one, as far as its place in a batch goes. */
interface Shape {
  readonly type: number;
  /** Values of each list of fixed size. */
  readonly listSize: number;
  readonly children: readonly Shape[];
}

/**
 * The header of a batch with its first rows only.
 * @param schema header of the message of its schema
 * @param rows fewer than it has
 * @returns null for a batch that cannot be shortened: unions and run-end encoding
 * @throws ServiceError BAD_REQUEST, RangeError for what is no such message
 */
export function shortenBatch(
  schema: Uint8Array,
  header: Uint8Array,
  body: Uint8Array,
  rows: number,
): Uint8Array | null {
  const shapes = columnsOf(schema);
  if (!shapes.every((shape) => isShortened(shape))) {
    return null;
  }
  const shorter = Uint8Array.from(header);
  const view = new DataView(shorter.buffer);
  const buffer = new FlatBuffer(shorter);
  const batch = buffer.table(buffer.root(), 2);
  const nodes = buffer.vectorAt(batch, 1);
  const nodeCount = buffer.vectorLength(batch, 1, 16);
  const buffers = buffer.vectorAt(batch, 2);
  const bufferCount = buffer.vectorLength(batch, 2, 16);
  const variadic = buffer.vectorLength(batch, 4, 8);
  let node = 0;
  let next = 0;
  let nextVariadic = 0;

  /** @param length null: it stays as it is, the values of lists say where they end */
  const walk = ({ type, listSize, children }: Shape, length: number | null): void => {
    const at = nodes + node * 16;
    if (node++ >= nodeCount) {
      throw new RangeError("the batch has fewer columns than its schema");
    }
    if (length !== null) {
      view.setBigInt64(at, BigInt(length), true);
      const nulls = buffer.int64At(at + 8);
      view.setBigInt64(at + 8, BigInt(nulls === 0 ? 0 : nullsOf(type, next, length)), true);
    }
    next += buffersOfType[type] ?? 2;
    if (views.has(type)) {
      if (nextVariadic >= variadic) {
        throw new RangeError("the batch has fewer columns of views than its schema");
      }
      next += buffer.int64At(buffer.vectorAt(batch, 4) + nextVariadic++ * 8);
    }
    const inner = length === null ? null : type === struct ? length : type === fixedSizeList ? length * listSize : null;
    for (const child of children) {
      walk(child, inner);
    }
  };
  /** Nulls among the first values, by the bits of their validity. */
  const nullsOf = (type: number, index: number, length: number): number => {
    if (type === nullType) {
      return length;
    }
    if (index >= bufferCount) {
      throw new RangeError("the batch has fewer buffers than its schema");
    }
    const from = buffer.int64At(buffers + index * 16);
    const bytes = buffer.int64At(buffers + index * 16 + 8);
    const bits = body.subarray(from, from + bytes);
    if (bits.length * 8 < length) {
      throw new RangeError("the batch has fewer bits of validity than rows");
    }
    const wholeBytes = length >> 3;
    let valid = ones[(bits[wholeBytes] ?? 0) & ((1 << (length & 7)) - 1)] ?? 0;
    for (let i = 0; i < wholeBytes; i++) {
      valid += ones[bits[i] ?? 0] ?? 0;
    }
    return length - valid;
  };

  view.setBigInt64(buffer.place(batch, 0), BigInt(rows), true);
  for (const shape of shapes) {
    walk(shape, rows);
  }
  return shorter;
}

function isShortened({ type, children }: Shape): boolean {
  return type !== union && type !== runEndEncoded && children.every((child) => isShortened(child));
}

function columnsOf(schema: Uint8Array): Shape[] {
  const buffer = new FlatBuffer(schema);
  const table = buffer.table(buffer.root(), 2);
  const count = buffer.vectorLength(table, 1, 4);
  const made = { shapes: 0 };
  return Array.from({ length: count }, (_, i) => shapeOf(buffer, buffer.tableOf(table, 1, i), 0, made));
}

const maxDepth = 64;

/** @param made counts the shapes of a schema: fields that share their children would be without end */
function shapeOf(buffer: FlatBuffer, field: number, depth: number, made: { shapes: number }): Shape {
  if (depth > maxDepth || ++made.shapes > maxShapes) {
    throw new RangeError("the schema nests too deep, or has too many columns");
  }
  // Indices of a dictionary are in the place of the values.
  if (buffer.has(field, 4)) {
    return { type: 2, listSize: 0, children: [] };
  }
  const type = buffer.uint8(field, 2);
  const count = buffer.vectorLength(field, 5, 4);
  return {
    type,
    listSize: type === fixedSizeList ? buffer.int32(buffer.table(field, 3), 0, 0) : 0,
    children: Array.from({ length: count }, (_, i) => shapeOf(buffer, buffer.tableOf(field, 5, i), depth + 1, made)),
  };
}
