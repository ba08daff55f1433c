/** histogram_quantile, histogram_merge and their exponential kin, against numbers worked out by hand. */
import { beforeAll, describe, expect, it } from "vitest";

import { openTestEngine, type TestEngine } from "../helpers/query/query-engine.js";

let engine: TestEngine;

beforeAll(async () => {
  engine = await openTestEngine();
  return () => engine.close();
});

/** The one value of an expression, as DuckDB writes it. */
async function value(expression: string, from = ""): Promise<unknown> {
  const [row] = await engine.rows(`SELECT CAST(${expression} AS VARCHAR) ${from}`);
  return row?.[0];
}

describe("histogram_quantile", () => {
  it.each([
    // 95 of 100 in the bucket from 10 to 20.
    ["0.95, [0, 100, 0], [10.0, 20.0]", "19.5"],
    // The first bucket begins at 0; ranks 2, 6 and 12 of 12.
    ["0.5 / 3, [4, 4, 4], [10, 20]", "5.0"],
    ["0.5, [4, 4, 4], [10, 20]", "15.0"],
    // Behind the last bound there is nothing but it.
    ["1, [4, 4, 4], [10, 20]", "20.0"],
    ["0.9, [4, 4, 4], [10, 20]", "20.0"],
    ["1, [4, 4, 0], [10, 20]", "20.0"],
    // A first bucket whose bound is not above 0 has no width.
    ["0.1, [4, 4, 4], [-10, 20]", "-10.0"],
    ["0.5, [4, 4, 4], [-10, 20]", "5.0"],
    ["0.1, [4, 4], [0]", "0.0"],
    // Empty buckets hold no rank, also not rank 0.
    ["0, [0, 4, 4], [10, 20]", "10.0"],
    ["0.5, [4, 0, 0, 4], [1, 2, 3]", "1.0"],
    // Unsigned, decimal and double counts alike.
    ["0.5, [1, 1]::UBIGINT[], [4]::DOUBLE[]", "4.0"],
    ["0.5, [0.5, 1.5, 0.0], [1, 3]", "1.6666666666666667"],
  ])("of %s is %s", async (call, wanted) => {
    expect(Number(await value(`histogram_quantile(${call})`))).toBeCloseTo(Number(wanted), 14);
  });

  it.each([
    "0.5, NULL, [1.0]",
    "0.5, [1, 2], NULL",
    "NULL, [1, 2], [1.0]",
    "NULL, [1, -2], [1.0]",
    "0.5, [1, NULL], [1.0]",
    "0.5, [1, 2], [NULL]",
    // Nothing was observed, or nothing is known of where.
    "0.5, [0, 0], [1.0]",
    "0.5, [], []",
    "0.5, [3], []",
  ])("of %s is null", async (call) => {
    expect(await value(`histogram_quantile(${call})`)).toBeNull();
  });

  it.each([
    ["1.01, [1, 2], [1.0]", /a quantile from 0 to 1/u],
    ["-0.01, [1, 2], [1.0]", /a quantile from 0 to 1/u],
    ["'NaN'::DOUBLE, [1, 2], [1.0]", /a quantile from 0 to 1/u],
    ["95, [0, 0], [1.0]", /a quantile from 0 to 1/u],
    ["0.5, [1, 2, 3], [1.0]", /one more count than bounds/u],
    ["0.5, [1, 2], [1.0, 2.0]", /one more count than bounds/u],
    ["0.5, [], [1.0]", /one more count than bounds/u],
    ["0.5, [3, -1], [1.0]", /counts that are finite and not below zero/u],
    ["0.5, [3, 'NaN'::DOUBLE], [1.0]", /counts that are finite and not below zero/u],
    ["0.5, [3, 'Infinity'::DOUBLE], [1.0]", /counts that are finite and not below zero/u],
    ["0.5, [1, 2, 3], [2.0, 1.0]", /bounds that are finite and rise/u],
    ["0.5, [1, 2, 3], [2.0, 'NaN'::DOUBLE]", /bounds that are finite and rise/u],
    ["0.5, [1, 2, 3], [2.0, 'Infinity'::DOUBLE]", /bounds that are finite and rise/u],
  ])("of %s is refused in words", async (call, words) => {
    await expect(engine.rows(`SELECT histogram_quantile(${call})`)).rejects.toThrow(words);
  });

  it("takes each argument for what it is, whatever its name", async () => {
    const rows = "FROM (SELECT 0.5 AS svc_h, [4, 4, 4] AS s, [10, 20] AS b)";
    expect(await value("histogram_quantile(svc_h, s, b)", rows)).toBe("15.0");
    expect(await value("list_transform([0.5, 1], lambda q: histogram_quantile(q, s, b))", rows)).toBe("[15.0, 20.0]");
  });
});

