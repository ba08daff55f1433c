/** The everyday questions and others on both engines: DuckDB here, and Sail as a cluster of two workers. */
import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { connectReader, type FlightReader } from "../../bench/load/flight-reader.js";
import { loadShop, mergeAll } from "../../bench/shop/load.js";
import { overEightDays, readQuestions } from "../../bench/shop/questions.js";
import type { Shop } from "../../bench/shop/shop.js";
import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import type { EngineChoice } from "../../src/query/cluster/engine-choice.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { pythonPrograms } from "../helpers/python.js";
import { createRandomSql } from "../helpers/query/random-sql.js";
import { type Sail, sailPackage, startSail } from "../helpers/query/sail.js";
import { shopNs } from "../helpers/query/shop-model.js";
import { temporaryDirectory } from "../helpers/servers/monolith.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";
import { until } from "../helpers/until.js";

const found = await pythonPrograms([sailPackage]);
const questions = await readQuestions();

const shop: Shop = {
  seed: 1,
  spans: 3000,
  logs: 3000,
  points: 20_000,
  bigSpans: 100,
  beginNs: 1_763_726_400_000_000_000n - BigInt(shopNs),
};

/** Questions that the cluster answers; the others name what keeps them here. */
const translated = new Set([1, 2, 3, 4, 6, 10, 14, 16, 17, 18, 19, 23]);

let sail: Sail;
let database: TestDatabase;
let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let server: ServerProcess;
let reader: FlightReader;

beforeAll(async () => {
  if ("missing" in found) {
    return;
  }
  sail = await startSail(found.bin, "local-cluster");
  database = await createTestDatabase();
  data = await temporaryDirectory();
  const { key } = await mintAnalyticsKey(database.sql, { name: "test", createdBy: "test" });
  const sends = await mintIngestionKey(database.sql, { name: "test", audience: "public", createdBy: "test" });
  server = await startServerProcess(
    "telemetry-monolith",
    {
      SVC_ROLES: "ingestion,analytics",
      SVC_SQL_CONNECTION_STRING: database.connectionString,
      SVC_DATA_DIR: data.directory,
      SVC_INGESTION_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_QUERY_CLUSTER_URI: sail.uri,
      SVC_QUERY_CLUSTER_MIN_BYTES: "1",
    },
    /OTLP\/HTTP on (http:\/\/127\.0\.0\.1:[1-9]\d*)[^]*"msg":"ready"/u,
  );
  const address = /grpc:\/\/(?<address>127\.0\.0\.1:\d+)/u.exec(server.output())?.groups?.["address"] ?? "";
  await loadShop(shop, { url: server.url, key: sends.key, senders: 1 });
  reader = connectReader(address, key);
  await mergeAll(reader, database.sql);
});

afterAll(async () => {
  reader?.close();
  await server?.end("SIGTERM");
  await data?.remove();
  await database?.drop();
  await sail?.stop();
});

/** The text with its times as of the shop's end. */
function atTheEnd(sql: string): string {
  const endMs = Number((shop.beginNs + BigInt(shopNs)) / 1_000_000n);
  const at = (ms: number): string => `TIMESTAMP '${new Date(ms).toISOString().slice(0, 19)}'`;
  return sql
    .replaceAll(/ago\('(\d+) (minute|hour|day)s?'\)/gu, (_, count: string, unit: string) =>
      at(endMs - Number(count) * ({ minute: 60_000, hour: 3_600_000 }[unit] ?? 86_400_000)),
    )
    .replaceAll("now()", at(endMs));
}

type Row = readonly unknown[];

async function rowsOf(sql: string, engine: EngineChoice): Promise<{ types: string[]; rows: Row[] }> {
  const parts: Uint8Array[] = [];
  for await (const message of await reader.open(sql, { "query-engine": engine })) {
    parts.push(...ipcOf(message as Buffer));
  }
  const table = tableFromIPC(parts);
  const columns = table.schema.fields.map((_, i) => table.getChildAt(i));
  return {
    types: table.schema.fields.map(({ name, type }) => `${name} ${String(type)}`),
    rows: Array.from({ length: table.numRows }, (_, row) => columns.map((column) => plain(column?.get(row)))),
  };
}

/** Floating point numbers to twelve digits: the order of adding up differs. */
function plain(value: unknown): unknown {
  if (typeof value === "number") {
    return Number(value.toPrecision(12));
  }
  return typeof value === "bigint" ? String(value) : value;
}

