/** counter_increases and histogram_increases: first points, resets, restarts, both temporalities, and bad points. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";

const noon = 1_763_726_400; // 2025-11-21T12:00:00Z

let t: TestAnalytics;

/** A time by its minutes after noon; null is none. */
const at = (minutes: number | null): string =>
  minutes === null ? "NULL" : `make_timestamp_ns(${BigInt(Math.round((noon + minutes * 60) * 1000)) * 1_000_000n})`;

/** Name, minutes of start and time, value, and what else a point has. */
type Point = readonly [string, number | null, number, number | "NaN" | "Infinity" | null, string?];

const counters: readonly Point[] = [
  // Began long before: the first point says nothing.
  ["old", -600, 0, 1000],
  ["old", -600, 1, 1010],
  ["old", -600, 2, 1010],
  // Began two minutes before its first point.
  ["new", -1, 1, 5],
  ["new", -1, 2, 7],
  // Began in the hour, and its first point is half an hour later.
  ["late", -5, 25, 9],
  // No start: as one that began long before.
  ["unknown start", null, 0, 100],
  ["unknown start", null, 1, 130],
  ["unknown start", null, 2, 20],
  // Its start is its first point's time, which then says nothing.
  ["start is first point", 0, 0, 100],
  ["start is first point", 0, 1, 130],
  // Began while its library collected, after the time that the point got.
  ["start after first point", 0.002, 0, 100],
  ["start after first point", 0.002, 1, 130],
  ["delta start after point", 0.002, 0, 7],
  ["start hours after first point", 120, 0, 100],
  ["start hours after first point", 120, 1, 130],
  // Restarts: lower and higher than before.
  ["restarted", -600, 0, 100],
  ["restarted", -600, 1, 110],
  ["restarted", 1.5, 2, 30],
  ["restarted", 2.5, 3, 500],
  // The value falls, and nothing tells why.
  ["reset in place", -600, 0, 100],
  ["reset in place", -600, 1, 4],
  ["reset in place", -600, 2, 6],
  // Two writers of one series, each since a start of its own.
  ["two writers", -600, 0, 1000],
  ["two writers", -500, 0.5, 10],
  ["two writers", -600, 1, 1002],
  ["two writers", -500, 1.5, 13],
  // More than an hour between two points.
  ["gap", -600, 0, 1],
  ["gap", -600, 61, 100],
  ["gap", -600, 121, 110],
  ["delta", 0, 1, 3],
  ["delta", 1, 2, 4],
  ["delta", null, 3, 5],
  ["delta", null, 4, 6],
  // Sent again: once as it was, once with another value.
  ["duplicates", -600, 0, 10],
  ["duplicates", -600, 1, 15],
  ["duplicates", -600, 1, 15],
  ["duplicates", -600, 2, 16],
  ["delta duplicates", 0, 1, 3],
  ["delta duplicates", 0, 1, 3],
  ["delta duplicates", 1, 2, 3],
  // Points without a value.
  ["holes", -600, 0, 10],
  ["holes", -600, 1, "NaN"],
  ["holes", -600, 2, "Infinity"],
  ["holes", -600, 3, null],
  ["holes", -600, 4, 0, "1 AS flags"],
  ["holes", -600, 5, 25],
  ["negative delta", 0, 1, -3],
  ["negative delta", 1, 2, 3],
  ["no sum", -1, 1, 3, "'gauge' AS metric_type"],
  ["not monotonic", -1, 1, 3, "false AS is_monotonic"],
  ["no temporality", -1, 1, 3, "'unspecified' AS temporality"],
];

const counterSql = ([name, start, time, value, more]: Point): string =>
  `SELECT * REPLACE (${more ?? "0 AS flags"}) FROM (SELECT ${at(time)} AS time, ${at(start)} AS start_time, '${name}' AS name, 'sum' AS metric_type, '${name.includes("delta") ? "delta" : "cumulative"}' AS temporality, true AS is_monotonic, 0 AS flags, CAST(${typeof value === "string" ? `'${value}'` : value} AS DOUBLE) AS value, 'p' AS process_id, 's' AS service_name, '{}' AS properties)`;

beforeAll(async () => {
  t = await startTestAnalytics();
  // Out of order, and one series in two objects.
  for (const part of [0, 1]) {
    await addPartition(t.lake, t.sql, {
      table: "measures",
      audience: "public",
      rowsSql: counters
        .filter((_, i) => i % 2 === part)
        .toReversed()
        .map(counterSql)
        .join(" UNION ALL "),
    });
  }
});

