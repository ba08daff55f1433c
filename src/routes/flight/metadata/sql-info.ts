/** What CommandGetSqlInfo answers (FlightSql.proto SqlInfo): every standard id, truthfully. */
import type { ArrowValue, UnionValue } from "../../../query/arrow/arrow-values.js";
import { maxTextLength } from "../../../query/gate/query-text.js";
import { serviceVersion } from "../../../runtime/version.js";
import type { ArrowField, ArrowType } from "../../../wire/flight/flight-arrow.js";
import { statementLifeMs } from "../../../query/ticket.js";

const int32: ArrowType = { kind: "int", bits: 32, signed: true };

function child(name: string, type: ArrowType, nullable = true, children: ArrowField[] = []) {
  return { name, nullable, type, children } satisfies ArrowField;
}

/**
 * The column `value`: a dense union of the standard's six kinds of answers. Every id has one, and Grafana's plugin
 * cannot read a union of which some are missing.
 */
export const sqlInfoValueField: ArrowField = child("value", { kind: "union", mode: "dense" }, false, [
  child("string_value", { kind: "utf8" }),
  child("bool_value", { kind: "bool" }),
  child("bigint_value", { kind: "int", bits: 64, signed: true }),
  child("int32_bitmask", int32),
  child("string_list", { kind: "list" }, true, [child("string_data", { kind: "utf8" })]),
  child("int32_to_int32_list_map", { kind: "map" }, true, [
    child("entries", { kind: "struct" }, false, [
      child("key", int32, false),
      child("value", { kind: "list" }, true, [child("$data$", int32)]),
    ]),
  ]),
]);

const text = (value: string | null): UnionValue => ({ child: 0, value });
const yes: UnionValue = { child: 1, value: true };
const no: UnionValue = { child: 1, value: false };
const long = (value: number): UnionValue => ({ child: 2, value });
const int = (value: number): UnionValue => ({ child: 3, value });
const list = (words: string): UnionValue => ({ child: 4, value: words.trim().split(/\s+/u) });
/** A mask of enum values: a bit for each. */
const bits = (...values: readonly number[]): UnionValue => int(values.reduce((mask, value) => mask | (1 << value), 0));

/** Reserved words of the dialect: a name that is one of them is quoted. */
const keywords = `
  ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE COLUMN CONSTRAINT
  CREATE DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FROM GROUP
  HAVING IN INITIALLY INTERSECT INTO LAMBDA LATERAL LEADING LIMIT NOT NULL OFFSET ON ONLY OR ORDER PIVOT
  PIVOT_LONGER PIVOT_WIDER PLACING PRIMARY QUALIFY REFERENCES RETURNING SELECT SHOW SOME SUMMARIZE
  SYMMETRIC TABLE THEN TO TRAILING TRUE UNION UNIQUE UNPIVOT USING VARIADIC WHEN WHERE WINDOW WITH`;

const numericFunctions = `
  abs acos asin atan atan2 ceiling cos cot degrees exp floor log log10 mod pi power radians round sign
  sin sqrt tan`;
const stringFunctions = `
  ascii bit_length chr char_length character_length concat lcase left length lower lpad ltrim
  octet_length position repeat replace right rpad rtrim split_part strpos substring trim ucase upper`;
const systemFunctions = "coalesce nullif version";
const datetimeFunctions = `
  ago current_date date_diff date_part date_trunc day dayname dayofmonth dayofweek dayofyear hour
  make_timestamp_ns minute month monthname now quarter second strftime strptime time_bucket week year`;

/** SqlSupportsConvert. */
const convert = {
  bigint: 0,
  binary: 1,
  bit: 2,
  char: 3,
  date: 4,
  decimal: 5,
  float: 6,
  integer: 7,
  intervalDayTime: 8,
  intervalYearMonth: 9,
  numeric: 12,
  real: 13,
  smallint: 14,
  time: 15,
  timestamp: 16,
  tinyint: 17,
  varbinary: 18,
  varchar: 19,
} as const;

