/** Statements as a cluster is sent them: the same answer, or local only. */
import { beforeAll, describe, expect, it } from "vitest";

import { type Tables, translateDocument, Translation } from "../../src/query/cluster/translate.js";
import { parseTree } from "../../src/query/gate/syntax-tree.js";
import { quoteText } from "../../src/runtime/text/sql-text.js";
import { openTestEngine, type TestEngine } from "../helpers/query/query-engine.js";

let engine: TestEngine;
beforeAll(async () => {
  engine = await openTestEngine();
  return () => engine.close();
});

const columns = [
  { name: "k", spark: "k", type: "long" },
  { name: "x", spark: "x", type: "double" },
  { name: "msg", spark: "msg", type: "text" },
] as const;
const tables: Tables = new Map(["a", "b", "c"].map((name) => [name, { sql: `SELECT * FROM ${name}`, columns }]));

async function translated(sql: string): Promise<string> {
  const rows = await engine.rows(`SELECT json_serialize_sql(${quoteText(sql)})`);
  return translateDocument(parseTree(String(rows[0]?.[0])), new Translation(tables, 0n)).sql;
}

describe("joins", () => {
  it.each([
    "SELECT a.k FROM a, b FULL JOIN c ON b.k = c.k",
    "SELECT a.k FROM a, b RIGHT JOIN c ON b.k = c.k",
    "SELECT a.k FROM a LEFT JOIN (b CROSS JOIN c) ON a.k = c.k",
    "SELECT a.k FROM a JOIN (b JOIN c ON b.k = c.k) ON a.k = c.k",
  ])("%s is local only: Spark makes the left one first", async (sql) => {
    await expect(translated(sql)).rejects.toThrow("a join with what is joined first");
  });

  it.each([
    ["SELECT a.k FROM a, b JOIN c ON b.k = c.k", / CROSS JOIN .* JOIN .* ON /su],
    ["SELECT a.k FROM a LEFT JOIN b ON a.k = b.k FULL JOIN c ON b.k = c.k", / LEFT JOIN .* ON .* FULL JOIN .* ON /su],
  ])("%s is sent", async (sql, sent) => {
    expect(await translated(sql)).toMatch(sent);
  });
});

describe("windows without an order", () => {
  it.each(["ROWS BETWEEN CURRENT ROW AND CURRENT ROW", "ROWS UNBOUNDED PRECEDING", "ROWS 1 PRECEDING"])(
    "are local only with %s",
    async (frame) => {
      await expect(translated(`SELECT count(*) OVER (${frame}) AS n FROM a`)).rejects.toThrow("without an order");
    },
  );

  it("are sent with all rows", async () => {
    const rows = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING";
    for (const frame of ["", "PARTITION BY k", rows]) {
      expect(await translated(`SELECT count(*) OVER (${frame}) AS n FROM a`)).toMatch(
        /OVER \((?:PARTITION BY \S+)?\)/u,
      );
    }
  });
});

describe("constants", () => {
  it.each(["LIMIT 10.0", "LIMIT 1 OFFSET 2.0", "ORDER BY 1.0", "LIMIT '10'"])(
    "a number that is no integer is local only: %s",
    async (end) => {
      await expect(translated(`SELECT k, x FROM a ${end}`)).rejects.toThrow(/LIMIT that is computed|of a constant/u);
    },
  );

  it("an integer is sent", async () => {
    expect(await translated("SELECT k FROM a ORDER BY 1 LIMIT 10 OFFSET 2")).toMatch(/ LIMIT 10 OFFSET 2$/u);
  });
});

describe("values", () => {
  it("are rounded as DOUBLE, which need not fit into a BIGINT", async () => {
    expect(await translated("SELECT floor(x) AS n FROM a")).toMatch(
      /CASE WHEN abs\((?<x>\S+)\) < 9000000000000000D THEN CAST\(floor\(\k<x>\) AS DOUBLE\) ELSE \k<x> END/u,
    );
  });

  it.each([
    ["timeout$", String.raw`timeout\\z`],
    ["a.b", String.raw`a[^\\n]b`],
    [String.raw`1\.5\$`, String.raw`1\\.5\\\u0024`],
    ["[.$]+[^]$.]", String.raw`[.\u0024]+[^]\u0024.]`],
  ])("are matched with %s alike by each engine", async (pattern, sent) => {
    expect(await translated(`SELECT regexp_matches(msg, '${pattern}') AS found FROM a`)).toContain(`'${sent}'`);
  });
});
