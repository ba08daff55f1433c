/** What metadata says of the type of a column, beside its Arrow field. */
import { quoteName } from "../../../runtime/text/sql-text.js";
import type { ArrowField, TimeUnit } from "../../../wire/flight/flight-arrow.js";
import { sizeOfType } from "./xdbc-types.js";

/** Name, size and scale as GetXdbcTypeInfo has them; null where a type has none. */
interface ColumnType {
  /** DuckDB's name, of nested types with their parts: `INTEGER`, `STRUCT("a" INTEGER)[]`. */
  readonly name: string;
  readonly size: number | null;
  readonly scale: number | null;
}

/** The type that a column of a table has in SQL, from what it is in Arrow. */
export function columnType(field: ArrowField): ColumnType {
  const { type } = field;
  if (type.kind === "decimal" && type.precision <= maxDecimalDigits) {
    return { name: "DECIMAL", size: type.precision, scale: type.scale };
  }
  const name = nameOf(field);
  return { name, ...sizeOfType(name) };
}

const maxDecimalDigits = 38;

const integers = { 8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT" } as const;

const timestamps: Readonly<Record<TimeUnit, string>> = {
  second: "TIMESTAMP_S",
  millisecond: "TIMESTAMP_MS",
  microsecond: "TIMESTAMP",
  nanosecond: "TIMESTAMP_NS",
};

function nameOf({ type, children }: ArrowField): string {
  const [first] = children.map((child) => nameOf(child));
  switch (type.kind) {
    case "null":
      return "NULL";
    case "bool":
      return "BOOLEAN";
    case "int":
      return `${type.signed ? "" : "U"}${integers[type.bits]}`;
    case "float":
      return type.bits === 32 ? "FLOAT" : "DOUBLE";
    case "utf8":
      return "VARCHAR";
    case "binary":
      return "BLOB";
    case "decimal":
      return type.precision > maxDecimalDigits ? "UHUGEINT" : `DECIMAL(${type.precision},${type.scale})`;
    case "date32":
      return "DATE";
    case "time32":
      return "TIME";
    case "time64":
      return type.unit === "nanosecond" ? "TIME_NS" : "TIME";
    case "timestamp":
      return type.timezone === null ? timestamps[type.unit] : "TIMESTAMP WITH TIME ZONE";
    case "interval":
      return "INTERVAL";
    case "list":
      return `${first ?? ""}[]`;
    case "fixed_size_list":
      return `${first ?? ""}[${type.size}]`;
    case "struct":
      return `STRUCT(${members(children)})`;
    case "map": {
      const [key, value] = children[0]?.children.map((child) => nameOf(child)) ?? [];
      return `MAP(${key ?? ""}, ${value ?? ""})`;
    }
    case "union":
      return `UNION(${members(children)})`;
  }
}

function members(children: readonly ArrowField[]): string {
  return children.map((child) => `${quoteName(child.name)} ${nameOf(child)}`).join(", ");
}
