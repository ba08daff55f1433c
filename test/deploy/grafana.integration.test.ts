/** Grafana over Flight SQL: the texts that its plugin sends, the types that it reads, and every query of our dashboards. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

import { type Table, TimeUnit } from "apache-arrow";
import { connect, type FlightSqlClient, staticKey } from "telemetry-service-client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";

import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import {
  macroNames,
  type PanelRequest,
  unreadableColumns,
  type VariableValues,
  withMacros,
  withVariables,
} from "../helpers/flight/grafana-plugin.js";
import { addPartition } from "../helpers/lake/lake.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";

interface Target {
  readonly format: "time_series" | "table";
  readonly queryText: string;
  readonly datasource: unknown;
}

interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly templating: { readonly list: readonly Variable[] };
  readonly panels: readonly {
    readonly id: number;
    readonly type: string;
    readonly title: string;
    readonly interval?: string;
    readonly datasource: unknown;
    readonly targets: readonly Target[];
  }[];
}

interface Variable {
  readonly name: string;
  readonly type: string;
  readonly query: string;
  readonly allValue?: string;
  readonly datasource?: unknown;
}

const directory = "deploy/grafana/dashboards";
const dashboards = readdirSync(directory).map((file) => ({
  file,
  dashboard: JSON.parse(readFileSync(path.join(directory, file), "utf8")) as Dashboard,
}));
const pluginId = "influxdata-flightsql-datasource";

let t: TestAnalytics;
let client: FlightSqlClient;
/** The last hour and what came before it, in a minute's steps, as a panel asks. */
let request: PanelRequest;

beforeAll(async () => {
  t = await startTestAnalytics();
  client = connect({ uri: `grpc://127.0.0.1:${t.port}`, auth: staticKey(t.key) });
  const now = Date.now();
  request = { intervalMs: 60_000, from: new Date(now - 3 * 3_600_000), to: new Date(now) };
  const time = `make_timestamp_ns(${BigInt(now) * 1_000_000n} - (i + 1) * 30000000007) AS time`;
  const common = `${time}, if(i % 3 = 0, 'shop', 'o''clock') AS service_name, 'p' || i % 2 AS process_id, 'tt' || i AS trace_id`;
  const event = `{'time': ${time.replace(" AS time", "")}, 'name': 'exception', 'properties': '{"exception.type": "E", "exception.message": "m"}', 'dropped_attributes_count': 0}`;
  await addPartition(t.lake, t.sql, {
    table: "spans",
    audience: "public",
    rowsSql: `SELECT ${common}, CAST(1 + i % 5 AS INTEGER) AS kind, CAST(if(i % 7 = 0, 2, 0) AS INTEGER) AS status_code,
      if(i % 2 = 0, NULL, 'aa') AS parent_span_id, i * 1000000 AS duration_ns, 'GET /' AS name, '{"server.address": "db"}' AS properties, [${event}] AS events
      FROM range(120) t(i)`,
  });
  await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql: `SELECT ${common}, CAST(1 + i % 6 AS INTEGER) AS level, 'It''s message ' || i AS msg, 'target' AS target,
      ${time.replace(" AS time", "")} + INTERVAL 1 SECOND AS insert_time FROM range(120) t(i)`,
  });
  const cumulative = "'cumulative' AS temporality, 120 - i";
  for (const [table, columns] of [
    [
      "measures",
      `'sum' AS metric_type, true AS is_monotonic, ${cumulative} AS value, 'ingestion_requests_total' AS name,
       '{"signal": "logs", "code": "200"}' AS properties`,
    ],
    ...["ingestion_ack_seconds", "flight_call_seconds"].map(
      (name) =>
        [
          "histograms",
          `'histogram' AS metric_type, ${cumulative} AS count, '${name}' AS name, 1.0 AS sum,
           '{"method": "DoGet"}' AS properties, [0.1] AS explicit_bounds, [120 - i, 0] AS bucket_counts`,
        ] as const,
    ),
  ] as const) {
    await addPartition(t.lake, t.sql, {
      table,
      audience: "public",
      rowsSql: `SELECT ${common}, ${columns} FROM range(120) t(i)`,
    });
  }
  await t.sql`insert into processes (process_id, audience, service_name, host_name, properties)
    values (gen_random_uuid(), 'public', 'shop', 'host', '{}')`;
  const { keyId } = await mintIngestionKey(t.sql, { name: "build's", audience: "public", createdBy: "test" });
  await t.sql`insert into api_key_usage (key_id, hour, requests, bytes, records)
    select ${keyId}, date_trunc('hour', now()) - n * interval '1 hour', 1, 2, 3 from generate_series(0, 2) n`;
});

