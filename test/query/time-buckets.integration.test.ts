/** `time_buckets`: every bucket of a range, also those that no row is in. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";
import { noon } from "../helpers/noon.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql: `SELECT make_timestamp_ns(${noon} + unnest([5, 6, 130]::BIGINT[]) * 1000000000 + 7) AS time, 2 AS level`,
  });
});

afterAll(async () => {
  await t.stop();
});

/** The buckets of a call, as text. */
async function buckets(call: string): Promise<unknown[]> {
  return (await t.plainRows(`SELECT CAST(time AS VARCHAR) AS text FROM time_buckets(${call})`)).map(({ text }) => text);
}

describe("the buckets of a range", () => {
  it("begin with the one that its begin is in, and end before its end", async () => {
    const minutes = ["2025-11-21 12:00:00", "2025-11-21 12:01:00", "2025-11-21 12:02:00"];
    expect(await buckets("'2025-11-21T12:00:30Z', '2025-11-21T12:03:00Z', '1 minute'")).toEqual(minutes);
    expect(await buckets("'2025-11-21 12:00', '2025-11-21 12:02:00.000001', INTERVAL 1 MINUTE")).toEqual(minutes);
    expect(
      await buckets(`make_timestamp_ns(${noon + 1n}), TIMESTAMPTZ '2025-11-21 13:03:00+01', to_seconds(60)`),
    ).toEqual(minutes);
  });

  it("are those of date_bin, whatever their width", async () => {
    for (const step of ["7 days", "90 seconds", "250 milliseconds", "1 month", "1 year", "3 hours"]) {
      expect(
        await t.plainRows(
          `WITH r AS (SELECT TIMESTAMP '2025-11-21 11:59:58.7' AS b), bucket AS (SELECT time FROM r, time_buckets(r.b, r.b + 4 * INTERVAL '${step}', '${step}'))
           SELECT bool_and(date_bin('${step}', time) = time) AS begins, count(DISTINCT date_bin('${step}', time)) IN (4, 5) AS all_there,
             min(time) = (SELECT date_bin('${step}', b) FROM r) AS first FROM bucket`,
        ),
      ).toEqual([{ begins: true, all_there: true, first: true }]);
    }
  });

  it("have the type of time, so that rows join them", async () => {
    expect(
      await t.plainRows(
        `SELECT CAST(time AS VARCHAR) AS minute, typeof(time) AS type, coalesce(n, 0)::INTEGER AS n
         FROM time_buckets('2025-11-21 11:59', '2025-11-21 12:04', '1 minute')
         LEFT JOIN (SELECT date_bin('1 minute', time) AS time, count(*) AS n FROM log_entries GROUP BY ALL) USING (time)
         ORDER BY time`,
      ),
    ).toEqual(
      [0, 2, 0, 1, 0].map((n, i) => ({
        minute: `2025-11-21 ${i === 0 ? "11:59" : `12:0${i - 1}`}:00`,
        type: "TIMESTAMP_NS",
        n,
      })),
    );
  });

  it("follow the clock", async () => {
    expect(
      await t.plainRows(
        "SELECT count(*) IN (60, 61) AS n, max(time) <= now() AS past FROM time_buckets(now() - INTERVAL 1 HOUR, now(), '1 minute')",
      ),
    ).toEqual([{ n: true, past: true }]);
  });

  it("are none when it is empty or not known", async () => {
    expect(await buckets("'2025-11-22', '2025-11-21', '1 day'")).toEqual([]);
    expect(await buckets("'2025-11-21', '2025-11-21', '1 day'")).toEqual([]);
    expect(await buckets("NULL, '2025-11-21', '1 day'")).toEqual([]);
    expect(await buckets("'2025-11-20', '2025-11-21', NULL")).toEqual([]);
  });
});

describe("a call that makes no sense", () => {
  it.each([
    ["'2025-11-20', '2025-11-21', '0 seconds'", /a step above zero/u],
    ["'2025-11-20', '2025-11-21', INTERVAL '-1 minute'", /a step above zero/u],
    ["'2025-11-20', '2025-11-21', '1 month -30 days'", /a step above zero/u],
    ["'2025-11-20', 'infinity', '1 day'", /not infinite/u],
    ["'-infinity', '2025-11-20', '1 day'", /not infinite/u],
    ["'2025-11-20', '2025-11-21 03:46:41', '1 second'", /at most 100000 buckets/u],
    ["'0001-01-01', '9999-01-01', '1 microsecond'", /at most 100000 buckets/u],
    ["'2025-11-20', '2025-11-21', '1 month 1 day'", /Month intervals cannot have day/u],
    ["'2025-11-20', '2025-11-21', 60", /INTERVAL/u],
    ["'2025-11-20', '2025-11-21'", /time_buckets/u],
    ["'yesterday', '2025-11-21', '1 day'", /yesterday/u],
  ])("is refused in words: %s", async (call, words) => {
    await expect(t.plainRows(`SELECT * FROM time_buckets(${call})`)).rejects.toThrow(words);
    await expect(t.plainRows(`SELECT * FROM time_buckets(${call})`)).rejects.toThrow(/INVALID_ARGUMENT/u);
  });

  it("may be one bucket too long: 100,000 are answered", async () => {
    expect((await buckets("'2025-11-20', '2025-11-21 03:46:40', '1 second'")).length).toBe(100_000);
  });
});
