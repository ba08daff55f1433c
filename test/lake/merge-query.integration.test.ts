import path from "node:path";

import { beforeAll, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { destroyColumn } from "../helpers/lake/destroy-column.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

it.each([
  ["trace_id", "log_entries", "log_entries"],
  ["process_id", "log_entries", "log_entries"],
  ["trace_id", "spans", "spans"],
  ["trace_id", "spans", "otel_spans"],
  ["trace_id", "spans", "span_events"],
  ["process_id", "spans", "span_links"],
  ["process_id", "measures", "measures"],
  ["process_id", "histograms", "histograms"],
  ["process_id", "log_entries", "log_stats"],
] as const)("an equal %s in %s leaves out row groups of %s by their bloom filters", async (column, table, view) => {
  await t.sql`delete from lakehouse_partitions`;
  const ids = table === "log_entries" || table === "spans" ? ", md5('t' || i) AS trace_id" : "";
  await addPartition(t.lake, t.sql, {
    table,
    audience: "public",
    rowsSql: `SELECT make_timestamp_ns(${noon} + i) AS time, CAST(md5('p' || i) AS UUID)::VARCHAR AS process_id${ids} FROM range(1000) t(i)`,
  });
  const merged = await t.caller.rows(
    `SELECT path FROM materialize_partitions('${table}', '2025-11-21T12:00:00Z', '2025-11-21T13:00:00Z', 3600) WHERE action = 'created'`,
  );
  const file = path.join(t.lake.directory, String(merged[0]?.["path"]));
  const id = (text: string): string =>
    column === "trace_id" ? `md5('${text}')` : `CAST(md5('${text}') AS UUID)::VARCHAR`;
  const values = await t.caller.rows(`SELECT ${id("t7")} AS t, ${id("p7")} AS p, ${id("x")} AS x`);
  const present = String(values[0]?.[column === "trace_id" ? "t" : "p"]);
  const absent = String(values[0]?.["x"]);
  await destroyColumn(file, column);
  const query = (condition: string) => `SELECT count(*) AS n FROM ${view} WHERE ${column} ${condition}`;
  // The values are really gone: reading them fails.
  await t.caller.failure(query(`= '${present}'`));
  expect(await t.caller.rows(query(`= '${absent}'`))).toEqual([{ n: 0n }]);
});

it.each(["log_entries", "spans", "span_events"] as const)(
  "a list of trace ids leaves out row groups of %s as well, and finds in merged and fresh objects what is there, once",
  async (view) => {
    await t.sql`delete from lakehouse_partitions`;
    const table = view === "log_entries" ? "log_entries" : "spans";
    const add = (from: number, rows: number) =>
      addPartition(t.lake, t.sql, {
        table,
        audience: "public",
        rowsSql: `SELECT make_timestamp_ns(${noon} + i) AS time, md5('t' || i) AS trace_id,
          ${table === "spans" ? "[{'time': make_timestamp_ns(0), 'name': 'e', 'properties': '{}', 'dropped_attributes_count': 0}] AS events," : ""}
          'p' AS process_id FROM range(${from}, ${from + rows}) t(i)`,
      });
    await add(0, 100);
    const merge = `SELECT path FROM materialize_partitions('${table}', '2025-11-21T12:00:00Z', '2025-11-21T13:00:00Z', 3600) WHERE action = 'created'`;
    const [merged] = await t.caller.rows(merge);
    await add(50, 100);
    const values = await t.caller.rows(
      "SELECT md5('t7') AS old, md5('t70') AS both, md5('t120') AS new, md5('absent') AS absent, md5('missing') AS missing",
    );
    const id = (name: string): string => `'${String(values[0]?.[name])}'`;
    const counted = async (names: readonly string[], from: string = view) =>
      (await t.caller.rows(`SELECT count(*) AS n FROM ${from} WHERE trace_id IN (${names.map(id).join(", ")})`))[0]?.[
        "n"
      ];
    expect(await counted(["old", "both", "new", "absent", "both"])).toBe(4n);
    expect(await counted(["both"])).toBe(2n);
    expect(await counted(["old"], `(SELECT * FROM ${view})`)).toBe(1n);
    const different = `SELECT count(*) AS n FROM ${view} a, ${view} b
      WHERE a.trace_id IN (${id("old")}, ${id("absent")}) AND b.trace_id IN (${id("both")}, ${id("missing")})`;
    expect(await t.caller.rows(different)).toEqual([{ n: 2n }]);
    const either = `SELECT count(*) AS n FROM ${view} WHERE trace_id IN (${id("old")}, ${id("both")})
      UNION ALL SELECT count(*) FROM ${view}`;
    expect(await t.caller.rows(either)).toEqual([{ n: 3n }, { n: 200n }]);
    await destroyColumn(path.join(t.lake.directory, String(merged?.["path"])), "trace_id");
    expect(await counted(["new", "absent", "missing"])).toBe(1n);
    await t.caller.failure(`SELECT * FROM ${view} WHERE trace_id IN (${id("old")}, ${id("absent")})`);
  },
);
