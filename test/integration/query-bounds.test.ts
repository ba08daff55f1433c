import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestPool, type TestPool } from "../helpers/query-pool.js";

let t: TestPool;

beforeAll(async () => {
  t = await startTestPool();
});

afterAll(async () => {
  await t.stop();
});

async function one(expression: string): Promise<unknown> {
  const table = await t.query(`SELECT CAST(${expression} AS VARCHAR) AS v`);
  return table.get(0)?.["v"];
}

describe("functions that make much out of little", () => {
  it.each([
    ["repeat('ab', 3)", "ababab"],
    ["repeat('ab'::BLOB, 2)", "abab"],
    ["repeat(NULL, 3)", null],
    ["lpad('a', 3, 'x') || rpad('b', 3, 'y')", "xxabyy"],
    ["bitstring('1', 4)", "0001"],
    ["list_resize([1], 2, 7)", "[1, 7]"],
    ["array_resize([1, 2], 1)", "[1]"],
    ["range(3)", "[0, 1, 2]"],
    ["range(9, 0, -3)", "[9, 6, 3]"],
    ["generate_series(1, 3)", "[1, 2, 3]"],
    [
      "range(DATE '2025-01-01', TIMESTAMP '2025-01-03 00:00:00', INTERVAL 1 DAY)",
      "['2025-01-01 00:00:00', '2025-01-02 00:00:00']",
    ],
    ["len(range(10000))", "10000"],
    ["replace('aba', 'a', 'xy')", "xybxy"],
    ["regexp_replace('aba', 'a', 'x', 'g') || regexp_replace('aba', 'a', 'x')", "xbxxba"],
    ["printf('%5.2f|%s', 1.5, 'x') || format('{:>4}{{}}', 'y')", " 1.50|x   y{}"],
  ])("%s gives what DuckDB's own does", async (expression, value) => {
    expect(await one(expression)).toBe(value);
  });

  it.each([
    "repeat('x', 1000000000)",
    "repeat(repeat('x', 60000), 60000)",
    "repeat('x', 9223372036854775807)",
    "repeat('x'::BLOB, 1000000000)",
    "repeat([1, 2], 1000000000)",
    "lpad('x', 1000000000, 'x')",
    "rpad('x', 1000000000, 'x')",
    "bitstring('1', 1000000000)",
    "list_resize([1], 1000000000)",
    "array_resize([1], 1000000000, 2)",
    "range(1000000000)",
    "range(0, 1000000000)",
    "range(1000000000, 0, -1)",
    "range(-9223372036854775808, 9223372036854775807, 1)",
    "main.generate_series(1000000000)",
    "generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2030-01-01', INTERVAL 1 SECOND)",
    "generate_series(TIMESTAMPTZ '2030-01-01', TIMESTAMPTZ '2000-01-01', -INTERVAL 1 MICROSECOND)",
    "[1].list_resize(1000000000)",
    "replace(repeat('a', 60000), 'a', repeat('b', 60000))",
    "regexp_replace(repeat('a', 60000), 'a', repeat('b', 60000), 'g')",
    "format('{:1000000000}', 'x')",
    "format('{:{}}', 'x', 1000000000)",
    "format('{0:{1}}', 'x', 1000000000)",
    "printf('%1000000000d', 1)",
    "printf('%*d', 1000000000, 1)",
    "printf('%-+*d', 1000000000, 1)",
    "printf('%1$*2$d', 1, 1000000000)",
    "printf('%' || '1000000000d', 1)",
    "to_base(1, 2, 1000000000)",
  ])("%s is refused", async (expression) => {
    await expect(one(expression)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });

  it("are bounded in a column, in a lambda and behind a name", async () => {
    for (const sql of [
      "SELECT repeat('x', i * 100000) FROM range(3) t(i)",
      "SELECT list_transform([1000000000], lambda n: range(n))",
      "SELECT list_transform([1000000000], lambda n: generate_series(n))",
      "WITH a AS (SELECT 1000000000 AS n) SELECT rpad('x', CAST(n AS INTEGER), ' ') FROM a",
    ]) {
      await expect(t.query(sql)).rejects.toMatchObject({ code: "BAD_REQUEST" });
    }
  });

  it("stream as long as anyone likes after FROM", async () => {
    const table = await t.query("SELECT count(*) AS n FROM range(3000000) t(i)");
    expect(table.get(0)?.["n"]).toBe(3_000_000n);
  });
});
