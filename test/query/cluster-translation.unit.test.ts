/** The address, the constants and the table of functions of the cluster; no cluster is asked. */
import { describe, expect, it } from "vitest";

import { parseClusterUri } from "../../src/query/cluster/cluster-uri.js";
import { parseEngineChoice } from "../../src/query/cluster/engine-choice.js";
import { intervalNs, timeNs } from "../../src/query/cluster/spark-constants.js";
import { sparkFunctions } from "../../src/query/cluster/spark-functions.js";
import { type Names, translateExpression } from "../../src/query/cluster/translate-expression.js";
import { castToField, sparkName, sparkText } from "../../src/query/cluster/spark-types.js";
import { isAllowedFunction } from "../../src/query/gate/allowed-functions.js";
import type { ArrowField, ArrowType } from "../../src/wire/flight/flight-arrow.js";

describe("the address of a cluster", () => {
  it.each([
    ["sc://spark", { target: "spark:15002", tls: false, token: null, userId: "telemetry-service" }],
    ["sc://spark:50051/", { target: "spark:50051", tls: false, token: null, userId: "telemetry-service" }],
    ["sc://[::1]:1/;use_ssl=true", { target: "[::1]:1", tls: true, token: null, userId: "telemetry-service" }],
    ["sc://h:1/;token=a%20b;user_id=me", { target: "h:1", tls: true, token: "a b", userId: "me" }],
  ])("%s", (uri, address) => {
    expect(parseClusterUri(uri)).toEqual(address);
  });

  it.each([
    "http://spark",
    "sc://",
    "sc://h:0",
    "sc://h:70000",
    "sc://h/x",
    "sc://h/;use_ssl=yes",
    "sc://h/;token=%zz",
  ])("is not %s", (uri) => {
    expect(() => parseClusterUri(uri)).toThrow(/SVC_QUERY_CLUSTER_URI/u);
  });

  it("says nothing of a token that it refuses", () => {
    expect(() => parseClusterUri("sc://h:1/;token=secret;wrong=1")).toThrow(/wrong/u);
    expect(() => parseClusterUri("sc://h:1/;token=secret;wrong=1")).not.toThrow(/secret/u);
  });
});

describe("constants", () => {
  it.each([
    ["1 hour", 3_600_000_000_000n],
    ["90 minutes", 5_400_000_000_000n],
    ["1 min", 60_000_000_000n],
    ["10s", 10_000_000_000n],
    ["2 ms", 2_000_000n],
    ["1 week", 604_800_000_000_000n],
  ])("%s", (text, ns) => {
    expect(intervalNs(text)).toBe(ns);
  });

  it.each(["1 month", "1 hour 2 minutes", "hour", "1.5 hours", "1 year"])("%s is local only", (text) => {
    expect(() => intervalNs(text)).toThrow(/length of time/u);
  });

  it.each([
    ["1970-01-01", 0n],
    ["2025-11-21 12:00:00.123456789", 1_763_726_400_123_456_789n],
    ["2025-11-21T12:00", 1_763_726_400_000_000_000n],
  ])("%s", (text, ns) => {
    expect(timeNs(text)).toBe(ns);
  });

  it.each(["2025-02-30", "2025-11-21 12:00+01", "yesterday", "2025-11-21 25:00:00"])("%s is local only", (text) => {
    expect(() => timeNs(text)).toThrow(/a time that is written/u);
  });

  it("are quoted so that Spark reads them as they are", () => {
    expect(sparkText("it's \\ ${env:HOME}")).toBe("'it\\'s \\\\ \\u0024{env:HOME}'");
    expect(sparkName("a`b")).toBe("`a``b`");
    expect(() => sparkName("${env:HOME}")).toThrow(/a name with/u);
  });
});

