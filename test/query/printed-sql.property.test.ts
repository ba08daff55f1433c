/** Random expressions: the SQL that is printed of a tree has the names, types and values of the text that it was parsed from. */
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";

import { parseTree, printTree, withNumerals } from "../../src/query/gate/syntax-tree.js";
import { quoteText } from "../../src/runtime/text/sql-text.js";
import { effort } from "../helpers/effort.js";

let instance: DuckDBInstance;
let connection: DuckDBConnection;

beforeAll(async () => {
  instance = await DuckDBInstance.create(":memory:");
  connection = await instance.connect();
});

afterAll(() => {
  connection.closeSync();
  instance.closeSync();
});

async function textOf(sql: string, value: string): Promise<string> {
  const reader = await connection.runAndReadAll(sql, [value]);
  return String(reader.getRows()[0]?.[0]);
}

async function reprinted(sql: string): Promise<string> {
  const tree = parseTree(await textOf("SELECT json_serialize_sql($1::VARCHAR)", sql));
  return withNumerals(await textOf("SELECT json_deserialize_sql($1::JSON)", printTree(tree)));
}

/** Names, types and values; null where DuckDB refuses the query. */
async function resultOf(sql: string): Promise<unknown> {
  const reader = await connection.runAndReadAll(sql).catch(() => null);
  return (
    reader && [
      // Types that the parser has put in, of an INTERVAL, have no quotes.
      reader.columnNames().map((name) => name.replaceAll(/"([A-Z]+)"/gu, "$1")),
      reader.columnTypes().map(String),
      reader.getRows().map((row) => row.map(shown)),
    ]
  );
}

const shown = (value: unknown): string => (Object.is(value, -0) ? "-0" : String(value));

const digits = (max: number): fc.Arbitrary<string> => fc.stringMatching(new RegExp(`^[0-9]{1,${max}}$`, "u"));
const sign = fc.constantFrom("", "-");
const literal: fc.Arbitrary<string> = fc.oneof(
  fc.tuple(sign, digits(45)).map((parts) => parts.join("")),
  fc.tuple(sign, digits(20), digits(25)).map(([minus, whole, rest]) => `${minus}${whole}.${rest}`),
  fc
    .tuple(sign, digits(4), digits(4), fc.integer({ min: -30, max: 290 }))
    .map(([minus, ...n]) => `${minus}${n[0]}.${n[1]}e${n[2]}`),
  fc.tuple(sign, digits(18), fc.integer({ min: -5, max: 5 })).map(([minus, n, e]) => `${minus}${n}e${e}`),
  fc
    .string({ unit: fc.constantFrom("'", '"', "\\", "$svc_number_1.0_", "\n", "é", "\u{1f600}", "a", " ") })
    .map(quoteText),
  fc.constantFrom(
    "0.0e0",
    "-0.0e0",
    "1e0",
    "E'a\\n\\x01\\'b'",
    "$$it's$$",
    "true",
    "NULL",
    "INTERVAL 1 HOUR",
    "INTERVAL '1 day 2.5 seconds'",
    "'\\xFF'::BLOB",
    "TIMESTAMP_NS '2026-01-01 00:00:00.000000001'",
    "DATE '2026-01-01'",
    "18446744073709551615::UBIGINT",
    "'nan'::DOUBLE",
    "'-infinity'::DOUBLE",
    "1e3::FLOAT",
    "1_000.0e0",
    "1.",
    ".5",
    "-00.50",
  ),
);
const expression = fc.letrec<{ any: string }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    literal,
    fc
      .tuple(tie("any"), fc.constantFrom("+", "-", "*", "/", "//", "%", "^", "=", "<", "||"), tie("any"))
      .map(([a, operator, b]) => `(${a} ${operator} ${b})`),
    tie("any").map((a) => `[${a}, ${a}]`),
    tie("any").map((a) => `{a: ${a}}`),
    tie("any").map((a) => `-(${a})`),
    fc
      .tuple(tie("any"), fc.constantFrom("DOUBLE", "VARCHAR", "DECIMAL(18, 3)"))
      .map(([a, type]) => `CAST(${a} AS ${type})`),
    tie("any").map((a) => `list_transform([1e0], x -> ${a})`),
    fc.tuple(tie("any"), tie("any")).map(([a, b]) => `CASE WHEN ${a} IN (${b}, 1e1) THEN ${b} END`),
  ),
})).any;

it("is the same query", async () => {
  await fc.assert(
    fc.asyncProperty(expression, async (e) => {
      const sql = `SELECT ${e}, ${e} AS named FROM range(2)`;
      const expected = await resultOf(sql);
      fc.pre(expected !== null);
      expect(await resultOf(await reprinted(sql))).toEqual(expected);
    }),
    { numRuns: effort(1000, 20_000) },
  );
}, 1_800_000);
