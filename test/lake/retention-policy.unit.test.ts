import { expect, it } from "vitest";

import {
  daysKept,
  longestKept,
  removesAnything,
  type RetentionPolicy,
} from "../../src/lake/retention/retention-policy.js";

const policy: RetentionPolicy = {
  defaultDays: 90,
  unstampedAudience: "public",
  overrides: [
    { viewSet: "spans", audience: null, days: 7 },
    { viewSet: "spans", audience: "audit", days: 0 },
    { viewSet: "log_entries", audience: "public", days: 30 },
  ],
};

it("keeps for as long as the most specific override says, and else the default", () => {
  expect(daysKept(policy, "spans", "a")).toBe(7);
  expect(daysKept(policy, "spans", "audit")).toBeNull();
  expect(daysKept(policy, "log_entries", "a")).toBe(90);
  expect(daysKept(policy, "measures", "a")).toBe(90);
  expect(daysKept({ ...policy, defaultDays: null }, "measures", "a")).toBeNull();
});

it("keeps rows without an audience like those of the audience that they are read as", () => {
  expect(daysKept(policy, "log_entries", null)).toBe(30);
  expect(daysKept({ ...policy, unstampedAudience: "" }, "log_entries", null)).toBe(90);
});

it("keeps for as long as the longest of several tables", () => {
  expect(longestKept(policy, ["spans", "measures"], "a")).toBe(90);
  expect(longestKept(policy, ["spans", "measures"], "audit")).toBeNull();
});

it("removes nothing where everything is kept for good", () => {
  const forGood = { ...policy, defaultDays: null, overrides: [{ viewSet: "spans", audience: null, days: 0 }] };
  expect(removesAnything(forGood)).toBe(false);
  expect(removesAnything(policy)).toBe(true);
  expect(removesAnything({ ...policy, defaultDays: null })).toBe(true);
});
