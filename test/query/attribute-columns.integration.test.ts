/** Attributes that merged objects have as columns: read there, pruned by, and never shown. */
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";

import { quoteText } from "../../src/runtime/text/sql-text.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { destroyColumn } from "../helpers/lake/destroy-column.js";
import { addPartition } from "../helpers/lake/lake.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { noon } from "../helpers/noon.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

beforeEach(async () => {
  await t.sql`delete from lakehouse_partitions`;
});

/** Adds a fresh object. @param properties SQL of the JSON of row `i` */
async function add(properties: string, rows = 100, table: "log_entries" | "spans" = "log_entries"): Promise<void> {
  await addPartition(t.lake, t.sql, {
    table,
    audience: "public",
    rowsSql: `SELECT make_timestamp_ns(${noon} + i) AS time, 'p' AS process_id, ${properties} AS properties${
      table === "log_entries" ? ", 'hello' AS msg, CAST(i % 20 AS INTEGER) AS level" : ""
    } FROM range(${rows}) t(i)`,
  });
}

/** Merges what there is, and says which files that made. */
async function merge(table = "log_entries"): Promise<string[]> {
  const made = await t.caller.rows(
    `SELECT path FROM regenerate_partitions('${table}', '2025-11-21T12:00:00Z', '2025-11-21T13:00:00Z', 3600) WHERE action = 'created'`,
  );
  return made.map((row) => path.join(t.lake.directory, String(row["path"])));
}

const routes = `'{"http.route": "/r' || i % 3 || '", "code": ' || 200 + i % 2 || '}'`;

describe("an attribute of merged rows", () => {
  it.each([
    ["attr(properties, 'http.route')", "/r0", "/r2"],
    ["property_get(properties, 'http.route')", "/r0", "/r2"],
    ["properties ->> 'http.route'", "/r0", "/r2"],
    ["attr_int(properties, 'code')", 200n, 201n],
    ["attr_double(properties, 'code')", 200, 201],
  ])("is read from its column: %s", async (expression, least, most) => {
    await add(routes);
    const [file = ""] = await merge();
    await destroyColumn(file, "properties");
    // The text is really gone.
    await t.caller.failure("SELECT max(length(properties)) FROM log_entries");
    expect(
      await t.caller.rows(
        `SELECT min(${expression}) AS least, max(${expression}) AS most, count(*) AS n FROM log_entries WHERE ${expression} IS NOT NULL`,
      ),
    ).toEqual([{ least, most, n: 100n }]);
  });

  it("gives each of many columns its own name", async () => {
    await add(routes);
    await merge();
    const columns = Array.from({ length: 12 }, (_, i) => `(attr_int(properties, 'code') + ${i})`);
    const [row] = await t.caller.rows(`SELECT ${columns.join(", ")} FROM log_entries ORDER BY time LIMIT 1`);
    expect(Object.values(row ?? {})).toEqual(columns.map((_, i) => BigInt(200 + i)));
    expect(Object.keys(row ?? {})).toHaveLength(columns.length);
  });

  it("that no row has is null without a look at the text", async () => {
    await add(routes);
    const [file = ""] = await merge();
    await destroyColumn(file, "properties");
    expect(await t.caller.rows("SELECT count(attr(properties, 'user.id')) AS n FROM log_entries")).toEqual([{ n: 0n }]);
  });

  it("that is equal to something leaves out row groups by bounds and bloom filters", async () => {
    await add(`'{"user.id": "' || md5('u' || i) || '", "n": "' || i || '"}'`, 1000);
    const [file = ""] = await merge();
    await destroyColumn(file, "properties");
    await destroyColumn(file, "attr.user.id");
    const [ids] = await t.caller.rows("SELECT md5('u7') AS there, md5('x') AS gone");
    const query = (id: unknown) =>
      `SELECT count(*) AS n FROM log_entries WHERE attr(properties, 'user.id') = '${String(id)}'`;
    await t.caller.failure(query(ids?.["there"]));
    expect(await t.caller.rows(query(ids?.["gone"]))).toEqual([{ n: 0n }]);
  });

  it("stays a column when its object is merged again", async () => {
    await add(routes);
    await merge();
    await add(`'{"other": "x"}'`);
    const [file = ""] = await merge();
    const [partition] =
      await t.sql`select attribute_columns as columns, attribute_names as names from lakehouse_partitions`;
    expect(partition).toEqual({ columns: ["code", "http.route", "other"], names: ["code", "http.route", "other"] });
    await destroyColumn(file, "properties");
    expect(
      await t.caller.rows(
        "SELECT count(attr(properties, 'http.route')) AS a, count(attr(properties, 'other')) AS b FROM log_entries",
      ),
    ).toEqual([{ a: 100n, b: 100n }]);
  });

  it("is there for other readers, by its name", async () => {
    await add(routes, 100, "spans");
    const [file = ""] = await merge("spans");
    const instance = await DuckDBInstance.create(":memory:");
    const connection = await instance.connect();
    const reader = await connection.runAndReadAll(
      `SELECT count(*) FILTER ("attr.http.route" = json_extract_string(properties, '/http.route')) FROM '${file}'`,
    );
    expect(reader.getRows()).toEqual([[100n]]);
    connection.closeSync();
    instance.closeSync();
  });
});

