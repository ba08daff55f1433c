/** Histograms over time in common bins: explicit buckets of any bounds, exponential ones of any scales. */

/** Values above `low` up to `high`; infinite at the ends. */
export interface Bin {
  readonly low: number;
  readonly high: number;
}

/** How many values of a step are in each bin. */
export interface Heatmap {
  /** Beginnings of steps with any value, in milliseconds since the epoch, ascending. */
  readonly times: readonly number[];
  /** From low to high, without empty ones at either end. */
  readonly bins: readonly Bin[];
  /** Counts of the bins of one step after those of the step before. */
  readonly counts: Float64Array;
}

/** Explicit buckets of a step: one more count than bounds. */
interface ExplicitStep {
  readonly timeMs: number;
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
}

/** Exponential buckets of a step. */
export interface ExponentialStep {
  readonly timeMs: number;
  readonly scale: number;
  readonly zeroCount: number;
  readonly zeroThreshold: number;
  readonly positiveOffset: number;
  readonly positive: readonly number[];
  readonly negativeOffset: number;
  readonly negative: readonly number[];
}

/** More bins than these cannot be told apart. */
const maxBins = 60;

/** False where all values are in one bucket without ends, as of histograms that were sent without bounds. */
export function hasBounds({ bins }: Heatmap): boolean {
  return bins.some(({ low, high }) => Number.isFinite(low) || Number.isFinite(high));
}

/** Buckets that begin or end within a bin of others are spread evenly over the bins that they meet. */
export function explicitHeatmap(steps: readonly ExplicitStep[]): Heatmap {
  const all = [...new Set(steps.flatMap(({ bounds }) => bounds))].toSorted((a, b) => a - b);
  const every = Math.ceil(all.length / (maxBins - 1));
  const edges = all.filter((_, at) => at % every === 0 || at === all.length - 1);
  const bins = [-Infinity, ...edges].map((low, at) => ({ low, high: edges[at] ?? Infinity }));
  return filled(
    bins,
    steps.map(({ timeMs, bounds, counts }) => ({
      timeMs,
      add: (put) =>
        counts.forEach((count, at) => {
          if (count > 0) {
            spread({ low: bounds[at - 1] ?? -Infinity, high: bounds[at] ?? Infinity }, count, bins, put);
          }
        }),
    })),
  );
}

/** Values below the first bound of positive ones are taken for positive; what is beyond the last one is next to it. */
function spread(bucket: Bin, count: number, bins: readonly Bin[], put: (bin: number, count: number) => void): void {
  const met = bins.flatMap((bin, at) => (bin.high > bucket.low && bin.low < bucket.high ? [at] : []));
  const [first = 0] = met;
  if (met.length <= 1 || bucket.high === Infinity) {
    put(first, count);
    return;
  }
  if (bucket.low === -Infinity && bucket.high <= 0) {
    put(met.at(-1) ?? first, count);
    return;
  }
  const begin = Math.max(bucket.low, bucket.low === -Infinity ? 0 : bucket.low);
  for (const at of met) {
    const { low, high } = bins[at] ?? bucket;
    const share = (Math.min(high, bucket.high) - Math.max(low, begin)) / (bucket.high - begin);
    if (share > 0) {
      put(at, count * share);
    }
  }
}

/** Buckets at the scale of the coarsest step, or at a coarser one: two neighbours make one of the next scale. */
export function exponentialHeatmap(steps: readonly ExponentialStep[]): Heatmap {
  const least = steps.reduce((found, { scale }) => Math.min(found, scale), Infinity);
  let scale = least;
  let [positive, negative] = [rangeOf(steps, "positive", scale), rangeOf(steps, "negative", scale)];
  while (positive.count + negative.count > maxBins - 1) {
    scale--;
    [positive, negative] = [rangeOf(steps, "positive", scale), rangeOf(steps, "negative", scale)];
  }
  const bound = (index: number): number => 2 ** (index * 2 ** -scale);
  const zero = steps.reduce((most, { zeroThreshold }) => Math.max(most, zeroThreshold), 0);
  const bins: Bin[] = [
    ...Array.from({ length: negative.count }, (_, at) => {
      const index = negative.first + negative.count - 1 - at;
      return { low: -bound(index + 1), high: -bound(index) };
    }),
    { low: -zero, high: zero },
    ...Array.from({ length: positive.count }, (_, at) => ({
      low: bound(positive.first + at),
      high: bound(positive.first + at + 1),
    })),
  ];
  return filled(
    bins,
    steps.map((step) => ({
      timeMs: step.timeMs,
      add: (put) => {
        const index = (own: number): number => Math.floor(own / 2 ** (step.scale - scale));
        step.negative.forEach((count, at) =>
          put(negative.count - 1 - (index(step.negativeOffset + at) - negative.first), count),
        );
        put(negative.count, step.zeroCount);
        step.positive.forEach((count, at) =>
          put(negative.count + 1 + index(step.positiveOffset + at) - positive.first, count),
        );
      },
    })),
  );
}

/** The buckets with values at a scale. */
function rangeOf(
  steps: readonly ExponentialStep[],
  sign: "positive" | "negative",
  scale: number,
): { readonly first: number; readonly count: number } {
  let first = Infinity;
  let last = -Infinity;
  for (const step of steps) {
    step[sign].forEach((count, at) => {
      if (count > 0) {
        const index = Math.floor((step[`${sign}Offset`] + at) / 2 ** (step.scale - scale));
        first = Math.min(first, index);
        last = Math.max(last, index);
      }
    });
  }
  return first > last ? { first: 0, count: 0 } : { first, count: last - first + 1 };
}

/** Steps of the same time are added up; bins without values at either end go. */
function filled(
  bins: readonly Bin[],
  steps: readonly {
    readonly timeMs: number;
    readonly add: (put: (bin: number, count: number) => void) => void;
  }[],
): Heatmap {
  const columns = new Map<number, Float64Array>();
  const totals = new Float64Array(bins.length);
  for (const { timeMs, add } of steps) {
    const column = columns.get(timeMs) ?? new Float64Array(bins.length);
    columns.set(timeMs, column);
    add((bin, count) => {
      // An empty bucket may be one that no bin is made for.
      if (count > 0) {
        column[bin] = (column[bin] ?? 0) + count;
        totals[bin] = (totals[bin] ?? 0) + count;
      }
    });
  }
  const first = totals.findIndex((total) => total > 0);
  const last = totals.findLastIndex((total) => total > 0);
  const times = [...columns.keys()].toSorted((a, b) => a - b);
  const width = first === -1 ? 0 : last - first + 1;
  const counts = new Float64Array(times.length * width);
  times.forEach((ms, at) => {
    counts.set(columns.get(ms)?.subarray(first, last + 1) ?? [], at * width);
  });
  return first === -1 ? { times: [], bins: [], counts } : { times, bins: bins.slice(first, last + 1), counts };
}

/** What a row of the table beside the picture says. */
interface BinSummary {
  readonly bin: Bin;
  readonly total: number;
  /** The most in one step, and when; the first of several. */
  readonly most: number;
  readonly mostAtMs: number;
}

/** From high to low, as the picture has them. */
export function summaryOf({ times, bins, counts }: Heatmap): readonly BinSummary[] {
  return bins
    .map((bin, row) => {
      const values = times.map((_, at) => counts[at * bins.length + row] ?? 0);
      const most = Math.max(0, ...values);
      return {
        bin,
        total: values.reduce((sum, value) => sum + value, 0),
        most,
        mostAtMs: times[values.indexOf(most)] ?? 0,
      };
    })
    .toReversed();
}
