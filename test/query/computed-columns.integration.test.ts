/** Columns that views compute: names of levels, kinds and statuses, flags of spans, and milliseconds. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  const time = `make_timestamp_ns(${noon} + i * 1000000000) AS time`;
  await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql: `SELECT ${time}, nullif(i % 8, 0)::INTEGER AS level, 'm' || i AS msg, 'a' AS target FROM range(80) t(i)`,
  });
  await addPartition(t.lake, t.sql, {
    table: "spans",
    audience: "public",
    rowsSql: `SELECT ${time}, (i % 7)::INTEGER AS kind, (i % 4)::INTEGER AS status_code, if(i < 10, NULL, 'aa') AS parent_span_id, i * 1100000 - 1 AS duration_ns, 's' || i AS name FROM range(84) t(i)`,
  });
  await addPartition(t.lake, t.sql, {
    table: "spans",
    audience: "public",
    without: ["status_code"],
    rowsSql: `SELECT make_timestamp_ns(0) AS time, 'of an older version' AS name`,
  });
});

afterAll(async () => {
  await t.stop();
});

async function count(from: string): Promise<unknown> {
  const [row] = await t.plainRows(`SELECT count(*)::INTEGER AS n FROM ${from}`);
  return row?.["n"];
}

describe("the values", () => {
  it("of level_name name the levels", async () => {
    const wanted = [
      { level: 1, level_name: "fatal" },
      { level: 2, level_name: "error" },
      { level: 3, level_name: "warn" },
      { level: 4, level_name: "info" },
      { level: 5, level_name: "debug" },
      { level: 6, level_name: "trace" },
      { level: 7, level_name: null },
      { level: null, level_name: null },
    ];
    for (const view of ["log_entries", "log_stats"]) {
      expect(await t.plainRows(`SELECT DISTINCT level, level_name FROM ${view} ORDER BY level`)).toEqual(wanted);
    }
  });

  it("of kind_name, status, is_error, is_root and duration_ms are those of the columns beneath", async () => {
    const kinds = ["unspecified", "internal", "server", "client", "producer", "consumer", null];
    const statuses = ["unset", "ok", "error", null];
    for (const view of ["spans", "otel_spans"]) {
      expect(
        await t.plainRows(
          `SELECT kind_name, status, is_error, is_root, duration_ms FROM ${view} WHERE time > '2000-01-01' ORDER BY time`,
        ),
      ).toEqual(
        Array.from({ length: 84 }, (_, i) => ({
          kind_name: kinds[i % 7],
          status: statuses[i % 4],
          is_error: i % 4 === 2,
          is_root: i < 10,
          duration_ms: (i * 1_100_000 - 1) / 1e6,
        })),
      );
    }
  });

  it("are null where an older object lacks the column beneath", async () => {
    expect(await t.plainRows("SELECT status, is_error FROM spans WHERE name = 'of an older version'")).toEqual([
      { status: null, is_error: null },
    ]);
  });

  it("are the last columns of SELECT * and of DESCRIBE", async () => {
    const names = ["audience", "kind_name", "status", "is_error", "is_root", "duration_ms"];
    const [row = {}] = await t.plainRows("SELECT * FROM spans LIMIT 1");
    expect(Object.keys(row).slice(-6)).toEqual(names);
    const described = (await t.plainRows("DESCRIBE spans")).slice(-6);
    expect(described.map(({ column_name }) => column_name)).toEqual(names);
    expect(described.map(({ column_type }) => column_type)).toEqual([
      "VARCHAR",
      "VARCHAR",
      "VARCHAR",
      "BOOLEAN",
      "BOOLEAN",
      "DOUBLE",
    ]);
  });
});

describe("a comparison with a name", () => {
  it.each([
    ["log_entries WHERE level_name = 'error'", 10],
    ["log_entries l WHERE l.level_name IN ('Error', 'FATAL')", 20],
    ["log_entries WHERE level_name = ' WARNING'", 10],
    ["log_entries WHERE 'INFO' <> level_name", 50],
    ["log_stats WHERE level_name = 'error'", 2],
    ["spans WHERE kind_name = 'SERVER'", 12],
    ["spans WHERE status = 'ERROR'", 21],
    ["spans WHERE status NOT IN ('Ok', 'error')", 21],
    ["spans WHERE status = 'other'", 0],
    ["(SELECT 'ERROR' AS status FROM spans) WHERE status = 'ERROR'", 85],
    ["spans WHERE is_error AND NOT is_root", 19],
    ["spans WHERE duration_ms > 90", 2],
    ["spans WHERE is_root = true AND duration_ms < 5 AND time > '2000-01-01'", 5],
  ])("finds its rows: %s", async (from, n) => {
    expect(await count(from)).toBe(n);
  });

  it("that there is not is refused with those that there are", async () => {
    await expect(t.plainRows("SELECT 1 FROM log_entries WHERE level_name = 'eror'")).rejects.toThrow(
      /level_name is one of fatal, error, warn, info, debug, trace, and not .*eror/u,
    );
    await expect(t.plainRows("SELECT 1 FROM spans WHERE kind_name IN ('client', 'sever')")).rejects.toThrow(
      /kind_name is one of unspecified, internal, server, client, producer, consumer, and not .*sever/u,
    );
  });
});

describe("the plan of a query", () => {
  const planOf = async (sql: string): Promise<string> => {
    const rows = await t.plainRows(`EXPLAIN ANALYZE ${sql}`);
    return rows.map(({ explain_value: text }) => (typeof text === "string" ? text : "")).join("\n");
  };

  it.each([
    ["log_entries", "level_name = 'error'", 10],
    ["log_entries", "level_name IN ('error', 'fatal')", 20],
    ["log_entries", "level_name <> 'info'", 50],
    ["log_stats", "level_name = 'warn'", 10],
    ["spans", "status = 'error'", 21],
    ["spans", "kind_name = 'server' AND is_error", 3],
    ["spans", "is_error", 21],
    ["spans", "is_root AND time > '2000-01-01'", 10],
  ])("of %s tests %s where it reads the file", async (view, condition, rows) => {
    const plan = await planOf(`SELECT count(*) FROM ${view} WHERE ${condition}`);
    const read = [...plan.matchAll(/READ_PARQUET \((\d+) rows/gu)].map(([, n]) => Number(n));
    expect(read.length).toBeGreaterThan(0);
    expect(read.reduce((a, b) => a + b)).toBe(rows);
    expect(plan).not.toContain("FILTER");
  });

  it("reads nothing for columns that the query does not name", async () => {
    const read = async (sql: string): Promise<string[]> =>
      [...(await planOf(sql)).matchAll(/^ +Function: READ_PARQUET\n +Projections: (.*)$/gmu)].map(
        ([, columns = ""]) => columns,
      );
    expect(await read("SELECT msg FROM log_entries")).toEqual(["msg"]);
    expect(await read("SELECT level_name FROM log_entries")).toEqual(["level"]);
    expect(new Set(await read("SELECT name FROM spans"))).toEqual(new Set(["name"]));
  });
});
