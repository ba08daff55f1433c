/** Examples of docs/, over rows whose answer is known. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";
import { readSqlGuide } from "../helpers/query/sql-guide.js";

let t: TestAnalytics;
let docs: string;

beforeAll(async () => {
  t = await startTestAnalytics();
  docs = await readSqlGuide();
});

afterAll(async () => {
  await t.stop();
});

/** The first SQL behind some words of the documentation. */
function recipe(words: string): string {
  const from = docs.indexOf(words);
  expect(from).toBeGreaterThan(0);
  return /^```sql\n([\s\S]*?)^```$/mu.exec(docs.slice(from))?.[1] ?? "";
}

describe("the 95th percentile of a histogram", () => {
  /** Service, minutes since it started, minutes since the point, its buckets up to 10, up to 20 and above. */
  const points: readonly (readonly [string, number, number, readonly [number, number, number]])[] = [
    ["one point", 5, 4, [0, 100, 0]],
    ["two points", 500, 30, [70, 0, 0]],
    ["two points", 500, 20, [70, 100, 0]],
    ["restarted", 500, 30, [1000, 0, 0]],
    ["restarted", 500, 20, [1000, 0, 0]],
    ["restarted", 10, 9, [0, 60, 0]],
    ["restarted", 10, 8, [0, 100, 0]],
    ["reset in place", 500, 20, [900, 0, 0]],
    ["reset in place", 500, 10, [0, 100, 0]],
    ["one point in the hour", 500, 65, [50, 0, 0]],
    ["one point in the hour", 500, 5, [50, 100, 0]],
    ["nothing known", 500, 5, [0, 100, 0]],
    ["nothing new", 500, 20, [0, 100, 0]],
    ["nothing new", 500, 10, [0, 100, 0]],
  ];

  it("counts series of one point, and the first points after starts and resets", async () => {
    const now = BigInt(Date.now()) * 1_000_000n;
    const ago = (minutes: number): string => String(now - BigInt(minutes) * 60_000_000_000n);
    await addPartition(t.lake, t.sql, {
      table: "histograms",
      audience: "public",
      rowsSql: points
        .map(
          ([service, start, at, counts]) =>
            `SELECT make_timestamp_ns(${ago(at)}) AS time, make_timestamp_ns(${ago(start)}) AS start_time, '${service}' AS service_name, '${service}' AS process_id, '{}' AS properties, 'flight_call_seconds' AS name, 'histogram' AS metric_type, 'cumulative' AS temporality, [10.0, 20.0]::DOUBLE[] AS explicit_bounds, ${JSON.stringify(counts)}::UBIGINT[] AS bucket_counts, ${counts[0] + counts[1] + counts[2]}::UBIGINT AS count`,
        )
        .join(" UNION ALL "),
    });
    const rows = await t.plainRows(recipe("By how much histograms rose"));
    const found = Object.fromEntries(rows.map((row) => [row["service_name"], row["p95"]]));
    // 100 values between 10 and 20 in each.
    expect(found).toEqual({
      "one point": 19.5,
      "two points": 19.5,
      restarted: 19.5,
      "reset in place": 19.5,
      "one point in the hour": 19.5,
      "nothing new": null,
    });
  });
});

describe("examples over the last hour", () => {
  const minutesAgo = (minutes: number): string =>
    `make_timestamp_ns(${BigInt(Date.now()) * 1_000_000n - BigInt(minutes) * 60_000_000_000n})`;

  it("count errors of every minute, also of those without any", async () => {
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience: "public",
      rowsSql: [
        [30, 2],
        [30, 2],
        [30, 4],
        [10, 2],
        [90, 2],
      ]
        .map(([minutes = 0, level = 0]) => `SELECT ${minutesAgo(minutes)} AS time, ${level} AS level`)
        .join(" UNION ALL "),
    });
    const rows = await t.plainRows(recipe("`time_buckets` has a row"));
    // The first and the last minute of the hour are not whole.
    expect([60, 61]).toContain(rows.length);
    expect(rows.map(({ errors }) => Number(errors)).filter((errors) => errors > 0)).toEqual([2, 1]);
  });

  it("find failed requests by their columns and attributes", async () => {
    await addPartition(t.lake, t.sql, {
      table: "spans",
      audience: "public",
      rowsSql: [
        // Minutes, parent, kind, status, milliseconds, status of HTTP.
        [5, null, 2, 2, 250, 500],
        [6, null, 2, 2, 750, 503],
        [7, "aa", 2, 2, 900, 200],
        [8, null, 3, 2, 901, 404],
        [9, null, 2, 1, 902, 200],
        [90, null, 2, 2, 903, 500],
      ]
        .map(
          ([minutes, parent, kind, status, ms, code]) =>
            `SELECT ${minutesAgo(Number(minutes))} AS time, ${parent === null ? "NULL" : `'${parent}'`} AS parent_span_id, ${kind} AS kind, ${status} AS status_code, ${Number(ms) * 1e6} AS duration_ns, '{"http.route":"/cart","http.response.status_code":${code}}' AS properties`,
        )
        .join(" UNION ALL "),
    });
    const failed = await t.plainRows(recipe("## Computed columns"));
    expect(failed.map(({ duration_ms: ms }) => ms)).toEqual([750, 250]);
    expect(await t.plainRows(recipe("The `attr` functions"))).toEqual([{ route: "/cart", requests: 2, p95_ms: 725 }]);
  });
});