describe("histogram_merge", () => {
  it("adds up place by place, and passes over nulls", async () => {
    const rows = "FROM (VALUES ([1, 2]), (NULL), ([10, 20])) t(c)";
    expect(await value("histogram_merge(c)", rows)).toBe("[11.0, 22.0]");
    expect(await value("histogram_quantile(0.5, histogram_merge(c), [8])", rows)).toBe("8.0");
    expect(await value("histogram_merge(c) FILTER (WHERE c IS NULL)", rows).catch((e: unknown) => String(e))).toMatch(
      /filter/iu,
    );
    expect(await value("histogram_merge(c)", `${rows} WHERE c IS NULL`)).toBeNull();
    expect(await value("histogram_merge(c)", "FROM (VALUES ([1, NULL]), ([1, 1])) t(c)")).toBeNull();
    expect(await value("histogram_merge(c)", "FROM (VALUES ([]), ([])) t(c)")).toBe("[]");
  });

  it("adds up histograms, which histogram_quantile takes", async () => {
    const rows = "FROM (VALUES ([1, 2], [8]), (NULL, NULL), ([10, 20], [8])) t(c, b)";
    const histogram = "CASE WHEN c IS NOT NULL THEN {bucket_counts: c, explicit_bounds: b} END";
    expect(await value(`histogram_merge(${histogram})`, rows)).toBe(
      "{'bucket_counts': [11.0, 22.0], 'explicit_bounds': [8.0]}",
    );
    expect(await value(`histogram_quantile(0.25, histogram_merge(${histogram}))`, rows)).toBe("6.0");
    expect(
      await value(`histogram_quantile(0.25, histogram_merge(${histogram}))`, `${rows} WHERE c IS NULL`),
    ).toBeNull();
    await expect(
      value("histogram_merge({bucket_counts: [1, 2], explicit_bounds: b})", "FROM (VALUES ([8]), ([9])) t(b)"),
    ).rejects.toThrow(
      /histograms of the same bounds; group by explicit_bounds, or by what has one each, such as service_name/u,
    );
  });

  it.each([1, 31, 32, 33, 100])("adds up lists of %i counts of many rows and groups", async (n) => {
    const rows = await engine.rows(
      `SELECT g, to_json(histogram_merge(c)), to_json(histogram_merge({bucket_counts: c, explicit_bounds: b}))
       FROM (SELECT i % 3 AS g, list_transform(range(${n}), lambda x: i * x) AS c, range(${n - 1}) AS b FROM range(5000) r(i))
       GROUP BY g ORDER BY g`,
    );
    const sums = [0, 1, 2].map((g) => {
      const sum = Array.from({ length: 5000 }, (_, i) => (i % 3 === g ? i : 0)).reduce((a, b) => a + b);
      return Array.from({ length: n }, (_, x) => sum * x);
    });
    const bounds = Array.from({ length: n - 1 }, (_, x) => x);
    expect(rows.map((row) => row.slice(1).map((text) => JSON.parse(String(text)) as unknown))).toEqual(
      sums.map((counts) => [counts, { bucket_counts: counts, explicit_bounds: bounds }]),
    );
  });

  it.each([2, 40])(
    "of lists of %i counts is null when one is, and refused when another length is among them",
    async (n) => {
      const nulled = `list_transform(range(${n}), lambda x: CASE WHEN i > 1 OR x > 0 THEN x END)`;
      expect(await value("histogram_merge(c)", `FROM (SELECT ${nulled} AS c FROM range(4) r(i))`)).toBeNull();
      await expect(
        value("histogram_merge(c)", `FROM (SELECT range(${n} + CAST(i = 3 AS INTEGER)) AS c FROM range(4) r(i))`),
      ).rejects.toThrow(/counts of one length/u);
    },
  );

  it("refuses lists of different lengths", async () => {
    await expect(value("histogram_merge(c)", "FROM (VALUES ([1, 2]), ([1])) t(c)")).rejects.toThrow(
      /counts of one length; group by explicit_bounds/u,
    );
  });
});

