/** Labels of time for charts: round times of the chosen zone. */
import { clockAt, formatTime, momentOfClock } from "../format.js";
import type { ResolvedRange } from "../time-range.js";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const weekMs = 7 * dayMs;
/** A Monday. */
const firstWeekMs = 4 * dayMs;

/** Milliseconds between labels. */
const steps = [
  [1, 2, 5, 10, 20, 50, 100, 200, 500],
  [1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1000),
  [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * 60_000),
  [dayMs, 2 * dayMs, weekMs, 2 * weekMs],
].flat();
/** Months between labels that are further apart. */
const months = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200];

/** A label of an axis. */
export interface TimeTick {
  readonly ms: number;
  readonly text: string;
}

/** Round times of a range, each with as much of it as the range needs; the first of a day names the day. @param most about as many, at least two. */
export function timeTicks({ beginMs, endMs }: ResolvedRange, most: number): readonly TimeTick[] {
  const spanMs = endMs - beginMs;
  const count = Math.max(2, most);
  const stepMs = steps.find((step) => spanMs / step <= count) ?? null;
  const moments =
    stepMs === null
      ? monthsIn(beginMs, endMs, months.find((step) => spanMs / (step * 30 * dayMs) <= count) ?? 1200)
      : momentsIn(beginMs, endMs, stepMs);
  return [...new Set(moments)]
    .filter((ms) => ms >= beginMs && ms < endMs)
    .map((ms, at, all) => ({ ms, text: labelOf(ms, all[at - 1] ?? null, stepMs, spanMs) }));
}

function momentsIn(beginMs: number, endMs: number, stepMs: number): number[] {
  // Up to an hour, they are as far apart where clocks change.
  const aheadMs = stepMs > hourMs ? 0 : clockAt(beginMs) - beginMs;
  const zeroMs = (stepMs % weekMs === 0 ? firstWeekMs : 0) - aheadMs;
  const [first, end] = stepMs > hourMs ? [clockAt(beginMs), clockAt(endMs) + hourMs] : [beginMs, endMs];
  const found: number[] = [];
  for (let ms = Math.ceil((first - zeroMs) / stepMs) * stepMs + zeroMs; ms < end; ms += stepMs) {
    found.push(stepMs > hourMs ? momentOfClock(ms) : ms);
  }
  return found;
}

function monthsIn(beginMs: number, endMs: number, step: number): number[] {
  const begin = new Date(clockAt(beginMs));
  const found: number[] = [];
  for (let month = Math.floor((begin.getUTCFullYear() * 12 + begin.getUTCMonth()) / step) * step; ; month += step) {
    const ms = momentOfClock(Date.UTC(1970, month - 1970 * 12));
    if (ms >= endMs) {
      return found;
    }
    found.push(ms);
  }
}

function labelOf(ms: number, beforeMs: number | null, stepMs: number | null, spanMs: number): string {
  const text = formatTime(ms);
  if (stepMs === null) {
    return text.slice(0, 7);
  }
  if (stepMs >= dayMs) {
    return text.slice(5, 10);
  }
  const end = stepMs < 1000 ? 23 : stepMs < 60_000 ? 19 : 16;
  const isNewDay = beforeMs === null || formatTime(beforeMs).slice(0, 10) !== text.slice(0, 10);
  return text.slice(spanMs > dayMs || (stepMs >= 60_000 && isNewDay) ? 5 : 11, end);
}
