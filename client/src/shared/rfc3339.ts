/** Points in time as text (RFC 3339, section 5.6), to the nanosecond. */

const dateTime =
  /^(?<date>\d{4}-\d{2}-\d{2})[Tt ](?<time>(?:[01]\d|2[0-3]):\d{2}:\d{2})(?:\.(?<fraction>\d{1,9}))?(?<zone>[Zz]|[+-]\d{2}:\d{2})$/u;

/**
 * Reads a date-time with up to nine fractional digits.
 * @returns nanoseconds since the epoch, which may be more than 64 bits hold; null for anything else
 */
export function parseRfc3339Ns(text: string): bigint | null {
  const { date = "", time = "", fraction = "", zone = "" } = dateTime.exec(text)?.groups ?? {};
  const ms = Date.parse(`${date}T${time}${zone.toUpperCase()}`);
  // Date.parse lets the 30th of February pass into March; the standard does not.
  if (Number.isNaN(ms) || !isDay(date)) {
    return null;
  }
  return BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}

function isDay(date: string): boolean {
  const ms = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date);
}

/** Nanoseconds since the epoch as a date-time in UTC with nine fractional digits. */
export function formatRfc3339Ns(ns: bigint): string {
  const within = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = new Date(Number((ns - within) / 1_000_000n)).toISOString().slice(0, -5);
  return `${seconds}.${within.toString().padStart(9, "0")}Z`;
}
