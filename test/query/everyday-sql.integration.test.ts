/** SQL as people and tools write it, through a server, over rows of two audiences. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";

const traceId = "5b8aa5a2d2c872e8321cf37308d69df2";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  for (const audience of ["public", "secret"]) {
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience,
      rowsSql: `SELECT make_timestamp_ns(${noon} + i * 1000000000 + 7) AS time, '${audience} ' || i AS msg, 'svc' AS service_name, if(i % 2 = 0, 'a', 'b') AS target, CAST(1 + i % 6 AS INTEGER) AS level, if(i < 3, '${traceId}', NULL) AS trace_id, '{}' AS properties FROM range(60) t(i)`,
    });
  }
});

afterAll(async () => {
  await t.stop();
});

/** The only value of a query's only row. */
async function value(sql: string): Promise<unknown> {
  const rows = await t.plainRows(sql);
  expect(rows.length).toBe(1);
  return Object.values(rows[0] ?? {})[0];
}

describe("a level", () => {
  it.each([
    ["level = 'error'", 10],
    ["'ERROR' = level", 10],
    ["level <= 'warning'", 30],
    ["l.level IN ('fatal', 'error')", 20],
    ["level BETWEEN 'fatal' AND 'warn'", 30],
    ["level <> 'trace' AND level NOT IN ('debug', 'info')", 30],
    ["level = '2'", 10],
    ["CASE level WHEN 'error' THEN true ELSE false END", 10],
  ])("is compared by its name: %s", async (condition, count) => {
    expect(await value(`SELECT count(*) FROM log_entries l WHERE ${condition}`)).toBe(count);
  });

  it("of another name than the six is refused with their names", async () => {
    await expect(t.plainRows("SELECT 1 FROM log_entries WHERE level = 'eror'")).rejects.toThrow(
      /1 fatal, 2 error, 3 warn, 4 info, 5 debug, 6 trace.*eror/u,
    );
  });

  it("that the query itself names is compared as it is", async () => {
    expect(
      await value(
        "WITH named AS (SELECT if(level = 2, 'error', 'other') AS level FROM log_entries) SELECT count(*) FROM named WHERE level = 'error'",
      ),
    ).toBe(10);
    expect(await value("SELECT count(*) FROM (SELECT target FROM log_entries) AS named(level) WHERE level = 'a'")).toBe(
      30,
    );
  });
});

describe("an id", () => {
  const upper = traceId.toUpperCase();

  it.each([`trace_id = '${upper}'`, `'${upper}' = l.trace_id`, `trace_id IN ('${upper}', 'x')`])(
    "in upper case finds its rows: %s",
    async (condition) => {
      expect(await value(`SELECT count(*) FROM log_entries l WHERE ${condition}`)).toBe(3);
    },
  );

  it("that the query itself made is compared as it is", async () => {
    expect(
      await value(
        `SELECT count(*) FROM (SELECT upper(trace_id) AS trace_id FROM log_entries) WHERE trace_id = '${upper}'`,
      ),
    ).toBe(3);
  });
});

describe("a field of a struct that is called like a column", () => {
  const upper = traceId.toUpperCase();
  const fields = `from_json('{"level":"info","trace_id":"${upper}","kind_name":"Gold"}', '{"level":"VARCHAR","trace_id":"VARCHAR","kind_name":"VARCHAR"}')`;
  const structs = `(SELECT ${fields} AS p FROM log_entries)`;

  it.each([
    [`FROM ${structs} WHERE p.level = 'info' AND p.kind_name = 'Gold'`, 60],
    [`FROM ${structs} WHERE p.trace_id = '${upper}' AND p.level <> 'High'`, 60],
    [`FROM ${structs} AS s WHERE s.p.trace_id IN ('${upper}')`, 60],
    [`FROM (SELECT unnest(${fields}) FROM log_entries) WHERE trace_id = '${upper}' AND level = 'info'`, 60],
    [`FROM (SELECT p.* FROM ${structs}) AS s WHERE s.trace_id = '${upper}'`, 60],
    [`FROM log_entries AS l WHERE len(list_filter([${fields}], x -> x.trace_id = '${upper}')) = 1`, 60],
    [`FROM log_entries WHERE len(list_filter(['info'], level -> level = 'info')) = 1`, 60],
    [`FROM (SELECT p.level, s.p.trace_id FROM ${structs} AS s) WHERE trace_id = '${upper}' AND level = 'info'`, 60],
    [`FROM (SELECT l.level, l.trace_id FROM log_entries AS l) WHERE trace_id = '${upper}' AND level = 'fatal'`, 1],
    [`FROM (SELECT l.* FROM log_entries AS l) AS s WHERE s.trace_id = '${upper}' AND level = 'fatal'`, 1],
  ])("is compared as it is: %s", async (from, count) => {
    expect(await value(`SELECT count(*) ${from}`)).toBe(count);
  });
});

