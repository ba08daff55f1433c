/** Statements of many tables: what the gate does for each of them does not grow with their number. */
import { DuckDBInstance } from "@duckdb/node-api";
import { expect, it } from "vitest";

import { gateTree } from "../../src/query/gate/gate.js";
import { parseTree, type Tree, treesIn } from "../../src/query/gate/syntax-tree.js";

async function treeOf(sql: string): Promise<Tree> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  const reader = await connection.runAndReadAll("SELECT json_serialize_sql($1::VARCHAR)", [sql]);
  connection.closeSync();
  instance.closeSync();
  return parseTree(String(reader.getRows()[0]?.[0]));
}

/** How often the gate reads what a column of the last table is called. */
async function readsAmong(tables: number, condition: (table: string) => string): Promise<number> {
  const names = Array.from({ length: tables }, (_, i) => `s${i}`);
  const tree = await treeOf(
    `SELECT count(*) FROM ${names.map((name) => `spans ${name}`).join(", ")} WHERE ${names.map(condition).join(" AND ")}`,
  );
  let reads = 0;
  for (const node of treesIn(tree)) {
    const columnNames = node["column_names"];
    if (Array.isArray(columnNames) && columnNames[0] === names.at(-1)) {
      Object.defineProperty(node, "column_names", {
        enumerable: true,
        get: () => {
          reads++;
          return columnNames;
        },
        set() {
          // Read as before.
        },
      });
    }
  }
  gateTree(tree, { ownColumns: true });
  return reads;
}

it.each([
  ["times", (table: string) => `${table}.time > '2026-01-01'`],
  ["durations", (table: string) => `${table}.duration_ms > 1`],
  ["attributes", (table: string) => `attr(${table}.properties, 'a') = 'b'`],
])("compare %s", async (_what, condition) => {
  const few = await readsAmong(10, condition);
  expect(few).toBeGreaterThan(0);
  expect(await readsAmong(100, condition)).toBe(few);
});