describe("the table of functions", () => {
  it("has functions that the gate lets through, and ours that stand for them", () => {
    const names = Object.keys(sparkFunctions);
    expect(
      names.filter((name) => !isAllowedFunction(name) && !/^svc_(?:int|double|bool)_of_text$/u.test(name)),
    ).toEqual(["get_current_timestamp", "transaction_timestamp"].filter((name) => !isAllowedFunction(name)));
  });

  it("takes arguments of the right types only", () => {
    const text = { sql: "x", type: "text", aggregate: false, window: false, column: true } as const;
    const time = { ...text, type: "time" } as const;
    expect(sparkFunctions["lower"]?.translate([text], 0n)).toEqual({ sql: "lower(x)", type: "text" });
    expect(sparkFunctions["lower"]?.translate([time], 0n)).toBeNull();
    expect(sparkFunctions["max"]?.translate([time], 0n)).toEqual({ sql: "max(x)", type: "time" });
    expect(sparkFunctions["+"]?.translate([time, time], 0n)).toBeNull();
    expect(
      sparkFunctions["/"]?.translate(
        [
          { ...text, type: "double" },
          { ...text, type: "int" },
        ],
        0n,
      )?.sql,
    ).toMatch(/CASE WHEN isnan\(CAST\(x AS DOUBLE\)\) THEN double\('NaN'\) WHEN/u);
    expect(sparkFunctions["now"]?.translate([], 5n)).toEqual({ sql: "5L", type: "time" });
  });
});

describe("a time and a length of time", () => {
  it("have microseconds, also where the time is written out", () => {
    const time = { sql: "1001L", type: "time", aggregate: false, window: false, column: false } as const;
    const second = { ...time, sql: "", type: "foreign", interval: 1_000_000_000n } as const;
    const sum = { sql: "((1001L - pmod(1001L, 1000L)) + 1000000000L)", type: "time" };
    expect(sparkFunctions["+"]?.translate([time, second], 0n)).toEqual(sum);
    expect(sparkFunctions["+"]?.translate([second, time], 0n)).toEqual(sum);
  });
});

describe("the text of an attribute as a DOUBLE", () => {
  const text = { sql: "x", type: "text", aggregate: false, window: false, column: true } as const;
  const sql = sparkFunctions["svc_double_of_text"]?.translate([text], 0n)?.sql ?? "";
  const pattern = new RegExp(/'(.*)'/su.exec(sql)?.[1] ?? "", "u");

  it.each([" 5 ", "12\n", "+7", ".5", "1e300", "nan", "INF", "-Infinity"])("takes %j", (value) => {
    expect(pattern.exec(value)?.[1]).toBe(value.trim());
  });

  it.each(["", "0x10", "5 5", "1d", "infinite"])("takes nothing of %j", (value) => {
    expect(pattern.test(value)).toBe(false);
  });
});

it("trim takes away every kind of space", () => {
  const text = { sql: "x", type: "text", aggregate: false, window: false, column: true } as const;
  const sql = sparkFunctions["ltrim"]?.translate([text], 0n)?.sql;
  const spaces = /^trim\(LEADING '(.*)' FROM x\)$/u.exec(sql ?? "")?.[1] ?? "";
  const all = Array.from({ length: 0x10000 }, (_, code) => String.fromCharCode(code));
  expect(spaces).toBe(all.filter((character) => /\p{Zs}/u.test(character)).join(""));
});

describe("a regular expression", () => {
  const column = { sql: "x", type: "text", aggregate: false, window: false, column: true } as const;
  const matches = (pattern: string) =>
    sparkFunctions["regexp_matches"]?.translate([column, { ...column, sql: "", text: pattern }], 0n)?.sql;

  it("is written so that all read it alike", () => {
    expect(matches(String.raw`^a.b[.$]c\.$`)).toBe(String.raw`(x RLIKE '^a[^\\n]b[.\u0024]c\\.\\z')`);
  });

  it.each([String.raw`\<b\>`, String.raw`\d`, "x{,5}", "(?i)a", "[[:alpha:]]"])("%s is local only", (pattern) => {
    expect(() => matches(pattern)).toThrow(/a regular expression/u);
  });
});

