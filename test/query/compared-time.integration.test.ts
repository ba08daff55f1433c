/** Conditions on `time` and objects whose rows all meet them: their `time` is not read, and the rows are the same. */
import { beforeAll, beforeEach, describe, expect, it } from "vitest";

import { effort } from "../helpers/effort.js";
import { destroyColumn } from "../helpers/lake/destroy-column.js";
import { addPartition } from "../helpers/lake/lake.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { noon } from "../helpers/noon.js";

const second = 1_000_000_000n;

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

beforeEach(async () => {
  await t.sql`delete from lakehouse_partitions`;
});

/** Adds an object of rows one step apart. @returns its file */
async function add(beginNs: bigint, rows: number, stepNs = second): Promise<string> {
  const { path } = await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql: `SELECT make_timestamp_ns(${beginNs} + i * ${stepNs}) AS time, 'p' AS process_id, '{}' AS properties,
      'row ' || i AS msg, CAST(i % 20 AS INTEGER) AS level FROM range(${rows}) t(i)`,
  });
  return path;
}

describe("time of an object within what it is compared with", () => {
  it.each([
    ["time >= '2025-11-21T11:59:59Z'"],
    ["time > TIMESTAMP '2025-11-21 11:59:59' AND time < make_timestamp_ns(1763726500000000000)"],
    ["log_entries.time BETWEEN '2025-11-21T11:00:00Z' AND TIMESTAMP '2025-11-21 13:00:00' AND level >= 0"],
    ["DATE '2025-11-21' <= time AND TIMESTAMPTZ '2025-11-21 15:00:00+02' > time"],
  ])("is not read: %s", async (condition) => {
    await destroyColumn(await add(noon, 100), "time");
    await t.caller.failure("SELECT count(DISTINCT time) FROM log_entries");
    expect(await t.caller.rows(`SELECT count(*) AS n, max(msg) AS msg FROM log_entries WHERE ${condition}`)).toEqual([
      { n: 100n, msg: "row 99" },
    ]);
  });

  it("is not read in the session's range", async () => {
    await destroyColumn(await add(noon, 100), "time");
    const sql = "SELECT count(*) AS n, max(msg) AS msg FROM log_entries";
    const all = [{ n: 100n, msg: "row 99" }];
    expect(await t.caller.rows(sql, { begin: noon, end: noon + 100n * second })).toEqual(all);
    expect(await t.caller.rows(`${sql} WHERE time < '2025-11-22'`, { begin: noon })).toEqual(all);
    await t.caller.failure(sql, { begin: noon + 1n });
    await t.caller.failure(sql, { end: noon + 99n * second });
    await t.caller.failure(`${sql} WHERE time < '2025-11-22'`, { begin: noon + 1n });
  });

  it("is read when the object is cut, or may be", async () => {
    await destroyColumn(await add(noon, 100), "time");
    for (const condition of [
      "time > '2025-11-21T12:00:00Z'",
      "time < '2025-11-21T12:01:00Z'",
      "time >= '2025-11-21T11:00:00Z' AND time >= now() - INTERVAL 100 YEARS",
      "time >= '2025-11-21T11:00:00Z' AND epoch_ns(time) > level",
    ]) {
      const { status } = await t.caller.failure(
        `SELECT count(*) AS n, max(msg) AS msg FROM log_entries WHERE ${condition}`,
      );
      expect(status).toBeGreaterThan(0);
    }
  });

  it("is not shown beside other columns", async () => {
    await add(noon, 1);
    const since = "WHERE time >= '2025-11-21T11:00:00Z'";
    const [all] = await t.caller.rows("SELECT * FROM log_entries");
    expect(await t.caller.rows(`SELECT * FROM log_entries ${since}`)).toEqual([all]);
    expect(await t.caller.rows(`FROM log_entries AS l ${since}`)).toEqual([all]);
    expect(await t.caller.rows(`SELECT l.* FROM log_entries AS l ${since}`)).toEqual([all]);
    expect(await t.caller.rows(`SELECT COLUMNS(*) FROM log_entries ${since}`)).toEqual([all]);
    const { message } = await t.caller.failure(`SELECT svc_compared_time FROM log_entries ${since}`);
    expect(message).toContain("svc_compared_time");
  });
});

