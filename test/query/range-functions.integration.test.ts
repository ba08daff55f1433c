/** `attribute_keys`, `attribute_samples`, `log_pattern`, conditions on `duration_ms`, and parameters of functions of traces and ranges. */
import { connect, type FlightSqlClient, staticKey } from "telemetry-service-client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { quoteText } from "../../src/runtime/text/sql-text.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";

let t: TestAnalytics;
let client: FlightSqlClient;

const trace = "00000000000000000000000000abcdef";

beforeAll(async () => {
  t = await startTestAnalytics();
  client = connect({ uri: `grpc://127.0.0.1:${t.port}`, auth: staticKey(t.key) });
  const add = async (
    table: "log_entries" | "spans" | "measures",
    columns: string,
    audience = "public",
  ): Promise<void> => {
    await addPartition(t.lake, t.sql, {
      table,
      audience,
      rowsSql: `SELECT make_timestamp_ns(1767225600000000000 + i * 1000000000) AS time, ${columns}`,
    });
  };
  await add(
    "log_entries",
    `'${trace}' AS trace_id, '{"user": "u' || i % 3 || '", "n": ' || i || if(i % 2 = 0, ', "ok": true', '') || '}' AS properties FROM range(20) t(i)`,
  );
  await add("log_entries", `'{"hidden": 1}' AS properties FROM range(20) t(i)`, "other");
  await add(
    "measures",
    `if(i = 0, '{"n": "text", "l": [1], "o": {"a": 1}, "z": null, "d": 1.5}', '{}') AS properties FROM range(5) t(i)`,
  );
  await add(
    "spans",
    `'${trace}' AS trace_id, lpad(i::VARCHAR, 16, '0') AS span_id, 's' || i AS name, i * 1000000 - 1 AS duration_ns, make_timestamp_ns(1767225600000000000 + i * 1001000000) AS end_time, '{}' AS properties FROM range(100) t(i)`,
  );
  await add("log_entries", `'{"many": ' || i || '}' AS properties, 'later' AS msg FROM range(1000000, 1120000) t(i)`);
});

afterAll(async () => {
  client.close();
  await t.stop();
});

describe("attribute_keys", () => {
  const day = "'2026-01-01', '2026-01-02'";

  it("counts keys by view and type", async () => {
    const rows = await t.plainRows(`SELECT * FROM attribute_keys(${day})`);
    expect(rows.map((row) => Object.values(row))).toEqual([
      ["log_entries", "n", "int", 20, expect.closeTo(20, -1), "public"],
      ["log_entries", "user", "string", 20, 3, "public"],
      ["log_entries", "ok", "bool", 10, 1, "public"],
      ["measures", "d", "double", 1, 1, "public"],
      ["measures", "l", "array", 1, 1, "public"],
      ["measures", "n", "string", 1, 1, "public"],
      ["measures", "o", "kvlist", 1, 1, "public"],
      ["measures", "z", "empty", 1, expect.anything(), "public"],
    ]);
  });

  it("tells about how many rows there are when it looks at some of them only", async () => {
    const [row] = await t.plainRows("SELECT \"rows\" FROM attribute_keys() WHERE key = 'many'");
    // Six standard deviations of a count that varies as one in 50,000 does.
    expect(row?.["rows"]).toBeGreaterThan(117_500);
    expect(row?.["rows"]).toBeLessThan(122_500);
  });

  it("looks at all rows of a range that has no more than it looks at", async () => {
    const [row] = await t.plainRows(
      `SELECT key, "rows" FROM attribute_keys(make_timestamp_ns(1768225600000000000),
         make_timestamp_ns(1768265600000000000))`,
    );
    expect(row).toEqual({ key: "many", rows: 40_000 });
  });

  it("is the same within the range of the session", async () => {
    const table = await (
      await client.query("SELECT DISTINCT key FROM attribute_keys() ORDER BY key", {
        begin: new Date("2026-01-01T00:00:00Z"),
        end: new Date("2026-01-01T00:00:01Z"),
      })
    ).table();
    expect(table.toArray().map((row) => String(row["key"]))).toEqual(["d", "l", "n", "o", "ok", "user", "z"]);
  });
});