/** A histogram as text of SQL. */
const exp = (
  scale: number,
  zeroCount: number,
  positiveOffset: number,
  positive: string,
  negativeOffset = 0,
  negative = "[]",
  zeroThreshold = "0.0",
): string =>
  `{scale: ${scale}, zero_count: ${zeroCount}, zero_threshold: ${zeroThreshold}, positive_offset: ${positiveOffset}, positive_bucket_counts: ${positive}, negative_offset: ${negativeOffset}, negative_bucket_counts: ${negative}}`;

describe("exp_histogram_quantile", () => {
  it.each([
    // Bucket 1 of scale 0 is from 2 to 4; half of it, on the logarithmic scale, is 2^1.5.
    [0.5, exp(0, 0, 0, "[0, 10]"), 2 ** 1.5],
    [1, exp(0, 0, 0, "[0, 10]"), 4],
    [0, exp(0, 0, 0, "[0, 10]"), 2],
    // Scale 1: bucket 3 is from 2^1.5 to 2^2. Scale -1: bucket 1 is from 4 to 16.
    [0.5, exp(1, 0, 3, "[10]"), 2 ** 1.75],
    [0.5, exp(-1, 0, 1, "[10]"), 8],
    // Negative ones mirror them: bucket 1 is from -4 to -2.
    [0.25, exp(0, 0, 0, "[]", 1, "[10]"), -(2 ** 1.75)],
    // Lowest first: 10 from -4, 10 at zero, 10 up to 4.
    [0.5, exp(0, 10, 1, "[10]", 1, "[10]", "0.5"), 0],
    [1 / 6, exp(0, 10, 1, "[10]", 1, "[10]"), -(2 ** 1.5)],
    // The zero bucket begins at 0 when there is nothing below it, and ends there when there is nothing above it.
    [0.25, exp(0, 10, 1, "[10]", 0, "[]", "0.5"), 0.25],
    [0.75, exp(0, 10, 0, "[0]", 1, "[10]", "0.5"), -0.25],
    [0.75, exp(0, 10, 0, "[]", 0, "[]", "0.5"), 0.25],
    [0.5, exp(0, 10, 0, "[]", 0, "[]", "NULL"), 0],
    // The last bucket that 32 bits can number is at 2, of scale 31; of the highest scale, at 1.
    [1, exp(31, 0, 2_147_483_647, "[10]"), 2],
    [0.9, exp(2_147_483_647, 0, 2_147_483_646, "[10, 10, 10]"), 1],
    [0.1, exp(2_147_483_647, 0, 0, "[]", 2_147_483_647, "[10, 10]"), -1],
  ])("at %d of %s", async (q, histogram, wanted) => {
    expect(Number(await value(`exp_histogram_quantile(${q}, ${histogram})`))).toBeCloseTo(wanted, 12);
  });

  it.each([
    "0.5, NULL",
    `NULL, ${exp(0, 0, 0, "[1]")}`,
    `0.5, ${exp(0, 0, 0, "[]")}`,
    `0.5, ${exp(0, 0, 0, "[0]")}`,
    `0.5, ${exp(0, 0, 0, "[1, NULL]")}`,
    `0.5, ${exp(0, 0, 0, "NULL")}`,
    `0.5, {scale: NULL, zero_count: NULL, zero_threshold: NULL, positive_offset: NULL, positive_bucket_counts: [], negative_offset: NULL, negative_bucket_counts: []}`,
  ])("of %s is null", async (call) => {
    expect(await value(`exp_histogram_quantile(${call})`)).toBeNull();
  });

  it.each([
    [`1.5, ${exp(0, 0, 0, "[1]")}`, /a quantile from 0 to 1/u],
    [`'NaN'::DOUBLE, ${exp(0, 0, 0, "[1]")}`, /a quantile from 0 to 1/u],
    [`0.5, ${exp(0, 0, 0, "[-1]")}`, /counts that are finite and not below zero/u],
    [`0.5, ${exp(0, -1, 0, "[1]")}`, /counts that are finite and not below zero/u],
    [`0.5, ${exp(0, 0, 0, "[1]", 0, "['NaN'::DOUBLE]")}`, /counts that are finite and not below zero/u],
    [`0.5, ${exp(0, 0, 0, "[1]", 0, "[]", "-1.0")}`, /a zero_threshold that is finite/u],
    [`0.5, ${exp(0, 0, 0, "[1]", 0, "[]", "'NaN'::DOUBLE")}`, /a zero_threshold that is finite/u],
  ])("of %s is refused in words", async (call, words) => {
    await expect(engine.rows(`SELECT exp_histogram_quantile(${call})`)).rejects.toThrow(words);
  });
});

