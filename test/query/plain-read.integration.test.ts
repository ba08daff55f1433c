/** Queries that are mostly reading: which are, and that their rows are those of any other way. */
import { beforeAll, describe, expect, it } from "vitest";

import type { FieldNames } from "../../src/engine/protocol.js";
import type { Executable } from "../../src/query/backend/inspect.js";
import { stepsOf } from "../../src/query/backend/run.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";
import { startTestBackend } from "../helpers/query/query-backend.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";

describe("a query", () => {
  let isPlain: (sql: string) => Promise<boolean | undefined>;
  let rowsEnough: (sql: string) => Promise<number | null>;

  beforeAll(async () => {
    const t = await startTestBackend();
    isPlain = async (sql) => (await t.inspect(sql)).executable.isPlain;
    rowsEnough = async (sql) => (await t.inspect(sql)).rowsEnough;
    return () => t.stop();
  });

  it.each([
    ["SELECT * FROM streams LIMIT 10", 10],
    ["SELECT stream_id FROM streams LIMIT 10 OFFSET 3", 13],
    ["FROM streams LIMIT 0", 0],
    ["FROM streams", null],
    ["FROM streams OFFSET 3", null],
    ["FROM streams LIMIT 50%", null],
    ["FROM streams LIMIT 1 + 1", null],
    ["FROM streams LIMIT 3 OFFSET 1 + 1", null],
    ["SELECT time FROM log_entries WHERE time > TIMESTAMP '2025-01-01' LIMIT 10", null],
    ["FROM streams ORDER BY stream_id LIMIT 10", null],
    ["SELECT DISTINCT process_id FROM streams LIMIT 10", null],
    ["SELECT count(*) FROM streams LIMIT 10", null],
    ["FROM streams, processes LIMIT 10", null],
  ])("wants so many rows of its table: %s", async (sql, rows) => {
    expect(await rowsEnough(sql)).toBe(rows);
  });

  it.each([
    "SELECT time, msg FROM log_entries",
    "SELECT l.msg AS text FROM log_entries AS l",
    "FROM spans",
    "SELECT * EXCLUDE (msg) FROM log_entries LIMIT 10 OFFSET 3",
    "SELECT msg FROM log_entries WHERE time > now() - INTERVAL 1 HOUR",
    "SELECT msg FROM log_entries WHERE time BETWEEN '2025-01-01' AND '2025-02-01'",
    "SELECT msg FROM log_entries WHERE time >= TIMESTAMP '2025-01-01' AND DATE '2026-01-01' > time",
    "SELECT msg FROM log_entries WHERE log_entries.time < make_timestamp_ns(5) OR time > '2025-01-01'",
  ])("is mostly reading: %s", async (sql) => {
    expect(await isPlain(sql)).toBe(true);
  });

  it.each([
    "SELECT msg || '!' FROM log_entries",
    "SELECT * REPLACE (upper(msg) AS msg) FROM log_entries",
    "SELECT COLUMNS(c -> c LIKE 'm%') FROM log_entries",
    "SELECT upper(COLUMNS(*)::VARCHAR) FROM log_entries",
    "SELECT msg FROM log_entries WHERE level < 3",
    "SELECT msg FROM log_entries WHERE time > '2025-01-01' AND msg LIKE '%x%'",
    "SELECT msg FROM log_entries WHERE time > insert_time",
    "SELECT msg FROM log_entries WHERE time > (SELECT max(time) FROM spans)",
    "SELECT msg FROM log_entries WHERE time IN (TIMESTAMP '2025-01-01')",
    "SELECT msg FROM log_entries ORDER BY time",
    "SELECT DISTINCT msg FROM log_entries",
    "SELECT msg FROM log_entries GROUP BY msg",
    "SELECT msg FROM log_entries GROUP BY ALL",
    "SELECT msg, count(*) FROM log_entries GROUP BY ALL",
    "SELECT msg FROM log_entries QUALIFY row_number() OVER () = 1",
    "SELECT msg FROM log_entries USING SAMPLE 3",
    "SELECT msg FROM log_entries TABLESAMPLE 10%",
    "SELECT l.msg FROM log_entries l, spans s",
    "SELECT msg FROM (FROM log_entries)",
    "WITH w AS (FROM log_entries) SELECT msg FROM w",
    "SELECT msg FROM log_entries UNION ALL SELECT msg FROM log_entries",
    "SELECT unnest([1, 2]) FROM log_entries",
    "SELECT 1",
    "VALUES (1)",
    "DESCRIBE log_entries",
  ])("is more than reading: %s", async (sql) => {
    expect(await isPlain(sql)).toBe(false);
  });

  it.each([
    ["its rows are those of a table", "log_entries", {}, true],
    ["not: it has numbers alone, which threads compute ahead", "log_entries", { numbersOnly: true }, undefined],
    ["not: it does more", "log_entries", { isPlain: false }, undefined],
    ["not: its view does more", "log_stats", {}, undefined],
    ["not: it is explained", "log_entries", { explain: "analyze" }, undefined],
    ["not: two columns have a name", "log_entries", { names: named("msg", "MSG") }, undefined],
  ] as const)("is taken in place, %s", (_, view, more, expected) => {
    const sql = `SELECT msg FROM ${view}`;
    const query: Executable = { sql, explain: "none", isPlain: true, names: named("msg"), ...more };
    const files = [{ name: view, view, sources: [] }];
    const { steps } = stepsOf(query, { directories: [], files, rows: [] }, { maxResultRows: 0, maxResultBytes: 0 });
    const last = steps.at(-1);
    expect(last?.kind === "stream" ? last.inPlace : undefined).toBe(expected);
  });
});