describe("a text with an offset", () => {
  it.each([
    ["CAST('2025-11-21T17:30:00+05:30' AS TIMESTAMP)", "2025-11-21 12:00:00"],
    ["TIMESTAMP '2025-11-21 04:00:00.5-08'", "2025-11-21 12:00:00.5"],
    ["TRY_CAST('2025-11-21 13:00:00+01' AS DATETIME)", "2025-11-21 12:00:00"],
    ["'2025-11-21T12:00:00+00:00'::TIMESTAMP WITHOUT TIME ZONE", "2025-11-21 12:00:00"],
    ["'2025-11-21T12:00:00Z'::TIMESTAMP", "2025-11-21 12:00:00"],
    ["'2025-11-21'::TIMESTAMP", "2025-11-21 00:00:00"],
    ["'2025-11-21 12:00'::TIMESTAMP", "2025-11-21 12:00:00"],
    ["'2025-11-21T17:30:00+05:30'::TIMESTAMP_NS", "2025-11-21 12:00:00"],
    ["TRY_CAST('2025-11-21 25:00:00+01' AS TIMESTAMP)", null],
  ])("is the instant that it names: %s", async (sql, expected) => {
    expect(await value(`SELECT CAST(${sql} AS VARCHAR)`)).toBe(expected);
  });

  it("that is no time is said to be none", async () => {
    await expect(t.plainRows("SELECT CAST('2025-11-21 25:00:00+01' AS TIMESTAMP)")).rejects.toThrow(/25:00:00\+01/u);
  });

  it("compares with the times of rows", async () => {
    const from = "cast('2025-11-21T17:30:30+05:30' as timestamp)";
    expect(await value(`SELECT count(*) FROM log_entries WHERE time >= ${from}`)).toBe(30);
    expect(await value("SELECT count(*) FROM log_entries WHERE time >= '2025-11-21T17:30:30+05:30'")).toBe(30);
  });
});

describe("a time with a zone", () => {
  it.each([
    ["time >= TIMESTAMPTZ '2025-11-21 13:00:30+01'", 30],
    ["'2025-11-21T12:00:30Z'::TIMESTAMPTZ <= l.time", 30],
    ["time < '2025-11-21T12:00:30Z'::TIMESTAMP WITH TIME ZONE + INTERVAL 10 SECOND", 40],
    ["time < TIMESTAMP '2025-11-21 13:00:30' AT TIME ZONE 'Europe/Paris'", 30],
    ["time BETWEEN TIMESTAMPTZ '2025-11-21 12:00:10Z' AND TIMESTAMPTZ '2025-11-21 12:00:20Z'", 10],
    ["time < transaction_timestamp()", 60],
    ["time < now() AND time < current_timestamp", 60],
    ["time < (SELECT max(time)::TIMESTAMPTZ FROM log_entries)", 59],
  ])("is compared with time: %s", async (condition, count) => {
    expect(await value(`SELECT count(*) FROM log_entries l WHERE ${condition}`)).toBe(count);
  });
});

