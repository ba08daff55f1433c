import { describe, expect, it } from "vitest";

import {
  formatAge,
  formatBytes,
  formatCompact,
  formatDate,
  formatDuration,
  formatPercent,
  formatTime,
  formatTimeExact,
  momentOfClock,
  oneLine,
  showTimesIn,
} from "./format.js";

describe("formatDuration", () => {
  it.each([
    [0, "0 ns"],
    [850, "850 ns"],
    [1234, "1.23 µs"],
    [1_500_000, "1.5 ms"],
    [12_345_678_901, "12.3 s"],
    [999.9e6, "1 s"],
    [999_900, "1 ms"],
    [59.99e9, "1 min"],
    [125e9, "2 min 5 s"],
    [120e9, "2 min"],
    [12_000e9, "3 h 20 min"],
    [180_000e9, "2 d 2 h"],
    [-1_500_000, "-1.5 ms"],
  ])("shows %d ns as %s", (nanoseconds, text) => {
    expect(formatDuration(nanoseconds)).toBe(text);
  });
});

it("shows bytes in the largest unit that leaves at least 1", () => {
  expect([0, 1023, 1024, 1_572_864, 3 * 1024 ** 5].map(formatBytes)).toEqual([
    "0 B",
    "1023 B",
    "1 KiB",
    "1.5 MiB",
    "3 PiB",
  ]);
});

it("keeps nanoseconds of a time, in the zone asked for", () => {
  const time = 1_767_323_045_123_456_789n;
  expect(formatTimeExact(time)).toBe("2026-01-02T03:04:05.123456789Z");
  expect(formatTime(time, { timeZone: "UTC", digits: 9 })).toBe("2026-01-02 03:04:05.123456789");
  expect(formatTime(time, { timeZone: "Asia/Kolkata", digits: 0, date: false })).toBe("08:34:05");
});

it("shows times before 1970", () => {
  expect(formatTime(-1n, { timeZone: "UTC", digits: 9 })).toBe("1969-12-31 23:59:59.999999999");
});

it("shows every time and date that SQL has", () => {
  const seconds = (count: number): bigint => BigInt(count) * 1_000_000_000n;
  expect(formatTimeExact(seconds(-63_510_652_799))).toBe("-000043-06-06T00:00:01.000000000Z");
  expect(formatTime(seconds(-63_510_652_799), { timeZone: "UTC" })).toBe("-000043-06-06T00:00:01.000000000Z");
  expect(formatDate(seconds(-63_510_652_800))).toBe("-000043-06-06");
  expect(formatDate(seconds(253_402_300_800))).toBe("+010000-01-01");
  expect(formatTime(seconds(-62_000_000_000), { timeZone: "UTC", digits: 0 })).toBe("0005-04-19 09:46:40");
  const infinity = (2n ** 63n - 1n) * 1000n;
  expect(formatTimeExact(-infinity)).toBe(`${-infinity} ns`);
  expect(formatTime(infinity)).toBe(`${infinity} ns`);
  expect(formatDate(infinity)).toBe(`${infinity} ns`);
});

it("shows ages, compact numbers and fractions in few characters", () => {
  expect([0, 90_000, 7_200_000].map((ago) => formatAge(1e12 - ago, 1e12))).toEqual([
    "just now",
    "2 min ago",
    "2 h ago",
  ]);
  expect([7, 1234.5, 1_234_567].map(formatCompact)).toEqual(["7", "1,235", "1.23M"]);
  expect(formatPercent(0.12345)).toBe("12.3%");
});

it("keeps text of others on its line and in its order", () => {
  expect(oneLine("first\nsecond\t\u001b[31m\u007f\u0085")).toBe("first␊second␉␛[31m␡�");
  expect(oneLine("\u202eexe.tnemucod (08446ec4)")).toBe("exe.tnemucod (08446ec4)");
  expect(oneLine("שלום héllo 😀 👩\u200d🚀")).toBe("שלום héllo 😀 👩\u200d🚀");
});

it.each([
  ["Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:30"], // skipped
  ["Europe/Berlin", "2026-10-25T02:30", "2026-10-25T01:30"], // shown twice
  ["America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00"], // a day without a midnight
  ["America/New_York", "2026-03-08T02:30", "2026-03-08T07:30"],
  ["Asia/Kathmandu", "2026-01-01T00:00", "2025-12-31T18:15"],
  ["Pacific/Apia", "2011-12-30T12:00", "2011-12-30T22:00"], // a day that was not
])("finds the moment at which clocks in %s show %s", (zone, clock, moment) => {
  showTimesIn(zone);
  try {
    expect(new Date(momentOfClock(Date.parse(`${clock}Z`))).toISOString().slice(0, 16)).toBe(moment);
  } finally {
    showTimesIn(null);
  }
});
