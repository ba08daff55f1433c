import { expect, it } from "vitest";

import { moved, pinched, zoomed, zoomedByKey } from "./zoom.js";

const reach = { endMs: 100, leastMs: 1e-3 };

it("zooms around a place and moves, within its reach", () => {
  expect(zoomed({ beginMs: 0, endMs: 100 }, 0.5, 0.5, reach)).toEqual({ beginMs: 25, endMs: 75 });
  expect(zoomed({ beginMs: 25, endMs: 75 }, 10, 0, reach)).toEqual({ beginMs: 0, endMs: 100 });
  expect(zoomed({ beginMs: 25, endMs: 75 }, 0, 0, { endMs: 100, leastMs: 10 })).toEqual({ beginMs: 25, endMs: 35 });
  expect(moved({ beginMs: 25, endMs: 75 }, 3, reach)).toEqual({ beginMs: 50, endMs: 100 });
  expect(moved({ beginMs: 25, endMs: 75 }, -3, reach)).toEqual({ beginMs: 0, endMs: 50 });
});

it("keeps under two fingers what was under them", () => {
  // They were over 40 and 60.
  expect(pinched([40, 60], [0.25, 0.75], reach)).toEqual({ beginMs: 30, endMs: 70 });
  expect(pinched([40, 60], [0.75, 0.25], reach)).toEqual({ beginMs: 30, endMs: 70 });
  expect(pinched([40, 60], [0.5, 0.6], reach)).toEqual({ beginMs: 0, endMs: 100 });
  expect(pinched([40, 60], [0.5, 0.5], reach)).toEqual({ beginMs: 0, endMs: 100 });
});

it("zooms and moves by keys, and leaves others alone", () => {
  const range = { beginMs: 40, endMs: 60 };
  expect(zoomedByKey(range, "+", reach)).toEqual({ beginMs: 45, endMs: 55 });
  expect(zoomedByKey(range, "-", reach)).toEqual({ beginMs: 30, endMs: 70 });
  expect(zoomedByKey(range, "ArrowLeft", reach)).toEqual({ beginMs: 35, endMs: 55 });
  expect(zoomedByKey(range, "ArrowRight", reach)).toEqual({ beginMs: 45, endMs: 65 });
  expect(zoomedByKey(range, "Tab", reach)).toBeNull();
});
