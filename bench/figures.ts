/** Small sums over measurements. */

/** One row of a table of figures. */
export type FigureRow = Record<string, string | number>;

/** The value below which the share `q` of the values lies. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0;
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
