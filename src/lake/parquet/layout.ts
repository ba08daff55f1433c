/**
 * The constant part of a table's files: its leaves in file order, their place in the schema, the encoded
 * schema itself, and its hash. Computed once per table.
 *
 * Lists are the standard's three levels, `required group <name> (LIST) { repeated group list { required <element> } }`:
 * never null, perhaps empty. https://github.com/apache/parquet-format/blob/master/LogicalTypes.md
 */
import { createHash } from "node:crypto";
import {
  type ColumnDefinition,
  type LeafDefinition,
  type LeafType,
  type TableDefinition,
  type TableName,
  tables,
} from "../tables/tables.js";
import { ByteBuffer } from "./byte-buffer.js";
import { convertedType, physicalType, repetition } from "./format.js";
import { thriftElement, ThriftWriter } from "./thrift.js";

/** One leaf of the schema: one column chunk per row group. */
export interface LeafLayout {
  readonly type: LeafType;
  readonly physical: number;
  readonly nullable: boolean;
  /** Column of the table; `child` names the builder inside a list. */
  readonly column: string;
  readonly child: string | null;
  /** Path from the root. */
  readonly path: readonly string[];
  /** The path as field 3 of ColumnMetaData. */
  readonly encodedPath: Uint8Array;
  /** Whether order is by unsigned value. */
  readonly unsigned: boolean;
}

/** A table as the writer sees it. */
export interface TableLayout {
  readonly leaves: readonly LeafLayout[];
  /** FileMetaData fields 1 (version) and 2 (schema), encoded. */
  readonly metadataHead: Uint8Array;
  /** SHA-256, in hex, over names, types and nullability of every column in order. */
  readonly schemaHash: string;
}

const physicalTypes: Record<LeafType, number> = {
  timestamp_ns: physicalType.int64,
  int64: physicalType.int64,
  uint64: physicalType.int64,
  int32: physicalType.int32,
  float64: physicalType.double,
  bool: physicalType.boolean,
  utf8: physicalType.byteArray,
  run_utf8: physicalType.byteArray,
  run_int64: physicalType.int64,
  run_timestamp_ns: physicalType.int64,
};

/**
 * LogicalType members: STRING 1, LIST 3, TIMESTAMP 8 (unit NANOS 3), INTEGER 10.
 *
 * Times are UTC, yet `isAdjustedToUTC` is false: DuckDB reads adjusted nanoseconds as TIMESTAMPTZ, which
 * has microseconds only, and unadjusted ones as TIMESTAMP_NS. Its own writer does the same.
 */
function writeLogicalType(thrift: ThriftWriter, type: LeafType): void {
  switch (type) {
    case "utf8":
    case "run_utf8":
      thrift.i32(6, convertedType.utf8);
      thrift.structField(10);
      thrift.emptyStruct(1);
      thrift.endStruct();
      return;
    case "timestamp_ns":
    case "run_timestamp_ns":
      thrift.structField(10);
      thrift.structField(8);
      thrift.bool(1, false);
      thrift.structField(2);
      thrift.emptyStruct(3);
      thrift.endStruct();
      thrift.endStruct();
      thrift.endStruct();
      return;
    case "uint64":
      thrift.i32(6, convertedType.uint64);
      thrift.structField(10);
      thrift.structField(10);
      thrift.i8(1, 64);
      thrift.bool(2, false);
      thrift.endStruct();
      thrift.endStruct();
      return;
    case "int64":
    case "run_int64":
    case "int32":
    case "float64":
    case "bool":
      return;
  }
}

function writeLeafElement(thrift: ThriftWriter, name: string, definition: LeafDefinition): void {
  thrift.beginStruct();
  thrift.i32(1, physicalTypes[definition.type]);
  thrift.i32(3, definition.nullable ? repetition.optional : repetition.required);
  thrift.string(4, name);
  writeLogicalType(thrift, definition.type);
  thrift.endStruct();
}

function writeGroupElement(
  thrift: ThriftWriter,
  name: string,
  kind: number | null,
  children: number,
  isList: boolean,
): void {
  thrift.beginStruct();
  if (kind !== null) {
    thrift.i32(3, kind);
  }
  thrift.string(4, name);
  thrift.i32(5, children);
  if (isList) {
    thrift.i32(6, convertedType.list);
    thrift.structField(10);
    thrift.emptyStruct(3);
    thrift.endStruct();
  }
  thrift.endStruct();
}

function encodePath(path: readonly string[]): Uint8Array {
  const out = new ByteBuffer(256);
  // Field 3 right after field 2: a step of one.
  out.byte((1 << 4) | thriftElement.list);
  out.byte((path.length << 4) | thriftElement.binary);
  for (const part of path) {
    const bytes = Buffer.from(part);
    out.varint(bytes.length);
    out.append(bytes);
  }
  return out.view().slice();
}

function leafLayout(
  column: string,
  child: string | null,
  path: readonly string[],
  definition: LeafDefinition,
): LeafLayout {
  return {
    type: definition.type,
    physical: physicalTypes[definition.type],
    nullable: definition.nullable,
    column,
    child,
    path,
    encodedPath: encodePath(path),
    unsigned: definition.type === "uint64",
  };
}

/** Writes one column's schema elements and returns its leaves. */
function layOutColumn(
  thrift: ThriftWriter,
  name: string,
  definition: ColumnDefinition,
): { elements: number; leaves: LeafLayout[] } {
  if (definition.type !== "list") {
    writeLeafElement(thrift, name, definition);
    return { elements: 1, leaves: [leafLayout(name, null, [name], definition)] };
  }
  const children = Object.entries(definition.children);
  const bare = definition.children["element"];
  writeGroupElement(thrift, name, repetition.required, 1, true);
  writeGroupElement(thrift, "list", repetition.repeated, 1, false);
  if (children.length === 1 && bare !== undefined) {
    writeLeafElement(thrift, "element", bare);
    return {
      elements: 3,
      leaves: [leafLayout(name, "element", [name, "list", "element"], bare)],
    };
  }
  writeGroupElement(thrift, "element", repetition.required, children.length, false);
  const leaves = children.map(([child, leaf]) => {
    writeLeafElement(thrift, child, leaf);
    return leafLayout(name, child, [name, "list", "element", child], leaf);
  });
  return { elements: 3 + children.length, leaves };
}

/** Lays out any table; `tableLayouts` holds those of the lake. */
export function layOutTable(definition: TableDefinition): TableLayout {
  const elements = new ThriftWriter(new ByteBuffer());
  const columns = Object.entries(definition);
  writeGroupElement(elements, "schema", null, columns.length, false);
  let count = 1;
  const leaves: LeafLayout[] = [];
  for (const [name, column] of columns) {
    const written = layOutColumn(elements, name, column);
    count += written.elements;
    leaves.push(...written.leaves);
  }
  const head = new ThriftWriter(new ByteBuffer());
  head.i32(1, 2);
  head.listField(2, thriftElement.struct, count);
  head.out.append(elements.out.view());
  return {
    leaves,
    metadataHead: head.out.view().slice(),
    schemaHash: createHash("sha256").update(JSON.stringify(definition)).digest("hex"),
  };
}

/** The lake's tables, laid out. */
export const tableLayouts: Readonly<Record<TableName, TableLayout>> = {
  log_entries: layOutTable(tables.log_entries),
  measures: layOutTable(tables.measures),
  histograms: layOutTable(tables.histograms),
  spans: layOutTable(tables.spans),
};
