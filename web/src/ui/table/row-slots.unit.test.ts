import { expect, it } from "vitest";

import { elementsFor, rowSlots } from "./row-slots.js";

it("shows consecutive rows, and gives those that stay the element that they had", () => {
  let before = rowSlots(0, 7, 1000);
  expect(before.map(({ at }) => at)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  for (const first of [1, 4, 3, 0, 500, 503, 999, 2000]) {
    const now = rowSlots(first, 7, 1000);
    const begin = Math.min(first, 993);
    expect(now.map(({ at }) => at).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 7 }, (_, i) => begin + i));
    expect(now.map(({ slot }) => slot)).toEqual(before.map(({ slot }) => slot));
    for (const { at, slot } of now) {
      const stayed = before.find((each) => each.at === at);
      expect(stayed?.slot ?? slot).toBe(slot);
    }
    before = now;
  }
});

it("shows a list whole that is shorter than its elements", () => {
  expect(rowSlots(0, 7, 2)).toEqual([
    { slot: 0, at: 0 },
    { slot: 1, at: 1 },
  ]);
  expect(rowSlots(5, 7, 2).map(({ at }) => at)).toEqual([0, 1]);
  expect(rowSlots(0, 7, 0)).toEqual([]);
});

it("has elements for all that can be in view", () => {
  expect(elementsFor(280, 28, 6)).toBe(23);
  expect(elementsFor(281, 28, 0)).toBe(12);
});
