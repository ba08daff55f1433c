/**
 * Values for parameters, bound through the C interface. DuckDB itself reads the text of every type: one statement casts
 * all of them, and what it made is taken from its vectors as numbers.
 */
import type { EngineValue } from "../protocol.js";
import { type Connection, DuckDbError, type Native, type Result, type Statement } from "./connection.js";
import type { DuckDb, Int128, Pointer } from "./library.js";
import { words } from "./memory.js";
import { readRows } from "./rows.js";

/** Makes a value of the bytes of a vector. */
interface Reader {
  readonly bytes: number;
  readonly create: (duckdb: DuckDb, view: DataView) => Pointer;
}

const int64 = (
  name:
    | "create_int64"
    | "create_time"
    | "create_time_ns"
    | "create_timestamp"
    | "create_timestamp_s"
    | "create_timestamp_ms"
    | "create_timestamp_ns"
    | "create_timestamp_tz",
): Reader => ({ bytes: 8, create: (duckdb, view) => duckdb[name](view.getBigInt64(0, true)) });

const unsigned = (view: DataView): Int128 => ({
  lower: view.getBigUint64(0, true),
  upper: view.getBigUint64(8, true),
});
const signed = (view: DataView): Int128 => ({
  lower: view.getBigUint64(0, true),
  upper: view.getBigInt64(8, true),
});

const readers: Readonly<Record<string, Reader>> = {
  BOOLEAN: { bytes: 1, create: (d, view) => d.create_bool(view.getUint8(0) !== 0) },
  TINYINT: { bytes: 1, create: (d, view) => d.create_int8(view.getInt8(0)) },
  UTINYINT: { bytes: 1, create: (d, view) => d.create_uint8(view.getUint8(0)) },
  SMALLINT: { bytes: 2, create: (d, view) => d.create_int16(view.getInt16(0, true)) },
  USMALLINT: { bytes: 2, create: (d, view) => d.create_uint16(view.getUint16(0, true)) },
  INTEGER: { bytes: 4, create: (d, view) => d.create_int32(view.getInt32(0, true)) },
  UINTEGER: { bytes: 4, create: (d, view) => d.create_uint32(view.getUint32(0, true)) },
  BIGINT: int64("create_int64"),
  UBIGINT: { bytes: 8, create: (d, view) => d.create_uint64(view.getBigUint64(0, true)) },
  HUGEINT: { bytes: 16, create: (d, view) => d.create_hugeint(signed(view)) },
  UHUGEINT: { bytes: 16, create: (d, view) => d.create_uhugeint(unsigned(view)) },
  FLOAT: { bytes: 4, create: (d, view) => d.create_float(view.getFloat32(0, true)) },
  DOUBLE: { bytes: 8, create: (d, view) => d.create_double(view.getFloat64(0, true)) },
  DATE: { bytes: 4, create: (d, view) => d.create_date(view.getInt32(0, true)) },
  TIME: int64("create_time"),
  TIME_NS: int64("create_time_ns"),
  TIMESTAMP: int64("create_timestamp"),
  TIMESTAMP_S: int64("create_timestamp_s"),
  TIMESTAMP_MS: int64("create_timestamp_ms"),
  TIMESTAMP_NS: int64("create_timestamp_ns"),
  "TIMESTAMP WITH TIME ZONE": int64("create_timestamp_tz"),
  UUID: {
    bytes: 16,
    create: (d, view) => {
      // DuckDB keeps the first bit turned over, so that UUIDs sort as signed numbers.
      const { lower, upper } = unsigned(view);
      return d.create_uuid({ lower, upper: upper ^ (1n << 63n) });
    },
  },
  INTERVAL: {
    bytes: 16,
    create: (d, view) =>
      d.create_interval({
        months: view.getInt32(0, true),
        days: view.getInt32(4, true),
        micros: view.getBigInt64(8, true),
      }),
  },
};

/** Digits of a DECIMAL and the bytes that it takes. */
const decimalBytes = [
  [4, 2],
  [9, 4],
  [18, 8],
  [38, 16],
] as const;

