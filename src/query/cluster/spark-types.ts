/**
 * Types of expressions as far as a translation needs them, and text for Spark SQL. A time is a BIGINT of nanoseconds
 * there: Spark has microseconds only. What has no type here stays on this machine.
 */
import type { ArrowField } from "../../wire/flight/flight-arrow.js";

/** `null` is the type of NULL; `foreign` columns may not be named. */
export type SqlType = "bool" | "int" | "long" | "double" | "decimal" | "text" | "time" | "null" | "foreign";

/** Why a statement runs on this machine only. */
export class LocalOnly extends Error {
  /** @param what the function or the part of the statement, for the caller */
  constructor(what: string) {
    super(what);
    this.name = "LocalOnly";
  }
}

/** An expression in Spark SQL. */
export interface Expression {
  readonly sql: string;
  readonly type: SqlType;
  /** It holds an aggregate function, or a window function. */
  readonly aggregate: boolean;
  readonly window: boolean;
  /** It names a column. */
  readonly column: boolean;
  /** The value of a constant. */
  readonly text?: string;
  readonly integer?: bigint;
  /** A length of time in nanoseconds; it has no SQL of its own. */
  readonly interval?: bigint;
}

const numbers: ReadonlySet<SqlType> = new Set(["int", "long", "double", "decimal"]);

export function isNumber(type: SqlType): boolean {
  return numbers.has(type);
}

export function isInteger(type: SqlType): boolean {
  return type === "int" || type === "long";
}

/** The one type of both, as DuckDB finds it; throws where that is not known. */
export function commonType(a: SqlType, b: SqlType): SqlType {
  if (a === b || b === "null") {
    return a;
  }
  if (a === "null") {
    return b;
  }
  if (isNumber(a) && isNumber(b)) {
    if (a === "double" || b === "double") {
      return "double";
    }
    if (a === "decimal" || b === "decimal") {
      return "decimal";
    }
    return "long";
  }
  throw new LocalOnly(`values of two types (${a}, ${b})`);
}

/**
 * Values with every DECIMAL among them as a DOUBLE where one of them is a DOUBLE, as in DuckDB. Sail would compare both
 * as decimals of 15 places, which rounds small numbers off and fails for large ones.
 */
export function withoutMixture<T extends Pick<Expression, "sql" | "type">>(parts: readonly T[]): readonly T[] {
  return parts.some(({ type }) => type === "double")
    ? parts.map((part) =>
        part.type === "decimal" ? { ...part, sql: `CAST(${part.sql} AS DOUBLE)`, type: "double" } : part,
      )
    : parts;
}

/** Whether values of these types may be compared as they are. */
export function comparable(a: SqlType, b: SqlType): boolean {
  const numbersAlike =
    isNumber(a) && isNumber(b) && !(a === "double" ? b === "decimal" : a === "decimal" && b === "double");
  return a !== "foreign" && b !== "foreign" && (a === b || a === "null" || b === "null" || numbersAlike);
}

/** The type of a column of DuckDB's type. */
export function typeOfColumn(type: string): SqlType {
  switch (type) {
    case "BOOLEAN":
      return "bool";
    case "INTEGER":
      return "int";
    case "BIGINT":
      return "long";
    case "DOUBLE":
      return "double";
    case "VARCHAR":
      return "text";
    case "TIMESTAMP_NS":
      return "time";
    default:
      return "foreign";
  }
}

/** Spark's name of a type. */
export function sparkType(type: SqlType): string {
  switch (type) {
    case "bool":
      return "BOOLEAN";
    case "null":
    case "int":
      return "INT";
    case "long":
    case "time":
      return "BIGINT";
    case "double":
      return "DOUBLE";
    case "text":
      return "STRING";
    case "decimal":
    case "foreign":
      throw new LocalOnly(`a value of type ${type}`);
  }
}

/** Quotes an identifier. */
export function sparkName(name: string): string {
  // Spark puts settings into the place of such text before it parses anything.
  if (name.includes("${")) {
    throw new LocalOnly("a name with ${");
  }
  return `\`${name.replaceAll("`", "``")}\``;
}

/** A text constant. A dollar sign is escaped: see {@link sparkName}. */
export function sparkText(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("$", "\\u0024")}'`;
}

/** A constant of 64 bits: a bare number would be one of 32 where it fits. */
export function sparkLong(value: bigint): string {
  return value < -(2n ** 63n) + 1n ? "(-9223372036854775807L - 1L)" : `${value}L`;
}

/** A DOUBLE rounded to a whole one, halves to the even one. `rint` is said to do so, and rounds them up in Sail. */
export function roundedToEven(sql: string): string {
  return `CASE WHEN abs(rint(${sql}) - ${sql}) = 0.5D THEN 2D * rint(${sql} / 2D) ELSE rint(${sql}) END`;
}

/** Whole parts of a time, for a number below zero, too. */
export function floored(sql: string, unit: bigint): string {
  return `(${sql} - pmod(${sql}, ${sparkLong(unit)}))`;
}

const nsOf = { second: 1_000_000_000n, millisecond: 1_000_000n, microsecond: 1000n, nanosecond: 1n } as const;

/**
 * A column of the result cast to what DuckDB gives.
 * @throws LocalOnly for a type that Spark does not have
 */
export function castToField(sql: string, type: SqlType, { name, type: wanted, dictionary }: ArrowField): string {
  const refuse = new LocalOnly(`a result of type ${wanted.kind} (column ${name})`);
  if (dictionary !== undefined || type === "foreign") {
    throw refuse;
  }
  switch (wanted.kind) {
    case "bool":
      return `CAST(${sql} AS BOOLEAN)`;
    case "utf8":
      if (type !== "text" && type !== "null") {
        throw refuse;
      }
      return `CAST(${sql} AS STRING)`;
    case "float":
      return `CAST(${sql} AS ${wanted.bits === 32 ? "FLOAT" : "DOUBLE"})`;
    case "decimal":
      return `CAST(${sql} AS DECIMAL(${wanted.precision},${wanted.scale}))`;
    case "int": {
      if (!wanted.signed || type === "time") {
        throw refuse;
      }
      const integer = type === "double" ? roundedToEven(sql) : sql;
      return `CAST(${integer} AS ${{ 8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT" }[wanted.bits]})`;
    }
    case "timestamp": {
      if (type !== "time" && type !== "null") {
        throw refuse;
      }
      const unit = nsOf[wanted.unit];
      return unit === 1n ? `CAST(${sql} AS BIGINT)` : `CAST(${floored(sql, unit)} DIV ${sparkLong(unit)} AS BIGINT)`;
    }
    case "binary":
    case "date32":
    case "fixed_size_list":
    case "interval":
    case "list":
    case "map":
    case "null":
    case "struct":
    case "time32":
    case "time64":
    case "union":
      throw refuse;
  }
}

/**
 * Whether columns have the same bytes; a time is a number of 64 bits.
 * @param got what the cluster sent
 */
export function samePhysical(wanted: ArrowField, got: ArrowField): boolean {
  if (wanted.type.kind === "timestamp") {
    return got.type.kind === "int" && got.type.bits === 64 && got.type.signed && got.dictionary === undefined;
  }
  return JSON.stringify([wanted.type, wanted.dictionary]) === JSON.stringify([got.type, got.dictionary]);
}
