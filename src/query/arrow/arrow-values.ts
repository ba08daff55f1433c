/**
 * JavaScript values to Arrow, for the few rows that do not come out of an engine: metadata and explained plans
 * (Arrow columnar format; Flight.proto FlightData).
 */
import { type ArrowField, encodeRecordBatchMessage, encodeSchemaMessage } from "../../wire/flight/flight-arrow.js";
import { flightDataFrame } from "../../wire/flight/flight-protobuf.js";

/** A value of a column; a list is an array, a struct or a map's entry the array of its fields. */
export type ArrowValue = null | string | number | boolean | Uint8Array | UnionValue | readonly ArrowValue[];

/** A value of a union and the child that holds it. */
export interface UnionValue {
  readonly child: number;
  readonly value: ArrowValue;
}

/** A result as FlightData messages: the schema, and a batch when there are rows. */
export function encodeRows(
  fields: readonly ArrowField[],
  rows: readonly (readonly ArrowValue[])[],
): Uint8Array<ArrayBuffer>[] {
  const schema = flightDataFrame(encodeSchemaMessage(fields), 0).message;
  if (rows.length === 0) {
    return [schema];
  }
  const layout: Layout = { nodes: [], buffers: [], parts: [], bodyBytes: 0 };
  for (const [i, field] of fields.entries()) {
    place(
      layout,
      field,
      rows.map((row) => row[i] ?? null),
    );
  }
  const { nodes, buffers, parts, bodyBytes } = layout;
  const header = encodeRecordBatchMessage({ rows: rows.length, nodes, buffers, bodyBytes });
  const { message, body } = flightDataFrame(header, bodyBytes);
  body.fill(0);
  for (const [i, part] of parts.entries()) {
    body.set(part, buffers[2 * i] ?? 0);
  }
  return [schema, message];
}

interface Layout {
  /** Rows and nulls of each field, depth first (Message.fbs FieldNode). */
  readonly nodes: number[];
  /** Offset and length of each part in the body. */
  readonly buffers: number[];
  readonly parts: Uint8Array[];
  bodyBytes: number;
}

/** Takes room in the body, aligned to 8 bytes as the format asks. */
function add(layout: Layout, part: Uint8Array): void {
  layout.buffers.push(layout.bodyBytes, part.length);
  layout.parts.push(part);
  layout.bodyBytes = (layout.bodyBytes + part.length + 7) & ~7;
}

function place(layout: Layout, field: ArrowField, values: readonly ArrowValue[]): void {
  const { type } = field;
  if (type.kind === "union") {
    placeUnion(layout, field, values);
    return;
  }
  const nulls = values.filter((value) => value === null).length;
  layout.nodes.push(values.length, nulls);
  add(layout, nulls === 0 ? new Uint8Array(0) : bitsOf(values, (value) => value !== null));
  switch (type.kind) {
    case "bool":
      add(
        layout,
        bitsOf(values, (value) => value === true),
      );
      return;
    case "int":
      add(layout, integers(values, type.bits));
      return;
    case "utf8":
    case "binary": {
      const texts = values.map((value) =>
        value instanceof Uint8Array ? value : Buffer.from(typeof value === "string" ? value : ""),
      );
      add(layout, offsetsOf(texts));
      add(layout, Buffer.concat(texts));
      return;
    }
    case "list":
    case "map": {
      const lists = values.map((value) => (isList(value) ? value : []));
      add(layout, offsetsOf(lists));
      placeChildren(layout, field, [lists.flat(1)]);
      return;
    }
    case "struct":
      placeChildren(
        layout,
        field,
        field.children.map((_, i) => values.map((v) => (isList(v) ? (v[i] ?? null) : null))),
      );
      return;
    case "null":
    case "float":
    case "decimal":
    case "date32":
    case "time32":
    case "time64":
    case "timestamp":
    case "interval":
    case "fixed_size_list":
      throw new TypeError(`no value of metadata is of type ${type.kind}`);
  }
}

function placeChildren(layout: Layout, field: ArrowField, columns: readonly (readonly ArrowValue[])[]): void {
  for (const [i, child] of field.children.entries()) {
    place(layout, child, columns[i] ?? []);
  }
}

/** A dense union, which has no validity of its own: its children do. */
function placeUnion(layout: Layout, field: ArrowField, values: readonly ArrowValue[]): void {
  const columns: ArrowValue[][] = field.children.map(() => []);
  const offsets = new Int32Array(values.length);
  const ids = new Uint8Array(values.length);
  for (const [row, item] of values.entries()) {
    const { child, value } = isUnion(item) ? item : { child: 0, value: null };
    const column = columns[child] ?? [];
    ids[row] = child;
    offsets[row] = column.length;
    column.push(value);
  }
  layout.nodes.push(values.length, 0);
  add(layout, ids);
  add(layout, bytesOf(offsets));
  placeChildren(layout, field, columns);
}

function isList(value: ArrowValue): value is readonly ArrowValue[] {
  return Array.isArray(value);
}

function isUnion(value: ArrowValue): value is UnionValue {
  return typeof value === "object" && value !== null && "child" in value;
}

function bitsOf(values: readonly ArrowValue[], isSet: (value: ArrowValue) => boolean): Uint8Array {
  const bits = new Uint8Array((values.length + 7) >> 3);
  for (const [i, value] of values.entries()) {
    if (isSet(value)) {
      bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
    }
  }
  return bits;
}

function integers(values: readonly ArrowValue[], bits: 8 | 16 | 32 | 64): Uint8Array {
  const bytes = Buffer.alloc((values.length * bits) / 8);
  for (const [i, value] of values.entries()) {
    const number = BigInt(typeof value === "number" ? value : 0);
    if (bits === 64) {
      bytes.writeBigInt64LE(number, i * 8);
    } else {
      bytes.writeUIntLE(Number(BigInt.asUintN(bits, number)), (i * bits) / 8, bits / 8);
    }
  }
  return bytes;
}

function offsetsOf(parts: readonly { readonly length: number }[]): Uint8Array {
  const offsets = new Int32Array(parts.length + 1);
  for (const [i, { length }] of parts.entries()) {
    offsets[i + 1] = (offsets[i] ?? 0) + length;
  }
  return bytesOf(offsets);
}

function bytesOf(offsets: Int32Array): Uint8Array {
  return new Uint8Array(offsets.buffer, offsets.byteOffset, offsets.byteLength);
}
