/** Points in time as callers write them. */
import { ServiceError } from "../errors.js";
import { parseRfc3339Ns } from "telemetry-service-client/shared/rfc3339";

/**
 * Reads a point in time: RFC 3339 with up to nine fractional digits, or whole nanoseconds since the epoch.
 * Years that 64 bits of nanoseconds do not reach are taken: they leave a side open.
 * @param name what to call it in the error
 * @throws ServiceError BAD_REQUEST
 */
export function parseTimeNs(name: string, text: string): bigint {
  if (/^-?\d{1,19}$/u.test(text)) {
    const value = BigInt(text);
    if (BigInt.asIntN(64, value) === value) {
      return value;
    }
  }
  const value = parseRfc3339Ns(text);
  if (value !== null) {
    return value;
  }
  throw new ServiceError(
    "BAD_REQUEST",
    `${name} takes a time such as 2026-01-31T12:00:00Z, or nanoseconds since 1970.`,
  );
}