afterAll(async () => {
  client.close();
  await t.stop();
});

async function run(text: string): Promise<Table> {
  const result = await client.query(text);
  return result.table();
}

/** The rows that a panel gets, as plain objects. */
async function rows(text: string, o: Partial<PanelRequest> = {}): Promise<Record<string, unknown>[]> {
  return Array.from(await run(withMacros(text, { ...request, ...o })), (row) => row.toJSON());
}

describe("macros", () => {
  const noon: PanelRequest = {
    intervalMs: 90_500,
    from: new Date("2026-11-21T12:00:00.250Z"),
    to: new Date("2026-11-21T13:00:00Z"),
  };

  it("expand as the plugin expands them", () => {
    const expanded = (text: string, zoneMinutes = 0): string => withMacros(text, { ...noon, zoneMinutes });
    expect(expanded("$__dateBin(time)")).toBe("date_bin(interval '90 second', time, timestamp '1970-01-01T00:00:00Z')");
    expect(expanded("$__dateBinAlias(f(a)), 1")).toBe(
      "date_bin(interval '90 second', f(a), timestamp '1970-01-01T00:00:00Z') as f(a)_binned, 1",
    );
    expect(expanded("$__timeRange(time) AND x")).toBe(
      "time >= '2026-11-21T12:00:00Z' AND time <= '2026-11-21T13:00:00Z' AND x",
    );
    expect(expanded("$__timeFrom(), $__timeTo()")).toBe(
      "cast('2026-11-21T12:00:00Z' as timestamp), cast('2026-11-21T13:00:00Z' as timestamp)",
    );
    expect(expanded("$__timeFrom()", 330)).toBe("cast('2026-11-21T17:30:00+05:30' as timestamp)");
    expect(expanded("$__timeGroup(time, month)")).toBe("datepart('month', time),datepart('year', time)");
    expect(expanded("$__timeGroupAlias(time, year)")).toBe("datepart('year', time) as time_year");
    expect(expanded("$__interval $__intervals")).toBe("interval '90 second' $__intervals");
  });

  it("drop what follows without brackets of their own, up to the next ones", () => {
    const dropped = withMacros("WHERE time >= $__timeFrom AND name IN ('a') AND x", noon);
    expect(dropped).toBe("WHERE time >= cast('2026-11-21T12:00:00Z' as timestamp) AND x");
    expect(withMacros("f($__timeTo) AND name IN ('a')", noon)).toBe(
      "f(cast('2026-11-21T13:00:00Z' as timestamp)) AND name IN ('a')",
    );
  });

  it("have variables replaced by the browser first, which takes two of their names", () => {
    const variables = { several: ["a", "o'c"], one: "it's", all: "service_name" };
    expect(withVariables("$several $one ${all} $__interval_ms '$__interval' $__timeFrom()", variables, request)).toBe(
      "'a','o''c' it''s service_name 60000 '1m' $__timeFrom()",
    );
  });

  it.each([
    [
      "dateBin",
      "SELECT $__dateBin(time) AS time, count(*) AS n FROM spans WHERE $__timeRange(time) GROUP BY 1 ORDER BY 1",
    ],
    ["dateBin", "SELECT $__dateBin(time), count(*) AS n FROM spans GROUP BY $__dateBin(time)"],
    [
      "dateBinAlias",
      "SELECT $__dateBinAlias(time), count(*) AS n FROM spans GROUP BY time_binned ORDER BY time_binned",
    ],
    ["interval", "SELECT date_bin($__interval, time) AS time, time_bucket($__interval, time) AS b FROM spans"],
    ["timeFilter", "SELECT time, name FROM spans WHERE $__timeFilter(time)"],
    ["timeFrom", "SELECT time, name FROM spans WHERE time >= $__timeFrom()"],
    ["timeGroup", "SELECT $__timeGroup(time, minute), count(*) AS n FROM spans GROUP BY $__timeGroup(time, minute)"],
    [
      "timeGroupAlias",
      "SELECT $__timeGroupAlias(time, day), count(*) AS n FROM spans GROUP BY time_day, time_month, time_year",
    ],
    ["timeRange", "SELECT time FROM span_events WHERE $__timeRange(time)"],
    ["timeRangeFrom", "SELECT time FROM log_stats WHERE $__timeRangeFrom(time)"],
    ["timeRangeTo", "SELECT time FROM measures WHERE $__timeRangeTo(time)"],
    ["timeTo", "SELECT time FROM histograms WHERE time < $__timeTo()"],
  ])("$__%s gives rows of types that the plugin reads: %s", async (_, text) => {
    const result = await run(withMacros(text, request));
    expect(result.numRows).toBeGreaterThan(0);
    expect(unreadableColumns(result.schema)).toEqual([]);
  });

  it("are all tried above", () => {
    // The list of titles is this file's; a macro that is added to the helper has to be added here.
    const source = readFileSync("test/deploy/grafana.integration.test.ts", "utf8");
    expect(macroNames.filter((name) => !new RegExp(`"${name}",\\s*"SELECT`, "u").test(source))).toEqual([]);
  });

  it("mean the same time wherever Grafana's clock stands", async () => {
    const count = "SELECT count(*)::INTEGER AS n FROM spans WHERE time >= $__timeFrom() AND time < $__timeTo()";
    const middle = { from: new Date(request.to.getTime() - 30 * 60_000) };
    const here = await rows(count, middle);
    expect(here[0]?.["n"]).toBeGreaterThan(50);
    for (const zoneMinutes of [-480, 330]) {
      expect(await rows(count, { ...middle, zoneMinutes })).toEqual(here);
    }
  });

  it("leave files closed that hold no row of the time", async () => {
    const [plan] = await rows("EXPLAIN ANALYZE SELECT name FROM spans WHERE time > $__timeTo()");
    const [open] = await rows("EXPLAIN ANALYZE SELECT name FROM spans WHERE time > $__timeFrom()");
    expect(JSON.stringify(plan)).not.toBe(JSON.stringify(open));
    await client
      .query(withMacros("SELECT name AS closed FROM spans WHERE time > $__timeTo()", request))
      .then((r) => r.table());
    await client
      .query(withMacros("SELECT name AS opened FROM spans WHERE time > $__timeFrom()", request))
      .then((r) => r.table());
    await expect
      .poll(() => t.sql`select partitions from query_log where sql like 'SELECT name AS %' order by sql`)
      .toEqual([{ partitions: 0 }, { partitions: 1 }]);
  });

  it("whose points are narrower than a second fail with a sentence", async () => {
    await expect(rows("SELECT $__dateBin(time) AS time FROM spans", { intervalMs: 200 })).rejects.toThrow(
      /greater than 0/u,
    );
  });
});

