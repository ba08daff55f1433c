/**
 * Time ranges as they are in the address: `from` and `to` are each a moment, relative ones staying relative (`now`,
 * `now-15m`, `now-7d`), absolute ones in ISO 8601 or as milliseconds since the epoch. Those without a zone are of the chosen
 * one.
 */
import { momentOfClock } from "./format.js";

/** As in the address. */
export interface TimeRange {
  readonly from: string;
  readonly to: string;
}

/** Milliseconds since the epoch; `endMs` is after `beginMs`. */
export interface ResolvedRange {
  readonly beginMs: number;
  readonly endMs: number;
}

export const defaultRange: TimeRange = { from: "now-1h", to: "now" };

/** What the picker offers. */
export const quickRanges: readonly TimeRange[] = [
  "5m",
  "15m",
  "30m",
  "1h",
  "3h",
  "6h",
  "12h",
  "24h",
  "2d",
  "7d",
  "30d",
].map((span) => ({ from: `now-${span}`, to: "now" }));

const unitsMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};
const unitNames: Readonly<Record<string, string>> = { s: "second", m: "minute", h: "hour", d: "day", w: "week" };

/** Years that a timestamp in nanoseconds can hold, from 1970. */
const lastMs = Date.UTC(2262, 0, 1);

/** A moment in milliseconds since the epoch; null for what is none. */
export function parseMoment(text: string, nowMs: number): number | null {
  const relative = /^now(?:-(\d{1,6})([smhdw]))?$/.exec(text.trim());
  if (relative !== null) {
    return Math.max(0, nowMs - Number(relative[1] ?? 0) * (unitsMs[relative[2] ?? "s"] ?? 0));
  }
  const ms = /^\d{12,14}$/.test(text) ? Number(text) : zoned.test(text) ? Date.parse(text) : momentTyped(text);
  return ms >= 0 && ms <= lastMs ? ms : null;
}

/** A `+` that was typed into an address is a space there. */
const lostPlus = /^(\d{4}-\d\d-\d\dT\S+) (\d\d:?\d\d)$/;

const zoned = /^\s*\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:?\d\d)\s*$/;

/** Of a date, perhaps with a time, in the chosen zone; NaN for what is none. */
function momentTyped(text: string): number {
  const plain = /^\s*(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?)?\s*$/.exec(text);
  if (plain === null) {
    return Number.NaN;
  }
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = plain.slice(1, 7).map((n) => Number(n ?? 0));
  const fraction = Number((plain[7] ?? "0").padEnd(3, "0"));
  const wall = Date.UTC(year, month - 1, day, hour, minute, second, fraction);
  const date = new Date(wall);
  // The 40th of a month is not some day of another one.
  const isOne =
    date.getUTCMonth() === month - 1 && date.getUTCDate() === day && hour < 24 && minute < 60 && second < 60;
  return isOne ? momentOfClock(wall) : Number.NaN;
}

/** The range of an address, or the default one where it has none that makes sense. */
export function rangeOf(search: Readonly<Record<string, unknown>>, nowMs: number): TimeRange {
  const { from, to } = search;
  if (typeof from !== "string" || typeof to !== "string") {
    return defaultRange;
  }
  const range = { from: from.replace(lostPlus, "$1+$2"), to: to.replace(lostPlus, "$1+$2") };
  return isRange(range, nowMs) ? range : defaultRange;
}

export function isRange(range: TimeRange, nowMs: number): boolean {
  const beginMs = parseMoment(range.from, nowMs);
  const endMs = parseMoment(range.to, nowMs);
  return beginMs !== null && endMs !== null && beginMs < endMs;
}

/** @throws RangeError for one that {@link isRange} denies. */
export function resolveRange(range: TimeRange, nowMs: number): ResolvedRange {
  const beginMs = parseMoment(range.from, nowMs);
  const endMs = parseMoment(range.to, nowMs);
  if (beginMs === null || endMs === null || beginMs >= endMs) {
    throw new RangeError("no time range");
  }
  return { beginMs, endMs };
}

/** A range between two moments, as drawn on a time axis. */
export function absoluteRange({ beginMs, endMs }: ResolvedRange): TimeRange {
  const begin = Math.floor(beginMs);
  return {
    from: new Date(begin).toISOString(),
    to: new Date(Math.max(Math.ceil(endMs), begin + 1)).toISOString(),
  };
}

/** "Last 15 minutes", or null for a range that is not one of those. */
export function relativeName({ from, to }: TimeRange): string | null {
  const match = to === "now" ? /^now-(\d+)([smhdw])$/.exec(from) : null;
  if (match === null) {
    return null;
  }
  const count = Number(match[1]);
  const unit = unitNames[match[2] ?? ""] ?? "";
  return count === 1 ? `Last ${unit}` : `Last ${count} ${unit}s`;
}

/** The same span, moved by half of it. */
export function movedRange({ beginMs, endMs }: ResolvedRange, direction: -1 | 1): TimeRange {
  const stepMs = ((endMs - beginMs) / 2) * direction;
  return absoluteRange({ beginMs: Math.max(0, beginMs + stepMs), endMs: endMs + stepMs });
}

/** Twice the span around the same middle. */
export function widerRange({ beginMs, endMs }: ResolvedRange, nowMs: number): TimeRange {
  const halfMs = (endMs - beginMs) / 2;
  return absoluteRange({
    beginMs: Math.max(0, beginMs - halfMs),
    endMs: Math.max(Math.min(endMs + halfMs, nowMs), endMs),
  });
}
