/** Small results as rows of JavaScript: what the server asks for itself. */
import type { RowValue } from "../protocol.js";
import { PiecedColumn, startWord, validityWord, valuesWord } from "./arrow/pieces.js";
import { ArrowConverter } from "./arrow/result.js";
import type { NativeField } from "./arrow/schema.js";
import { type Connection, DuckDbError, type Result } from "./connection.js";
import type { Pointer } from "./library.js";
import type { NativeMemory } from "./memory.js";
import { LimitError, withColumns } from "./stream.js";

/** The rows of a result. @throws LimitError when they take more than `maxBytes`; DuckDbError */
export function readRows(connection: Connection, result: Result, maxBytes: number): RowValue[][] {
  const { native } = connection;
  const { memory } = native;
  const converter = new ArrowConverter(connection);
  const rows: RowValue[][] = [];
  let bytes = 0;
  try {
    const { fields } = withColumns(native, result, (columns) => converter.schema(columns));
    converter.release();
    const readers = fields.map((field) => readerOf(field));
    const columns = fields.map((field) => new PiecedColumn(field));
    for (let chunk = result.fetch(); chunk !== 0; chunk = result.fetch()) {
      const count = Number(native.duckdb.data_chunk_get_size(chunk));
      const array = converter.convert(chunk);
      for (const [i, column] of columns.entries()) {
        bytes += column.add(memory, converter.child(array, i), 0, count);
      }
      if (bytes > maxBytes) {
        throw new LimitError(`the result has more than ${maxBytes} bytes`);
      }
      const values = columns.map((column, i) => columnValues(memory, column, count, readers[i]));
      for (let row = 0; row < count; row++) {
        rows.push(values.map((column) => column[row] ?? null));
      }
      for (const column of columns) {
        column.clear();
      }
      converter.release();
    }
    return rows;
  } finally {
    converter.close();
  }
}

/** Values of a piece, read from a copy of its buffer. */
interface Reader {
  /** Of the buffer, for this number of rows. */
  readonly bytes: (rows: number) => number;
  readonly read: (view: DataView, row: number, text: Buffer) => RowValue;
}

function columnValues(
  memory: NativeMemory,
  { pieces, data, layout }: PiecedColumn,
  rows: number,
  reader: Reader | undefined,
): RowValue[] {
  const copy = (from: Pointer, bytes: number): Buffer =>
    from === 0 ? Buffer.alloc(bytes) : Buffer.from(memory.bytes(from, bytes).buffer);
  if (reader === undefined) {
    return [];
  }
  const validity = pieces[validityWord] ?? 0;
  const bits = validity === 0 ? null : memory.bytes(validity, (rows + 7) >> 3);
  const buffer = copy(pieces[valuesWord] ?? 0, reader.bytes(rows));
  const text = layout.kind === "bytes" ? copy(data[0] ?? 0, pieces[startWord + 1] ?? 0) : Buffer.alloc(0);
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  return Array.from({ length: rows }, (_, row) => {
    const isNull = bits !== null && ((bits[row >> 3] ?? 0) & (1 << (row & 7))) === 0;
    return isNull ? null : reader.read(view, row, text);
  });
}

function readerOf({ name, type, layout, indexBits }: NativeField): Reader {
  if (indexBits !== null || layout.kind === "narrowed") {
    throw unread(name);
  }
  switch (type.kind) {
    case "null":
      return { bytes: () => 0, read: () => null };
    case "utf8":
      return {
        bytes: (rows) => (rows + 1) * 4,
        read: (view, row, text) =>
          text.toString("utf8", view.getInt32(row * 4, true), view.getInt32(row * 4 + 4, true)),
      };
    case "bool":
      return {
        bytes: (rows) => (rows + 7) >> 3,
        read: (view, row) => (view.getUint8(row >> 3) & (1 << (row & 7))) !== 0,
      };
    case "int":
      return { bytes: (rows) => (rows * type.bits) / 8, read: integer(type.bits, type.signed) };
    case "float":
      return type.bits === 32
        ? { bytes: (rows) => rows * 4, read: (view, row) => view.getFloat32(row * 4, true) }
        : { bytes: (rows) => rows * 8, read: (view, row) => view.getFloat64(row * 8, true) };
    case "binary":
    case "decimal":
    case "date32":
    case "time32":
    case "time64":
    case "timestamp":
    case "interval":
    case "list":
    case "fixed_size_list":
    case "struct":
    case "map":
    case "union":
      throw unread(name);
  }
}

function unread(name: string): DuckDbError {
  return new DuckDbError(
    `Not implemented Error: the column ${JSON.stringify(name)} is not read as a row's value; cast it to VARCHAR`,
  );
}

function integer(bits: 8 | 16 | 32 | 64, signed: boolean): Reader["read"] {
  switch (bits) {
    case 8:
      return signed ? (view, row) => view.getInt8(row) : (view, row) => view.getUint8(row);
    case 16:
      return signed ? (view, row) => view.getInt16(row * 2, true) : (view, row) => view.getUint16(row * 2, true);
    case 32:
      return signed ? (view, row) => view.getInt32(row * 4, true) : (view, row) => view.getUint32(row * 4, true);
    case 64:
      return signed
        ? (view, row) => String(view.getBigInt64(row * 8, true))
        : (view, row) => String(view.getBigUint64(row * 8, true));
  }
}