const named = (...names: string[]): FieldNames[] => names.map((name) => ({ name, children: [] }));

describe("the rows", () => {
  let t: TestAnalytics;

  beforeAll(async () => {
    t = await startTestAnalytics();
    for (const [i, without] of [[], ["service_version"], []].entries()) {
      await addPartition(t.lake, t.sql, {
        table: "log_entries",
        audience: "public",
        without,
        rowsSql: `SELECT make_timestamp_ns(${noon} + (${i} * 3000 + i) * 1000000000) AS time, nullif(i % 3, 0)::INTEGER AS level,
          CASE WHEN i % 5 > 0 THEN repeat('ä', (i % 40)::INTEGER) || i END AS msg, '{"i": "' || i || '"}' AS properties
          FROM range(3000) t(i)`,
      });
    }
    return () => t.stop();
  });

  it.each([
    ["*", ""],
    ["time, level, msg, level_name", ""],
    ["msg, service_version, msg AS again", "WHERE time >= '2025-11-21T12:20:00Z' AND time < '2025-11-21T13:30:00Z'"],
    ["msg, audience", "LIMIT 5000"],
    ["msg", "WHERE time > '2030-01-01'"],
  ])("are those of a subquery: SELECT %s %s", async (columns, rest) => {
    const [plain, other] = [
      await t.caller.rows(`SELECT ${columns} FROM log_entries ${rest}`),
      await t.caller.rows(`SELECT ${columns} FROM (SELECT * FROM log_entries) AS l ${rest}`),
    ];
    expect(plain).toEqual(other);
    expect(plain.length).toBe({ "LIMIT 5000": 5000, "WHERE time > '2030-01-01'": 0, "": 9000 }[rest] ?? 4200);
  });

  it.each([
    ["SELECT msg FROM log_entries;"],
    ["FROM log_entries SELECT msg ;\n; "],
    ["SELECT msg FROM log_entries; -- all of them"],
    ["SELECT msg FROM log_entries -- all of them;"],
    ["SELECT msg FROM log_entries /* a /* b; */ */"],
    ['SELECT msg AS "a;b", msg AS ";" FROM log_entries;'],
    ["SELECT msg FROM log_entries WHERE time > '2025-01-01' ; "],
    [`SELECT ${Array.from({ length: 2000 }, () => "level").join(", ")}, msg FROM log_entries;`],
  ])("are all there whatever stands at the end, and with any names: %s", async (sql) => {
    expect((await t.caller.rows(sql)).length).toBe(9000);
  });

  it("are found at once where a name is long", async () => {
    const name = `${"; ".repeat(400_000)}x`;
    const beginMs = performance.now();
    expect((await t.caller.rows(`SELECT msg AS "${name}" FROM log_entries LIMIT 1`)).length).toBe(1);
    expect(performance.now() - beginMs).toBeLessThan(10_000);
  });

  it("are those of the session's range", async () => {
    const range = { begin: noon + 3_000_000_000_000n };
    expect((await t.caller.rows("SELECT msg FROM log_entries", range)).length).toBe(6000);
  });
});