afterAll(async () => {
  await t.stop();
});

/** Minutes after noon, increase and seconds of a counter. */
async function rises(name: string): Promise<unknown[]> {
  const rows = await t.plainRows(
    `SELECT (epoch_ns(time) - ${noon}000000000) / 60e9 AS minute, increase, seconds FROM counter_increases WHERE name = '${name}' ORDER BY time`,
  );
  return rows.map((row) => [row["minute"], row["increase"], row["seconds"]]);
}

describe("counter_increases", () => {
  it.each([
    [
      "old",
      [
        [1, 10, 60],
        [2, 0, 60],
      ],
    ],
    [
      "new",
      [
        [1, 5, 120],
        [2, 2, 60],
      ],
    ],
    ["late", [[25, 9, 1800]]],
    [
      "unknown start",
      [
        [1, 30, 60],
        [2, 20, 60],
      ],
    ],
    ["start is first point", [[1, 30, 60]]],
    [
      "start after first point",
      [
        [0, 100, null],
        [1, 30, 60],
      ],
    ],
    ["delta start after point", [[0, 7, null]]],
    ["start hours after first point", [[1, 30, 60]]],
    [
      "restarted",
      [
        [1, 10, 60],
        [2, 30, 30],
        [3, 500, 30],
      ],
    ],
    [
      "reset in place",
      [
        [1, 4, 60],
        [2, 2, 60],
      ],
    ],
    [
      "two writers",
      [
        [1, 2, 60],
        [1.5, 3, 60],
      ],
    ],
    ["gap", [[121, 10, 3600]]],
    [
      "delta",
      [
        [1, 3, 60],
        [2, 4, 60],
        [3, 5, null],
        [4, 6, 60],
      ],
    ],
    [
      "duplicates",
      [
        [1, 5, 60],
        [2, 1, 60],
      ],
    ],
    [
      "delta duplicates",
      [
        [1, 3, 60],
        [2, 3, 60],
      ],
    ],
    ["holes", [[5, 15, 300]]],
    [
      "negative delta",
      [
        [1, null, 60],
        [2, 3, 60],
      ],
    ],
    ["no sum", []],
    ["not monotonic", []],
    ["no temporality", []],
  ])("of a counter that is %s", async (name, wanted) => {
    expect(await rises(name)).toEqual(wanted);
  });

  it("says what is wrong with a negative delta", async () => {
    expect(await t.plainRows("SELECT name, problem FROM counter_increases WHERE problem IS NOT NULL")).toEqual([
      { name: "negative delta", problem: "The value of a monotonic sum is below zero." },
    ]);
  });

  it("has the same numbers whatever the range, whether SQL or the metadata says it", async () => {
    const all = await t.plainRows("SELECT name, time, increase, seconds FROM counter_increases ORDER BY ALL");
    expect(all.length).toBeGreaterThan(20);
    for (const minutes of [1, 1.5, 2, 25, 121]) {
      const wanted = all.filter(({ time }) => Number(time) >= (noon + minutes * 60) * 1000);
      expect(
        await t.plainRows(
          `SELECT name, time, increase, seconds FROM counter_increases WHERE time >= ${at(minutes)} ORDER BY ALL`,
        ),
      ).toEqual(wanted);
    }
  });

  it("reads the points of a name, and of the hour before a bound", async () => {
    const [row] = await t.plainRows(
      `EXPLAIN ANALYZE SELECT sum(increase) FROM counter_increases WHERE name = 'gap' AND time >= ${at(100)}`,
    );
    const read = [...JSON.stringify(row ?? null).matchAll(/READ_PARQUET \((\d+) rows/gu)].map(([, n]) => Number(n));
    expect(read.reduce((a, b) => a + b)).toBe(2);
  });

  it("answers rates by bucket in one line", async () => {
    expect(
      await t.plainRows(
        "SELECT date_bin('2 minutes', time) = '2025-11-21 12:00' AS first, sum(increase) / 120 AS rate FROM counter_increases WHERE name = 'restarted' GROUP BY ALL ORDER BY rate",
      ),
    ).toEqual([
      { first: true, rate: 10 / 120 },
      { first: false, rate: 530 / 120 },
    ]);
  });
});

const histogram = (
  name: string,
  start: number,
  time: number,
  counts: readonly number[],
  more: readonly string[] = [],
): string => {
  const sum = counts.reduce((a, b) => a + b, 0);
  const values: Record<string, string> = {
    time: at(time),
    start_time: at(start),
    name: `'${name}'`,
    metric_type: "'histogram'",
    temporality: "'cumulative'",
    count: `${sum}::UBIGINT`,
    sum: `${sum * 2}::DOUBLE`,
    bucket_counts: `[${counts.join()}]::UBIGINT[]`,
    explicit_bounds: "[10, 20]::DOUBLE[]",
    scale: "NULL::INTEGER",
    zero_count: "NULL::UBIGINT",
    zero_threshold: "NULL::DOUBLE",
    positive_offset: "NULL::INTEGER",
    positive_bucket_counts: "[]::UBIGINT[]",
    negative_offset: "NULL::INTEGER",
    negative_bucket_counts: "[]::UBIGINT[]",
  };
  for (const text of more) {
    const [column = "", value = ""] = text.split(" = ");
    values[column] = value;
  }
  return `SELECT ${Object.entries(values)
    .map(([column, value]) => `${value} AS ${column}`)
    .join(", ")}`;
};

const exponential = (scale: number, offset: number, counts: readonly number[], zero = 0): string[] => [
  "metric_type = 'exponential_histogram'",
  "bucket_counts = []::UBIGINT[]",
  "explicit_bounds = []::DOUBLE[]",
  `scale = ${scale}`,
  `zero_count = ${zero}::UBIGINT`,
  "zero_threshold = 0::DOUBLE",
  `count = ${counts.reduce((a, b) => a + b, zero)}::UBIGINT`,
  `positive_offset = ${offset}`,
  `positive_bucket_counts = [${counts.join()}]::UBIGINT[]`,
  "negative_offset = 0",
];

describe("histogram_increases", () => {
  beforeAll(async () => {
    await addPartition(t.lake, t.sql, {
      table: "histograms",
      audience: "public",
      rowsSql: [
        histogram("old", -600, 0, [70, 10, 1]),
        histogram("old", -600, 1, [70, 110, 1]),
        histogram("new", -1, 1, [1, 2, 3]),
        histogram("start after first point", 0.002, 0, [1, 2, 3]),
        histogram("restarted", -600, 0, [100, 0, 0]),
        histogram("restarted", 0.5, 1, [200, 5, 0]),
        histogram("reset in place", -600, 0, [100, 0, 0]),
        histogram("reset in place", -600, 1, [0, 60, 0]),
        // More in sum, less in one bucket.
        histogram("bucket fell", -600, 0, [100, 0, 0]),
        histogram("bucket fell", -600, 1, [50, 60, 0]),
        histogram("other bounds", -600, 0, [100, 0, 0]),
        histogram("other bounds", -600, 1, [100, 10, 0], ["explicit_bounds = [10, 30]::DOUBLE[]"]),
        histogram("delta", 0, 1, [1, 2, 3], ["temporality = 'delta'"]),
        histogram("delta", 0, 1, [1, 2, 3], ["temporality = 'delta'"]),
        histogram("delta", 1, 2, [1, 2, 3], ["temporality = 'delta'"]),
        // Of one time and one count, each several times.
        ...[2, 0, 1, 1, 0, 2, 0, 1, 2, 2, 1, 0].map((n) =>
          histogram("as many", 0, 1, [n, 6 - n, 0], ["temporality = 'delta'", `sum = ${n}::DOUBLE`]),
        ),
        ...[2, 0, 1, 1, 0, 2].flatMap((n) => [
          histogram("as many without sum", 0, 1, [n, 6 - n, 0], ["temporality = 'delta'", "sum = NULL::DOUBLE"]),
          histogram(
            "as many without sum",
            0,
            1,
            [],
            [...exponential(0, n, [6]), "temporality = 'delta'", "sum = NULL::DOUBLE"],
          ),
          // The same, with empty buckets around it.
          histogram(
            "as many without sum",
            0,
            1,
            [],
            [...exponential(0, n - 2, [0, 0, 6, 0]), "temporality = 'delta'", "sum = NULL::DOUBLE"],
          ),
        ]),
        histogram(
          "no buckets",
          -1,
          1,
          [],
          ["explicit_bounds = []::DOUBLE[]", "count = 7::UBIGINT", "sum = 'NaN'::DOUBLE"],
        ),
        histogram("malformed", -1, 1, [1, 2], ["explicit_bounds = [10, 20]::DOUBLE[]"]),
        histogram("summary", -1, 1, [1, 2, 3], ["metric_type = 'summary'"]),
        histogram("exp", -600, 0, [], exponential(1, 0, [1, 2, 3], 1)),
        histogram("exp", -600, 1, [], exponential(1, -1, [5, 1, 4, 3, 7], 3)),
        // Buckets 0 and 1 of scale 1 are 0 of scale 0, 2 and 3 are 1; from -1 on.
        histogram("exp", -600, 2, [], exponential(0, -1, [6, 10, 20], 3)),
        // A bucket less than before, though more in sum.
        histogram("exp", -600, 3, [], exponential(0, 0, [10, 50], 3)),
        histogram("exp", -600, 4, [], exponential(2, 0, [100], 3)),
        histogram("strange", -600, 0, [], exponential(2_147_483_647, 2_147_483_647, [1])),
        histogram("strange", -600, 1, [], exponential(-2_147_483_648, -2_147_483_648, [2])),
        histogram("zero width", -600, 0, [], exponential(0, 0, [1])),
        histogram("zero width", -600, 1, [], [...exponential(0, 0, [2]), "zero_threshold = 0.5::DOUBLE"]),
      ].join(" UNION ALL BY NAME "),
    });
  });

  it.each([
    ["as many", 3, "[3.0, 15.0, 0.0]"],
    ["as many without sum", 6, "[3.0, 15.0, 0.0]"],
  ])("count points of one time once where they are equal, and apart where not: %s", async (name, points, counts) => {
    expect(
      await t.plainRows(
        `SELECT count(*)::INTEGER AS points, CAST(histogram_merge(histogram).bucket_counts AS VARCHAR) AS counts FROM histogram_increases WHERE name = '${name}'`,
      ),
    ).toEqual([{ points, counts }]);
  });

  it.each([
    ["old", [{ count: 100, sum: 200, bucket_counts: "[0.0, 100.0, 0.0]", seconds: 60 }]],
    ["new", [{ count: 6, sum: 12, bucket_counts: "[1.0, 2.0, 3.0]", seconds: 120 }]],
    ["start after first point", [{ count: 6, sum: 12, bucket_counts: "[1.0, 2.0, 3.0]", seconds: null }]],
    ["restarted", [{ count: 205, sum: 410, bucket_counts: "[200.0, 5.0, 0.0]", seconds: 30 }]],
    ["reset in place", [{ count: 60, sum: 120, bucket_counts: "[0.0, 60.0, 0.0]", seconds: 60 }]],
    ["bucket fell", [{ count: 110, sum: 220, bucket_counts: "[50.0, 60.0, 0.0]", seconds: 60 }]],
    ["other bounds", []],
    [
      "delta",
      [
        { count: 6, sum: 12, bucket_counts: "[1.0, 2.0, 3.0]", seconds: 60 },
        { count: 6, sum: 12, bucket_counts: "[1.0, 2.0, 3.0]", seconds: 60 },
      ],
    ],
    ["no buckets", [{ count: 7, sum: null, bucket_counts: "[]", seconds: 120 }]],
    ["malformed", [{ count: null, sum: null, bucket_counts: null, seconds: 120 }]],
    ["summary", []],
  ])("of one that is %s", async (name, wanted) => {
    expect(
      await t.plainRows(
        `SELECT count, sum, CAST(bucket_counts AS VARCHAR) AS bucket_counts, seconds FROM histogram_increases WHERE name = '${name}' ORDER BY time`,
      ),
    ).toEqual(wanted);
  });

  it("of exponential ones, at the later scale", async () => {
    expect(
      await t.plainRows(
        `SELECT count, exp_histogram.scale AS scale, exp_histogram.zero_count AS zero, exp_histogram.positive_offset AS first, CAST(exp_histogram.positive_bucket_counts AS VARCHAR) AS counts FROM histogram_increases WHERE name = 'exp' ORDER BY time`,
      ),
    ).toEqual([
      { count: 16, scale: 1, zero: 2, first: -1, counts: "[5.0, 0.0, 2.0, 0.0, 7.0]" },
      // Before, at scale 0: 5 in bucket -1, 1 + 4 in 0, 3 + 7 in 1.
      { count: 16, scale: 0, zero: 0, first: -1, counts: "[1.0, 5.0, 10.0]" },
      { count: 63, scale: 0, zero: 3, first: 0, counts: "[10.0, 50.0]" },
      { count: 103, scale: 2, zero: 3, first: 0, counts: "[100.0]" },
    ]);
  });

  it("of scales and offsets at their limits", async () => {
    expect(
      await t.plainRows(
        "SELECT count, exp_histogram.scale AS scale, CAST(exp_histogram.positive_bucket_counts AS VARCHAR) AS counts FROM histogram_increases WHERE name = 'strange'",
      ),
    ).toEqual([{ count: 2, scale: -2_147_483_648, counts: "[2.0]" }]);
  });

  it("says what is wrong with a point", async () => {
    expect(
      await t.plainRows(
        "SELECT name, problem, count, exp_histogram FROM histogram_increases WHERE problem IS NOT NULL ORDER BY name",
      ),
    ).toEqual([
      { name: "malformed", problem: "There is not one more count than bounds.", count: null, exp_histogram: null },
      { name: "zero width", problem: "The zero threshold changed.", count: null, exp_histogram: null },
    ]);
  });

  it("gives quantiles in one line", async () => {
    expect(
      await t.plainRows(
        "SELECT name, histogram_quantile(0.5, histogram_merge(histogram)) AS p50 FROM histogram_increases WHERE name IN ('old', 'delta') GROUP BY ALL ORDER BY name",
      ),
    ).toEqual([
      { name: "delta", p50: 20 },
      { name: "old", p50: 15 },
    ]);
    const [row] = await t.plainRows(
      "SELECT exp_histogram_quantile(1, exp_histogram_merge(exp_histogram)) AS p100 FROM histogram_increases WHERE name = 'exp'",
    );
    expect(row).toEqual({ p100: 4 });
  });
});

describe("of a process that several resources share", () => {
  const resource = (database: number): string => `'{"db":"${database}"}'`;

  /** Points a minute apart, of one start and the same times, as one receiver sends them that asks two databases. */
  const shared = (process: string, instance: string): string =>
    [10, 5]
      .flatMap((by, database) =>
        [0, 1, 2].map(
          (minute) => `SELECT 'shared' AS name, 'sum' AS metric_type, true AS is_monotonic, 'cumulative' AS temporality,
            ${at(minute)} AS time, ${at(-600)} AS start_time, ${1000 + database * 500 + minute * by}::DOUBLE AS value,
            '${process}' AS process_id, ${instance} AS service_instance_id, ${resource(database)} AS process_properties`,
        ),
      )
      .join(" UNION ALL ");

  beforeAll(async () => {
    await addPartition(t.lake, t.sql, {
      table: "measures",
      audience: "public",
      rowsSql: `${shared("databases", "NULL::VARCHAR")} UNION ALL ${shared("instance", "'one'")}`,
    });
    await addPartition(t.lake, t.sql, {
      table: "histograms",
      audience: "public",
      rowsSql: [0, 1]
        .map((database) =>
          histogram("shared", 0, 1, [2, 0, 0], ["temporality = 'delta'", `process_properties = ${resource(database)}`]),
        )
        .join(" UNION ALL "),
    });
  });

  it("each resource has series of its own", async () => {
    expect(
      await t.plainRows(`SELECT process_properties, CAST(sum(increase) AS INTEGER) AS rose FROM counter_increases
        WHERE process_id = 'databases' GROUP BY ALL ORDER BY ALL`),
    ).toEqual([
      { process_properties: '{"db":"0"}', rose: 20 },
      { process_properties: '{"db":"1"}', rose: 10 },
    ]);
    expect(
      await t.plainRows("SELECT CAST(sum(count) AS INTEGER) AS rose FROM histogram_increases WHERE name = 'shared'"),
    ).toEqual([{ rose: 4 }]);
    expect(
      await t.plainRows(`SELECT process_properties, CAST(points AS INTEGER) AS points FROM metric_series
        WHERE process_id = 'databases' ORDER BY ALL`),
    ).toEqual([
      { process_properties: '{"db":"0"}', points: 3 },
      { process_properties: '{"db":"1"}', points: 3 },
    ]);
  });

  it("an instance has one, whatever attributes come later", async () => {
    expect(
      await t.plainRows("SELECT CAST(points AS INTEGER) AS points FROM metric_series WHERE process_id = 'instance'"),
    ).toEqual([{ points: 6 }]);
  });
});