const sorted = (rows: readonly Row[]): string[] => rows.map((row) => JSON.stringify(row)).toSorted();

async function compare(sql: string, ordered = false): Promise<number> {
  const [here, there] = [await rowsOf(sql, "local"), await rowsOf(sql, "cluster")];
  expect(there.types).toEqual(here.types);
  expect(ordered ? there.rows : sorted(there.rows)).toEqual(ordered ? here.rows : sorted(here.rows));
  return here.rows.length;
}

describe.skipIf("missing" in found)("Sail as the cluster", () => {
  const texts = questions.map(({ number, words, sql }) => [`${number}. ${words}`, number, sql] as const);

  it.each(texts.filter(([, number]) => translated.has(number)))("%s", async (_, number, sql) => {
    // An estimate differs: the exact one has the same way.
    const rows = await compare(atTheEnd(overEightDays(sql)).replaceAll("approx_quantile", "quantile_cont"));
    expect(rows).toBeGreaterThan(number === 10 ? -1 : 0);
  });

  it.each(texts.filter(([, number]) => !translated.has(number)))("%s, on this machine", async (_, _number, sql) => {
    await expect(rowsOf(atTheEnd(overEightDays(sql)), "cluster")).rejects.toThrow(/local only/u);
  });

  it.each([
    "SELECT count(*) FROM log_entries",
    "SELECT * FROM log_entries",
    "SELECT * FROM log_entries l WHERE time >= TIMESTAMP '2025-11-20' AND time < TIMESTAMP '2026-11-20'",
    "SELECT * EXCLUDE (Msg, properties), l.* EXCLUDE time FROM log_entries l",
    "SELECT parent_span_id, name, span_id FROM spans ORDER BY parent_span_id DESC NULLS FIRST, span_id",
    "SELECT parent_span_id, name, span_id FROM spans ORDER BY parent_span_id DESC, span_id",
    "SELECT span_id, rank() OVER (PARTITION BY name ORDER BY parent_span_id NULLS FIRST) FROM spans",
    "SELECT DISTINCT service_name, host_name FROM spans",
    "SELECT time, name, duration_ms FROM spans ORDER BY time DESC, span_id LIMIT 20 OFFSET 3",
    "SELECT max(time) AS latest, min(end_time) AS earliest, count(DISTINCT trace_id) AS traces, avg(duration_ns) AS mean FROM spans",
    "SELECT date_trunc('hour', time) AS hour, time_bucket(INTERVAL 1 DAY, time) AS day, date_trunc('week', time) AS week, count(*) AS n FROM spans GROUP BY ALL",
    "SELECT sum(dropped_attributes_count), sum(duration_ns) FILTER (kind_name = 'server'), sum(duration_ms), max(name), bool_or(is_error) FROM spans",
    "SELECT trace_id, row_number() OVER (PARTITION BY service_name ORDER BY time, span_id) AS place FROM spans QUALIFY place <= 3",
    "SELECT service_name, lag(time) OVER (PARTITION BY service_name ORDER BY time, span_id) AS before FROM spans WHERE is_root",
    "SELECT s.name, l.msg FROM spans s JOIN log_entries l USING (trace_id, span_id) WHERE s.time > TIMESTAMP '2025-11-20'",
    "SELECT trace_id, s.name, l.msg FROM spans s FULL JOIN log_entries l USING (trace_id)",
    "WITH slow AS (SELECT trace_id, max(duration_ms) AS ms FROM spans GROUP BY 1 HAVING ms > 100) SELECT count(*), max(ms) FROM slow WHERE trace_id IN (SELECT trace_id FROM log_entries)",
    "SELECT name FROM spans WHERE name LIKE '%o%' AND name NOT ILIKE 'G%' AND time BETWEEN '2025-11-15' AND '2025-11-20 12:00:00' UNION SELECT msg FROM log_entries WHERE level <= 'warn'",
    "SELECT upper(name), length(name), substr(name, 2, 3), left(name, 2), name || '!', replace(name, 'o', '0'), split_part(name, ' ', 2), contains(name, 'a'), strpos(name, 'e') FROM spans",
    "SELECT 7 // 2, -7 % 3, 1 / 3, 5 / 0, round(2.5::DOUBLE), round(duration_ms, 1), floor(duration_ms), CAST(duration_ms AS BIGINT), duration_ns & 255 FROM spans",
    "SELECT epoch(time), epoch_ms(time), epoch_us(time), epoch_ns(time), hour(time), minute(time), second(time), time - INTERVAL 90 MINUTE, CAST(time AS TIMESTAMP) FROM spans",
    "SELECT coalesce(parent_span_id, 'none') AS parent, CASE kind WHEN 2 THEN 'in' WHEN 3 THEN 'out' END AS way, nullif(status_code, 0), greatest(kind, 2), level IS DISTINCT FROM NULL FROM spans JOIN (SELECT 1 AS level) ON true",
    "SELECT service_name, median(duration_ms), quantile_cont(duration_ns, 0.9), stddev(duration_ms), arg_max(name, duration_ns), any_value(service_name) FROM spans GROUP BY ALL",
    "SELECT name, value, value_int FROM measures ORDER BY ALL LIMIT 100",
    "SELECT sum(duration_ns) OVER (PARTITION BY service_name ORDER BY time, span_id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM spans",
    "SELECT level_name, count(*) AS n FROM log_entries GROUP BY ALL ORDER BY n DESC, level_name",
  ])("%s", async (sql) => {
    expect(await compare(sql, /ORDER BY [^()]*$/u.test(sql))).toBeGreaterThan(0);
  });

  it("is named by EXPLAIN and in the query log", async () => {
    const { rows } = await rowsOf("EXPLAIN SELECT count(*) FROM spans", "cluster");
    expect(rows.at(-1)).toEqual(["engine", "cluster: engine=cluster"]);
    await rowsOf("SELECT count(*) AS logged_there FROM spans", "auto");
    await rowsOf("SELECT count(*) AS logged_here FROM spans", "local");
    await rowsOf("SELECT typeof(1) AS logged_local FROM spans", "auto");
    const logged = async () => database.sql<{ engine: string; reason: string }[]>`
      select engine, engine_reason as reason from query_log where sql like '%logged%' and row_count > 0 order by time`;
    await until(async () => (await logged()).length === 3);
    expect(
      (await logged()).map(({ engine, reason }) => `${engine}: ${reason.replace(/\d+ bytes/u, "n bytes")}`),
    ).toEqual(["cluster: n bytes to read", "local: engine=local", "local: local only: the function typeof"]);
  });

  it("agrees on random statements, or leaves them to this machine", async () => {
    const next = createRandomSql({
      seed: 7,
      words: ["payment", "a", "error", ""],
      processIds: ["01234567-89ab-cdef-0123-456789abcdef"],
      trace: "0".repeat(32),
      paths: [],
    });
    let alike = 0;
    const differ: string[] = [];
    for (let i = 0; i < 400; i++) {
      const { sql, values } = next();
      // Which rows a LIMIT leaves, and estimates, are nobody's to say.
      if (values.length > 0 || /LIMIT|approx|any_value|first|EXPLAIN|query_log/iu.test(sql)) {
        continue;
      }
      const there = await rowsOf(sql, "cluster").catch((error: unknown) => String(error));
      if (typeof there === "string") {
        if (!there.includes("INVALID_ARGUMENT")) {
          differ.push(`${there}: ${sql}`);
        }
        continue;
      }
      const here = await rowsOf(sql, "local");
      alike++;
      if (JSON.stringify([here.types, sorted(here.rows)]) !== JSON.stringify([there.types, sorted(there.rows)])) {
        differ.push(sql);
      }
    }
    expect(differ).toEqual([]);
    expect(alike).toBeGreaterThan(5);
  });

  // The last one: it ends the cluster.
  it("ends a result with an error when it ends, and leaves later ones to this machine", async () => {
    const pairs = "SELECT a.msg, b.msg AS other FROM log_entries a CROSS JOIN log_entries b";
    const stream = await reader.open(pairs, { "query-engine": "auto" });
    let messages = 0;
    const reading = (async () => {
      for await (const _ of stream) {
        messages++;
        if (messages === 3) {
          await sail.stop();
        }
      }
    })();
    await expect(reading).rejects.toThrow(/UNAVAILABLE/u);
    expect(messages).toBeGreaterThan(2);
    const count = "SELECT count(*) FROM log_entries";
    await expect(rowsOf(count, "cluster")).rejects.toThrow(/UNAVAILABLE/u);
    expect(await rowsOf(count, "auto")).toEqual(await rowsOf(count, "local"));
  });
});
