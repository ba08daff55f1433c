/**
 * What time it is by the server's clock. Times of rows are of servers: "the last hour" of a browser whose clock is an
 * hour behind would show the hour before, and look fresh.
 */

/** A clock that is off by less needs no correction: an answer says its second only, and took a while. */
const toleratedMs = 2000;

let aheadMs = 0;

/** Milliseconds since the epoch by the server's clock, as far as its last answer told. */
export function serverNow(): number {
  return Date.now() + aheadMs;
}

/** Learns from the `Date` of an answer (RFC 9110, 6.6.1). @param askedMs when its request left, by this machine's clock */
export function learnServerTime({ headers }: Response, askedMs: number): void {
  const second = Date.parse(headers.get("date") ?? "");
  const tookMs = Date.now() - askedMs;
  // Nobody knows when it was made while it was on its way.
  if (Number.isNaN(second) || tookMs < 0 || tookMs > 10_000) {
    return;
  }
  const offMs = second + 500 - (askedMs + tookMs / 2);
  aheadMs = Math.abs(offMs) <= toleratedMs + tookMs / 2 ? 0 : offMs;
}
