/** JavaScript values to Arrow, for the few rows that do not come out of DuckDB: metadata. */
import type { ArrowField } from "../wire/flight-arrow.js";
import { encodeBatch, encodeSchema } from "./arrow-batch.js";
import type { Piece } from "./arrow-read.js";

/** A value of a column; a list is an array, a struct or a map's entry the array of its fields. */
export type ArrowValue =
  | null
  | string
  | number
  | boolean
  | Uint8Array
  | UnionValue
  | readonly ArrowValue[];

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
  const schema = encodeSchema(fields);
  if (rows.length === 0) return [schema];
  const columns = fields.map((field, i) => [
    pieceOf(
      field,
      rows.map((row) => row[i] ?? null),
    ),
  ]);
  return [schema, encodeBatch(fields, columns, rows.length)];
}

function pieceOf(field: ArrowField, values: readonly ArrowValue[]): Piece {
  const { type } = field;
  const nulls = values.filter((value) => value === null).length;
  const piece = {
    rows: values.length,
    nulls: type.kind === "union" ? 0 : nulls,
    validity: nulls === 0 || type.kind === "union" ? null : bitsOf(values, (v) => v !== null),
    values: null,
    ends: null,
    bytes: null,
    children: [],
  };
  switch (type.kind) {
    case "bool":
      return { ...piece, values: bitsOf(values, (value) => value === true) };
    case "int":
      return { ...piece, values: integers(values, type.bits) };
    case "utf8":
    case "binary": {
      const parts = values.map((value) =>
        value instanceof Uint8Array ? value : Buffer.from(typeof value === "string" ? value : ""),
      );
      return { ...piece, ends: endsOf(parts), bytes: Buffer.concat(parts) };
    }
    case "list":
    case "map": {
      const lists = values.map((value) => (isList(value) ? value : []));
      return { ...piece, ends: endsOf(lists), children: childrenOf(field, [lists.flat(1)]) };
    }
    case "struct":
      return {
        ...piece,
        children: childrenOf(
          field,
          field.children.map((_, i) => values.map((v) => (isList(v) ? (v[i] ?? null) : null))),
        ),
      };
    case "union":
      return unionPiece(field, piece, values);
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

function childrenOf(field: ArrowField, columns: readonly (readonly ArrowValue[])[]): Piece[] {
  return field.children.map((child, i) => pieceOf(child, columns[i] ?? []));
}

function unionPiece(field: ArrowField, piece: Piece, values: readonly ArrowValue[]): Piece {
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
  return { ...piece, values: ids, ends: offsets, children: childrenOf(field, columns) };
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
    if (isSet(value)) bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
  }
  return bits;
}

function integers(values: readonly ArrowValue[], bits: 8 | 16 | 32 | 64): Uint8Array {
  const bytes = Buffer.alloc((values.length * bits) / 8);
  for (const [i, value] of values.entries()) {
    const number = BigInt(typeof value === "number" ? value : 0);
    if (bits === 64) bytes.writeBigInt64LE(number, i * 8);
    else bytes.writeUIntLE(Number(BigInt.asUintN(bits, number)), (i * bits) / 8, bits / 8);
  }
  return bytes;
}

function endsOf(parts: readonly { readonly length: number }[]): Int32Array {
  let end = 0;
  return Int32Array.from(parts, ({ length }) => (end += length));
}
