import { beforeAll, describe, expect, it } from "vitest";

import { isAllowedFunction } from "../../src/query/gate/allowed-functions.js";
import { checkText, maxTextLength, splitText } from "../../src/query/gate/query-text.js";
import { gateText, inspect, type Inspection } from "../../src/query/backend/inspect.js";
import { viewNames } from "../../src/query/sql/views.js";
import { refusedFunctions } from "../helpers/query/refused-functions.js";
import { openTestEngine, type TestEngine } from "../helpers/query/query-engine.js";
import { noon } from "../helpers/noon.js";

let engine: TestEngine;

beforeAll(async () => {
  engine = await openTestEngine();
  return () => engine.close();
});

function inspected(sql: string): Promise<Inspection> {
  return inspect(engine, sql);
}

describe("what is let through", () => {
  it.each([
    "SELECT 1",
    "VALUES (1), (2)",
    "FROM log_entries",
    "TABLE spans",
    "select count(*) from LOG_ENTRIES",
    'SELECT * FROM "log_entries" AS "weird; name"',
    "WITH log_entries AS (SELECT * FROM log_entries WHERE level <= 2) SELECT * FROM log_entries",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n",
    "WITH a AS (SELECT 1 x), b AS (SELECT x FROM a) SELECT * FROM b",
    "SELECT * FROM (SELECT trace_id FROM spans) s JOIN log_entries USING (trace_id)",
    "SELECT (SELECT max(time) FROM spans), EXISTS (SELECT 1 FROM measures)",
    "SELECT name, quantile_cont(value, 0.9) OVER (PARTITION BY name) FROM measures QUALIFY row_number() OVER () < 3",
    "SELECT s.name, e.name FROM spans s, unnest(s.events) AS t(e)",
    "SELECT level, count(*) FROM log_entries GROUP BY ROLLUP (level) HAVING count(*) > 1 ORDER BY ALL LIMIT 10 OFFSET 1",
    "SELECT attr(properties, 'http.route'), attr_int(properties, 'n'), property_get(properties, 'http.route'), properties->>'$.a' FROM spans WHERE time > now() - INTERVAL 1 HOUR",
    "SELECT list_transform([1, 2], lambda x: x + 1), [y * 2 FOR y IN [1, 2]], {'a': 1}.a, MAP {'k': 1}['k']",
    "SELECT CASE WHEN level < 3 THEN 'bad' ELSE 'good' END, level BETWEEN 1 AND 2, msg LIKE '%x%', msg ~ 'y', level IN (1, 2), TRY_CAST(msg AS INTEGER) FROM log_entries",
    "SELECT * EXCLUDE (properties) REPLACE (upper(msg) AS msg), COLUMNS('sp.*') FROM log_entries",
    "(SELECT 1 AS a UNION BY NAME SELECT 2 AS b) UNION ALL SELECT 3, 4 EXCEPT SELECT 5, 6",
    "SELECT * FROM range(3), generate_series(1, 2)",
    "SELECT time FROM time_buckets(now() - INTERVAL 1 HOUR, now(), '1 minute')",
    "SELECT key, value FROM log_entries, json_each(properties)",
    "SELECT * FROM spans ASOF JOIN measures ON spans.time >= measures.time",
    "SELECT * FROM log_entries TABLESAMPLE 10%",
    "SELECT * FROM view_instance('log_entries', '01234567-89AB-cdef-0123-456789abcdef') v WHERE v.level = 1",
    "SELECT * FROM list_partitions() p WHERE p.level = 0",
    "SELECT 9223372036854775807, 170141183460469231731687303715884105727, * FROM list_view_sets()",
    'SELECT l.msg FROM "telemetry"."main"."log_entries" l JOIN main.spans USING (trace_id)',
    "DESCRIBE spans",
    "DESCRIBE SELECT 1 AS a",
    "SUMMARIZE measures",
    "SHOW TABLES",
    "EXPLAIN SELECT * FROM log_entries",
    "  -- first\n /* second */ explain analyze select 1",
    "SELECT date_trunc('minute', time), time_bucket(INTERVAL '5 minutes', time), epoch_ns(time), time AT TIME ZONE 'UTC' FROM spans",
    "SELECT 'a; DROP TABLE x', 1;",
  ])("%s", async (sql) => {
    expect((await inspected(sql)).fields.length).toBeGreaterThan(0);
  });

  it("reads every view", async () => {
    for (const view of viewNames) {
      const { scans, fields } = await inspected(`SELECT * FROM ${view}`);
      expect(scans.map((scan) => scan.view)).toEqual([view]);
      expect(fields.length).toBeGreaterThan(4);
    }
  });

  it("keeps the digits of numbers when the tree goes back to SQL", async () => {
    const { sql } = await gateText(
      engine,
      "SELECT 9007199254740993, 170141183460469231731687303715884105727, 0.1, '12345678901234567890' FROM list_view_sets()",
    );
    expect(sql).toContain("9007199254740993");
    expect(sql).toContain("170141183460469231731687303715884105727");
    expect(sql).toContain("'12345678901234567890'");
  });
});