describe("attribute_samples", () => {
  it("has 50,000 rows of a view by chance, each once, which stand for all of them", async () => {
    const [row] = await t.plainRows(
      `SELECT count(*)::INTEGER AS n, count(DISTINCT attr_int(properties, 'many'))::INTEGER AS different,
         sum(weight) AS stand_for, count(DISTINCT weight)::INTEGER AS weights
       FROM attribute_samples WHERE "view" = 'log_entries' AND time > '2026-01-02'`,
    );
    expect(row?.["n"]).toBeGreaterThan(49_000);
    expect(row?.["n"]).toBeLessThan(51_000);
    expect(row).toMatchObject({ different: row?.["n"], weights: 1 });
    expect(Number(row?.["stand_for"])).toBeGreaterThan(117_500);
    expect(Number(row?.["stand_for"])).toBeLessThan(122_500);
  });

  it("has every row of a view with fewer", async () => {
    expect(
      await t.plainRows(
        `SELECT "view", count(*)::INTEGER AS n, min(weight) AS low, max(weight) AS high FROM attribute_samples
         WHERE time < '2026-01-02' GROUP BY "view" ORDER BY "view"`,
      ),
    ).toEqual([
      { view: "log_entries", n: 20, low: 1, high: 1 },
      { view: "measures", n: 5, low: 1, high: 1 },
      { view: "spans", n: 100, low: 1, high: 1 },
    ]);
  });

  it("takes rows of small objects by chance, too", async () => {
    await t.sql`insert into audience_grants (audience, kind, member, created_by) values ('small', 'read', '*', 'test')`;
    for (let i = 0; i < 60; i++) {
      await addPartition(t.lake, t.sql, {
        table: "histograms",
        audience: "small",
        rowsSql: `SELECT make_timestamp_ns(1770000000000000000 + ${i}) AS time, '{"small": ' || i || '}' AS properties FROM range(3) t(i)`,
      });
    }
    await addPartition(t.lake, t.sql, {
      table: "histograms",
      audience: "small",
      rowsSql: `SELECT make_timestamp_ns(1770000000000000100 + i) AS time, '{"large": 1}' AS properties FROM range(100000) t(i)`,
    });
    const rows = await t.plainRows(
      `SELECT properties, count(*)::INTEGER AS n FROM attribute_samples WHERE "view" = 'histograms' GROUP BY ALL ORDER BY ALL`,
    );
    // Half of 100,000, and of the first, second and third rows of 60 objects, within six standard deviations.
    const [large = 0, ...small] = rows.map((row) => Number(row["n"]));
    expect(large).toBeGreaterThan(49_000);
    expect(large).toBeLessThan(51_000);
    expect(small).toHaveLength(3);
    expect(Math.min(...small)).toBeGreaterThan(6);
    expect(Math.max(...small)).toBeLessThan(54);
  });

  it("shows only its own columns, whatever else is read of its rows", async () => {
    const [row] = await t.plainRows(
      `SELECT *, attr(properties, 'user') AS who FROM attribute_samples WHERE time >= '2026-01-01' AND attr(properties, 'user') = 'u1'`,
    );
    expect(Object.keys(row ?? {})).toEqual(["view", "time", "properties", "audience", "weight", "who"]);
  });
});

describe("a prepared statement", () => {
  it.each([
    ["SELECT count(*)::INTEGER AS n FROM trace_tree(?)", 100],
    ["SELECT count(*)::INTEGER AS n FROM trace_logs($1) AS l WHERE l.time IS NOT NULL", 20],
  ])("takes the id of a trace: %s", async (sql, n) => {
    const statement = await client.prepare(sql);
    expect(statement.schema?.fields.map(({ name }) => name)).toEqual(["n"]);
    expect(statement.parameters?.fields.map(({ type }) => String(type))).toEqual(["Utf8"]);
    for (const id of [trace, trace.toUpperCase()]) {
      const table = await (await statement.query({ parameters: [id] })).table();
      expect(table.getChildAt(0)?.get(0)).toBe(n);
    }
    await expect(statement.query({ parameters: ["no id"] })).rejects.toThrow("takes a trace id, 32 hexadecimal digits");
    await expect(statement.query({ parameters: [null] })).rejects.toThrow("takes a trace id, 32 hexadecimal digits");
    await statement.close();
  });

  it("takes them beside other parameters", async () => {
    const statement = await client.prepare(
      "SELECT l.msg, s.name FROM trace_tree($2) AS s, trace_logs($2) AS l WHERE s.name = $1 LIMIT 1",
    );
    expect(statement.schema?.fields.map(({ name }) => name)).toEqual(["msg", "name"]);
    const table = await (await statement.query({ parameters: ["s7", trace] })).table();
    expect(table.toArray().map((row) => String(row["name"]))).toEqual(["s7"]);
    await statement.close();
  });

  it("takes the begin and the end of a range", async () => {
    const statement = await client.prepare(
      "SELECT count(*)::INTEGER AS n FROM attribute_keys(?::TIMESTAMP, ?::TIMESTAMP)",
    );
    const parameters = [new Date("2026-01-01T00:00:00Z"), new Date("2026-01-01T00:00:01Z")];
    const table = await (await statement.query({ parameters })).table();
    expect(table.getChildAt(0)?.get(0)).toBe(8);
    await statement.close();
  });
});