it("finds the rows that it finds when each is looked at, whatever is compared", async () => {
  const seed = Date.now() % 1_000_000;
  const random = seededRandom(seed);
  const below = (n: number): number => Math.floor(random() * n);
  for (let i = 0; i < 12; i++) {
    await add(noon + BigInt(below(600)) * second + BigInt(below(3)), 1 + below(60), [1n, 1000n, second][below(3)]);
  }
  const time = (): string => {
    const ns = noon + BigInt(below(700) - 20) * second + BigInt(below(4));
    const text = new Date(Number(ns / 1_000_000n)).toISOString();
    return [
      `make_timestamp_ns(${ns})`,
      `'${text}'`,
      `TIMESTAMP '${text.slice(0, 23)}'`,
      `TIMESTAMPTZ '${text}'`,
      `TIMESTAMP '${text.slice(0, 23)}' + INTERVAL ${below(30)} SECOND`,
    ][below(5)] as string;
  };
  const sides = ["<", "<=", ">", ">=", "="] as const;
  const condition = (column: string): string => {
    const side = sides[below(20) === 0 ? 4 : below(4)] as string;
    switch (below(4)) {
      case 0:
        return `${column} BETWEEN ${time()} AND ${time()}`;
      case 1:
        return `${time()} ${side} ${column}`;
      default:
        return `${column} ${side} ${time()}`;
    }
  };
  const seen = "count(*) AS n, sum(epoch_ns(l.time) % 1000000007) AS times, sum(hash(l.msg) % 1000) AS texts";
  let found = 0n;
  for (let i = 0; i < effort(20, 300); i++) {
    const many = Array.from({ length: 1 + below(2) }, () => condition("l.time")).join(" AND ");
    const [from, where] = [
      ["log_entries l", many],
      ["log_entries l", `${many} AND l.level < 15`],
      ["log_entries l JOIN log_entries o USING (time, msg)", `${many} AND ${condition("o.time")}`],
      ["log_entries o LEFT JOIN log_entries l ON o.time = l.time AND l.level = o.level", many],
    ][below(4)] as [string, string];
    const range = below(3) === 0 ? { begin: noon + BigInt(below(300)) * second } : {};
    const [quick] = await t.caller.rows(`SELECT ${seen} FROM ${from} WHERE ${where}`, range);
    // Nothing is known about a column of a subquery.
    const slow = from.replaceAll(/log_entries (\w)/gu, "(FROM log_entries LIMIT 1000000) $1");
    const [whole] = await t.caller.rows(`SELECT ${seen} FROM ${slow} WHERE ${where}`, range);
    expect([seed, where, quick]).toEqual([seed, where, whole]);
    found += quick?.["n"] as bigint;
  }
  expect(found).toBeGreaterThan(100n);
}, 1_200_000);

describe("an error of a query that is rewritten", () => {
  it.each(["2300-01-01", "nonsense"])("says which time is none: %s", async (text) => {
    await add(noon, 1);
    const { message } = await t.caller.failure(`SELECT count(*) FROM log_entries WHERE time < '${text}'`);
    expect(message).toContain(`time is compared with '${text}', which is no time between 1677-09-22 and 2262-04-11`);
    expect(message).not.toMatch(/svc_|LINE/u);
  });

  it("speaks of a time only where it is one that is none", async () => {
    await add(noon, 1);
    const { message } = await t.caller.failure(
      "SELECT count(*) FROM log_entries WHERE time > '2020-01-01' AND CAST('x' || msg AS BIGINT) > 5",
    );
    expect(message).toMatch(/Could not convert string 'x.*' to INT64/u);
    expect(message).not.toMatch(/is no time|svc_/u);
  });

  it("does not quote what the caller did not write", async () => {
    await add(noon, 1);
    const { message } = await t.caller.failure("SELECT time::INT FROM log_entries WHERE time > '2025-11-20'");
    expect(message).toMatch(/TIMESTAMP_NS.*INTEGER/u);
    expect(message).not.toMatch(/svc_/u);
  });
});
