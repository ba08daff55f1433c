import { expect, it, vi } from "vitest";

import { Column, type Value } from "../arrow/column.js";
import type { ColumnType } from "../arrow/column-data.js";
import { bindVariables, choicesOf, numberOf, readOnly } from "./variables.js";

const values = new Map<string, string | number>([
  ["service", "shop"],
  ["least", 5],
]);

it.each([
  ["SELECT $service", "SELECT ?", ["shop"]],
  ["a = $service OR b = $service AND c > $least", "a = ? OR b = ? AND c > ?", ["shop", "shop", 5]],
  ["'$service' || $service", "'$service' || ?", ["shop"]],
  ["'it''s $service' || $least", "'it''s $service' || ?", [5]],
  [String.raw`E'\'$service' || $least`, String.raw`E'\'$service' || ?`, [5]],
  ['"$service" = $least', '"$service" = ?', [5]],
  ["-- $service\n$least", "-- $service\n?", [5]],
  ["/* $service */ $least", "/* $service */ ?", [5]],
  ["$$ $service $$ || $least", "$$ $service $$ || ?", [5]],
  ["$a$ $service $b$ $a$ || $least", "$a$ $service $b$ $a$ || ?", [5]],
  ["'open $service", "'open $service", []],
  ["/* open $service", "/* open $service", []],
])("binds the variables of %s", (sql, bound, parameters) => {
  expect(bindVariables(sql, values)).toEqual({ sql: bound, parameters, missing: [] });
});

it("names variables that there are not, and leaves $1 to the server", () => {
  expect(bindVariables("$other + $other + $1", values)).toEqual({
    sql: "$other + $other + $1",
    parameters: [],
    missing: ["other"],
  });
});

it.each([
  ["SELECT 1; ", "SELECT * FROM (SELECT 1\n) AS cell"],
  ["SELECT 1 -- one", "SELECT * FROM (SELECT 1 -- one\n) AS cell"],
  ["SELECT 1; -- one\n/* two; */ ;", "SELECT * FROM (SELECT 1\n) AS cell"],
  ["SELECT ';' -- ;", "SELECT * FROM (SELECT ';' -- ;\n) AS cell"],
  ["-- one\nEXPLAIN SELECT 1;", "-- one\nEXPLAIN SELECT * FROM ( SELECT 1\n) AS cell"],
  ["explain /* all */ analyze SELECT 1", "explain /* all */ analyze SELECT * FROM ( SELECT 1\n) AS cell"],
  ["SELECT 1 AS explain", "SELECT * FROM (SELECT 1 AS explain\n) AS cell"],
  [`${"/* a */ ".repeat(2000)}SELECT 1`, `SELECT * FROM (${"/* a */ ".repeat(2000)}SELECT 1\n) AS cell`],
  [`SELECT 1${";".repeat(50_000)}`, "SELECT * FROM (SELECT 1\n) AS cell"],
])("has a cell run within another query, whatever it begins and ends with: %j", (sql, run) => {
  expect(readOnly(sql)).toBe(run);
});

it("writes NULL for a variable without a value, which is of any type", () => {
  const bound = bindVariables("$least IS NULL OR n >= $least", new Map([["least", null]]));
  expect(bound).toEqual({ sql: "NULL IS NULL OR n >= NULL", parameters: [], missing: [] });
});

it.each([
  ["", null],
  ["1500", 1500],
  ["-0.5", -0.5],
  ["9007199254740993", 9007199254740993n],
  [" -9007199254740993 ", -9007199254740993n],
  ["1e300", 1e300],
  ["1,500", "1,500"],
])("takes %j for a variable of numbers", (text, value) => {
  expect(numberOf(text)).toBe(value);
});

it("binds a whole number that JSON has no number for, to the last digit", () => {
  const bind = (value: bigint) => bindVariables("n = $n", new Map([["n", value]]));
  expect(bind(9007199254740993n)).toEqual({
    sql: "n = CAST(CAST(? AS VARCHAR) AS BIGINT)",
    parameters: ["9007199254740993"],
    missing: [],
  });
  expect(bind(2n ** 64n - 1n).sql).toBe("n = CAST(CAST(? AS VARCHAR) AS HUGEINT)");
});

const int: ColumnType = { kind: "int", bits: 64, signed: true };
const time: ColumnType = { kind: "timestamp", unit: "ns", zoned: false };

it.each<[string, ColumnType, Value, string]>([
  ["numbers", int, 1500, "1500"],
  ["big numbers", int, 9007199254740993n, "9007199254740993"],
  ["times", time, 1_767_323_045_123_456_789n, "2026-01-02T03:04:05.123456789Z"],
  ["dates", { kind: "date", unit: "day" }, 1_767_312_000_000_000_000n, "2026-01-02"],
  ["times of day", { kind: "time", unit: "us" }, 11_045_000_000_000n, "03:04:05.000000000"],
  ["no value", int, null, ""],
])("offers %s as SQL takes them, each once", (_what, type, value, offered) => {
  const column = new Column("c", type);
  vi.spyOn(column, "value").mockReturnValue(value);
  expect(choicesOf({ columns: [column], rows: 2 }).map((each) => each.value)).toEqual([offered]);
});