/** @throws DuckDbError for a type that has no values here */
function readerOf(type: string): Reader {
  const reader = readers[type];
  if (reader !== undefined) {
    return reader;
  }
  const [, width = "0", scale = "0"] = /^DECIMAL\((\d+),(\d+)\)$/u.exec(type) ?? [];
  const bytes = decimalBytes.find(([digits]) => Number(width) <= digits)?.[1];
  if (Number(width) === 0 || bytes === undefined) {
    throw new DuckDbError(`Not implemented Error: no value of type ${type} can be bound`);
  }
  return {
    bytes,
    create: (d, view) =>
      d.create_decimal({
        width: Number(width),
        scale: Number(scale),
        value: unscaled(view, bytes),
      }),
  };
}

function unscaled(view: DataView, bytes: 2 | 4 | 8 | 16): Int128 {
  if (bytes === 16) {
    return signed(view);
  }
  const value =
    bytes === 8 ? view.getBigInt64(0, true) : BigInt(bytes === 4 ? view.getInt32(0, true) : view.getInt16(0, true));
  return { lower: BigInt.asUintN(64, value), upper: value < 0n ? -1n : 0n };
}

/** Binds values to a statement, in order. @throws DuckDbError when one is not of its type, or there are too many */
export function bindValues(connection: Connection, statement: Statement, values: readonly EngineValue[]): void {
  const { native } = connection;
  const expected = Number(native.duckdb.nparams(statement.handle));
  if (values.length !== expected) {
    throw new DuckDbError(
      `Invalid Input Error: the statement takes ${expected} parameters and ${values.length} were given`,
    );
  }
  const created = createValues(connection, values);
  try {
    for (const [i, value] of created.entries()) {
      bindOne(native, statement, i, value);
    }
  } finally {
    for (const value of created) {
      native.duckdb.destroy_value(native.memory.box(value));
    }
  }
}

function bindOne({ duckdb }: Native, statement: Statement, index: number, value: Pointer): void {
  if (value !== 0 && duckdb.bind_value(statement.handle, index + 1, value) === 0) {
    return;
  }
  throw new DuckDbError(`Invalid Input Error: no value could be bound to parameter ${index + 1}`);
}

function createValues(connection: Connection, values: readonly EngineValue[]): Pointer[] {
  const { native } = connection;
  const created: Pointer[] = values.map(() => 0);
  const casts: { readonly index: number; readonly type: string; readonly text: string }[] = [];
  try {
    for (const [index, value] of values.entries()) {
      if ("texts" in value) {
        created[index] = createTexts(native, value.texts);
      } else if (value.text === null) {
        created[index] = native.duckdb.create_null_value();
      } else if (value.type === "VARCHAR") {
        created[index] = createText(native, value.text);
      } else if (value.type === "BLOB") {
        created[index] = createBlob(native, value.text);
      } else if (value.type.endsWith("[]")) {
        created[index] = castList(connection, value.type, value.text);
      } else {
        casts.push({ index, type: value.type, text: value.text });
      }
    }
    if (casts.length > 0) {
      castTexts(connection, casts, created);
    }
    return created;
  } catch (error) {
    for (const value of created) {
      if (value !== 0) {
        native.duckdb.destroy_value(native.memory.box(value));
      }
    }
    throw error;
  }
}