describe("log_pattern", () => {
  it.each([
    ["GET /api/items/123 took 45.7 ms", "GET /api/items/<num> took <num> ms"],
    ['user "bob 1" logged in from 10.0.0.7:443', "user <str> logged in from <num>"],
    ["job 5d41402abc4b2a76b9719d911017c592 finished", "job <id> finished"],
    ["order 01234567-89AB-cdef-0123-456789abcdef failed", "order <id> failed"],
    ["at 2026-01-02T03:04:05.123Z, 2026-01-02 03:04:05,123+01:00", "at <num>, <num> <num>"],
    ["can't open, won't retry 'a b'", "can't open, won't retry <str>"],
    ["a1b2c3d4 feedface1 0x7ffe 12345678 deadbeef cafe 5d", "<id> <id> <id> <num> deadbeef cafe <num>d"],
    ["-5 t=-5 1e9 5e-7 99% x-5", "<num> t=<num> <num> <num> <num>% x-<num>"],
    ['unterminated "5', 'unterminated "<num>'],
    ["é 'ü' 3.", "é <str> <num>."],
    ["", ""],
  ])("of %s is %s", async (msg, pattern) => {
    expect(await t.plainRows(`SELECT log_pattern(${quoteText(msg)}) AS p`)).toEqual([{ p: pattern }]);
  });

  it("of null is null, of other values that of their text, and of a long text that of its begin", async () => {
    expect(
      await t.plainRows("SELECT log_pattern(NULL) AS a, log_pattern(5) AS b, log_pattern(repeat('word ', 1000)) AS c"),
    ).toEqual([{ a: null, b: "<num>", c: "word ".repeat(200) }]);
  });
});

describe("a condition on duration_ms", () => {
  const rowsRead = async (where: string): Promise<number> => {
    const rows = await t.plainRows(`EXPLAIN ANALYZE SELECT count(*) FROM ${where}`);
    const plan = rows.map(({ explain_value: text }) => (typeof text === "string" ? text : "")).join("\n");
    return [...plan.matchAll(/READ_PARQUET \((\d+) rows/gu)].reduce((sum, [, n]) => sum + Number(n), 0);
  };

  // Durations are i ms less a nanosecond, so that all bounds of milliseconds lie just beside one.
  it.each([
    ["spans WHERE duration_ms > 90", 9, 10],
    ["spans WHERE 90.5 <= duration_ms", 9, 9],
    ["spans WHERE duration_ms < 10 AND time > '2000-01-01'", 11, 12],
    ["spans WHERE duration_ms BETWEEN 10 AND 20.0", 10, 11],
    ["otel_spans AS s WHERE s.duration_ms = 89.999999", 1, 1],
    ["spans WHERE duration_ms > 9e1::DOUBLE", 9, 10],
    ["spans WHERE duration_ms > -1.5", 100, 100],
    ["spans WHERE NOT (duration_ms > 90)", 91, 100],
    ["spans WHERE duration_ms > 90 OR name = 's1'", 10, 100],
    ["spans AS a JOIN spans AS b USING (span_id) WHERE a.duration_ms > 90", 9, 110],
  ])("is tested where it reads: %s", async (from, found, read) => {
    expect(await t.plainRows(`SELECT count(*)::INTEGER AS n FROM ${from}`)).toEqual([{ n: found }]);
    const rows = await rowsRead(from);
    expect(rows).toBeGreaterThanOrEqual(found);
    expect(rows).toBeLessThanOrEqual(read);
  });

  it("is left alone where the name is another's", async () => {
    for (const [sql, n] of [
      ["WITH spans AS (SELECT 100 AS duration_ms) SELECT count(*)::INTEGER AS n FROM spans WHERE duration_ms > 90", 1],
      ["SELECT count(*)::INTEGER AS n FROM (SELECT duration_ms FROM spans) WHERE duration_ms > 90", 9],
      ["SELECT count(*)::INTEGER AS n FROM traces WHERE duration_ms > 90", 1],
      ["SELECT count(*)::INTEGER AS n FROM spans AS s(time) WHERE duration_ms > 90", 9],
    ] as const) {
      expect(await t.plainRows(sql)).toEqual([{ n }]);
    }
  });
});
