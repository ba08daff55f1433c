/** Quantiles of random histograms against Prometheus' definitions, and merged ones against their parts. */
import { beforeAll, expect, it } from "vitest";

import { bucketQuantile, type ExpHistogram, histogramQuantile } from "../helpers/query/prometheus.js";
import { openTestEngine, type TestEngine } from "../helpers/query/query-engine.js";
import { seededRandom } from "../helpers/seeded-random.js";

const cases = 400;
const seed = Date.now() % 1_000_000;
const random = seededRandom(seed);
const below = (n: number): number => Math.floor(random() * n);

let engine: TestEngine;

beforeAll(async () => {
  engine = await openTestEngine();
  return () => engine.close();
});

const countsOf = (n: number): number[] => Array.from({ length: n }, () => (random() < 0.4 ? 0 : below(50)));

/** A quantile: the ends, too. */
const quantile = (): number => (random() < 0.1 ? below(2) : random());

async function numbers(select: string): Promise<(number | null)[]> {
  const rows = await engine.rows(select);
  return rows.map(([x]) => (x === null ? null : Number(x)));
}

/** What differs by more than rounding from what it should be, in words; null stands for NaN. */
function differences(found: readonly (number | null)[], wanted: readonly number[], of: readonly unknown[]): string[] {
  return wanted.flatMap((number, i) => {
    const other = found[i];
    const equal = Number.isNaN(number)
      ? other === null
      : typeof other === "number" && Math.abs(other - number) <= 1e-12 * Math.max(1, Math.abs(number));
    return equal ? [] : [`${other} instead of ${number}: ${JSON.stringify(of[i])}`];
  });
}

it(`histogram_quantile is Prometheus' (seed ${seed})`, async () => {
  const histograms = Array.from({ length: cases }, () => {
    const bounds = Array.from({ length: 1 + below(12) }, () => Math.round((random() - 0.3) * 1000) / 10).toSorted(
      (a, b) => a - b,
    );
    return { q: quantile(), counts: countsOf(bounds.length + 1), bounds };
  });
  const found = await numbers(
    `SELECT histogram_quantile(q, c, b) FROM (VALUES ${histograms
      .map(
        ({ q, counts, bounds }, i) =>
          `(${i}, ${q}::DOUBLE, [${counts.join()}]::UBIGINT[], [${bounds.join()}]::DOUBLE[])`,
      )
      .join()}) t(i, q, c, b) ORDER BY i`,
  );
  const wanted = histograms.map(({ q, counts, bounds }) => {
    // Its rank 0 is in the first bucket, empty or not; ours in the first that is not empty.
    const first = counts.findIndex((n) => n > 0);
    return q === 0 && first > 0 ? (bounds[first - 1] ?? Number.NaN) : bucketQuantile(q, counts, bounds);
  });
  expect(differences(found, wanted, histograms)).toEqual([]);
  expect(wanted.filter((number) => !Number.isNaN(number)).length).toBeGreaterThan(cases / 2);
});

function expHistogram(): ExpHistogram {
  return {
    scale: below(12) - 3,
    zeroCount: below(3) * below(20),
    zeroThreshold: 0.0001,
    positiveOffset: below(30) - 15,
    positive: countsOf(below(12)),
    negativeOffset: below(30) - 15,
    negative: random() < 0.5 ? [] : countsOf(below(8)),
  };
}

const sqlOf = (h: ExpHistogram): string =>
  `{scale: ${h.scale}, zero_count: ${h.zeroCount}, zero_threshold: ${h.zeroThreshold}::DOUBLE, positive_offset: ${h.positiveOffset}, positive_bucket_counts: [${h.positive.join()}]::UBIGINT[], negative_offset: ${h.negativeOffset}, negative_bucket_counts: [${h.negative.join()}]::UBIGINT[]}`;

it(`exp_histogram_quantile is Prometheus' of native histograms (seed ${seed})`, async () => {
  const histograms = Array.from({ length: cases }, () => ({ q: quantile(), h: expHistogram() }));
  const found = await numbers(
    `SELECT exp_histogram_quantile(q, h) FROM (VALUES ${histograms
      .map(({ q, h }, i) => `(${i}, ${q}::DOUBLE, ${sqlOf(h)})`)
      .join()}) t(i, q, h) ORDER BY i`,
  );
  const wanted = histograms.map(({ q, h }) => histogramQuantile(q, h));
  expect(differences(found, wanted, histograms)).toEqual([]);
  expect(wanted.filter((number) => !Number.isNaN(number)).length).toBeGreaterThan(cases / 2);
});

/** Counts by bucket at a lower scale. */
function atScale(h: ExpHistogram, scale: number): Map<string, number> {
  const counts = new Map<string, number>();
  const add = (sign: string, offset: number, list: readonly number[]): void => {
    for (const [i, n] of list.entries()) {
      const key = `${sign}${Math.floor((offset + i) / 2 ** (h.scale - scale))}`;
      counts.set(key, (counts.get(key) ?? 0) + n);
    }
  };
  add("p", h.positiveOffset, h.positive);
  add("n", h.negativeOffset, h.negative);
  return counts;
}

it(`exp_histogram_merge has the buckets of all of its histograms (seed ${seed})`, async () => {
  const groups = Array.from({ length: 60 }, (_, i) => {
    const histograms = Array.from({ length: 1 + below(8) }, expHistogram);
    // Two in three are of one scale, half of these without negative buckets, some with more of them than are quick.
    const [first] = histograms;
    return histograms.map((h) => ({
      ...h,
      ...(i % 3 === 0 || first === undefined ? {} : { scale: first.scale }),
      ...(i % 3 === 1 ? { negative: [], positiveOffset: h.positiveOffset * (1 + below(2)) } : {}),
    }));
  });
  const rows = await engine.rows(
    `SELECT to_json(exp_histogram_merge(h)) FROM (VALUES ${groups
      .flatMap((histograms, i) => histograms.map((h) => `(${i}, ${sqlOf(h)})`))
      .join()}) t(i, h) GROUP BY i ORDER BY i`,
  );
  for (const [i, histograms] of groups.entries()) {
    const merged = JSON.parse(String(rows[i]?.[0])) as {
      readonly scale: number;
      readonly zero_count: number;
      readonly positive_offset: number;
      readonly positive_bucket_counts: readonly number[];
      readonly negative_offset: number;
      readonly negative_bucket_counts: readonly number[];
    };
    expect(merged.scale).toBe(Math.min(...histograms.map(({ scale }) => scale)));
    const wanted = new Map<string, number>();
    for (const h of histograms) {
      for (const [key, n] of atScale(h, merged.scale)) {
        wanted.set(key, (wanted.get(key) ?? 0) + n);
      }
    }
    const found = atScale(
      {
        scale: merged.scale,
        zeroCount: 0,
        zeroThreshold: 0,
        positiveOffset: merged.positive_offset,
        positive: merged.positive_bucket_counts,
        negativeOffset: merged.negative_offset,
        negative: merged.negative_bucket_counts,
      },
      merged.scale,
    );
    const filled = (counts: Map<string, number>): unknown => Object.fromEntries([...counts].filter(([, n]) => n > 0));
    expect(filled(found)).toEqual(filled(wanted));
    expect(merged.zero_count).toBe(histograms.reduce((sum, { zeroCount }) => sum + zeroCount, 0));
  }
});
