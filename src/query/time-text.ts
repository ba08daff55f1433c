/** Points in time as callers write them. */
import { ServiceError } from "../runtime/errors.js";

const rfc3339 =
  /^(?<date>\d{4}-\d{2}-\d{2})[Tt ](?<time>\d{2}:\d{2}:\d{2})(?:\.(?<fraction>\d{1,9}))?(?<zone>[Zz]|[+-]\d{2}:\d{2})$/u;

/**
 * Reads a point in time: RFC 3339 with up to nine fractional digits, or whole nanoseconds since the epoch.
 * @param name what to call it in the error
 * @throws ServiceError BAD_REQUEST
 */
export function parseTimeNs(name: string, text: string): bigint {
  if (/^-?\d{1,19}$/u.test(text)) {
    const value = BigInt(text);
    if (BigInt.asIntN(64, value) === value) return value;
  }
  const groups = rfc3339.exec(text)?.groups;
  const seconds = Date.parse(
    `${groups?.["date"]}T${groups?.["time"]}${groups?.["zone"]?.toUpperCase()}`,
  );
  if (groups === undefined || Number.isNaN(seconds)) {
    throw new ServiceError(
      "BAD_REQUEST",
      `${name} takes a time such as 2026-01-31T12:00:00Z, or nanoseconds since 1970.`,
    );
  }
  return BigInt(seconds) * 1_000_000n + BigInt((groups["fraction"] ?? "").padEnd(9, "0"));
}