describe("what is refused", () => {
  it.each([
    ["SELECT * FROM 'data.parquet'", /no table/u],
    ['SELECT * FROM "/etc/passwd"', /no table/u],
    ["SELECT * FROM read_parquet('x')", /read_parquet/u],
    ["SELECT * FROM READ_CSV('/etc/passwd')", /read_csv/u],
    ["SELECT * FROM main.read_text('/etc/passwd')", /read_text/u],
    ["SELECT * FROM system.main.glob('*')", /glob/u],
    ["SELECT * FROM (SELECT * FROM (FROM read_blob('x')))", /read_blob/u],
    ["WITH a AS MATERIALIZED (SELECT * FROM parquet_metadata('x')) SELECT 1", /parquet_metadata/u],
    ["SELECT 1 WHERE EXISTS (SELECT * FROM sniff_csv('x'))", /sniff_csv/u],
    ["SELECT 1 ORDER BY (SELECT count(*) FROM glob('*'))", /glob/u],
    ["SELECT 1 LIMIT (SELECT count(*) FROM glob('*'))", /glob/u],
    ["SELECT * FROM log_entries, LATERAL (SELECT * FROM read_text(msg))", /read_text/u],
    ["DESCRIBE SELECT * FROM read_text('x')", /read_text/u],
    ["EXPLAIN SELECT * FROM read_text('x')", /read_text/u],
    ["VALUES ((SELECT content FROM read_text('x')))", /read_text/u],
    ["SELECT * FROM query('SELECT 1')", /query/u],
    ["SELECT * FROM query_table('x')", /query_table/u],
    ["SELECT * FROM duckdb_settings()", /duckdb_settings/u],
    ["SELECT * FROM duckdb_tables", /no table/u],
    ["SELECT * FROM information_schema.schemata", /tables and columns/u],
    ["SELECT * FROM memory.information_schema.tables", /tables and columns/u],
    ["SELECT * FROM svc_information_schema_tables", /no table/u],
    ["SELECT * FROM pg_catalog.pg_class", /without a schema/u],
    ["SELECT * FROM sqlite_master", /no table/u],
    ["SELECT * FROM main.svc_list_partitions", /There is no table/u],
    ["SELECT * FROM telemetry.log_entries", /without a schema/u],
    ["SELECT * FROM temp.main.log_entries", /without a schema/u],
    ["WITH spans AS (SELECT 1) SELECT * FROM main.spans", /rename the CTE/u],
    ["SELECT * FROM temp.svc_list_partitions", /without a schema/u],
    ["SELECT * FROM svc_list_partitions", /no table/u],
    ["SELECT current_setting('threads')", /current_setting/u],
    ["SELECT getvariable('x')", /getvariable/u],
    ["SELECT getenv('HOME')", /getenv/u],
    ["SELECT main.getenv('HOME')", /getenv/u],
    ["SELECT system.main.lower('A')", /bare name/u],
    ["SELECT [getenv(x) FOR x IN ['HOME']]", /getenv/u],
    ["SELECT list_transform([1], lambda x: sleep_ms(x))", /sleep_ms/u],
    ["SELECT count(*) FILTER (nextval('s') > 1)", /nextval/u],
    ["SELECT json_serialize_plan('SELECT 1')", /json_serialize_plan/u],
    ["SELECT * FROM json_execute_serialized_sql('x')", /json_execute_serialized_sql/u],
    ["SELECT * REPLACE (current_query() AS msg) FROM log_entries", /current_query/u],
    ["SELECT $1", /Parameters/u],
    ["SELECT ?", /Parameters/u],
    ["SELECT 1; SELECT 2", /Several statements/u],
    ["SELECT 1; DROP TABLE x", /not allowed/u],
    ["COPY (SELECT 1) TO '/tmp/x'", /not allowed/u],
    ["ATTACH ':memory:' AS x", /not allowed/u],
    ["SET threads = 4", /not allowed/u],
    ["PRAGMA version", /not allowed/u],
    ["CALL pragma_version()", /not allowed/u],
    ["INSTALL httpfs", /not allowed/u],
    ["CREATE TABLE x (i INTEGER)", /not allowed/u],
    ["EXPLAIN COPY (SELECT 1) TO '/tmp/x'", /not allowed/u],
    ["EXPLAIN EXPLAIN SELECT 1", /not allowed/u],
    ["SHOW DATABASES", /SHOW TABLES/u],
    ["SHOW ALL TABLES", /SHOW TABLES/u],
    ["DESCRIBE nothing", /no table/u],
    ["PIVOT log_entries ON level", /list of constants/u],
    ["PIVOT nothing ON level IN (1) USING count(*)", /no table/u],
    ["PIVOT 'x.parquet' ON a IN (1) USING count(*)", /no table/u],
    ["SELECT * FROM read_text('x') PIVOT (count(*) FOR size IN (1))", /read_text/u],
    ["PIVOT log_entries ON level IN (1) USING getenv('HOME')", /getenv/u],
    ["PIVOT log_entries ON getenv(msg) IN ('x') USING count(*)", /getenv/u],
    ["FROM (PIVOT (FROM glob('*')) ON file IN ('x') USING count(*))", /glob/u],
    ["UNPIVOT (SELECT * FROM read_text('x')) ON COLUMNS(*)", /read_text/u],
    ["PIVOT log_entries ON COLUMNS(c -> getenv(c) = '') IN (1) USING count(*)", /getenv|constant|list/u],
    ["SELECT list_aggregate([1], 'write_log')", /write_log/u],
    ["SELECT array_aggr([1], 'finali' || 'ze')", /written out/u],
    ["SELECT aggregate([[1]], msg) FROM log_entries", /written out/u],
    [
      "SELECT * FROM view_instance('query_log', '01234567-89ab-cdef-0123-456789abcdef')",
      /view_instance .* The views are blocks, /u,
    ],
    ["SELECT * FROM view_instance('log_entries', process := '01234567-89ab-cdef-0123-456789abcdef')", /by place/u],
    ["-- nothing", /no statement/u],
    [";", /no statement/u],
    ["SELECT * FROM view_instance('log_entries', 'x')", /view_instance/u],
    ["SELECT * FROM view_instance(msg, '01234567-89ab-cdef-0123-456789abcdef')", /view_instance/u],
    ["SELECT * FROM list_partitions(1)", /no arguments/u],
    ["SELECT * FROM retire_partition_by_file('x')", /retire_partition_by_file/u],
    ["SELEC 1", /syntax error/u],
    ["", /empty/u],
    ["   ", /empty/u],
    ["SELECT 1 \u0000", /NUL/u],
  ])("%s", async (sql, message) => {
    await expect(inspected(sql)).rejects.toThrow(message);
    await expect(inspected(sql)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });

  it("a name that a CTE gives is not known where the CTE is out of scope", async () => {
    for (const sql of [
      "SELECT * FROM (WITH settings AS (SELECT 1) SELECT 1), settings",
      "WITH settings AS (SELECT * FROM settings) SELECT 1",
      "WITH a AS (SELECT * FROM views), views AS (SELECT 1) SELECT 1",
      "WITH RECURSIVE views AS (SELECT view_name FROM views UNION ALL SELECT view_name FROM views) SELECT 1",
    ]) {
      await expect(inspected(sql)).rejects.toThrow(/no table/u);
    }
  });

  it("a name that folds to a CTE's in Unicode but not in DuckDB is not the CTE's", async () => {
    // KELVIN SIGN and LATIN CAPITAL LETTER I WITH DOT ABOVE, whose lower cases begin with k and i.
    for (const [cte, table] of [
      ["tic\u212aets", "tickets"],
      ["TIC\u212aETS", "tickets"],
      ["\u0130tems", "i\u0307tems"],
    ]) {
      await expect(inspected(`WITH "${cte}" AS (SELECT 1) SELECT * FROM "${table}"`)).rejects.toThrow(/no table/u);
    }
    await inspected('WITH "\u00c4b" AS (SELECT 1 AS x), "B" AS (SELECT 2) SELECT * FROM "\u00c4B", b');
  });

  it.each([
    "/lake/log_entries/x.parquet",
    "x.csv",
    "*",
    "duckdb_views",
    "PRAGMA_database_list",
    "sqlite_master",
    "pg_tables",
    "http://x",
    "svc_show_tables",
  ])("%s, unless it is a CTE, which has another name when it runs", async (name) => {
    await expect(inspected(`SELECT * FROM "${name}"`)).rejects.toThrow(/no table/u);
    const { executable } = await inspected(`WITH "${name}" AS (SELECT 1 AS a) SELECT "${name}".a FROM "${name}"`);
    expect(executable.sql).toContain("FROM svc_cte_1 AS");
    await expect(inspected(`SELECT * FROM (WITH "${name}" AS (SELECT 1) SELECT 1), "${name}"`)).rejects.toThrow(
      /no table/u,
    );
  });

  it.each([
    `SELECT E'\\'', ${"(".repeat(300)}1${")".repeat(300)}, E'\\''`,
    `SELECT $a1$'$a1$, ${"(".repeat(300)}1${")".repeat(300)}, ''`,
  ])("brackets behind what looks like the end of a text: %s", async (sql) => {
    await expect(inspected(sql)).rejects.toThrow(/deeper/u);
  });

  it.each([
    "SELECT properties->'a'->'b', (properties->'a')->>'b', properties->'$.a'->0->'x' FROM log_entries",
    `SELECT from_json(properties, '{"variant": "INTEGER"}').variant FROM log_entries`,
    "SELECT list_filter(['{}'], x -> (x->'a') IS NOT NULL), [x * 2 FOR x IN [1, 2] IF x > 1]",
    "SELECT dropped_attributes_count / 1e6, 1e300, -1.5e-7 FROM main.log_entries WHERE msg ILIKE '%a%b%'",
    "SELECT * FROM main.log_entries USING SAMPLE 10%",
    "SELECT json_extract_string(properties, '$.' || target), json_extract(properties, ['$.a', '$.b']), properties->>target FROM log_entries",
    "SELECT list_transform([[1]], lambda x: list_transform(x, lambda y: y + 1)), json_structure('{}'), [1]::VARIANT::VARCHAR",
    "SELECT regexp_replace(msg, target, msg, 'g'), printf('%' || level || 'd', level) FROM log_entries",
    "SELECT l, unnest(e.events) FROM log_entries l JOIN spans e USING (trace_id)",
  ])("no everyday SQL: %s", async (sql) => {
    await expect(inspected(sql)).resolves.toBeDefined();
  });

  it("no long lists", async () => {
    const constants = Array.from({ length: 20_000 }, (_, i) => `'${i}'`).join(", ");
    const columns = Array.from({ length: 200 }, (_, i) => `level + ${i} AS c${i}, c${i} * 2 AS d${i}`).join(", ");
    for (const list of [`msg IN (${constants})`, columns]) {
      await expect(inspected(`SELECT ${list} FROM log_entries`)).resolves.toBeDefined();
    }
  });

  it("text, brackets and conditions beyond the bounds", () => {
    expect(() => checkText(`SELECT '${"x".repeat(maxTextLength)}'`)).toThrow(/longer than/u);
    expect(() => checkText(`SELECT ${"(".repeat(1000)}1${")".repeat(1000)}`)).toThrow(/deeper/u);
    expect(() => checkText(`SELECT 1 WHERE 1${" OR 1".repeat(20_000)}`)).toThrow(/AND and OR/u);
    expect(() => checkText(`SELECT '${"(".repeat(1000)}', "${"(".repeat(1000)}" -- ${"(".repeat(1000)}`)).not.toThrow();
  });

  it.each([
    ["additions", `SELECT 1${"+1".repeat(100_000)}`],
    ["casts", `SELECT 1${"::int".repeat(100_000)}`],
    ["negations", `SELECT ${"NOT ".repeat(100_000)}true`],
    ["unions", `SELECT 1${" UNION ALL SELECT 1".repeat(20_000)}`],
    ["joins", `SELECT 1 FROM spans${", spans".repeat(50_000)}`],
  ])("a hundred thousand %s", async (_name, sql) => {
    await expect(inspected(sql)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });
});

describe("the list of functions", () => {
  it("decides on every function that this DuckDB has", async () => {
    const rows = await engine.rows(
      "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'macro')",
    );
    const undecided = rows
      .map(([name]) => String(name))
      .filter((name) => isAllowedFunction(name) === refusedFunctions.has(name.toLowerCase()));
    expect(undecided).toEqual([]);
  });
});

describe("bounds of a scan", () => {
  const day = 86_400_000_000_000n;
  const scan = async (sql: string) => (await inspected(sql)).scans[0];

  it.each([
    ["time >= '2025-11-21T12:00:00Z'", noon, null],
    ["time < TIMESTAMP '2025-11-21 12:00:00'", null, noon],
    ["TIMESTAMP '2025-11-21 12:00:00' < time AND level = 2", noon, null],
    ["time BETWEEN '2025-11-21T12:00:00Z' AND TIMESTAMP '2025-11-21 12:00:00' + INTERVAL 1 DAY", noon, noon + day],
    ["time = make_timestamp_ns(1763726400000000000)", noon, noon],
    ["time >= date_bin('1 hour', TIMESTAMP '2025-11-21 12:34:56', TIMESTAMP '1970-01-01')", noon, null],
    ["time < time_bucket('1 day', TIMESTAMP '2025-11-21 12:34:56') + INTERVAL 12 HOUR", null, noon],
    ["time >= '2025-11-21T12:00:00Z' OR level = 2", null, null],
    ["NOT (time >= '2025-11-21T12:00:00Z')", null, noon],
    ["event_time >= '2025-11-21T12:00:00Z'", null, null],
    ["time >= event_time", null, null],
    ["time <= now()", null, null],
  ])("%s", async (condition, min, max) => {
    const bounds = await scan(`SELECT * FROM log_entries WHERE ${condition}`);
    expect(bounds?.minTimeNs).toBe(min === null ? null : min - 1000n);
    expect(bounds?.maxTimeNs).toBe(max === null ? null : max + 1000n);
  });

  it("moves with the clock as a lower bound", async () => {
    const before = BigInt(Date.now()) * 1_000_000n;
    const bounds = await scan("SELECT * FROM spans WHERE time > now() - INTERVAL '1 hour'");
    const age = before - (bounds?.minTimeNs ?? 0n);
    expect(age).toBeGreaterThan(3_500_000_000_000n);
    expect(age).toBeLessThan(3_700_000_000_000n);
  });

  it.each([
    "date_bin('1 minute', now() - INTERVAL 1 HOUR)",
    "time_bucket(INTERVAL 1 MINUTE, ago('1 hour'))",
    "date_trunc('minute', now() - INTERVAL 1 HOUR)",
    "datetrunc('minute', CAST(now() AS TIMESTAMP)) - INTERVAL 1 HOUR",
  ])("moves with the clock when that is cut: %s", async (time) => {
    const before = BigInt(Date.now()) * 1_000_000n;
    const age = before - ((await scan(`SELECT * FROM spans WHERE time >= ${time}`))?.minTimeNs ?? 0n);
    expect(age).toBeGreaterThan(3_500_000_000_000n);
    expect(age).toBeLessThan(3_760_000_000_000n);
    expect((await scan(`SELECT * FROM spans WHERE time < ${time}`))?.maxTimeNs).toBe(null);
  });

  it("holds only where every place that reads the view has one", async () => {
    const both =
      "SELECT * FROM log_entries WHERE time >= '2025-11-21T12:00:00Z' UNION ALL SELECT * FROM log_entries WHERE time >= '2025-11-22T12:00:00Z'";
    expect((await scan(both))?.minTimeNs).toBe(noon - 1000n);
    // A place that compares nothing reads a table of its own, and so does one with a moving clock.
    const moving = "SELECT * FROM log_entries WHERE time >= now() - INTERVAL 1 DAY";
    const { scans } = await inspected(`${both} UNION ALL ${moving} UNION ALL FROM log_entries`);
    expect(scans.map(({ name, minTimeNs }) => [name, minTimeNs])).toEqual([
      ["svc_log_entries_with_time", noon - 1000n],
      ["log_entries", null],
    ]);
  });

  it.each([
    ["time >= '2025-11-21T12:00:00Z'", noon, null],
    [
      "time >= '2025-11-21T12:00:00Z' AND time < make_timestamp_ns(1763726400000000000) + INTERVAL 1 DAY",
      noon,
      noon + day,
    ],
    ["time BETWEEN '2025-11-21T12:00:00Z' AND TIMESTAMP '2025-11-22 12:00:00'", noon, noon + day],
    ["DATE '2025-11-22' > l.time AND time >= now() - INTERVAL 1 DAY", null, noon + day / 2n],
  ])("leaves the time of objects to the catalogue: %s", async (condition, min, max) => {
    const scan = (await inspected(`SELECT msg FROM log_entries l WHERE ${condition}`)).scans[0];
    expect(scan?.name).toBe("svc_log_entries_with_time");
    // With a microsecond to spare: comparisons may round.
    expect(scan?.comparedWithNs).toMatchObject({
      ...(min === null ? {} : { min: min + 1000n }),
      ...(max === null ? {} : { max: max - 1000n }),
    });
  });

  it.each([
    "SELECT msg FROM log_entries WHERE time >= now() - INTERVAL 1 DAY",
    "SELECT msg FROM log_entries WHERE time BETWEEN '2025-11-21T12:00:00Z' AND now()",
    "SELECT msg FROM log_entries WHERE time >= insert_time",
    "SELECT msg FROM log_entries WHERE time >= '2025-11-21T12:00:00Z' OR level = 2",
    "SELECT l FROM log_entries l WHERE time >= '2025-11-21T12:00:00Z'",
    "SELECT COLUMNS(*) FROM log_entries WHERE time >= '2025-11-21T12:00:00Z'",
    "SELECT msg FROM log_entries l(x, time) WHERE time >= '2025-11-21T12:00:00Z'",
    "SELECT count(*) FROM log_entries NATURAL JOIN spans WHERE log_entries.time >= '2025-11-21T12:00:00Z'",
    "SELECT trace_id FROM traces WHERE time >= '2025-11-21T12:00:00Z'",
  ])("does not leave the time of objects to the catalogue: %s", async (sql) => {
    const { scans } = await inspected(sql);
    expect(scans.map(({ comparedWithNs }) => comparedWithNs)).toEqual(scans.map(() => null));
  });

  it("does not apply to a sample, an ASOF join or a renamed column", async () => {
    const since = "WHERE l.time >= '2025-11-21T12:00:00Z'";
    expect((await scan(`SELECT 1 FROM log_entries l ${since}`))?.minTimeNs).toBe(noon - 1000n);
    expect((await scan(`SELECT 1 FROM log_entries l JOIN spans s USING (trace_id) ${since}`))?.minTimeNs).toBe(
      noon - 1000n,
    );
    expect((await scan(`SELECT 1 FROM log_entries l TABLESAMPLE 10 ROWS ${since}`))?.minTimeNs).toBe(null);
    expect((await scan(`SELECT 1 FROM log_entries l(x, time) ${since}`))?.minTimeNs).toBe(null);
    expect((await scan(`SELECT 1 FROM log_entries l ASOF JOIN spans s ON l.time >= s.time ${since}`))?.minTimeNs).toBe(
      null,
    );
  });

  it("is not on the clock when its name may be a column's", async () => {
    const since = async (sql: string): Promise<bigint | null> => (await scan(sql))?.minTimeNs ?? null;
    expect(await since("SELECT 1 FROM log_entries WHERE time >= current_timestamp - INTERVAL 1 DAY")).not.toBe(null);
    expect(await since("SELECT 1 FROM log_entries WHERE time >= ago('1 day')")).not.toBe(null);
    for (const sql of [
      `WITH n AS (SELECT TIMESTAMP '2025-11-01' AS "current_timestamp") SELECT 1 FROM log_entries l, n WHERE l.time >= "current_timestamp"`,
      `SELECT time AS "Current_Timestamp" FROM log_entries WHERE time >= current_timestamp - INTERVAL 1 DAY`,
      `SELECT 1 FROM (VALUES (DATE '2000-01-01')) v("current_date") WHERE EXISTS (SELECT 1 FROM log_entries WHERE time >= current_date)`,
    ]) {
      expect(await since(sql)).toBe(null);
    }
  });

  it("of a column that the view lacks is of something else", async () => {
    const traces = async (sql: string): Promise<unknown> => (await scan(sql))?.traceIds;
    const id = "0123456789abcdef0123456789abcdef";
    expect(await traces(`SELECT 1 FROM spans WHERE trace_id IN ('${id}')`)).toEqual([id]);
    for (const view of ["log_stats", "measures"]) {
      expect(await traces(`SELECT 'x' AS trace_id FROM ${view} WHERE trace_id IN ('${id}')`)).toBe(null);
    }
  });

  it("knows the process of an instance and of an equality", async () => {
    const id = "01234567-89ab-cdef-0123-456789abcdef";
    expect((await scan(`SELECT 1 FROM view_instance('spans', '${id}')`))?.processId).toBe(id);
    expect((await scan(`SELECT 1 FROM spans WHERE process_id = '${id}'`))?.processId).toBe(id);
    expect((await scan(`SELECT 1 FROM spans WHERE process_id <> '${id}'`))?.processId).toBe(null);
  });

  it("of log_stats reaches to the end of the last minute", async () => {
    const bounds = await scan("SELECT * FROM log_stats WHERE time <= '2025-11-21T12:00:00Z'");
    expect(bounds?.maxTimeNs).toBe(noon + 60_000_000_000n + 1000n);
  });
});

describe("conditions", () => {
  it("are counted by their ANDs and ORs, not by short strings", () => {
    expect(() => {
      checkText(`SELECT 1 WHERE x IN (${"'', ".repeat(10_001)}'a', 'or')`);
    }).not.toThrow();
    expect(() => {
      checkText(`SELECT 1 WHERE x${" OR x".repeat(10_001)}`);
    }).toThrow(/AND and OR/u);
  });
});

it("a list of very many constants is let through", async () => {
  const { fields } = await inspected(`SELECT 1 WHERE 1 IN (${"0,".repeat(20_000)}0)`);
  expect(fields.length).toBe(1);
});

describe("calls of date_bin and its like", () => {
  it("of a column are as many as one likes, and within one another a few", async () => {
    const many = Array.from({ length: 40 }, (_, i) => `date_trunc('minute', time) AS m${i}`);
    await inspected(`SELECT ${many.join(", ")} FROM spans`);
    const nested = (times: number): string => (times === 0 ? "time" : `date_trunc('day', ${nested(times - 1)})`);
    await inspected(`SELECT ${nested(5)} FROM spans`);
    await expect(inspected(`SELECT ${nested(20)} FROM spans`)).rejects.toThrow(/at most 8 times/u);
    const chained = Array.from({ length: 20 }, (_, i) => `date_trunc('day', m${i}) AS m${i + 1}`);
    await expect(inspected(`SELECT time AS m0, ${chained.join(", ")} FROM spans`)).rejects.toThrow(/at most 8 times/u);
  });
});

describe("EXPLAIN", () => {
  it("is told from a query that starts with the same letters", () => {
    expect(splitText("EXPLAIN SELECT 1")).toEqual({
      explain: "plan",
      text: `${" ".repeat(7)} SELECT 1`,
    });
    expect(splitText("/* x */explain\nanalyze SELECT 1").explain).toBe("analyze");
    expect(splitText("SELECT explain FROM x").explain).toBe("none");
  });
});