const { char, varchar, binary, varbinary, intervalDayTime, intervalYearMonth, ...others } = convert;
const { date, time, timestamp, ...numbers } = others;
const texts = [char, varchar];
const bytes = [binary, varbinary];
const intervals = [intervalDayTime, intervalYearMonth];
const numeric = Object.values(numbers);

/** Casts that exist, whatever the value: CAST may still refuse one. */
function conversions(): UnionValue {
  const to: [number, number[]][] = [
    ...numeric.map((from): [number, number[]] => [from, [...numeric, ...texts]]),
    ...texts.map((from): [number, number[]] => [from, Object.values(convert)]),
    ...bytes.map((from): [number, number[]] => [from, [...bytes, ...texts]]),
    ...intervals.map((from): [number, number[]] => [from, [...intervals, ...texts]]),
    [date, [date, timestamp, ...texts]],
    [time, [time, ...texts]],
    [timestamp, [date, time, timestamp, ...texts]],
  ];
  const entries: ArrowValue[] = to
    .toSorted(([a], [b]) => a - b)
    .map(([from, targets]) => [from, targets.toSorted((a, b) => a - b)]);
  return { child: 5, value: entries };
}

/** Limits of JDBC and ODBC that do not exist here: 0 says so. */
const unlimited = [
  541, 542, 543, 544, 545, 546, 547, 548, 549, 550, 551, 552, 553, 554, 555, 558, 559, 560, 561,
] as const;

/** All answers, ordered by id. */
export function sqlInfo(): [number, UnionValue][] {
  const answers: [number, UnionValue][] = [
    [0, text("telemetry-service")],
    [1, text(serviceVersion())],
    // The columnar format, whose fifth version of metadata is written.
    [2, text("1.5")],
    [3, yes], // read-only
    [4, yes], // SQL
    [5, no], // Substrait
    [6, text(null)],
    [7, text(null)],
    [8, int(0)], // transactions: none
    [9, yes], // cancel
    [10, no], // bulk ingestion
    [11, no],
    [100, int(statementLifeMs)],
    [101, int(0)],
    [500, no], // DDL
    [501, no],
    [502, no],
    [503, int(1)], // identifiers: case-insensitive
    [504, text('"')],
    [505, int(1)],
    [506, yes],
    [507, int(3)], // nulls: at the end
    [508, list(keywords)],
    [509, list(numericFunctions)],
    [510, list(stringFunctions)],
    [511, list(systemFunctions)],
    [512, list(datetimeFunctions)],
    [513, text("\\")],
    [514, text("$")], // in names that are not quoted
    [515, yes], // column aliases
    [516, yes],
    [517, conversions()],
    [518, yes], // table aliases
    [519, no],
    [520, yes],
    [521, yes],
    [522, bits(0, 1)], // GROUP BY
    [523, yes],
    [524, no],
    [525, bits(0)], // the queries of the minimum grammar and of entry level, being read-only
    [526, bits(0)],
    [527, no],
    [528, int(2)], // full outer joins
    [529, text("schema")],
    [530, text("")],
    [531, text("catalog")],
    [532, yes],
    [533, bits()],
    [534, bits()],
    [535, bits()],
    [536, no],
    [537, no],
    [538, bits(0, 1, 2, 3)], // subqueries
    [539, yes],
    [540, bits(0, 1)], // UNION, UNION ALL
    ...unlimited.map((id): [number, UnionValue] => [id, long(0)]),
    [556, yes],
    [557, long(maxTextLength)],
    [562, int(0)], // isolation: no transactions
    [563, no],
    [564, bits(0)],
    [565, no],
    [566, no],
    [567, bits(1)], // forward only, read only
    [568, bits()],
    [569, bits(1)],
    [570, bits()],
    [571, bits()],
    [572, no],
    [573, no],
    [574, no],
    [575, no],
    [576, no],
  ];
  return answers.toSorted(([a], [b]) => a - b);
}