describe("buckets of time", () => {
  it.each([
    "date_bin(INTERVAL '1 minute', time)",
    "date_bin(INTERVAL '1 minute', time, TIMESTAMP '1970-01-01T00:00:00Z')",
    "date_bin('1 minute', time)",
    "time_bucket(INTERVAL '1 minute', time)",
    "time_bucket('1 minute', time, TIMESTAMP '2000-01-01')",
    "time_bucket('1 minute', time, INTERVAL 0 SECOND)",
    "date_trunc('minute', time)",
    "datetrunc('minute', time)",
    "date_trunc('minute', max(time) OVER ())",
    "date_trunc('hour', date_trunc('minute', time))",
  ])("of a TIMESTAMP_NS are of its type: %s", async (bucket) => {
    expect(
      await t.plainRows(
        `SELECT DISTINCT typeof(b) AS type, epoch_ns(b) = ${noon} AS begins FROM (SELECT ${bucket} AS b FROM log_entries)`,
      ),
    ).toEqual([{ type: "TIMESTAMP_NS", begins: true }]);
  });

  it("of an aggregate are of its type", async () => {
    expect(
      await t.plainRows(
        "SELECT typeof(date_trunc('hour', max(time))) AS a, typeof(date_bin('1 hour', min(time))) AS b, max(time) AS m, typeof(time_bucket('1 hour', m)) AS c FROM log_entries HAVING date_trunc('hour', max(time)) > '2025-01-01'",
      ),
    ).toMatchObject([{ a: "TIMESTAMP_NS", b: "TIMESTAMP_NS", c: "TIMESTAMP_NS" }]);
  });

  it("of other types are as DuckDB has them", async () => {
    expect(
      await t.plainRows(
        `SELECT typeof(date_trunc('day', TIMESTAMP '2025-01-02 03:04:05')) AS a, typeof(date_trunc('day', DATE '2025-01-02')) AS b,
           typeof(date_trunc('day', INTERVAL 30 HOUR)) AS c, typeof(date_trunc('day', TIMESTAMPTZ '2025-01-02 03:04:05Z')) AS d,
           typeof(time_bucket('1 day', DATE '2025-01-02')) AS e, typeof(date_bin('1 day', TIMESTAMP '2025-01-02')) AS f`,
      ),
    ).toEqual([
      {
        a: "TIMESTAMP",
        b: "TIMESTAMP",
        c: "INTERVAL",
        d: "TIMESTAMP WITH TIME ZONE",
        e: "DATE",
        f: "TIMESTAMP",
      },
    ]);
  });

  it("by date_bin begin at the origin, which is 1970 unless it is given", async () => {
    expect(
      await t.plainRows(
        `SELECT CAST(date_bin('7 days', TIMESTAMP '2025-11-21') AS VARCHAR) AS a,
           CAST(date_bin('7 days', TIMESTAMP '2025-11-21', '2025-11-18') AS VARCHAR) AS b`,
      ),
    ).toEqual([{ a: "2025-11-20 00:00:00", b: "2025-11-18 00:00:00" }]);
  });
});

describe("PIVOT", () => {
  it("makes columns of listed values, of the caller's rows alone", async () => {
    const wanted = [
      { target: "a", "1": 10, "2": 0 },
      { target: "b", "1": 0, "2": 10 },
    ];
    for (const sql of [
      "PIVOT log_entries ON level IN (1, 2) USING count(*) GROUP BY target ORDER BY target",
      "SELECT * FROM (SELECT level, target FROM telemetry.main.log_entries) PIVOT (count(*) FOR level IN (1, 2) GROUP BY target) ORDER BY target",
      "WITH p AS (PIVOT log_entries ON level IN (1, 2) USING count(*) GROUP BY target) FROM p ORDER BY target",
    ]) {
      expect(await t.plainRows(sql)).toEqual(wanted);
    }
  });

  it("takes several columns and aggregates, in a query that is rewritten, too", async () => {
    expect(
      await t.plainRows(
        "SELECT * FROM (SELECT level, target, service_name FROM main.log_entries) PIVOT (count(*) AS n, max(service_name) AS s FOR level IN (1, 2 AS two) target IN ('a', 'b'))",
      ),
    ).toEqual([
      {
        "1_a_n": 10,
        "1_a_s": "svc",
        "1_b_n": 0,
        "1_b_s": null,
        two_a_n: 0,
        two_a_s: null,
        two_b_n: 10,
        two_b_s: "svc",
      },
    ]);
  });

  it("without a list says how to write one", async () => {
    for (const sql of [
      "PIVOT log_entries ON level USING count(*)",
      "SELECT * FROM log_entries PIVOT (count(*) FOR level IN some_type)",
    ]) {
      await expect(t.plainRows(sql)).rejects.toThrow(/as a list of constants: PIVOT/u);
    }
  });

  it("and UNPIVOT turn around what they are given", async () => {
    expect(
      await t.plainRows(
        "UNPIVOT (SELECT count(*) AS entries, count(trace_id) AS traced FROM main.log_entries) ON entries, traced INTO NAME name VALUE n",
      ),
    ).toEqual([
      { name: "entries", n: 60 },
      { name: "traced", n: 3 },
    ]);
    expect(await t.plainRows("SELECT * FROM (SELECT 1 AS a, 2 AS b) UNPIVOT (n FOR name IN (a, b))")).toEqual([
      { name: "a", n: 1 },
      { name: "b", n: 2 },
    ]);
  });
});