describe("a DECIMAL beside a DOUBLE", () => {
  const value = { class: "COLUMN_REF", column_names: ["v"] };
  const tenth = {
    class: "CONSTANT",
    value: { type: { id: "DECIMAL", type_info: { width: 2, scale: 1 } }, is_null: false, value: 1 },
  };
  const names: Names = {
    column: () => ({ sql: "v", type: "double", aggregate: false, window: false, column: true }),
    subquery: () => ({ sql: "", columns: [] }),
  };
  const compared = "CAST(CAST('0.1' AS DECIMAL(2,1)) AS DOUBLE)";

  it.each([
    [{ class: "COMPARISON", type: "COMPARE_EQUAL", left: value, right: tenth }, `(v = ${compared})`],
    [{ class: "COMPARISON", type: "COMPARE_LESSTHAN", left: tenth, right: value }, `(${compared} < v)`],
    [{ class: "OPERATOR", type: "COMPARE_IN", children: [value, tenth] }, `(v IN (${compared}))`],
    [{ class: "OPERATOR", type: "COMPARE_NOT_IN", children: [tenth, value] }, `(${compared} NOT IN (v))`],
    [{ class: "OPERATOR", type: "OPERATOR_COALESCE", children: [value, tenth] }, `coalesce(v, ${compared})`],
    [
      {
        class: "CASE",
        case_checks: [
          {
            when_expr: { class: "OPERATOR", type: "OPERATOR_IS_NULL", children: [value] },
            then_expr: tenth,
          },
        ],
        else_expr: value,
      },
      `(CASE WHEN (v IS NULL) THEN ${compared} ELSE v END)`,
    ],
    [{ class: "FUNCTION", function_name: "least", children: [value, tenth] }, `least(v, ${compared})`],
    [{ class: "FUNCTION", function_name: "*", children: [value, tenth] }, `(v * ${compared})`],
    [
      { class: "FUNCTION", function_name: "nullif", children: [value, tenth] },
      `(CASE WHEN v = ${compared} THEN NULL ELSE v END)`,
    ],
  ])("is compared as a DOUBLE: %j", (tree, sql) => {
    expect(translateExpression(tree, names, { nowNs: 0n }).sql).toBe(sql);
  });
});

describe("columns of the result", () => {
  const field = (type: ArrowType): ArrowField => ({ name: "x", nullable: true, type, children: [] });

  it.each([
    ["long", { kind: "int", bits: 32, signed: true }, "CAST(x AS INT)"],
    [
      "double",
      { kind: "int", bits: 64, signed: true },
      "CAST(CASE WHEN abs(rint(x) - x) = 0.5D THEN 2D * rint(x / 2D) ELSE rint(x) END AS BIGINT)",
    ],
    ["time", { kind: "timestamp", unit: "nanosecond", timezone: null }, "CAST(x AS BIGINT)"],
    [
      "time",
      { kind: "timestamp", unit: "microsecond", timezone: null },
      "CAST((x - pmod(x, 1000L)) DIV 1000L AS BIGINT)",
    ],
    ["decimal", { kind: "decimal", precision: 9, scale: 2, bits: 128 }, "CAST(x AS DECIMAL(9,2))"],
  ] as const)("%s", (type, wanted, sql) => {
    expect(castToField("x", type, field(wanted))).toBe(sql);
  });

  it.each([
    ["text", { kind: "int", bits: 64, signed: false }],
    ["long", { kind: "utf8" }],
    ["time", { kind: "int", bits: 64, signed: true }],
    ["foreign", { kind: "utf8" }],
    ["text", { kind: "list" }],
  ] as const)("a %s that is another type is local only", (type, wanted) => {
    expect(() => castToField("x", type, field(wanted))).toThrow(/a result of type/u);
  });
});

describe("the session option", () => {
  it("is one of three", () => {
    expect(["local", "cluster", "auto"].map(parseEngineChoice)).toEqual(["local", "cluster", "auto"]);
    expect(() => parseEngineChoice("spark")).toThrow(/query-engine/u);
  });
});
