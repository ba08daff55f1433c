import { expect, it } from "vitest";

import {
  daysKept,
  longestKept,
  removesAnything,
  type RetentionPolicy,
} from "../../src/lake/retention/retention-policy.js";
import { horizonsOf } from "../../src/lake/retention/retire-blocks.js";

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

it("lets blocks go a day after the oldest rows that still stand, and after what their tables keep", () => {
  const day = 86_400;
  const standing = [
    { viewSet: "spans", audience: "a", oldestSeconds: 50 * day },
    { viewSet: "histograms", audience: "a", oldestSeconds: 3 * day },
    { viewSet: "log_entries", audience: null, oldestSeconds: 60 * day },
  ];
  const horizonOf = horizonsOf(policy, standing, 100 * day);
  expect(horizonOf("a", 3)).toBe(49 * day);
  expect(horizonOf("a", 2)).toBe(2 * day);
  expect(horizonOf("a", 1)).toBe(9 * day);
  expect(horizonOf(null, 1)).toBe(59 * day);
  expect(horizonOf("audit", 3)).toBeNull();
});

it("looks at each override and each group once, however many streams there are", () => {
  let looks = 0;
  const seen = <T extends object>(value: T): T =>
    new Proxy(value, {
      get(target, name) {
        looks++;
        return Reflect.get(target, name) as unknown;
      },
    });
  const audiences = Array.from({ length: 100 }, (_, n) => `team-${n}`);
  const overrides = audiences.map((audience) => seen({ viewSet: "spans", audience, days: 7 }));
  const groups = audiences.map((audience) => seen({ viewSet: "spans", audience, oldestSeconds: 0 }));
  const horizonOf = horizonsOf({ ...policy, overrides }, groups, 0);
  for (const audience of [...audiences, ...audiences]) {
    horizonOf(audience, 3);
  }
  expect(looks).toBe(600);
});
