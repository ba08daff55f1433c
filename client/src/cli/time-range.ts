/** Bounds of a query's time range as a person writes them. */
import { parseRfc3339Ns } from "../shared/rfc3339.js";

const relative = /^([+-])(\d{1,9})(ms|s|m|h|d|w)$/;
const day = /^\d{4}-\d{2}-\d{2}$/;
const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};
// What a nanosecond timestamp in 64 bits can hold: 1677-09-21 to 2262-04-11.
const maxNs = 2n ** 63n - 1n;

/**
 * Nanoseconds since the Unix epoch for `now`, an RFC 3339 time (`2026-11-21T10:00:00Z`, up to nine
 * fractional digits), a date (`2026-11-21`, its midnight in UTC) or an offset from now (`-1h`,
 * `-90s`, `+5m`; units ms, s, m, h, d, w). Returns null for anything else.
 */
export function parseTime(text: string, nowMs: number): bigint | null {
  if (text === "now") {
    return BigInt(nowMs) * 1_000_000n;
  }
  const offset = relative.exec(text);
  if (offset !== null) {
    const ms = Number(offset[2]) * (unitMs[offset[3] ?? ""] ?? 0) * (offset[1] === "-" ? -1 : 1);
    return within(BigInt(nowMs + ms) * 1_000_000n);
  }
  const ns = parseRfc3339Ns(day.test(text) ? `${text}T00:00:00Z` : text);
  return ns === null ? null : within(ns);
}

/** What lies beyond the bounds is as good as they are: nothing in the lake does. */
function within(ns: bigint): bigint {
  return ns > maxNs ? maxNs : ns < -maxNs ? -maxNs : ns;
}
