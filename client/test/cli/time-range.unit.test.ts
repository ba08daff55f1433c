import { describe, expect, it } from "vitest";

import { parseTime } from "../../src/cli/time-range.js";

const nowMs = Date.parse("2026-11-21T12:00:00Z");
const at = (iso: string): bigint => BigInt(Date.parse(iso)) * 1_000_000n;

describe("a time on the command line", () => {
  it("is an offset from now", () => {
    expect(parseTime("-1h", nowMs)).toBe(at("2026-11-21T11:00:00Z"));
    expect(parseTime("-90s", nowMs)).toBe(at("2026-11-21T11:58:30Z"));
    expect(parseTime("+2d", nowMs)).toBe(at("2026-11-23T12:00:00Z"));
    expect(parseTime("-500ms", nowMs)).toBe(at("2026-11-21T11:59:59.500Z"));
    expect(parseTime("now", nowMs)).toBe(at("2026-11-21T12:00:00Z"));
  });

  it("is an RFC 3339 time with up to nine fractional digits, or a date", () => {
    expect(parseTime("2026-11-21T10:00:00.000000001Z", nowMs)).toBe(at("2026-11-21T10:00:00Z") + 1n);
    expect(parseTime("2026-11-21t10:00:00.5+02:00", nowMs)).toBe(at("2026-11-21T08:00:00.5Z"));
    expect(parseTime("1969-12-31T23:59:59.75Z", nowMs)).toBe(-250_000_000n);
    expect(parseTime("2026-11-21", nowMs)).toBe(at("2026-11-21T00:00:00Z"));
  });

  it("is a bound of 64 bits of nanoseconds when it lies beyond", () => {
    expect(parseTime("9999-12-31", nowMs)).toBe(2n ** 63n - 1n);
    expect(parseTime("0001-01-01T00:00:00Z", nowMs)).toBe(1n - 2n ** 63n);
    expect(parseTime("-99999w", nowMs)).toBe(1n - 2n ** 63n);
  });

  it.each([
    "",
    "1h",
    "-1y",
    "yesterday",
    "2026-13-01",
    "2026-02-30",
    "2026-11-21T10:00",
    "2026-11-21T10:00:00",
    "2026-11-21T24:00:00Z",
    "2026-02-30T00:00:00Z",
    "-1h ",
  ])("is not %j", (text) => {
    expect(parseTime(text, nowMs)).toBeNull();
  });
});
