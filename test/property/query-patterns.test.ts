/** Patterns of LIKE, ILIKE and GLOB as regular expressions: they match what DuckDB's own matcher matches. */
import type { DuckDBConnection } from "@duckdb/node-api";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { gateText } from "../../src/query/inspect.js";
import { quoteText } from "../../src/query/views.js";
import { openTestEngine, type TestEngine } from "../helpers/query-engine.js";

let engine: TestEngine;
let connection: DuckDBConnection;

beforeAll(async () => {
  engine = await openTestEngine();
  ({ connection } = engine);
});

afterAll(() => {
  engine.close();
});

async function value(sql: string): Promise<string> {
  try {
    return JSON.stringify((await connection.runAndReadAll(sql)).getRows()[0]);
  } catch (error) {
    return (error as Error).message.slice(0, 30);
  }
}

/** The expressions as they are, and as the gate lets them through. */
async function both(sql: string): Promise<{ own: string; gated: string; rewritten: boolean }> {
  const gated = await gateText(connection, sql);
  return {
    own: await value(sql),
    gated: await value(gated.sql),
    rewritten: gated.sql.includes("regexp_full_match"),
  };
}

const texts = fc.string({
  unit: fc.constantFrom("a", "b", "B", ".", "\\", "%", "_", "\n", "*", "é", "漢", "[", "-"),
  maxLength: 12,
});
const likes = fc.string({
  unit: fc.oneof(
    { weight: 4, arbitrary: fc.constant("%") },
    { weight: 2, arbitrary: fc.constant("_") },
    {
      weight: 6,
      arbitrary: fc.constantFrom("a", "b", "B", ".", "\\", "!", "\n", "é", "漢", "(", "["),
    },
  ),
  minLength: 4,
  maxLength: 10,
});
const globs = fc
  .array(
    fc.constantFrom(
      "*",
      "*",
      "*",
      "*",
      "?",
      "a",
      "b",
      "B",
      ".",
      "[ab]",
      "[!a]",
      "[a-c]",
      "\\*",
      "(",
    ),
    {
      minLength: 4,
      maxLength: 8,
    },
  )
  .map((parts) => parts.join(""));

describe("a pattern", () => {
  test.each([
    ["LIKE", likes, ""],
    ["NOT LIKE", likes, ""],
    ["ILIKE", likes, ""],
    ["NOT ILIKE", likes, ""],
    ["LIKE", likes, " ESCAPE '!'"],
    ["NOT ILIKE", likes, " ESCAPE '!'"],
    ["GLOB", globs, ""],
  ])("of %s matches the same", async (operator, patterns, suffix) => {
    let rewritten = 0;
    // A byte is a character to GLOB.
    const some =
      operator === "GLOB" ? texts.map((text) => text.replaceAll(/[^ -~]/gu, "c")) : texts;
    await fc.assert(
      fc.asyncProperty(some, patterns, async (text, pattern) => {
        const sql = `SELECT ${quoteText(text)} ${operator} ${quoteText(pattern)}${suffix}`;
        const found = await both(sql);
        if (found.rewritten) rewritten++;
        expect({ sql, value: found.gated }).toEqual({ sql, value: found.own });
      }),
      { numRuns: 300 },
    );
    expect(rewritten).toBeGreaterThan(20);
  });

  test.each(["LIKE", "NOT ILIKE"])("of %s that is a column matches the same", async (operator) => {
    await fc.assert(
      fc.asyncProperty(texts, likes, async (text, pattern) => {
        const sql = `SELECT t ${operator} p FROM (SELECT ${quoteText(text)} AS t, ${quoteText(pattern)} AS p)`;
        const found = await both(sql);
        expect(found.rewritten).toBe(true);
        expect({ sql, value: found.gated }).toEqual({ sql, value: found.own });
      }),
      { numRuns: 300 },
    );
  });

  test("of many wildcards takes no longer for a long text than the text is long", async () => {
    const sql =
      "SELECT repeat('a', 60000) LIKE '%_a%_a%_a%_a%_b', repeat('a', 60000) GLOB '*a*a*a*a*b'";
    const { sql: gated } = await gateText(connection, sql);
    // DuckDB's own matching would take longer than a test may.
    expect(await value(gated)).toBe("[false,false]");
  });
});
