import { expect, it } from "vitest";

import { formatUnit, stepsOf, unitOf } from "./units.js";

it("has labels of bytes at round numbers, as they are shown", () => {
  const steps = stepsOf("bytes") ?? [];
  expect(steps.slice(8, 12).map((step) => formatUnit(step, "bytes"))).toEqual(["256 B", "512 B", "1 KiB", "2 KiB"]);
  expect(steps.slice(0, 50).map((step) => formatUnit(step, "bytes"))).not.toContainEqual(expect.stringContaining("."));
  expect(stepsOf("seconds")).toBeNull();
});

it.each([
  ["By", "bytes"],
  ["milliseconds", "milliseconds"],
  ["bytes", "bytes"],
  ["{request}", "number"],
  ["constructor", "number"],
  [null, "number"],
])("takes %j for %s", (code, unit) => {
  expect(unitOf(code)).toBe(unit);
});
