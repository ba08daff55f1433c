import { afterEach, expect, it } from "vitest";

import { showTimesIn } from "./format.js";
import {
  absoluteRange,
  defaultRange,
  isRange,
  movedRange,
  parseMoment,
  rangeOf,
  relativeName,
  widerRange,
} from "./time-range.js";

afterEach(() => showTimesIn(null));

const nowMs = Date.UTC(2026, 0, 2);

it("reads relative and absolute moments, and nothing else", () => {
  expect(parseMoment("now", nowMs)).toBe(nowMs);
  expect(parseMoment("now-90m", nowMs)).toBe(nowMs - 5_400_000);
  expect(parseMoment("now-999999w", nowMs)).toBe(0);
  expect(parseMoment("2026-01-01T00:00:00Z", nowMs)).toBe(nowMs - 86_400_000);
  expect(parseMoment(String(nowMs), nowMs)).toBe(nowMs);
  for (const nonsense of ["", "now-", "now+1h", "now-1y", "soon", "-5", "9".repeat(14), "now-1h; DROP"]) {
    expect(parseMoment(nonsense, nowMs)).toBeNull();
  }
});

it("reads a time without a zone in the chosen one", () => {
  showTimesIn("Asia/Kolkata");
  expect(parseMoment("2026-01-31T10:00", nowMs)).toBe(Date.UTC(2026, 0, 31, 4, 30));
  expect(parseMoment("2026-01-31", nowMs)).toBe(Date.UTC(2026, 0, 30, 18, 30));
  expect(parseMoment("2026-01-31T10:00+01:00", nowMs)).toBe(Date.UTC(2026, 0, 31, 9));
  expect(parseMoment("2026-01-40", nowMs)).toBeNull();
});

it("falls back to the default range for an address that makes no sense", () => {
  expect(rangeOf({ from: "now-5m", to: "now" }, nowMs)).toEqual({ from: "now-5m", to: "now" });
  for (const search of [{}, { from: "now" }, { from: "now", to: "now-1h" }, { from: ["now-1h"], to: "now" }]) {
    expect(rangeOf(search, nowMs)).toBe(defaultRange);
  }
});

it("takes a plus of a zone that an address has made a space", () => {
  const typed = { from: "2026-01-01T10:00:00 02:00", to: "2026-01-01T12:00:00+0200" };
  expect(rangeOf(typed, nowMs)).toEqual({ from: "2026-01-01T10:00:00+02:00", to: "2026-01-01T12:00:00+0200" });
});

it("names relative ranges", () => {
  expect(relativeName({ from: "now-1h", to: "now" })).toBe("Last hour");
  expect(relativeName({ from: "now-15m", to: "now" })).toBe("Last 15 minutes");
  expect(relativeName({ from: "now-15m", to: "now-5m" })).toBeNull();
});

it("moves, widens and draws ranges that are ranges", () => {
  const range = { beginMs: nowMs - 4000, endMs: nowMs };
  expect(movedRange(range, -1)).toEqual({ from: "2026-01-01T23:59:54.000Z", to: "2026-01-01T23:59:58.000Z" });
  expect(widerRange(range, nowMs)).toEqual({ from: "2026-01-01T23:59:54.000Z", to: "2026-01-02T00:00:00.000Z" });
  expect(isRange(absoluteRange({ beginMs: 1.2, endMs: 1.3 }), nowMs)).toBe(true);
});
