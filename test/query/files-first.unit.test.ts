/** Where the files of a query go into its text. That they are read is shown over many files and by every query. */
import { describe, expect, it } from "vitest";

import { filesFirst, withoutFiles } from "../../src/query/backend/files-first.js";
import { emptySource } from "../../src/query/sql/file-source.js";

function named(name: string, paths: readonly string[]): Parameters<typeof filesFirst>[1][number] {
  return { name, view: "log_entries", sources: [{ ...emptySource, groups: [{ audience: "a", paths }] }] };
}

const logs = [named("logs", ["/lake/1", "/lake/2"])];
/** The text, with what was put into it as `FILES`. */
const placed = (sql: string): string | undefined =>
  filesFirst(sql, logs)?.sql.replace(/"logs" AS NOT MATERIALIZED \(SELECT.* false\)\)\)\)/u, "FILES");

describe("the files of a query", () => {
  it.each([
    ["SELECT 1 FROM logs", "WITH FILES\nSELECT 1 FROM logs"],
    ["  from logs", "WITH FILES\n  from logs"],
    ["\v\nSELECT 1", "WITH FILES\n \nSELECT 1"],
    ["-- WITH\n/* ( */ SELECT 1", "WITH FILES\n       \n        SELECT 1"],
    ["-- a\nWITH a AS (SELECT 1) FROM a", "WITH FILES,\n    \n     a AS (SELECT 1) FROM a"],
    ["with recursive a AS (SELECT 1) FROM a", "WITH RECURSIVE FILES,\n               a AS (SELECT 1) FROM a"],
    [
      "WITH/* b */RECURSIVE a AS (SELECT 1) FROM a",
      "WITH RECURSIVE FILES,\n                     a AS (SELECT 1) FROM a",
    ],
    ["WITH recursive AS (SELECT 1) FROM a", "WITH FILES,\n     recursive AS (SELECT 1) FROM a"],
    ["WITH recursive (a) AS (SELECT 1) FROM a", "WITH FILES,\n     recursive (a) AS (SELECT 1) FROM a"],
    ["WITH recursive_a AS (SELECT 1) FROM a", "WITH FILES,\n     recursive_a AS (SELECT 1) FROM a"],
    ["/* /* */ WITH */ WITH a AS (SELECT 1) FROM a", "WITH FILES,\n                      a AS (SELECT 1) FROM a"],
    ["-- WITH\rWITH a AS (SELECT 1) FROM a", "WITH FILES,\n             a AS (SELECT 1) FROM a"],
  ])("go in front of %j", (sql, expected) => {
    expect(placed(sql)).toBe(expected);
  });

  it.each([
    "VALUES (1)",
    "(SELECT 1)",
    "DESCRIBE logs",
    "TABLE logs",
    "PIVOT logs ON level IN (1)",
    "-- SELECT",
    "selection",
  ])("do not go in front of %j", (sql) => {
    expect(filesFirst(sql, logs)).toBeNull();
  });

  it("are parameters, each list one", () => {
    const paths = ["/lake/1", "/lake/it's 2"];
    const { sql, orElse, values } =
      filesFirst("FROM a", [named("a", paths), named("b", paths), named("c", ["/3"])]) ?? {};
    expect(values).toEqual([
      { type: "VARCHAR", text: "/lake/1\n/lake/it's 2" },
      { type: "VARCHAR", text: "/3" },
    ]);
    for (const text of [sql, orElse]) {
      expect([...(text ?? "").matchAll(/string_split\((\$\d), chr\(10\)\)/gu)].map(([, list]) => list)).toEqual([
        "$1",
        "$1",
        "$2",
      ]);
    }
    expect(filesFirst("FROM a", [named("a", ["/one\nmore"])])).toMatchObject({ values: [] });
  });
});

describe("the line of an error", () => {
  it.each([
    [
      "Binder Error: no\n\nLINE 2: SELECT no\n               ^",
      "Binder Error: no\n\nLINE 1: SELECT no\n               ^",
    ],
    [
      "Binder Error: no\n\nLINE 10: SELECT no\n                ^",
      "Binder Error: no\n\nLINE 9: SELECT no\n               ^",
    ],
    ["Out of Memory Error: LINE 2: x", "Out of Memory Error: LINE 2: x"],
    ["Binder Error: no\n\nLINE 1: WITH logs AS (no\n                         ^", "Binder Error: no"],
  ])("is that of the query's own text: %j", (message, expected) => {
    expect(withoutFiles(message)).toBe(expected);
  });
});
