/** The everyday questions and others on both engines: DuckDB here, and as a cluster Sail or Spark. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { overEightDays, readQuestions } from "../../bench/shop/questions.js";
import { clusterShop, type ClusterWorld, sortedRows, startClusterWorld } from "../helpers/query/cluster-world.js";
import { atTheEnd } from "../helpers/query/shop-server.js";
import { createRandomSql } from "../helpers/query/random-sql.js";
import { findSail, startSail } from "../helpers/query/sail.js";
import { findSpark, startSpark } from "../helpers/query/spark.js";
import type { SparkConnectServer } from "../helpers/query/spark-connect-server.js";
import { until } from "../helpers/until.js";

const sail = await findSail();
const spark = await findSpark();
const engines = [
  { name: "Sail", found: sail, start: () => startSail(sail ?? "", "local-cluster") },
  { name: "Spark", found: spark, start: () => startSpark(spark ?? "", "local[2]") },
];
const questions = await readQuestions();

/** Questions that the cluster answers; the others name what keeps them here. */
const translated = new Set([1, 2, 3, 4, 6, 10, 14, 16, 17, 18, 19, 23]);

for (const { name, found, start } of engines) {
  describe.skipIf(found === null)(`${name} as the cluster`, () => {
    let cluster: SparkConnectServer;
    let world: ClusterWorld;

    beforeAll(async () => {
      cluster = await start();
      world = await startClusterWorld(cluster.uri);
    });

    afterAll(async () => {
      await world?.stop();
      await cluster?.stop();
    });

    const texts = questions.map(({ number, words, sql }) => [`${number}. ${words}`, number, sql] as const);

    it.each(texts.filter(([, number]) => translated.has(number)))("%s", async (_, number, sql) => {
      // An estimate differs: the exact one has the same way.
      const rows = await world.compare(
        atTheEnd(overEightDays(sql), clusterShop).replaceAll("approx_quantile", "quantile_cont"),
      );
      expect(rows).toBeGreaterThan(number === 10 ? -1 : 0);
    });

    it.each(texts.filter(([, number]) => !translated.has(number)))("%s, on this machine", async (_, _number, sql) => {
      await expect(world.rowsOf(atTheEnd(overEightDays(sql), clusterShop), "cluster")).rejects.toThrow(/local only/u);
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
      "SELECT value FROM measures WHERE value > 0.00000000000000001 OR value * 1e300 = 1.5 OR value IN (0.1, 0.25)",
      "SELECT coalesce(value * 1e300, 0.5), greatest(value * 1e300, 0.5), nullif(value * 1e300, 0.5), nullif(-0.0::DOUBLE * value, 0) FROM measures",
      "SELECT (kind + 0.5::DOUBLE)::INTEGER, (kind - 3.5::DOUBLE)::BIGINT, (duration_ns % 8 / 2)::INTEGER FROM spans",
      "SELECT CASE WHEN is_error THEN 1e300 ELSE -1e300 END * 1e300 * 0 / 0, duration_ms / 0 FROM spans",
      "SELECT count_if(is_error), countif(is_error), count_if(is_error) + 1 FROM spans WHERE kind = 99",
      "SELECT service_name, count_if(is_error), countif(NULL::BOOLEAN), count_if(is_error) FILTER (WHERE kind = 99) FROM spans GROUP BY ALL",
      "SELECT span_id, count_if(is_error) OVER (PARTITION BY service_name ORDER BY time, span_id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) FROM spans",
      "SELECT trim(name || ' \u00a0\u3000'), rtrim(name || '\t\u2003'), ltrim('\u205f ' || name || ' ') FROM spans",
      "SELECT level_name, count(*) AS n FROM log_entries GROUP BY ALL ORDER BY n DESC, level_name",
    ])("%s", async (sql) => {
      expect(await world.compare(sql, /ORDER BY [^()]*$/u.test(sql))).toBeGreaterThan(0);
    });

    it("is named by EXPLAIN and in the query log", async () => {
      const { rows } = await world.rowsOf("EXPLAIN SELECT count(*) FROM spans", "cluster");
      expect(rows.at(-1)).toEqual(["engine", "cluster: engine=cluster"]);
      await world.rowsOf("SELECT count(*) AS logged_there FROM spans", "auto");
      await world.rowsOf("SELECT count(*) AS logged_here FROM spans", "local");
      await world.rowsOf("SELECT typeof(1) AS logged_local FROM spans", "auto");
      const logged = async () => world.sql<{ engine: string; reason: string }[]>`
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
        const there = await world.rowsOf(sql, "cluster").catch((error: unknown) => String(error));
        if (typeof there === "string") {
          if (!there.includes("INVALID_ARGUMENT")) {
            differ.push(`${there}: ${sql}`);
          }
          continue;
        }
        const here = await world.rowsOf(sql, "local");
        alike++;
        if (JSON.stringify([here.types, sortedRows(here)]) !== JSON.stringify([there.types, sortedRows(there)])) {
          differ.push(sql);
        }
      }
      expect(differ).toEqual([]);
      expect(alike).toBeGreaterThan(5);
    });

    // The last one: it ends the cluster.
    it("ends a result with an error when it ends, and leaves later ones to this machine", async () => {
      // Longer than what is on its way between them, and shorter than what Spark takes for a result.
      const pairs =
        "SELECT a.msg, b.msg AS other FROM log_entries a CROSS JOIN (SELECT msg FROM log_entries ORDER BY time, msg LIMIT 600) b";
      const stream = await world.reader.open(pairs, { "query-engine": "auto" });
      let messages = 0;
      const reading = (async () => {
        for await (const _ of stream) {
          messages++;
          if (messages === 3) {
            await cluster.stop();
          }
        }
      })();
      await expect(reading).rejects.toThrow(/UNAVAILABLE/u);
      expect(messages).toBeGreaterThan(2);
      const count = "SELECT count(*) FROM log_entries";
      await expect(world.rowsOf(count, "cluster")).rejects.toThrow(/UNAVAILABLE/u);
      expect(await world.rowsOf(count, "auto")).toEqual(await world.rowsOf(count, "local"));
    });
  });
}
