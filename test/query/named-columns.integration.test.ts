/** Queries get those columns of a view that they name: what comes is what comes of all columns. */
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { columnsOfTable } from "../../src/lake/tables/duckdb-types.js";
import type { TableName } from "../../src/lake/tables/tables.js";
import { namedColumns } from "../../src/query/gate/given-names.js";
import { parseTree, type Tree } from "../../src/query/gate/syntax-tree.js";
import { emptySource } from "../../src/query/sql/file-source.js";
import { columnsOfView, columnsRead, createFileViewSql } from "../../src/query/sql/views.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";

const views = ["log_entries", "spans", "measures"] as const satisfies TableName[];
const files: Record<string, string> = {};

let t: TestAnalytics;
let instance: DuckDBInstance;
let connection: DuckDBConnection;

/** Rows that differ in every column; `level`, `kind` and `status_code` take a few values each. */
function rowsSql(table: TableName): string {
  const items = columnsOfTable(table).flatMap(([name, type], i) => {
    const values: Readonly<Record<string, string>> = {
      VARCHAR: `'${name} ' || i`,
      INTEGER: `i % ${3 + (i % 4)}`,
      BIGINT: `i * ${i + 1} - 7`,
      DOUBLE: `i / ${i + 2}.0`,
      BOOLEAN: `i % ${2 + (i % 3)} = 0`,
      TIMESTAMP_NS: `make_timestamp_ns(${noon} + i * ${1_000_000_000 + i})`,
    };
    const value = name === "trace_id" ? "'trace ' || i" : values[type];
    return value === undefined ? [] : [`CAST(${value} AS ${type}) AS "${name}"`];
  });
  return `SELECT ${items.join(", ")} FROM range(12) t(i)`;
}

beforeAll(async () => {
  t = await startTestAnalytics();
  instance = await DuckDBInstance.create(":memory:");
  connection = await instance.connect();
  for (const table of views) {
    const { path } = await addPartition(t.lake, t.sql, { table, audience: "public", rowsSql: rowsSql(table) });
    files[table] = path;
    await makeView(table, null);
  }
});

afterAll(async () => {
  connection.closeSync();
  instance.closeSync();
  await t.stop();
});

async function makeView(view: (typeof views)[number], columns: readonly string[] | null): Promise<void> {
  const groups = [{ audience: "public", paths: [files[view] ?? ""] }];
  await connection.run(`DROP VIEW IF EXISTS "${view}"`);
  await connection.run(createFileViewSql(view, view, [{ ...emptySource, groups, columns }]));
}

async function treeOf(sql: string): Promise<Tree> {
  const reader = await connection.runAndReadAll("SELECT json_serialize_sql($1::VARCHAR)", [sql]);
  return parseTree(String(reader.getRows()[0]?.[0]));
}

/** Names, types and rows of a query over these columns of the views. */
async function resultOf(sql: string, named: ReadonlySet<string> | null): Promise<readonly unknown[]> {
  for (const view of views) {
    await makeView(view, named === null ? null : columnsRead(view, named));
  }
  const reader = await connection.runAndReadAll(sql);
  return [reader.columnNames(), reader.columnTypes().map(String), reader.getRowsJson()];
}

