import { describe, expect, it } from "vitest";

import { daysKept, defaultWords, keptWords, removesAny, removesMore } from "./retention.js";

const rule = (view: string, audience: string | null, days: number) => ({
  view,
  audience,
  days,
  updated_at: "",
  updated_by: "",
});

describe("daysKept", () => {
  const rules = [rule("spans", null, 30), rule("spans", "a", 7), rule("spans", "audit", 0), rule("measures", "a", 5)];

  it.each([
    ["spans", "a", 7],
    ["spans", "audit", null],
    ["spans", "b", 30],
    ["spans", null, 30],
    ["measures", "a", 5],
    ["measures", "b", 90],
    ["log_entries", "a", 90],
  ])("takes the most specific rule for %s of %s", (view, audience, days) => {
    expect(daysKept(rules, 90, view, audience)).toBe(days);
  });

  it("keeps for good where nothing says otherwise", () => {
    expect(daysKept([], null, "spans", "a")).toBeNull();
    expect(daysKept([], 0, "spans", "a")).toBeNull();
  });
});

it("tells what removes rows that would have stayed", () => {
  expect(removesMore(null, 30)).toBe(true);
  expect(removesMore(30, 7)).toBe(true);
  expect(removesMore(7, 30)).toBe(false);
  expect(removesMore(7, 7)).toBe(false);
  expect(removesMore(7, null)).toBe(false);
});

it("says days and the default in words", () => {
  expect([null, 0, 1, 30].map(keptWords)).toEqual(["for good", "for good", "1 day", "30 days"]);
  const seen = { seen_at: "2026-01-01T00:00:00.000Z", held_until: null };
  expect(defaultWords({ ...seen, days: 30 })).toMatch(/^Rows are kept for 30 days where/);
  expect(defaultWords({ ...seen, days: null })).toMatch(/^Rows are kept for good where/);
  expect(defaultWords({ days: null, seen_at: null, held_until: null })).toMatch(/has not said/);
});

it.each([
  ["no default and no override", [], null, false],
  ["a default", [], 30, true],
  ["overrides that keep rows for good", [0], null, false],
  ["one that does not", [0, 7], null, true],
] as const)("rows go for their age with %s: %o, %o: %s", (_name, days, standard, removes) => {
  const overrides = days.map((each) => rule("spans", null, each));
  expect(removesAny(overrides, standard)).toBe(removes);
});
