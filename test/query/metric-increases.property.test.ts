/** Increases of random counters against a second implementation, and against Prometheus' increase(). */
import { beforeAll, expect, it } from "vitest";

import { addPartition } from "../helpers/lake/lake.js";
import { extrapolatedIncrease, rawIncrease, type Sample } from "../helpers/query/prometheus.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";

const noon = 1_763_726_400; // 2025-11-21T12:00:00Z
const hour = 3600;
const seed = Date.now() % 1_000_000;
const random = seededRandom(seed);
const below = (n: number): number => Math.floor(random() * n);

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

/** Seconds after noon. */
interface Point {
  readonly name: string;
  readonly start: number | null;
  readonly at: number;
  readonly value: number;
  readonly delta: boolean;
}

const timeSql = (seconds: number | null): string =>
  seconds === null ? "NULL::BIGINT" : `${BigInt(noon + seconds) * 1_000_000_000n}`;

async function store(points: readonly Point[], objects: number): Promise<void> {
  for (let i = 0; i < objects; i++) {
    const some = points.filter((_, n) => n % objects === i);
    await addPartition(t.lake, t.sql, {
      table: "measures",
      audience: "public",
      rowsSql: `SELECT make_timestamp_ns(a) AS time, make_timestamp_ns(s) AS start_time, n AS name, v AS value, 'sum' AS metric_type, if(d, 'delta', 'cumulative') AS temporality, true AS is_monotonic
        FROM (VALUES ${some.map(({ name, start, at, value, delta }) => `(${timeSql(at)}, ${timeSql(start)}, '${name}', ${value}::DOUBLE, ${delta})`).join()}) p(a, s, n, v, d)`,
    });
  }
}

/** What one point adds, point by point: a second implementation of the rules of docs/views.md. */
function increases(points: readonly Point[]): Map<string, number> {
  const found = new Map<string, number>();
  const sorted = points.toSorted((a, b) => a.at - b.at || a.value - b.value);
  for (const [i, point] of sorted.entries()) {
    const before = sorted.slice(0, i).findLast((other) => other.name === point.name && other.start === point.start);
    const age = point.start === null ? null : point.at - point.start;
    let rise: number | null = null;
    if (before !== undefined && before.at === point.at && before.value === point.value) {
      continue;
    }
    if (point.delta) {
      rise = point.value;
    } else if (before !== undefined && point.at - before.at <= hour) {
      rise = point.value >= before.value ? point.value - before.value : point.value;
    } else if (age !== null && age !== 0 && Math.abs(age) <= hour) {
      rise = point.value;
    }
    if (rise !== null) {
      const key = `${point.name} ${point.at}`;
      found.set(key, (found.get(key) ?? 0) + rise);
    }
  }
  return found;
}

it(`follow the rules for any points, in any order, and for any range (seed ${seed})`, async () => {
  const points: Point[] = [];
  for (let n = 0; n < 60; n++) {
    const delta = random() < 0.3;
    let start: number | null = random() < 0.2 ? null : below(3 * hour) - hour;
    let at = Math.max(0, (start ?? 0) - below(600)) + below(600);
    let value = below(100);
    for (let i = 0; i < 25; i++) {
      const point = { name: `c${n}`, start, at, value, delta };
      points.push(point, ...(random() < 0.1 ? [point] : []));
      const last = at;
      at += random() < 0.05 ? hour + below(hour) : 1 + below(600);
      value = random() < 0.1 || delta ? below(100) : value + below(50);
      if (start !== null && (delta || random() < 0.1)) {
        start = delta ? last : last + below(at - last);
        value = below(100);
      }
    }
  }
  const shuffled = points
    .map((point) => ({ point, key: random() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ point }) => point);
  await store(shuffled, 3);
  const wanted = increases(points);
  expect(wanted.size).toBeGreaterThan(500);
  for (const begin of [0, below(3 * hour), 2 * hour + below(hour)]) {
    const rows = await t.plainRows(
      `SELECT name || ' ' || ((epoch_ns(time) - ${noon}000000000) // 1000000000)::INTEGER AS key, sum(increase) AS rise FROM counter_increases
       WHERE name LIKE 'c%' AND time >= make_timestamp_ns(${timeSql(begin)}) GROUP BY ALL`,
    );
    const found = Object.fromEntries(rows.map(({ key, rise }) => [key, rise]));
    expect(found).toEqual(Object.fromEntries([...wanted].filter(([key]) => Number(key.split(" ")[1]) >= begin)));
  }
});

it(`are Prometheus' increase() with the step into the range, and without extrapolation (seed ${seed})`, async () => {
  const counters = Array.from({ length: 20 }, (_, n) => {
    let value = below(1000);
    const samples = Array.from({ length: 120 }, (_, i): Sample => {
      value = random() < 0.05 ? below(10) : value + below(20);
      return [i * 30 + below(20), value];
    });
    return { name: `p${n}`, samples };
  });
  await store(
    counters.flatMap(({ name, samples }) =>
      samples.map(([at, value]) => ({ name, start: -10 * hour, at, value, delta: false })),
    ),
    2,
  );
  const width = 300;
  const rows = await t.plainRows(
    `SELECT name || ' ' || ((epoch_ns(date_bin('5 minutes', time)) - ${noon}000000000) // 1000000000)::INTEGER AS key, sum(increase) AS rise
     FROM counter_increases WHERE name LIKE 'p%' GROUP BY ALL`,
  );
  const found = new Map(rows.map(({ key, rise }) => [key, Number(rise)]));
  expect(found.size).toBe(20 * 12);
  const wrong = counters.flatMap(({ name, samples }) =>
    Array.from({ length: 12 }, (_, i) => i * width).flatMap((begin) => {
      const first = samples.findIndex(([at]) => at >= begin);
      const inside = samples.slice(Math.max(first - 1, 0)).filter(([at]) => at < begin + width);
      const rise = found.get(`${name} ${begin}`);
      return rise === rawIncrease(inside) ? [] : [`${name} ${begin}: ${rise}`];
    }),
  );
  expect(wrong).toEqual([]);
});

it("are Prometheus' increase() of a counter that rises evenly, extrapolation included", async () => {
  const samples = Array.from({ length: 60 }, (_, i): Sample => [i * 60 + 30, i * 12]);
  await store(
    samples.map(([at, value]) => ({ name: "even", start: -10 * hour, at, value, delta: false })),
    1,
  );
  const rows = await t.plainRows(
    "SELECT date_bin('10 minutes', time) AS time, sum(increase) AS rise, sum(increase) / sum(seconds) AS rate FROM counter_increases WHERE name = 'even' GROUP BY ALL ORDER BY time",
  );
  expect(extrapolatedIncrease(samples, 600, 1200)).toBeCloseTo(120, 9);
  expect(rows.slice(1).map(({ rise, rate }) => [rise, rate])).toEqual(Array.from({ length: 5 }, () => [120, 0.2]));
});
