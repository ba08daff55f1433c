/** Prometheus' definitions, after promql/quantile.go and promql/functions.go, over plain numbers. */

/**
 * BucketQuantile of classic histograms; bounds without the last, infinite one.
 * NaN where it is not defined; out of 0 to 1 the infinities.
 */
export function bucketQuantile(q: number, counts: readonly number[], bounds: readonly number[]): number {
  if (Number.isNaN(q)) {
    return Number.NaN;
  }
  if (q < 0) {
    return -Infinity;
  }
  if (q > 1) {
    return Infinity;
  }
  let total = 0;
  const cumulative = counts.map((n) => (total += n));
  if (counts.length < 2 || total === 0) {
    return Number.NaN;
  }
  let rank = q * total;
  const found = cumulative.slice(0, -1).findIndex((n) => n >= rank);
  const b = found === -1 ? counts.length - 1 : found;
  if (b === counts.length - 1) {
    return bounds.at(-1) ?? Number.NaN;
  }
  const end = bounds[b] ?? Number.NaN;
  if (b === 0 && end <= 0) {
    return end;
  }
  const start = b === 0 ? 0 : (bounds[b - 1] ?? Number.NaN);
  rank -= b === 0 ? 0 : (cumulative[b - 1] ?? Number.NaN);
  return start + (end - start) * (rank / (counts[b] ?? Number.NaN));
}

/** A native histogram with exponential buckets, as the lake has them. */
export interface ExpHistogram {
  readonly scale: number;
  readonly zeroCount: number;
  readonly zeroThreshold: number;
  readonly positiveOffset: number;
  readonly positive: readonly number[];
  readonly negativeOffset: number;
  readonly negative: readonly number[];
}

interface Bucket {
  lower: number;
  upper: number;
  readonly count: number;
}

/** HistogramQuantile of native histograms without NaN observations; from below for any q. */
export function histogramQuantile(q: number, h: ExpHistogram): number {
  const bound = (index: number): number => 2 ** (index * 2 ** -h.scale);
  const zero: Bucket = { lower: -h.zeroThreshold, upper: h.zeroThreshold, count: h.zeroCount };
  const some = (counts: readonly number[]): boolean => counts.some((n) => n > 0);
  if (!some(h.negative) && some(h.positive)) {
    zero.lower = 0;
  } else if (!some(h.positive) && some(h.negative)) {
    zero.upper = 0;
  }
  const buckets: Bucket[] = [
    ...h.negative
      .map((count, i) => ({
        lower: -bound(h.negativeOffset + i + 1),
        upper: -bound(h.negativeOffset + i),
        count,
      }))
      .toReversed(),
    zero,
    ...h.positive.map((count, i) => ({
      lower: bound(h.positiveOffset + i),
      upper: bound(h.positiveOffset + i + 1),
      count,
    })),
  ];
  const total = buckets.reduce((sum, { count }) => sum + count, 0);
  if (total === 0 || Number.isNaN(q)) {
    return Number.NaN;
  }
  const rank = q * total;
  let seen = 0;
  for (const bucket of buckets) {
    if (bucket.count === 0) {
      continue;
    }
    seen += bucket.count;
    if (seen < rank) {
      continue;
    }
    const fraction = (rank - (seen - bucket.count)) / bucket.count;
    if (bucket.lower <= 0 && bucket.upper >= 0) {
      return bucket.lower + (bucket.upper - bucket.lower) * fraction;
    }
    const [low, high] = [Math.log2(Math.abs(bucket.lower)), Math.log2(Math.abs(bucket.upper))];
    return bucket.lower > 0 ? 2 ** (low + (high - low) * fraction) : -(2 ** (high + (low - high) * (1 - fraction)));
  }
  return Number.NaN;
}

/** Seconds and a value. */
export type Sample = readonly [seconds: number, value: number];

/** What a counter rose by from the first sample to the last; a fall is a reset. */
export function rawIncrease(samples: readonly Sample[]): number {
  return samples
    .slice(1)
    .reduce((sum, [, value], i) => sum + (value < (samples[i]?.[1] ?? 0) ? value : value - (samples[i]?.[1] ?? 0)), 0);
}

/** increase() over the range that ends at `end`: extrapolated to its edges. Null with less than two samples in it. */
export function extrapolatedIncrease(samples: readonly Sample[], begin: number, end: number): number | null {
  const inside = samples.filter(([at]) => at > begin && at <= end);
  const [first, last] = [inside[0], inside.at(-1)];
  if (first === undefined || last === undefined || inside.length < 2) {
    return null;
  }
  const increase = rawIncrease(inside);
  const sampled = last[0] - first[0];
  const average = sampled / (inside.length - 1);
  let toStart = first[0] - begin;
  let toEnd = end - last[0];
  const threshold = average * 1.1;
  toStart = toStart >= threshold ? average / 2 : toStart;
  if (increase > 0 && first[1] >= 0) {
    toStart = Math.min(toStart, sampled * (first[1] / increase));
  }
  toEnd = toEnd >= threshold ? average / 2 : toEnd;
  return increase * ((sampled + toStart + toEnd) / sampled);
}
