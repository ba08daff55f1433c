/** Memory that DuckDB takes outside of its limit: each query runs in a process of its own, whose growth is measured. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestPool, type TestPool } from "../helpers/query-pool.js";

const child = fileURLToPath(new URL("../helpers/query-memory-child.js", import.meta.url));
/** The child's memory limit, what the watch lets through beyond it, and what a step takes until it is over. */
const boundMiB = 256 + 500 + 350;

function measured(sql: string): Promise<{ readonly outcome: string; readonly grownMiB: number }> {
  return new Promise((resolve, reject) => {
    const run = execFile(process.execPath, [child], (error, stdout) => {
      if (error !== null) reject(error);
      else resolve(JSON.parse(stdout) as { outcome: string; grownMiB: number });
    });
    run.stdin?.end(sql);
  });
}

/** `rows`, and `step` over `s` so many times. */
function chained(rows: string, step: string, times: number): string {
  let sql = rows;
  for (let i = 0; i < times; i++) sql = `SELECT ${step} AS s FROM (${sql})`;
  return `SELECT max(length(CAST(s AS VARCHAR))) FROM (${sql})`;
}

const wide = "SELECT repeat('x', 60000) || i AS s FROM range(100) t(i)";

describe.skipIf(process.platform !== "linux")("a small query that wants much", () => {
  it.each([
    ["a mode of many values", "SELECT mode(i) FROM range(1000000000) t(i)"],
    ["a quantile of many values", "SELECT quantile_cont(i, 0.5) FROM range(5000000000) t(i)"],
    ["texts doubled", chained(wide, "s || s", 12)],
    ["texts quadrupled by printf", chained(wide, "printf('%s%s%s%s', s, s, s, s)", 6)],
    ["lists doubled", chained("SELECT range(i, i + 9000) AS s FROM range(100) t(i)", "s || s", 12)],
    ["JSON of itself", chained(wide, "json_array(s, s, s, s)", 8)],
    ["replacements", chained(wide, "regexp_replace(s, 'x', 'yyyyyyyyyyyyyyyy', 'g')", 3)],
    [
      "one text of all rows",
      "SELECT length(string_agg(repeat('x', 65000) || i)) FROM range(1000000) t(i)",
    ],
  ])(
    "%s ends with RESOURCE_EXHAUSTED, within bounds",
    async (_name, sql) => {
      const { outcome, grownMiB } = await measured(sql);
      expect(outcome).toBe("PAYLOAD_TOO_LARGE");
      expect(grownMiB).toBeLessThan(boundMiB);
    },
    120_000,
  );
});

describe("what multiplies within one step of DuckDB's", () => {
  let t: TestPool;

  beforeAll(async () => {
    t = await startTestPool();
  });

  afterAll(async () => {
    await t.stop();
  });

  it.each([
    "SELECT flatten(list_transform(range(10000), lambda x: range(x, x + 10000)))",
    "SELECT list_transform([[1]], lambda x: list_transform(x, lambda y: y + 1))",
    "SELECT list_reduce(['a'], lambda a, b: a || b)",
    "SELECT reduce([[1]], lambda a, b: list_concat(a, b))",
    "SELECT list_transform(['a'], lambda x: lpad(x, 60000, 'y'))",
    `SELECT list_zip(${Array.from({ length: 9 }, () => "range(i, i + 10000)").join(", ")}) FROM range(9) t(i)`,
    `SELECT ${Array.from({ length: 9 }, () => "repeat('x', 65000) || i").join(", ")} FROM range(9) t(i)`,
    "SELECT damerau_levenshtein(repeat('x', 60000), repeat('y', 60000))",
    "SELECT levenshtein(repeat('x', 60000), repeat('y', 60000))",
    "SELECT editdist3(repeat('x', 60000), repeat('y', 60000))",
  ])("%s is refused", async (sql) => {
    await expect(t.query(sql)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });

  it.each([
    ["list_reduce([1, 2, 3], lambda a, b: a + b)", "6"],
    ["list_transform([1, 2], lambda x: CASE WHEN x > 1 THEN upper('a' || x) END)", "[NULL, A2]"],
    ["[x + 1 FOR x IN [1, 2, 3] IF x > 1]", "[3, 4]"],
    ["levenshtein('kitten', 'sitting') + damerau_levenshtein('ab', 'ba')", "4"],
    ["concat(lpad('a', 3, '.'), rpad('b', 3, '.'))", "..ab.."],
    [
      Array.from({ length: 20 }, (_, i) => `lpad('${i}', 12, ' ')`).join(" || ") + " IS NULL",
      "false",
    ],
  ])("%s gives what it always did", async (expression, value) => {
    const table = await t.query(`SELECT CAST(${expression} AS VARCHAR) AS v`);
    expect(table.get(0)?.["v"]).toBe(value);
  });
});