describe("types that the plugin reads", () => {
  it.each([
    "sum(count)",
    "sum(count) OVER ()",
    "count(*)",
    "count(DISTINCT service_name)",
    "avg(count)",
    "sum(count) / count(*)",
    "sum(count) * 60",
    "100e0 * sum(count) / count(*)",
    "min(time)",
    "max(time)",
    "any_value(level_name)",
    "quantile_cont(count, 0.95)",
    "median(count)",
    "stddev(count)",
    "bool_or(level = 'error')",
    "arg_max(count, time)",
    "approx_count_distinct(target)",
    "string_agg(target, ',')",
    "epoch(max(time) - min(time))",
    "round(avg(count), 2)",
    "first(time)",
    "mode(level)",
  ])("are those of %s", async (expression) => {
    const over = expression.includes("OVER") ? "SELECT count FROM log_stats" : "SELECT * FROM log_stats";
    const { schema } = await run(`SELECT ${expression} AS v FROM (${over})`);
    expect(unreadableColumns(schema)).toEqual([]);
  });

  it("are those of every column of the views but lists and structs", async () => {
    const found: string[] = [];
    for (const { table_name: view } of await rows("SELECT table_name FROM information_schema.tables ORDER BY 1")) {
      const { schema } = await run(`SELECT * FROM ${String(view)} LIMIT 0`);
      found.push(...unreadableColumns(schema).filter((column) => !/: (?:List|Struct)</u.test(column)));
    }
    expect(found).toEqual([]);
  });

  it("are not decimals, dates, durations, lists, enumerations, and times of microseconds", async () => {
    const { schema } = await run(
      `SELECT 1.5 AS a, current_date AS b, INTERVAL 1 DAY AS c, [1] AS d, 'x'::ENUM('x') AS e, now() AS f, 'x'::BLOB AS g,
         1.5::DOUBLE AS h, current_date::TIMESTAMP_NS AS i, epoch(INTERVAL 1 DAY) AS j, [1]::VARCHAR AS k,
         'x'::ENUM('x')::VARCHAR AS l, now()::TIMESTAMP_NS AS m`,
    );
    expect(
      unreadableColumns(schema)
        .map((column) => column.slice(0, 1))
        .join(""),
    ).toBe("abcdefg");
  });
});

const values: readonly VariableValues[] = [
  { service: ["shop", "o'clock"], audience: ["public"], search: "it's MESS" },
  { service: "service_name", audience: "audience", search: "" },
];