/** Has DuckDB cast texts to their types, all in one row. @param created gets the values, by index */
function castTexts(
  connection: Connection,
  casts: readonly { readonly index: number; readonly type: string; readonly text: string }[],
  created: Pointer[],
): void {
  const { native } = connection;
  const { duckdb, memory } = native;
  const typed = casts.map((cast) => ({ ...cast, reader: readerOf(cast.type) }));
  const columns = typed.map(({ type }, i) => `CAST($${i + 1} AS ${type})`);
  const statement = connection.prepare(`SELECT ${columns.join(", ")}`);
  try {
    for (const [i, { text }] of typed.entries()) {
      const value = createText(native, text);
      try {
        bindOne(native, statement, i, value);
      } finally {
        duckdb.destroy_value(memory.box(value));
      }
    }
    const result = statement.execute("all");
    try {
      const chunk = result.fetch();
      for (const [i, { index, reader }] of typed.entries()) {
        const data = duckdb.vector_get_data(duckdb.data_chunk_get_vector(chunk, i));
        const bytes = memory.bytes(data, reader.bytes);
        created[index] = reader.create(duckdb, new DataView(bytes.buffer, bytes.byteOffset));
      }
      duckdb.destroy_data_chunk(memory.box(chunk));
    } finally {
      result.close();
    }
  } finally {
    statement.close();
  }
}

function createText({ duckdb }: Native, text: string): Pointer {
  const bytes = Buffer.from(text);
  return duckdb.create_varchar_length(bytes, bytes.length);
}

function createBlob({ duckdb }: Native, base64: string): Pointer {
  const bytes = Buffer.from(base64, "base64");
  return duckdb.create_blob(bytes, bytes.length);
}

/** DUCKDB_TYPE_VARCHAR. */
const varcharType = 17;

function createTexts(native: Native, texts: readonly string[]): Pointer {
  const { duckdb, memory } = native;
  const type = duckdb.create_logical_type(varcharType);
  try {
    return createList(
      native,
      type,
      texts.map((text) => createText(native, text)),
    );
  } finally {
    duckdb.destroy_logical_type(memory.box(type));
  }
}

/** @param values are destroyed */
function createList({ duckdb, memory }: Native, type: Pointer, values: readonly Pointer[]): Pointer {
  try {
    return duckdb.create_list_value(type, words(values), values.length);
  } finally {
    for (const value of values) {
      duckdb.destroy_value(memory.box(value));
    }
  }
}

/** A list, whose text DuckDB takes apart. */
function castList(connection: Connection, type: string, text: string): Pointer {
  const { native } = connection;
  const { duckdb, memory } = native;
  const item = type.slice(0, -2);
  const reader = item === "VARCHAR" ? null : readerOf(item);
  const statement = connection.prepare(`SELECT unnest(CAST($1 AS ${type}))`);
  try {
    const value = createText(native, text);
    try {
      bindOne(native, statement, 0, value);
    } finally {
      duckdb.destroy_value(memory.box(value));
    }
    const result = statement.execute("all");
    const itemType = duckdb.column_logical_type(result.address, 0);
    try {
      if (reader !== null) {
        return createList(native, itemType, readItems(native, result, reader));
      }
      const texts = readRows(connection, result, Infinity).map(([text]) =>
        typeof text === "string" ? createText(native, text) : duckdb.create_null_value(),
      );
      return createList(native, itemType, texts);
    } finally {
      duckdb.destroy_logical_type(memory.box(itemType));
      result.close();
    }
  } finally {
    statement.close();
  }
}

/** The values of a result's only column. */
function readItems({ duckdb, memory }: Native, result: Result, reader: Reader): Pointer[] {
  const items: Pointer[] = [];
  for (let chunk = result.fetch(); chunk !== 0; chunk = result.fetch()) {
    const rows = Number(duckdb.data_chunk_get_size(chunk));
    const vector = duckdb.data_chunk_get_vector(chunk, 0);
    const bytes = memory.bytes(duckdb.vector_get_data(vector), rows * reader.bytes);
    const validity = duckdb.vector_get_validity(vector);
    const bits = validity === 0 ? null : memory.bytes(validity, (rows + 7) >> 3);
    for (let row = 0; row < rows; row++) {
      const isNull = bits !== null && ((bits[row >> 3] ?? 0) & (1 << (row & 7))) === 0;
      const view = new DataView(bytes.buffer, bytes.byteOffset + row * reader.bytes);
      items.push(isNull ? duckdb.create_null_value() : reader.create(duckdb, view));
    }
    duckdb.destroy_data_chunk(memory.box(chunk));
  }
  return items;
}
