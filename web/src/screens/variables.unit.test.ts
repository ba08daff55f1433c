import { expect, it } from "vitest";

import { bindVariables, readOnly } from "./variables.js";

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
