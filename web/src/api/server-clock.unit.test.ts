import { afterEach, expect, it, vi } from "vitest";

import { learnServerTime, serverNow } from "./server-clock.js";

const here = Date.UTC(2026, 0, 31, 9, 0, 0);

afterEach(() => {
  learnServerTime(dated(Date.now()), Date.now());
  vi.useRealTimers();
});

function dated(ms: number): Response {
  return new Response(null, { headers: { date: new Date(ms).toUTCString() } });
}

/** An answer that took `tookMs`, of a server whose clock is ahead by `aheadMs`. */
function answered(aheadMs: number, tookMs = 100): void {
  vi.setSystemTime(here);
  learnServerTime(dated(here + tookMs / 2 + aheadMs), here - tookMs);
  vi.setSystemTime(here + 60_000);
}

it.each([-7_200_000, -60_000, 10_000, 86_400_000])("is the server's when it is ahead by %i ms", (aheadMs) => {
  vi.useFakeTimers();
  answered(aheadMs);
  expect(Math.abs(serverNow() - (here + 60_000 + aheadMs))).toBeLessThan(1000);
});

it.each([-1000, 0, 1000])(
  "is this machine's when the server's is ahead by %i ms, which its second may be",
  (aheadMs) => {
    vi.useFakeTimers();
    answered(aheadMs);
    expect(serverNow()).toBe(here + 60_000);
  },
);

it("stays what it was after answers that say nothing, or took long", () => {
  vi.useFakeTimers();
  answered(3_600_000);
  learnServerTime(new Response(null), Date.now());
  learnServerTime(dated(here), Date.now() - 20_000);
  expect(Math.abs(serverNow() - (here + 60_000 + 3_600_000))).toBeLessThan(1000);
});

it("follows a clock that is put right", () => {
  vi.useFakeTimers();
  answered(3_600_000);
  answered(0);
  expect(serverNow()).toBe(here + 60_000);
});