describe("names that tools ask for", () => {
  it("information_schema lists the service's own views and their columns", async () => {
    const shown = (await t.plainRows("SHOW TABLES")).map(({ name }) => name);
    expect(await t.plainRows("SELECT * FROM information_schema.tables ORDER BY table_name")).toEqual(
      shown.map((name) => ({
        table_catalog: "telemetry",
        table_schema: "main",
        table_name: name,
        table_type: "VIEW",
      })),
    );
    const columns = await t.plainRows(
      "SELECT column_name, data_type FROM telemetry.information_schema.columns WHERE table_name = 'log_entries' ORDER BY ordinal_position",
    );
    expect(columns).toEqual(
      (await t.plainRows("DESCRIBE log_entries")).map(({ column_name, column_type }) => ({
        column_name,
        data_type: column_type,
      })),
    );
    await expect(t.plainRows("SELECT * FROM information_schema.schemata")).rejects.toThrow(/tables and columns/u);
  });

  it("SHOW COLUMNS FROM is DESCRIBE", async () => {
    const described = await t.plainRows("DESCRIBE spans");
    expect(await t.plainRows("SHOW COLUMNS FROM spans")).toEqual(described);
    expect(await t.plainRows("-- columns\nshow columns in main.spans")).toEqual(described);
  });

  it("the catalog and the schema are those of the metadata", async () => {
    expect(await t.plainRows("SELECT current_database() AS a, current_catalog AS b, current_schema() AS c")).toEqual([
      { a: "telemetry", b: "telemetry", c: "main" },
    ]);
  });

  it("a CTE may be called anything", async () => {
    expect(
      await t.plainRows(
        'WITH "app.logs" AS (SELECT level FROM log_entries), "/etc/passwd" AS (SELECT * FROM "App.Logs") SELECT count("/etc/passwd".level) AS n FROM "/etc/passwd"',
      ),
    ).toEqual([{ n: 60 }]);
    expect(
      await t.plainRows(
        'WITH RECURSIVE "n.1" AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM "n.1" WHERE "n.1".i < 3) SELECT sum(i)::INTEGER AS n FROM "n.1"',
      ),
    ).toEqual([{ n: 6 }]);
  });
});

describe("an error of syntax", () => {
  it("says the line and points at the place", async () => {
    const message = async (sql: string): Promise<string> =>
      t.plainRows(sql).then(
        () => "",
        (error: unknown) => String(error),
      );
    expect(await message("SELECT msg\nFROM log_entries\nWHERE = 3")).toContain(
      'Parser Error: syntax error at or near "="\n\nLINE 3: WHERE = 3\n              ^',
    );
    expect(await message("EXPLAIN SELECT 'h\u00e9\u{1f600}' +, 1")).toContain(
      "LINE 1:         SELECT 'h\u00e9\u{1f600}' +, 1\n                              ^",
    );
    const far = await message(`SELECT '${"x".repeat(100)}', +, '${"y".repeat(100)}'`);
    const [line = "", caret = ""] = far.replace(/"$/u, "").split("\n").slice(-2);
    expect(line).toMatch(/^LINE 1: \.\.\.x{30,40}', \+, 'y{30,40}\.\.\.$/u);
    expect(line[caret.indexOf("^")]).toBe(",");
  });
});

describe("a number", () => {
  it.each([
    ["0.1e0 + 0.2e0 = 0.3e0", false],
    ["typeof(1e3 * count(*))", "DOUBLE"],
    ["typeof(any_value(1.))", "DECIMAL(1,0)"],
  ])("is of the same type where the query is rewritten: %s", async (expression, expected) => {
    const sql = `SELECT ${expression} FROM log_entries`;
    const [[name] = []] = (await t.plainRows(sql)).map((row) => Object.keys(row));
    for (const where of ["", " WHERE time > '2020-01-01'", " WHERE level < 'trace'"]) {
      expect(await t.plainRows(`${sql}${where} LIMIT 1`)).toEqual([{ [String(name)]: expected }]);
    }
  });

  it.each(["1e400", "-1e400"])("beyond DOUBLE is refused: %s", async (number) => {
    await expect(t.plainRows(`SELECT ${number}`)).rejects.toThrow(/INVALID_ARGUMENT.*A number of the query is beyond/u);
    expect(await value("SELECT 'Infinity, ' || max(msg) FROM log_entries WHERE time > '2020-01-01'")).toBe(
      "Infinity, public 9",
    );
  });
});
