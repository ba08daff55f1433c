/** Queries that are answered by roll-ups: shown by objects that are gone, which nothing else could be answered from. */
import { mkdtemp, rm, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { beforeEach, expect, it } from "vitest";

import { mergePartitions } from "../../src/lake/merge/merge.js";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { systemClock } from "../../src/runtime/clock.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { mergeAll } from "../helpers/lake/lake-merge.js";
import { mergeLimits } from "../helpers/lake/lake-merge-limits.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";

const shop = "11111111-1111-4111-8111-111111111111";
const other = "22222222-2222-4222-8222-222222222222";

let t: TestAnalytics;

beforeEach(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

/** Ten minutes of 20,000 rows; a third is another process's. */
async function add(table: "log_entries" | "measures", audience: string | null, fromNs = noon): Promise<void> {
  const own =
    table === "log_entries"
      ? "CAST(2 + i % 2 AS INTEGER) AS level"
      : `'requests' AS name, '1' AS unit, 'sum' AS metric_type, 'cumulative' AS temporality, true AS is_monotonic,
         '{"route":"/' || (i % 4) || '"}' AS properties`;
  await addPartition(t.lake, t.sql, {
    table,
    audience,
    rowsSql: `SELECT make_timestamp_ns(${fromNs} + i * 30000000) AS time, 'web' AS target,
      CASE WHEN i % 3 = 0 THEN '${other}' ELSE '${shop}' END AS process_id,
      CASE WHEN i % 3 = 0 THEN 'other' ELSE 'shop' END AS service_name, ${own} FROM range(20000) t(i)`,
  });
}

async function merge(table: string): Promise<string[]> {
  const merged = await t.caller.rows(
    `SELECT path FROM materialize_partitions('${table}', '2025-11-21T00:00:00Z', '2025-11-22T00:00:00Z', 3600) WHERE action = 'created'`,
  );
  return merged.map((row) => String(row["path"]));
}

async function lose(paths: readonly string[]): Promise<void> {
  for (const object of paths) {
    await unlink(path.join(t.lake.directory, object));
  }
}

const perLevel = "SELECT level_name, sum(count)::BIGINT AS n, count(*) AS rows FROM log_stats";

it("log_stats of whole objects opens none of them, and adds the rows of others", async () => {
  await add("log_entries", "public");
  const merged = await merge("log_entries");
  const statement = `${perLevel} GROUP BY ALL ORDER BY ALL`;
  const expected = await t.caller.rows(statement);
  expect(expected).toEqual([
    { level_name: "error", n: 10_000n, rows: 20n },
    { level_name: "warn", n: 10_000n, rows: 20n },
  ]);
  await lose(merged);
  expect(await t.caller.rows(statement)).toEqual(expected);
  // Ranges that hold the object, of the query or of the session.
  const wide = `${perLevel} WHERE time >= TIMESTAMP '2025-11-21 12:00:00' AND time < TIMESTAMP '2025-11-21 13:00:00' GROUP BY ALL ORDER BY ALL`;
  expect(await t.caller.rows(wide)).toEqual(expected);
  const range = { begin: new Date("2025-11-21T12:00:00Z"), end: new Date("2025-11-21T13:00:00Z") };
  expect(await t.caller.rows(statement, range)).toEqual(expected);
  expect(await t.caller.rows(`SELECT sum(count)::BIGINT AS n FROM view_instance('log_stats', '${other}')`)).toEqual([
    { n: 6667n },
  ]);
  // Late rows of the same minutes are in the same rows of the view.
  await add("log_entries", "public", noon);
  expect(await t.caller.rows(statement)).toEqual(expected.map((row) => ({ ...row, n: 20_000n })));
  // What cuts the object, and what asks for single rows, needs the object.
  await t.caller.failure(`${perLevel} WHERE time >= TIMESTAMP '2025-11-21 12:01:00' GROUP BY ALL`);
  await t.caller.failure("SELECT count(DISTINCT msg) FROM log_entries");
});

it("metrics are known without their points", async () => {
  await add("measures", "public");
  const merged = await merge("measures");
  const catalogue = "SELECT name, kind, unit, services, series, points, first_seen, last_seen FROM metric_catalogue";
  const series = "SELECT * FROM metric_series ORDER BY ALL";
  const expected = [await t.caller.rows(catalogue), await t.caller.rows(series)];
  expect(expected[0]).toMatchObject([{ name: "requests", kind: "sum", services: 2n, series: 8n, points: 20_000n }]);
  await lose(merged);
  expect([await t.caller.rows(catalogue), await t.caller.rows(series)]).toEqual(expected);
  expect(
    await t.caller.rows(`SELECT points FROM metric_series WHERE properties ->> 'route' = '/1' ORDER BY 1`),
  ).toEqual([{ points: 1666n }, { points: 3334n }]);
});

it("roll-ups of audiences that a caller may not read count nowhere", async () => {
  for (const audience of ["public", "secret", null]) {
    await add("log_entries", audience);
    await add("measures", audience);
  }
  const tempDirectory = await mkdtemp(path.join(tmpdir(), "telemetry-test-merge-"));
  for (const viewSet of ["log_entries", "measures"] as const) {
    await mergePartitions(
      {
        sql: t.sql,
        store: await openObjectStore(t.lake.uri),
        root: t.lake.directory,
        limits: mergeLimits(tempDirectory),
        clock: systemClock,
        cancelled: () => false,
      },
      { ...mergeAll, viewSet },
    );
  }
  await rm(tempDirectory, { recursive: true, force: true });
  const found = await t.sql<{ audience: string | null; n: number }[]>`
    select audience, count(rollup_path)::int as n from lakehouse_partitions group by 1 order by 1`;
  expect(found.map(({ audience, n }) => [audience, n])).toEqual([
    ["public", 2],
    ["secret", 2],
    [null, 2],
  ]);
  const readable = await t.caller.rows("SELECT DISTINCT audience FROM log_entries ORDER BY 1");
  expect(readable.map((row) => row["audience"])).not.toContain("secret");
  for (const view of ["log_stats", "metric_series", "metric_catalogue"]) {
    expect(await t.caller.rows(`SELECT DISTINCT audience FROM ${view} ORDER BY 1`)).toEqual(readable);
  }
});