it.each([
  ["properties ->> 'code'", "property_get(properties, 'code')"],
  ["attr(properties, 'code')", "property_get(log_entries.properties, 'code')"],
])("stays apart in grouping sets where it is written in two ways: %s and %s", async (one, other) => {
  await add(routes);
  await merge();
  const rows = await t.caller.rows(
    `SELECT ${one} AS a, ${other} AS b, count(*)::INTEGER AS n FROM log_entries GROUP BY GROUPING SETS ((${one}), (${other}))`,
  );
  expect(rows.map(({ a, b, n }) => `${String(a)} ${String(b)} ${String(n)}`).toSorted()).toEqual([
    "200 null 50",
    "201 null 50",
    "null 200 50",
    "null 201 50",
  ]);
});

it("is read from its column in grouping sets where it is always written alike", async () => {
  await add(routes);
  const [file = ""] = await merge();
  await destroyColumn(file, "properties");
  const rows = await t.caller.rows(
    "SELECT attr(properties, 'code') AS code, count(*)::INTEGER AS n FROM log_entries GROUP BY ROLLUP (attr(properties, 'code'), level) HAVING grouping(level) = 1",
  );
  expect(rows.map(({ code, n }) => `${String(code)} ${String(n)}`).toSorted()).toEqual([
    "200 50",
    "201 50",
    "null 100",
  ]);
});

it("is the same in every object, however it is stored, whatever its name and value", async () => {
  const random = seededRandom(7);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const names = [
    "a",
    "A",
    "http.route",
    "user.id",
    "a b",
    "a/b",
    "0",
    "_",
    "k:1",
    "x-y",
    "rare",
    "x@y",
    'q"',
    "é",
    "~1",
  ];
  const values = [
    '"v"',
    '"w"',
    '""',
    "1",
    "-0.0",
    "1e5",
    "0.00005",
    "1e-6",
    "10000000000000000.0",
    "-1.50",
    '{"a":0.00005}',
    "12345678901234567890123",
    "true",
    "null",
    '[1,"b"]',
    '{"a":"n"}',
    '"é\\u0000\\"\\n"',
  ];
  const object = (): string =>
    `{${Array.from({ length: Math.floor(random() * 5) }, () => `${JSON.stringify(pick(names))}:${pick(values)}`).join(",")}}`;
  const addRandom = (rows: number) => {
    const list = Array.from({ length: rows }, object);
    return add(`[${list.map((json) => quoteText(json)).join(", ")}][i + 1]`, rows);
  };
  await addRandom(400);
  await merge();
  await addRandom(100);
  await merge();
  await addRandom(100);
  for (const name of names) {
    // A name that is put together row by row is read from the text.
    const text = `attr(properties, ${quoteText(name)} || left(msg, 0))`;
    const reads: (readonly [string, string])[] = [
      [`attr(properties, ${quoteText(name)})`, text],
      [`attr_int(properties, ${quoteText(name)})`, `attr_int(properties, ${quoteText(name)} || left(msg, 0))`],
      [`attr_bool(properties, ${quoteText(name)})`, `attr_bool(properties, ${quoteText(name)} || left(msg, 0))`],
      ...(/[/~]/u.test(name) ? [] : [[`(properties ->> ${quoteText(name)})`, text] as const]),
    ];
    const counts = reads.map(([read, expected]) => `count(*) FILTER (${read} IS DISTINCT FROM ${expected})`);
    const [row] = await t.caller.rows(`SELECT [${counts.join(", ")}]::VARCHAR AS different FROM log_entries`);
    expect([reads, row]).toEqual([reads, { different: `[${reads.map(() => "0").join(", ")}]` }]);
    const among = (value: string): string => `(SELECT count(*) FROM log_entries WHERE ${value} IN ('v', 'w', '1'))`;
    const same = `SELECT ${among(`attr(properties, ${quoteText(name)})`)} = ${among(text)} AS same`;
    expect([name, await t.caller.rows(same)]).toEqual([name, [{ same: true }]]);
  }
});

