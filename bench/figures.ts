/** Small sums over measurements. */

/** One row of a table of figures. */
export type FigureRow = Record<string, string | number>;

/** The value below which the share `q` of the values lies; NaN without values. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

/** The middle one. */
export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** The middle one of the ratios of values that were measured beside each other: a busy moment slows both. */
export const medianRatio = (values: readonly number[], others: readonly number[]): number =>
  median(values.map((value, i) => value / (others[i] ?? Number.NaN)));

/** Runs something so often, one after the other. */
export async function repeat<T>(times: number, run: (round: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let i = 0; i < times; i++) {
    results.push(await run(i));
  }
  return results;
}

/** Rounded to this number of decimal digits. */
export const round = (value: number, digits = 2): number => Number(value.toFixed(digits));

export const mebibytes = (bytes: number): number => Math.round(bytes / 2 ** 20);

/** One figure of a run, for its table and to compare runs by. */
export interface Figure {
  /** What it is, unique within a bench: `ingest.cpu logs 1000`. */
  readonly id: string;
  readonly unit: string;
  /** The median of the rounds, where there are some; null when it could not be measured. */
  readonly value: number | null;
  /** Why it could not be measured. */
  readonly why?: string;
  readonly limit?: Limit;
  /** Each round's value. */
  readonly rounds?: readonly number[];
}

/** What a figure is held against. */
export interface Limit {
  readonly most?: number;
  readonly least?: number;
  /** Where it comes from: a target, or a peer in the same run. */
  readonly of: string;
}

/** At most so much. */
export const atMost = (most: number, of = "target"): Limit => ({ most, of });
/** At least so much. */
export const atLeast = (least: number, of = "target"): Limit => ({ least, of });

/** A target that does not hold for what was measured, in words: nothing is met or missed. */
export const noLimit = (of: string): Limit => ({ of });

/** A figure of one value, or of several rounds. */
export function figure(id: string, unit: string, measured: number | readonly number[], limit?: Limit): Figure {
  const rounds = typeof measured === "number" ? [measured] : measured;
  const value = rounds.length === 0 ? Number.NaN : median(rounds);
  if (!Number.isFinite(value)) {
    return notMeasured(id, unit, "it came to no number", limit);
  }
  return {
    id,
    unit,
    value: significant(value),
    ...(limit === undefined ? {} : { limit }),
    ...(rounds.length < 2 ? {} : { rounds: rounds.map(significant) }),
  };
}

/** A figure that there is none of, and why. */
export const notMeasured = (id: string, unit: string, why: string, limit?: Limit): Figure => ({
  id,
  unit,
  value: null,
  why,
  ...(limit === undefined ? {} : { limit }),
});

const significant = (value: number): number => Number(value.toPrecision(4));

/** Whether it holds its limit; null without a bound or a value. */
export function isMet({ value, limit }: Figure): boolean | null {
  if (value === null || limit === undefined || (limit.most === undefined && limit.least === undefined)) {
    return null;
  }
  return value <= (limit.most ?? Number.POSITIVE_INFINITY) && value >= (limit.least ?? Number.NEGATIVE_INFINITY);
}

/** Thrown by a bench that cannot measure here; says why in a sentence. It is no failure. */
export class CannotMeasure extends Error {}
