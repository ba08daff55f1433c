import { expect, it } from "vitest";

import { isSameConfig } from "./same-config.js";

it("compares without regard to the order of members", () => {
  expect(isSameConfig({ a: 1, b: [{ c: 1, d: 2 }] }, { b: [{ d: 2, c: 1 }], a: 1 })).toBe(true);
  expect(isSameConfig({ a: [1, 2] }, { a: [2, 1] })).toBe(false);
});
