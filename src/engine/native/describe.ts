/** What a statement would return, and what it asks for, without running it. */
import type { ParameterType, StepResult } from "../protocol.js";
import { ArrowConverter, type ColumnHandle } from "./arrow/result.js";
import type { Connection, Native, Statement } from "./connection.js";
import type { Pointer } from "./library.js";
import { typeIds } from "./logical-types.js";

/** Names of the numbers of duckdb_type that have one name; all others are nested. */
const typeNames: Readonly<Record<number, string>> = {
  1: "BOOLEAN",
  2: "TINYINT",
  3: "SMALLINT",
  4: "INTEGER",
  5: "BIGINT",
  6: "UTINYINT",
  7: "USMALLINT",
  8: "UINTEGER",
  9: "UBIGINT",
  10: "FLOAT",
  11: "DOUBLE",
  12: "TIMESTAMP",
  13: "DATE",
  14: "TIME",
  15: "INTERVAL",
  16: "HUGEINT",
  17: "VARCHAR",
  18: "BLOB",
  20: "TIMESTAMP_S",
  21: "TIMESTAMP_MS",
  22: "TIMESTAMP_NS",
  23: "ENUM",
  25: "STRUCT",
  26: "MAP",
  27: "UUID",
  28: "UNION",
  29: "BIT",
  30: "TIME WITH TIME ZONE",
  31: "TIMESTAMP WITH TIME ZONE",
  32: "UHUGEINT",
  33: "ARRAY",
  35: "BIGNUM",
  36: "NULL",
  39: "TIME_NS",
  40: "GEOMETRY",
  41: "VARIANT",
};

/** A `describe` step; without a schema when the columns depend on values. @throws DuckDbError */
export function describe(connection: Connection, sql: string): StepResult {
  const { native } = connection;
  const statement = connection.prepare(sql);
  try {
    const parameters = Array.from({ length: Number(native.duckdb.nparams(statement.handle)) }, (_, i) =>
      parameterAt(native, statement, i + 1),
    );
    const message = schemaMessage(connection, statement);
    return {
      parameters,
      ...(message === null ? {} : { schema: Buffer.from(message).toString("base64") }),
    };
  } finally {
    statement.close();
  }
}

function parameterAt(native: Native, statement: Statement, index: number): ParameterType {
  const { duckdb, memory } = native;
  const name = ownText(native, duckdb.parameter_name(statement.handle, index));
  const type = duckdb.param_logical_type(statement.handle, index);
  if (type === 0) {
    return { name, type: null };
  }
  try {
    return { name, type: typeName(native, type) };
  } finally {
    duckdb.destroy_logical_type(memory.box(type));
  }
}

function typeName(native: Native, type: Pointer): string | null {
  const { duckdb, memory } = native;
  const id = duckdb.get_type_id(type);
  if (id === typeIds.decimal) {
    return `DECIMAL(${duckdb.decimal_width(type)},${duckdb.decimal_scale(type)})`;
  }
  if (id !== typeIds.list) {
    return typeNames[id] ?? null;
  }
  const child = duckdb.list_type_child_type(type);
  try {
    const name = typeName(native, child);
    return name === null ? "LIST" : `${name}[]`;
  } finally {
    duckdb.destroy_logical_type(memory.box(child));
  }
}

function schemaMessage(connection: Connection, statement: Statement): Uint8Array | null {
  const { native } = connection;
  const { duckdb, memory } = native;
  const columns: ColumnHandle[] = [];
  const converter = new ArrowConverter(connection);
  try {
    const count = Number(duckdb.prepared_statement_column_count(statement.handle));
    for (let i = 0; i < count; i++) {
      const type = duckdb.prepared_statement_column_logical_type(statement.handle, i);
      if (type === 0) {
        return null;
      }
      const name = ownText(native, duckdb.prepared_statement_column_name(statement.handle, i));
      columns.push({ name, type });
      if (duckdb.get_type_id(type) === typeIds.invalid) {
        return null;
      }
    }
    return converter.schema(columns).message;
  } finally {
    converter.close();
    for (const { type } of columns) {
      duckdb.destroy_logical_type(memory.box(type));
    }
  }
}

/** A text that DuckDB gave away. */
function ownText({ duckdb, memory }: Native, text: Pointer): string {
  const copy = memory.text(text);
  duckdb.free(text);
  return copy;
}