describe("exp_histogram_merge", () => {
  const merged = (histograms: readonly string[]): Promise<unknown> =>
    value(
      "exp_histogram_merge(h)",
      `FROM (${histograms.map((h) => `SELECT CAST(${h} AS STRUCT(scale INTEGER, zero_count DOUBLE, zero_threshold DOUBLE, positive_offset INTEGER, positive_bucket_counts DOUBLE[], negative_offset INTEGER, negative_bucket_counts DOUBLE[])) AS h`).join(" UNION ALL ")})`,
    );
  const text = (
    scale: number,
    zero: string,
    positiveOffset: number,
    positive: string,
    negativeOffset = 0,
    negative = "[]",
  ): string =>
    `{'scale': ${scale}, 'zero_count': ${zero}, 'zero_threshold': 0.0, 'positive_offset': ${positiveOffset}, 'positive_bucket_counts': ${positive}, 'negative_offset': ${negativeOffset}, 'negative_bucket_counts': ${negative}}`;

  it("adds up buckets of one scale, wherever they begin", async () => {
    expect(await merged([exp(3, 1, 5, "[1, 2]"), exp(3, 2, 4, "[10, 20, 30, 40]", -2, "[7]"), "NULL"])).toBe(
      text(3, "3.0", 4, "[10.0, 21.0, 32.0, 40.0]", -2, "[7.0]"),
    );
    expect(await merged([exp(3, 1, 5, "[1, 2]"), exp(3, 0, -1, "[3]")])).toBe(
      text(3, "1.0", -1, "[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]"),
    );
  });

  it("joins pairs of buckets for a scale lower by one, below zero, too", async () => {
    // Buckets -3, -2, -1, 0, 1 of scale 1 are in -2, -1, -1, 0, 0 of scale 0.
    expect(await merged([exp(1, 0, -3, "[1, 2, 3, 4, 5]"), exp(0, 0, 0, "[100]")])).toBe(
      text(0, "0.0", -2, "[1.0, 5.0, 109.0]"),
    );
    // Two scales lower: 5, 6, 7 in 1, and 8 in 2.
    expect(await merged([exp(2, 0, 5, "[1, 2, 3, 4]", 5, "[1, 2, 3, 4]"), exp(0, 0, 1, "[10]")])).toBe(
      text(0, "0.0", 1, "[16.0, 4.0]", 1, "[6.0, 4.0]"),
    );
  });

  it.each([
    // All numbers are in buckets -1 and 0, of which -1 has those up to 1.
    [-2_147_483_648, -1, "[2, 3]", -11, "[6.0, 12.0]"],
    [-50, -1, "[2, 3]", -11, "[6.0, 12.0]"],
    [-11, -1, "[2, 3]", -11, "[6.0, 12.0]"],
    // All of its buckets are just below and above 1.
    [2_147_483_647, -2, "[2, 3, 4, 5]", 3, "[9.0, 10.0, 8.0]"],
    [2_147_483_647, 2_147_483_645, "[2, 3]", 3, "[4.0, 6.0, 8.0]"],
  ])("takes the scale %i", async (odd, first, counts, scale, sum) => {
    const all = [exp(3, 0, -1, "[4, 1, 8]"), exp(odd, 0, first, counts), "NULL"];
    expect(await merged(all)).toBe(text(scale, "0.0", -1, sum));
  });

  it("takes scales that are as far apart as they can be", async () => {
    const limits = [exp(-2_147_483_648, 0, -1, "[1, 2]"), exp(2_147_483_647, 0, -1, "[3, 4]")];
    expect(await merged(limits)).toBe(text(-11, "0.0", -1, "[4.0, 6.0]"));
    expect(await merged(limits.slice(0, 1))).toBe(text(-11, "0.0", -1, "[1.0, 2.0]"));
    expect(Number(await value(`exp_histogram_quantile(1 / 6, ${limits[0]})`))).toBe(2 ** -1024);
  });

  it("takes the scale that 320 buckets need", async () => {
    // At scale 20, 1 is in bucket -1 and 1000 in bucket 10,449,825: 2 values, 10 million buckets apart.
    const far = `list_transform(range(1), lambda x: 1)`;
    const [row] = await engine.rows(
      `SELECT h.scale, len(h.positive_bucket_counts), list_sum(h.positive_bucket_counts),
         exp_histogram_quantile(0, h), exp_histogram_quantile(1, h)
       FROM (SELECT exp_histogram_merge(x) AS h FROM (SELECT ${exp(20, 0, -1, far)} AS x UNION ALL SELECT ${exp(20, 0, 10_449_825, far)}))`,
    );
    const [scale, buckets, count, least, most] = (row ?? []).map(Number);
    expect(scale).toBe(4);
    expect(buckets).toBeLessThanOrEqual(320);
    expect(count).toBe(2);
    // Within a bucket of the true ones: a factor of 2^(1/16).
    expect(least).toBeGreaterThan(2 ** (-1 / 16) - 1e-9);
    expect(least).toBeLessThanOrEqual(1);
    expect(most).toBeGreaterThanOrEqual(1000);
    expect(most).toBeLessThan(1000 * 2 ** (1 / 16));
  });

  it("of nothing is null, of empty histograms one", async () => {
    expect(await merged(["NULL"])).toBeNull();
    expect(await merged([exp(2, 1, 0, "[1]"), exp(2, 1, 0, "[NULL]")])).toBeNull();
    expect(await merged([exp(2, 1, 0, "[1]"), exp(2, 1, 0, "[1]").replace("scale: 2", "scale: NULL")])).toBeNull();
    expect(await merged([exp(2, 1, 0, "[]"), exp(2, 2, 7, "[]")])).toBe(text(2, "3.0", 0, "[]"));
  });

  it("refuses histograms whose zero is not of one width", async () => {
    await expect(merged([exp(0, 0, 0, "[1]"), exp(0, 0, 0, "[1]", 0, "[]", "0.5")])).rejects.toThrow(
      /histograms of one zero_threshold/u,
    );
  });
});
