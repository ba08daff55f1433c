/** What CommandGetXdbcTypeInfo answers: the types that a column or a parameter can have. */
import type { ArrowValue } from "../../../query/arrow/arrow-values.js";
import type { ArrowField, ArrowType } from "../../../wire/flight/flight-arrow.js";

const int32: ArrowType = { kind: "int", bits: 32, signed: true };
const utf8: ArrowType = { kind: "utf8" };
const bool: ArrowType = { kind: "bool" };

function column(name: string, type: ArrowType, nullable = true, children: ArrowField[] = []): ArrowField {
  return { name, nullable, type, children };
}

/** The standard's schema. */
export const xdbcTypeFields: readonly ArrowField[] = [
  column("type_name", utf8, false),
  column("data_type", int32, false),
  column("column_size", int32),
  column("literal_prefix", utf8),
  column("literal_suffix", utf8),
  column("create_params", { kind: "list" }, true, [column("item", utf8, false)]),
  column("nullable", int32, false),
  column("case_sensitive", bool, false),
  column("searchable", int32, false),
  column("unsigned_attribute", bool),
  column("fixed_prec_scale", bool, false),
  column("auto_increment", bool),
  column("local_type_name", utf8),
  column("minimum_scale", int32),
  column("maximum_scale", int32),
  column("sql_data_type", int32, false),
  column("datetime_subcode", int32),
  column("num_prec_radix", int32),
  column("interval_precision", int32),
];

/** FlightSql.proto XdbcDataType. */
const xdbc = {
  bit: -7,
  tinyint: -6,
  bigint: -5,
  varbinary: -3,
  numeric: 2,
  decimal: 3,
  integer: 4,
  smallint: 5,
  real: 7,
  double: 8,
  datetime: 9,
  interval: 10,
  varchar: 12,
  date: 91,
  time: 92,
  timestamp: 93,
} as const;

/** FlightSql.proto XdbcDatetimeSubcode. */
const subcodes = { date: 1, time: 2, timestamp: 3, timestampWithTimezone: 5 } as const;

interface TypeInfo {
  readonly name: string;
  readonly type: number;
  /** The general type of a datetime or interval, and its XdbcDatetimeSubcode. */
  readonly datetime?: readonly [number, number];
  readonly size: number | null;
  readonly quoted?: boolean;
  readonly unsigned?: boolean;
  readonly radix?: 2 | 10;
  readonly scale?: readonly [number, number];
  readonly params?: readonly string[];
}

const integer = (name: string, type: number, size: number, unsigned: boolean): TypeInfo => {
  return { name, type, size, unsigned, radix: 10, scale: [0, 0] };
};

/** @param size characters of its text */
const datetime = (name: string, type: number, size: number, subcode: number): TypeInfo => {
  return { name, type, size, quoted: true, datetime: [xdbc.datetime, subcode] };
};

const types: readonly TypeInfo[] = [
  { name: "BOOLEAN", type: xdbc.bit, size: 1 },
  integer("TINYINT", xdbc.tinyint, 3, false),
  integer("UTINYINT", xdbc.tinyint, 3, true),
  integer("BIGINT", xdbc.bigint, 19, false),
  integer("UBIGINT", xdbc.bigint, 20, true),
  { name: "BLOB", type: xdbc.varbinary, size: null, quoted: true },
  integer("HUGEINT", xdbc.numeric, 38, false),
  integer("UHUGEINT", xdbc.numeric, 39, true),
  {
    name: "DECIMAL",
    type: xdbc.decimal,
    size: 38,
    unsigned: false,
    radix: 10,
    scale: [0, 38],
    params: ["precision", "scale"],
  },
  integer("INTEGER", xdbc.integer, 10, false),
  integer("UINTEGER", xdbc.integer, 10, true),
  integer("SMALLINT", xdbc.smallint, 5, false),
  integer("USMALLINT", xdbc.smallint, 5, true),
  { name: "FLOAT", type: xdbc.real, size: 24, unsigned: false, radix: 2 },
  { name: "DOUBLE", type: xdbc.double, size: 53, unsigned: false, radix: 2 },
  { name: "INTERVAL", type: xdbc.interval, size: null, quoted: true, datetime: [xdbc.interval, 0] },
  { name: "VARCHAR", type: xdbc.varchar, size: null, quoted: true },
  { name: "UUID", type: xdbc.varchar, size: 36, quoted: true },
  datetime("DATE", xdbc.date, 10, subcodes.date),
  datetime("TIME", xdbc.time, 15, subcodes.time),
  datetime("TIME_NS", xdbc.time, 18, subcodes.time),
  datetime("TIMESTAMP", xdbc.timestamp, 26, subcodes.timestamp),
  datetime("TIMESTAMP_S", xdbc.timestamp, 19, subcodes.timestamp),
  datetime("TIMESTAMP_MS", xdbc.timestamp, 23, subcodes.timestamp),
  datetime("TIMESTAMP_NS", xdbc.timestamp, 29, subcodes.timestamp),
  datetime("TIMESTAMP WITH TIME ZONE", xdbc.timestamp, 29, subcodes.timestampWithTimezone),
];

/** Size and scale of a type that has just one of them; null where it has none. */
export function sizeOfType(name: string): { size: number | null; scale: number | null } {
  const info = types.find((type) => type.name === name);
  return { size: info?.size ?? null, scale: info?.scale?.[1] ?? null };
}

const nullable = 1;
const searchableFully = 3;
const searchableButByLike = 2;

/** The types of a number of XdbcDataType, or all, ordered by number and name. */
export function xdbcTypes(wanted: number | null): ArrowValue[][] {
  return types
    .filter(({ type }) => wanted === null || type === wanted)
    .toSorted((a, b) => a.type - b.type || (a.name < b.name ? -1 : 1))
    .map((info) => [
      info.name,
      info.type,
      info.size,
      info.quoted === true ? "'" : null,
      info.quoted === true ? "'" : null,
      info.params ?? null,
      nullable,
      info.type === xdbc.varchar,
      info.type === xdbc.varchar ? searchableFully : searchableButByLike,
      info.unsigned ?? null,
      false,
      info.unsigned === undefined ? null : false,
      info.name,
      info.scale?.[0] ?? null,
      info.scale?.[1] ?? null,
      info.datetime?.[0] ?? info.type,
      info.datetime?.[1] ?? null,
      info.radix ?? null,
      null,
    ]);
}
