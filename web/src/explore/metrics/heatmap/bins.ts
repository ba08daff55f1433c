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

/**
 * Buckets at the scale of their step, or at a coarser one where bins would be too many: two neighbours make one of the
 * next scale. Those of a coarser step are spread evenly over the finer bins that they meet.
 */
export function exponentialHeatmap(steps: readonly ExponentialStep[]): Heatmap {
  let scale = steps.reduce((found, step) => Math.max(found, step.scale), -Infinity);
  let [positive, negative] = [edgesOf(steps, "positive", scale), edgesOf(steps, "negative", scale)];
  while (positive.length + negative.length > maxBins) {
    scale--;
    [positive, negative] = [edgesOf(steps, "positive", scale), edgesOf(steps, "negative", scale)];
  }
  const bound = (edge = 0): number => 2 ** (edge * 2 ** -scale);
  const zero = steps.reduce((most, { zeroThreshold }) => Math.max(most, zeroThreshold), 0);
  const below = negative.slice(1).map((edge, at) => ({ low: -bound(edge), high: -bound(negative[at]) }));
  const above = positive.slice(1).map((edge, at) => ({ low: bound(positive[at]), high: bound(edge) }));
  return filled(
    [...below.toReversed(), { low: -zero, high: zero }, ...above],
    steps.map((step) => ({
      timeMs: step.timeMs,
      add: (put) => {
        spreadOver(negative, bucketsOf(step, "negative", scale), (at, count) => put(below.length - 1 - at, count));
        put(below.length, step.zeroCount);
        spreadOver(positive, bucketsOf(step, "positive", scale), (at, count) => put(below.length + 1 + at, count));
      },
    })),
  );
}

/** A bucket with values; its ends are numbers of bounds at some scale. */
interface ExponentialBucket {
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** @param scale of the numbers; finer buckets are brought to it */
function bucketsOf(step: ExponentialStep, sign: Sign, scale: number): readonly ExponentialBucket[] {
  const shift = step.scale - scale;
  const width = 2 ** Math.max(0, -shift);
  return step[sign].flatMap((count, at) => {
    const low = Math.floor((step[`${sign}Offset`] + at) / 2 ** Math.max(0, shift)) * width;
    return count > 0 ? [{ low, high: low + width, count }] : [];
  });
}

type Sign = "positive" | "negative";

/** The ends of all buckets with values, ascending. */
function edgesOf(steps: readonly ExponentialStep[], sign: Sign, scale: number): readonly number[] {
  const ends = steps.flatMap((step) => bucketsOf(step, sign, scale).flatMap(({ low, high }) => [low, high]));
  return [...new Set(ends)].toSorted((a, b) => a - b);
}

/** @param put takes the place of the lower edge */
function spreadOver(
  edges: readonly number[],
  buckets: readonly ExponentialBucket[],
  put: (at: number, count: number) => void,
): void {
  for (const { low, high, count } of buckets) {
    for (let at = edges.indexOf(low), edge = low; edge < high; at++) {
      const next = edges[at + 1] ?? high;
      put(at, (count * (next - edge)) / (high - low));
      edge = next;
    }
  }
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
