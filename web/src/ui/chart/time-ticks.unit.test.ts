import { afterEach, expect, it } from "vitest";

import { showTimesIn } from "../format.js";
import { timeTicks } from "./time-ticks.js";

afterEach(() => showTimesIn(null));

const ticksOf = (zone: string, begin: string, end: string, most: number): string[] => {
  showTimesIn(zone);
  const ticks = timeTicks({ beginMs: Date.parse(begin), endMs: Date.parse(end) }, most);
  return ticks.map(({ ms, text }) => `${new Date(ms).toISOString().slice(5, 16)} ${text}`);
};

it("begins days where those of the zone do, through a change of its clocks", () => {
  expect(ticksOf("Europe/Berlin", "2026-10-24T00:00Z", "2026-10-27T12:00Z", 5)).toEqual([
    "10-24T22:00 10-25",
    "10-25T23:00 10-26",
    "10-26T23:00 10-27",
  ]);
});

it("labels hours that clocks show twice, or skip, once", () => {
  expect(ticksOf("Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T05:00Z", 4)).toEqual([
    "10-24T22:00 10-25 00:00",
    "10-25T01:00 02:00",
    "10-25T03:00 04:00",
  ]);
  expect(ticksOf("Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T05:00Z", 3)).toEqual([
    "03-29T01:00 03-29 03:00",
    "03-29T02:00 04:00",
    "03-29T04:00 06:00",
  ]);
});

it("has full hours in a zone that is 45 minutes off", () => {
  expect(ticksOf("Asia/Kathmandu", "2026-01-01T00:00Z", "2026-01-01T03:00Z", 3)).toEqual([
    "01-01T00:15 01-01 06:00",
    "01-01T01:15 07:00",
    "01-01T02:15 08:00",
  ]);
});

it("names months and years where days are too many", () => {
  expect(ticksOf("UTC", "2025-11-15T00:00Z", "2026-11-15T00:00Z", 5)).toEqual([
    "01-01T00:00 2026-01",
    "04-01T00:00 2026-04",
    "07-01T00:00 2026-07",
    "10-01T00:00 2026-10",
  ]);
  expect(
    ticksOf("America/New_York", "1971-01-01T00:00Z", "2261-01-01T00:00Z", 3).map((each) => each.slice(-7)),
  ).toEqual(["2000-01", "2100-01", "2200-01"]);
});

it("tells the days of half days apart", () => {
  const labels = ticksOf("America/New_York", "2026-01-01T00:00Z", "2026-01-05T00:00Z", 13);
  expect(new Set(labels.map((each) => each.slice(12))).size).toBe(labels.length);
  expect(labels[0]).toBe("01-01T05:00 01-01 00:00");
});

it("names a day once, where it begins", () => {
  expect(ticksOf("UTC", "2026-01-31T18:00Z", "2026-02-01T06:00Z", 4)).toEqual([
    "01-31T18:00 01-31 18:00",
    "01-31T21:00 21:00",
    "02-01T00:00 02-01 00:00",
    "02-01T03:00 03:00",
  ]);
});
