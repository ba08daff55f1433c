import { expect, it } from "vitest";

import {
  attributeKey,
  attributeOf,
  conditionOf,
  expressionOf,
  formatFilter,
  parseFilter,
  parseFilters,
} from "./filters.js";

const columns = { text: ["msg", "service_name"], number: ["duration_ms"], attributes: "properties" };

it.each([
  ["service_name=shop", { key: "service_name", operator: "=", value: "shop" }],
  ["msg ~ a=b", { key: "msg", operator: "~", value: "a=b" }],
  ["duration_ms>=500", { key: "duration_ms", operator: ">=", value: "500" }],
  ["a!=", { key: "a", operator: "!=", value: "" }],
  ["http.route", { key: "http.route", operator: "exists", value: "" }],
  ["!user.id", { key: "user.id", operator: "missing", value: "" }],
])("reads %s, and writes it so that it reads the same", (text, filter) => {
  expect(parseFilter(text)).toEqual(filter);
  expect(parseFilter(formatFilter(parseFilter(text) ?? { key: "", operator: "=", value: "" }))).toEqual(filter);
});

it.each([" two spaces  ", "a line\n", '"quoted"', '" both "', '"', '"a" and "b"', " "])(
  "keeps a value as it is: %j",
  (value) => {
    const filter = { key: "msg", operator: "=" as const, value };
    expect(parseFilter(formatFilter(filter))).toEqual(filter);
  },
);

it.each(["", "a=b", "!a", "a<b>c", " a ", '"a"', "a~", '"', '"a"=b', "\\"])("keeps a key as it is: %j", (key) => {
  for (const filter of [
    { key, operator: "=", value: "x=y" },
    { key, operator: ">=", value: " 5" },
    { key, operator: "exists", value: "" },
    { key, operator: "missing", value: "" },
  ] as const) {
    expect(parseFilter(formatFilter(filter))).toEqual(filter);
  }
});

it("takes quotes for a part of the value, unless it needs them", () => {
  expect(parseFilter('msg = "hi"')?.value).toBe('"hi"');
  expect(parseFilter('msg = "hi "')?.value).toBe("hi ");
});

it("passes over empty ones", () => {
  expect(parseFilters(["", "  ", "!"])).toEqual([]);
});

it("never writes what somebody typed into the SQL", () => {
  const evil = `x' OR "y" = 'z; DROP`;
  const { sql, parameters } = conditionOf(
    [
      { key: evil, operator: "=", value: evil },
      { key: "msg", operator: "!~", value: evil },
      { key: "duration_ms", operator: ">", value: evil },
      { key: evil, operator: ">", value: "3" },
    ],
    columns,
    evil,
  );
  expect(sql).not.toContain("DROP");
  expect(sql.match(/\?/g)?.length).toBe(parameters.length);
  expect(sql).toBe(
    `(attr(properties, ?)) = ? AND NOT coalesce(contains(lower("msg"), lower(?)), false) AND false AND TRY_CAST(attr(properties, ?) AS DOUBLE) > ? AND audience = ?`,
  );
});

it("asks for nothing without filters", () => {
  expect(conditionOf([], columns)).toEqual({ sql: "true", parameters: [] });
});

it("takes values of one key as alternatives, and keys that stand for an expression", () => {
  const view = {
    text: ["name"],
    number: [],
    expressions: { pattern: "log_pattern(msg)" },
    attributes: "properties",
  };
  expect(conditionOf(parseFilters(["name=a", "pattern=<num>", "name=b", "name!=c", "constructor=d"]), view)).toEqual({
    sql: '(("name") = ? OR ("name") = ?) AND (log_pattern(msg)) = ? AND ("name") IS DISTINCT FROM ? AND (attr(properties, ?)) = ?',
    parameters: ["a", "b", "<num>", "c", "constructor", "d"],
  });
  expect(parseFilters(["\0", "a\0=b"])).toEqual([{ key: "a", operator: "=", value: "b" }]);
});

it("asks for values and keys with NUL, which no parameter holds", () => {
  const filter = { key: "a\0", operator: "=", value: "b\0c" } as const;
  const text = formatFilter(filter);
  expect(text).toBe(String.raw`"a\u0000"="b\u0000c"`);
  expect(parseFilter(text)).toEqual(filter);
  expect(conditionOf([filter, { key: "msg", operator: "!~", value: "\0" }], columns)).toEqual({
    sql: '(attr(properties, concat_ws(chr(0), ?, ?))) = concat_ws(chr(0), ?, ?) AND NOT coalesce(contains(lower("msg"), lower(concat_ws(chr(0), ?, ?))), false)',
    parameters: ["a", "", "b", "c", "", ""],
  });
});

it.each(["msg", "duration_ms", "properties.msg", "properties.properties.msg", "properties.other", "http.route", ""])(
  "tells an attribute from a column that is called the same: %j",
  (name) => {
    const key = attributeKey(name, columns);
    expect(attributeOf(key, columns)).toBe(name);
    expect(conditionOf([{ key, operator: "=", value: "x" }], columns)).toEqual({
      sql: "(attr(properties, ?)) = ?",
      parameters: [name, "x"],
    });
  },
);

it.each(["constructor", "toString", "__proto__", "name"])("has no expression of its own for %s", (key) => {
  const view = { ...columns, expressions: { pattern: "log_pattern(msg)" } };
  expect(expressionOf(key, view)).toBeUndefined();
  expect(expressionOf("pattern", view)).toBe("log_pattern(msg)");
});