describe("columns are named", () => {
  it.each([
    [`SELECT LEVEL, "Msg" FROM log_entries ORDER BY time`],
    ["SELECT count(*) FROM log_entries"],
    ["SELECT level_name, count(*) FROM log_entries GROUP BY ALL ORDER BY 2, 1"],
    ["SELECT kind_name, status, is_error, is_root, duration_ms FROM spans ORDER BY name"],
    ["SELECT l.msg, s.name FROM log_entries l JOIN spans s USING (trace_id) ORDER BY 1"],
    [
      "SELECT msg FROM log_entries l WHERE EXISTS (SELECT 1 FROM spans WHERE trace_id = l.trace_id AND kind = 1) ORDER BY msg",
    ],
    ["WITH x(a, b) AS (SELECT level, target FROM log_entries) SELECT b, sum(a) FROM x GROUP BY b ORDER BY b"],
    ["SELECT t.a FROM (SELECT msg FROM log_entries ORDER BY time) AS t(a)"],
    ["SELECT DISTINCT ON (level) level, msg FROM log_entries ORDER BY level, msg"],
    ["SELECT msg, row_number() OVER w AS n FROM log_entries WINDOW w AS (PARTITION BY level ORDER BY time) ORDER BY 1"],
    ["SELECT max_by(msg, time) FROM log_entries WHERE process_id <> ''"],
    ["SELECT list_transform([level], lambda msg: msg + flags) FROM log_entries ORDER BY time"],
    ["SELECT value FROM measures ASOF JOIN log_entries ON log_entries.time <= measures.time ORDER BY value"],
    ["SELECT name FROM spans UNION ALL BY NAME SELECT msg AS name FROM log_entries ORDER BY name"],
    ["SELECT (SELECT max(kind) FROM spans WHERE spans.trace_id = log_entries.trace_id) FROM log_entries ORDER BY time"],
    ["SELECT event_name AS time FROM log_entries ORDER BY log_entries.insert_time"],
    ["SELECT level FROM log_entries GROUP BY GROUPING SETS ((level), (target)) ORDER BY ALL"],
  ])("%s", async (sql) => {
    const named = namedColumns(await treeOf(sql));
    const isWhole = sql.includes("ORDER BY ALL");
    expect(named === null).toBe(isWhole);
    expect(await resultOf(sql, named)).toEqual(await resultOf(sql, null));
    // As a query is run.
    const rows = await t.caller.rows(sql);
    const [, , wanted] = await resultOf(sql, null);
    expect(rows.length).toBe((wanted as unknown[]).length);
  });

  it.each(views)("of %s, each alone", async (view) => {
    const all = await t.plainRows(`SELECT * FROM ${view} ORDER BY time`);
    expect(all.length).toBe(12);
    for (const [name] of columnsOfView(view)) {
      const named = namedColumns(await treeOf(`SELECT "${name}" FROM ${view}`));
      expect(columnsRead(view, named ?? new Set())).toContain(name);
      expect(await t.plainRows(`SELECT "${name}" FROM ${view} ORDER BY time`)).toEqual(
        all.map((row) => ({ [name]: row[name] })),
      );
    }
  });

  it("so the view has no others, but those that conditions of ours may be on", async () => {
    const named = namedColumns(await treeOf("SELECT duration_ms FROM spans WHERE status_code = 2"));
    await makeView("spans", columnsRead("spans", named ?? new Set()));
    const reader = await connection.runAndReadAll("SELECT column_name FROM (DESCRIBE spans)");
    const found = reader.getRows().flat();
    const wanted = ["audience", "duration_ms", "duration_ns", "process_id", "status_code", "time", "trace_id"];
    expect(new Set(found)).toEqual(new Set(wanted));
  });
});

describe("columns that are not named are there as well for", () => {
  it.each([
    ["SELECT * FROM log_entries ORDER BY time"],
    ["SELECT l.* EXCLUDE (msg) FROM log_entries l ORDER BY time"],
    ["SELECT COLUMNS('^le') FROM log_entries ORDER BY ALL"],
    ["SELECT log_entries FROM log_entries ORDER BY time"],
    ["SELECT L FROM log_entries AS l ORDER BY time"],
    ["SELECT count(DISTINCT l) FROM log_entries AS l"],
    ["SELECT hash(main.log_entries) FROM log_entries ORDER BY time"],
    ["SELECT #4 FROM log_entries ORDER BY 1"],
    ["SELECT level FROM log_entries NATURAL JOIN spans"],
    ["SELECT b FROM log_entries AS x(a, b, c) ORDER BY b"],
    ["SELECT b FROM (FROM log_entries) AS x(a, b, c) ORDER BY b"],
    ["SELECT target FROM (PIVOT log_entries ON level IN (0, 1) USING count(*) GROUP BY target) ORDER BY target"],
    ["SELECT column_name FROM (DESCRIBE log_entries)"],
    ["SELECT kind FROM (TABLE spans) ORDER BY kind"],
  ])("%s", async (sql) => {
    expect(namedColumns(await treeOf(sql))).toBeNull();
  });
});

it("objects of an older version that lack a named column have nulls there", async () => {
  const older = { table: "log_entries", audience: "public", without: ["event_name"] } as const;
  await addPartition(t.lake, t.sql, { ...older, rowsSql: "SELECT make_timestamp_ns(1) AS time, 'older' AS msg" });
  await addPartition(t.lake, t.sql, { ...older, rowsSql: "SELECT make_timestamp_ns(2) AS time, 'old' AS msg" });
  const sql = (what: string): string => `SELECT ${what} FROM log_entries WHERE time < '2000-01-01' ORDER BY time`;
  const both = [{ msg: "older" }, { msg: "old" }];
  expect(await t.plainRows(sql("msg"))).toEqual(both);
  expect(await t.plainRows(sql("msg, event_name"))).toEqual(both.map((row) => ({ ...row, event_name: null })));
  expect(
    await t.plainRows("SELECT count(*)::INTEGER AS n, count(event_name)::INTEGER AS named FROM log_entries"),
  ).toEqual([{ n: 14, named: 12 }]);
});
