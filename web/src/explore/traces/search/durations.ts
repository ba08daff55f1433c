/** Durations as people write them. */

const unitsMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  "": 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Milliseconds of `250ms`, `1.5 s`, `2min5s`; a number alone is of milliseconds; null: it is none. */
export function parseDurationMs(text: string): number | null {
  const parts = [
    ...text
      .trim()
      .toLowerCase()
      .matchAll(/(\d{1,15}(?:\.\d{1,9})?)\s*([a-zµ]*)\s*/gy),
  ];
  const length = parts.reduce((sum, [whole]) => sum + whole.length, 0);
  if (parts.length === 0 || length !== text.trim().length) {
    return null;
  }
  const sum = parts.reduce((total, [, count, unit = ""]) => total + Number(count) * (unitsMs[unit] ?? Number.NaN), 0);
  return Number.isFinite(sum) ? sum : null;
}