describe.each(dashboards)("the dashboard $file", ({ file, dashboard }) => {
  const source = { type: pluginId, uid: "${datasource}" };

  it("imports as it is: it names no data source but its variable, and is told apart from others", () => {
    expect(Object.keys(dashboard)).not.toContain("__inputs");
    expect(dashboard.templating.list[0]).toMatchObject({ name: "datasource", type: "datasource", query: pluginId });
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(dashboards.filter((other) => other.dashboard.uid === dashboard.uid).map((other) => other.file)).toEqual([
      file,
    ]);
    for (const { targets, datasource } of dashboard.panels) {
      expect([datasource, ...targets.map((target) => target.datasource)]).toEqual([
        source,
        ...targets.map(() => source),
      ]);
    }
  });

  const queries = dashboard.templating.list.filter(({ type }) => type === "query");

  it.each(queries)("offers values of $name", async ({ query, allValue, datasource }) => {
    expect(datasource).toEqual(source);
    // Without it "All" lists all values; a column is in any list that holds it.
    expect(query).toContain(`DISTINCT ${allValue ?? "nothing"} FROM`);
    const result = await run(query);
    expect(result.numRows).toBeGreaterThan(0);
    expect(result.schema.fields.map(({ type }) => String(type))).toEqual(["Utf8"]);
  });

  const targets = dashboard.panels.flatMap((panel) => panel.targets.map((target) => ({ ...target, panel })));

  it.each(targets)("has rows to show as $panel.type in $panel.title", async ({ queryText, format, panel }) => {
    for (const variables of values) {
      const sent = withVariables(queryText, variables, request);
      expect(sent).not.toMatch(/\$__\w+(?![\w(])/u);
      const text = withMacros(sent, request);
      expect(text).not.toContain("$");
      const result = await run(text);
      expect(result.numRows).toBeGreaterThan(0);
      expect(unreadableColumns(result.schema)).toEqual([]);
      expect(format).toBe(panel.type === "timeseries" ? "time_series" : "table");
      // Without a least interval the plugin asks for points of no width when the range is short.
      expect(panel.interval ?? queryText).not.toContain("$__dateBin");
      if (format === "time_series") {
        expectTimeSeries(result);
      }
    }
  });
});

/** Series by text columns: the plugin asks for a column `time` without nulls, in order, and numbers. */
function expectTimeSeries(result: Table): void {
  const [first, ...others] = result.schema.fields;
  expect(first?.name).toBe("time");
  expect(first?.type).toMatchObject({ unit: TimeUnit.NANOSECOND });
  const times = Array.from(result.getChild("time") ?? []) as (number | null)[];
  expect(times).not.toContain(null);
  expect(times).toEqual(times.toSorted((a, b) => Number(a) - Number(b)));
  expect(others.some(({ type }) => /^(?:Float|Int|Uint)/u.test(String(type)))).toBe(true);
}

const examples = [...readFileSync("docs/grafana.md", "utf8").matchAll(/^```sql\n([\s\S]*?)^```$/gmu)];

it.each(examples.map(([, text = ""]) => text))(
  "the document's example gives what the plugin reads: %s",
  async (text) => {
    // A rule is run without a browser.
    const query = text.includes("$service") ? withVariables(text, values[0] ?? {}, request) : text;
    const result = await run(withMacros(query.replace("count(*) > 100", "count(*) > 1"), request));
    expect(result.numRows).toBeGreaterThan(0);
    expect(unreadableColumns(result.schema)).toEqual([]);
  },
);

describe("provisioning", () => {
  const provisioned = (file: string): unknown => parse(readFileSync(`deploy/grafana/provisioning/${file}`, "utf8"));

  it("makes a data source of the plugin, with the key from the environment", () => {
    expect(provisioned("datasources/telemetry.yaml")).toMatchObject({
      apiVersion: 1,
      datasources: [
        {
          type: pluginId,
          uid: "telemetry-service",
          jsonData: { host: "$TELEMETRY_FLIGHT_SQL", secure: true, selectedAuthType: "token" },
          secureJsonData: { token: "$TELEMETRY_API_KEY" },
        },
      ],
    });
  });

  it("finds the dashboards where the document says they are copied to", () => {
    const { providers } = provisioned("dashboards/telemetry.yaml") as {
      readonly providers: readonly { readonly options: { readonly path: string } }[];
    };
    const document = readFileSync("docs/grafana.md", "utf8");
    expect(document).toContain(providers[0]?.options.path);
    expect(dashboards.filter(({ dashboard }) => !document.includes(dashboard.title))).toEqual([]);
  });
});