describe("columns of attributes are not shown", () => {
  const names = async (sql: string): Promise<string[]> => {
    const [row] = await t.caller.rows(sql);
    return Object.keys(row ?? {});
  };

  beforeEach(async () => {
    await add(routes);
    await merge();
    await add(routes);
  });

  it("by *, nor by a name and *", async () => {
    const plain = await names("SELECT * FROM log_entries LIMIT 1");
    expect(await names("SELECT * FROM log_entries WHERE attr(properties, 'http.route') = '/r1' LIMIT 1")).toEqual(
      plain,
    );
    expect(await names("SELECT l.* FROM log_entries l WHERE attr(l.properties, 'http.route') = '/r1' LIMIT 1")).toEqual(
      plain,
    );
    expect(await names("SELECT * EXCLUDE (msg) FROM log_entries WHERE properties ->> 'code' = '200' LIMIT 1")).toEqual(
      plain.filter((name) => name !== "msg"),
    );
    expect(await names("SELECT COLUMNS('.*') FROM log_entries WHERE properties ->> 'code' = '200' LIMIT 1")).toEqual(
      plain,
    );
    expect(await names("SELECT l FROM log_entries l WHERE properties ->> 'code' = '200' LIMIT 1")).toEqual(["l"]);
  });

  it("by what is wrong with a value", async () => {
    const { message } = await t.caller.failure("SELECT attr(properties, 'http.route')::INTEGER FROM log_entries");
    expect(message).toMatch(/Could not convert string '\/r\d+' to INT32/u);
    expect(message).not.toMatch(/svc_/u);
  });

  it("and columns of the result are called as ever", async () => {
    expect(
      await names(
        `SELECT attr(properties, 'http.route'), count(DISTINCT attr_int(properties, 'code')) + 1, properties->>'code' AS c,
           "PROPERTIES" ->> 'code', upper(msg) FROM log_entries GROUP BY ALL LIMIT 1`,
      ),
    ).toEqual([
      "attr(properties, 'http.route')",
      "(count(DISTINCT attr_int(properties, 'code')) + 1)",
      "c",
      `(PROPERTIES ->> 'code')`,
      "upper(msg)",
    ]);
    expect(
      await names(`SELECT "attr(properties, 'code')" FROM (SELECT attr(properties, 'code') FROM log_entries) LIMIT 1`),
    ).toEqual(["attr(properties, 'code')"]);
    // DuckDB's way with numbers.
    expect(await names("SELECT attr_double(properties, 'code') > 1e3 FROM log_entries LIMIT 1")).toEqual([
      "(attr_double(properties, 'code') > 1000.0)",
    ]);
  });

  it.each([
    [
      "a CTE of a view's name",
      "WITH log_entries AS (SELECT '{\"code\": 1}' AS properties) SELECT attr(properties, 'code') AS v, 1 AS n FROM log_entries",
      [{ v: "1", n: 1 }],
    ],
    [
      "something else called properties",
      "SELECT DISTINCT attr(properties, 'x') AS v FROM (SELECT '{\"x\": 5}' AS properties FROM log_entries)",
      [{ v: "5" }],
    ],
    [
      "a lambda's parameter",
      `SELECT list_transform(['{"code": 7}'], lambda properties: attr(properties, 'code'))[1] AS v FROM log_entries LIMIT 1`,
      [{ v: "7" }],
    ],
    [
      "a table in a query around",
      "SELECT count(*) AS v FROM log_entries l WHERE EXISTS (SELECT 1 FROM spans s WHERE attr(l.properties, 'code') = '1')",
      [{ v: 0n }],
    ],
    [
      "two tables",
      "SELECT count(*) AS v FROM log_entries a JOIN log_entries b ON attr(a.properties, 'http.route') = attr(b.properties, 'code')",
      [{ v: 0n }],
    ],
    [
      "both sides of a union",
      "SELECT sum(n) AS v FROM (SELECT count(*) AS n FROM log_entries WHERE attr(properties, 'code') = '200' UNION ALL SELECT count(*) FROM log_entries WHERE attr(properties, 'http.route') = '/r1')",
      [{ v: 166n }],
    ],
    [
      "a window",
      "SELECT max(r) AS v FROM (SELECT row_number() OVER (PARTITION BY attr(properties, 'http.route') ORDER BY time) AS r FROM log_entries)",
      [{ v: 68n }],
    ],
    [
      "QUALIFY and HAVING",
      "SELECT attr(properties, 'http.route') AS v FROM log_entries GROUP BY 1 HAVING min(attr(properties, 'code')) = '200' QUALIFY row_number() OVER (ORDER BY attr(properties, 'http.route')) = 1",
      [{ v: "/r0" }],
    ],
    [
      "a prepared value",
      "SELECT count(*) AS v FROM log_entries WHERE attr(properties, 'http' || '.route') = '/r0'",
      [{ v: 68n }],
    ],
  ])("in %s", async (_, sql, rows) => {
    expect(await t.caller.rows(sql)).toEqual(rows);
  });

  it("by errors", async () => {
    const error = await t.caller.failure("SELECT svc_attribute, attr(properties, 'code') FROM log_entries");
    expect(error.message).not.toMatch(/svc_attribute_|svc_log/u);
  });
});
