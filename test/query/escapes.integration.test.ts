/**
 * The escape list, regenerated from the DuckDB that is installed: every function by name, through the gate.
 * A new version that brings one changes nothing until somebody has put it on a list.
 */
import { beforeAll, describe, expect, it } from "vitest";

import { adminFunctions } from "../../src/query/sql/admin-functions.js";
import { allowedTableFunctions, isAllowedFunction } from "../../src/query/gate/allowed-functions.js";
import { gateText } from "../../src/query/backend/inspect.js";
import { quoteName } from "../../src/runtime/text/sql-text.js";
import { openTestEngine, type TestEngine } from "../helpers/query/query-engine.js";

let engine: TestEngine;

beforeAll(async () => {
  engine = await openTestEngine();
  return () => engine.close();
});

async function functionsOf(types: readonly string[]): Promise<string[]> {
  const rows = await engine.rows(
    `SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN (${types.map((type) => `'${type}'`).join(", ")})`,
  );
  return rows.map(([name]) => String(name));
}

/** What the gate says, or null when it lets the text through. */
async function refusal(sql: string): Promise<string | null> {
  try {
    await gateText(engine, sql);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

describe("functions of this DuckDB", () => {
  it("after FROM are refused, all but those on the list", async () => {
    const names = await functionsOf(["table", "table_macro", "pragma"]);
    expect(names.length).toBeGreaterThan(60);
    expect(names).toEqual(expect.arrayContaining(["read_text", "read_parquet", "duckdb_settings"]));
    const passed: string[] = [];
    const messages: string[] = [];
    for (const name of [...names, ...Object.keys(adminFunctions)]) {
      const quoted = quoteName(name);
      for (const sql of [
        `SELECT * FROM ${quoted}()`,
        `SELECT 1 WHERE EXISTS (FROM main.${quoted}('x'))`,
        `SELECT * FROM log_entries, LATERAL (SELECT * FROM ${quoted}(msg))`,
      ]) {
        const message = await refusal(sql);
        if (message === null) {
          passed.push(name);
        } else {
          messages.push(message);
        }
      }
    }
    expect(passed.filter((name) => !allowedTableFunctions.has(name))).toEqual([]);
    expect(messages.filter((text) => !/is not available|no table/u.test(text))).toEqual([]);
  });

  it("within expressions are refused, all but those on the list", async () => {
    const names = await functionsOf(["scalar", "aggregate", "macro"]);
    expect(names.length).toBeGreaterThan(500);
    const passed: string[] = [];
    const messages: string[] = [];
    for (const name of names) {
      if (isAllowedFunction(name)) {
        continue;
      }
      const quoted = quoteName(name);
      for (const sql of [`SELECT ${quoted}()`, `SELECT [main.${quoted}(x) FOR x IN [1]]`]) {
        const message = await refusal(sql);
        if (message === null) {
          passed.push(name);
        } else {
          messages.push(message);
        }
      }
    }
    expect(passed).toEqual([]);
    expect(messages.filter((text) => !/is not available|Parser Error/u.test(text))).toEqual([]);
  });

  it("cannot be reached as relations: no table or view of a catalog passes", async () => {
    const rows = await engine.rows(
      "SELECT DISTINCT view_name FROM duckdb_views() UNION SELECT DISTINCT table_name FROM information_schema.tables",
    );
    const names = rows.map(([name]) => String(name));
    expect(names).toContain("sqlite_master");
    const passed: string[] = [];
    for (const name of names) {
      for (const prefix of ["", "main.", "pg_catalog.", "information_schema.", "system.main."]) {
        const relation = `${prefix}${quoteName(name)}`;
        if ((await refusal(`SELECT * FROM ${relation}`)) === null) {
          passed.push(relation);
        }
      }
    }
    expect(passed.toSorted()).toEqual(['information_schema."columns"', 'information_schema."tables"']);
    for (const relation of passed) {
      const { sql } = await gateText(engine, `SELECT * FROM ${relation}`);
      expect(sql).toMatch(/^SELECT \* FROM svc_information_schema_(?:tables|columns) AS "?\w+"?$/u);
    }
  });
});
