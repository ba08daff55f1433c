/** How many rows a query is expected to want of objects. */
import { expect, it } from "vitest";

import { rowsWanted } from "../../src/query/plan-rows.js";

const always = { minTimeNs: undefined, maxTimeNs: undefined };

const object = { rowCount: 1000, minTimeNs: 1000n, maxTimeNs: 1999n };

it.each([
  ["all of time", {}, 1000],
  ["more than its time", { minTimeNs: 0n, maxTimeNs: 5000n }, 1000],
  ["its first half", { maxTimeNs: 1499n }, 500],
  ["its second half", { minTimeNs: 1500n }, 500],
  ["a quarter within", { minTimeNs: 1250n, maxTimeNs: 1499n }, 250],
  ["a moment, in which a 16th may be", { minTimeNs: 1250n, maxTimeNs: 1250n }, 62.5],
  ["another time, of which the catalogue knew", { minTimeNs: 3000n }, 62.5],
])("expects rows of an object evenly: %s", (_, wanted, rows) => {
  expect(rowsWanted([{ ...object, wanted: { ...always, ...wanted } }])).toBe(rows);
});

it("adds up objects, and expects all rows of those without times or of one time", () => {
  const wanted = { ...always, minTimeNs: 1500n };
  const timeless = { rowCount: 7, minTimeNs: null, maxTimeNs: null, wanted };
  const moment = { rowCount: 5, minTimeNs: 1700n, maxTimeNs: 1700n, wanted };
  expect(rowsWanted([{ ...object, wanted }, timeless, moment])).toBe(512);
  expect(rowsWanted([])).toBe(0);
});

it("keeps its numbers at the ends of time", () => {
  const whole = {
    rowCount: 8,
    minTimeNs: -(2n ** 63n),
    maxTimeNs: 2n ** 63n - 1n,
    wanted: { ...always, minTimeNs: 0n },
  };
  expect(rowsWanted([whole])).toBe(4);
});
