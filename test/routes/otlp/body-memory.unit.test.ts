import * as fc from "fast-check";
import { expect, test } from "vitest";

import { BodyMemory } from "../../../src/routes/otlp/body-memory.js";
import { Arena } from "../../../src/runtime/threads/arena.js";

const page = 4096;
const pages = 90;

/** Takes pages for an audience until it gets no more. */
function fill(memory: BodyMemory, audience: string | null): number {
  let taken = 0;
  for (; memory.admits(audience, page, 0); taken++) {
    memory.arena.allocate(page);
    memory.hold(audience, page);
  }
  return taken;
}

test("one audience fills four fifths, the next the same of what is left, and who comes then still gets something", () => {
  const memory = new BodyMemory(new Arena(pages * page));
  expect(fill(memory, "a")).toBe(72);
  expect(memory.admits("b", 18 * page, 0)).toBe(true);
  expect(memory.admits("b", 19 * page, 0)).toBe(false);
  expect(fill(memory, "b")).toBeGreaterThanOrEqual(14);
  expect(fill(memory, null)).toBeGreaterThanOrEqual(2);
});

test("a body alone may have all of it, and grow to it", () => {
  const memory = new BodyMemory(new Arena(pages * page));
  expect(memory.admits("a", pages * page, 0)).toBe(true);
  const offset = memory.arena.allocate(80 * page);
  memory.hold("a", 80 * page);
  expect(memory.admits("a", 10 * page, 80 * page)).toBe(true);
  expect(memory.arena.grow(offset, 80 * page, pages * page)).toBe(offset);
});

test("what was given back counts no more", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom("a", "b", null), fc.integer({ min: 1, max: 1e6 }))), (bodies) => {
      const memory = new BodyMemory(new Arena(pages * page));
      for (const [audience, bytes] of bodies) {
        memory.hold(audience, bytes);
      }
      for (const [audience, bytes] of bodies) {
        memory.hold(audience, -bytes);
      }
      expect(memory.admits("a", pages * page, 0)).toBe(true);
    }),
  );
});
