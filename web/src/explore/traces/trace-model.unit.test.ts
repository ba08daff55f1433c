import { expect, it } from "vitest";

import { criticalPath, flames, mayReachBeyond, placesNow, shapeOf, type Span, visibleSpans } from "./trace-model.js";

/** Depth, begin and end of each span. */
function spansOf(...rows: readonly (readonly [number, number, number])[]): readonly Span[] {
  const { parents, ends } = shapeOf(rows.map(([depth]) => depth));
  return rows.map(([depth, startMs, endMs], at) => ({
    at,
    spanId: String(at),
    name: depth === 0 ? "root" : "child",
    service: "shop",
    kind: null,
    depth,
    startMs,
    durationMs: endMs - startMs,
    selfMs: depth === 0 ? 2 : endMs - startMs,
    isError: false,
    isOrphan: false,
    statusMessage: null,
    parent: parents[at] ?? -1,
    end: ends[at] ?? at + 1,
  }));
}

it("finds parents and ends of subtrees, and hides what is below a collapsed span", () => {
  const { parents, ends } = shapeOf([0, 1, 2, 1, 0]);
  expect(parents).toEqual([-1, 0, 1, 0, -1]);
  expect(ends).toEqual([4, 3, 3, 4, 5]);
  const spans = spansOf([0, 0, 9], [1, 0, 5], [2, 1, 2], [1, 5, 8], [0, 9, 10]);
  expect(visibleSpans(spans, new Set([1]))).toEqual([0, 1, 3, 4]);
  expect(visibleSpans(spans, new Set([0]))).toEqual([0, 4]);
});

it("tells traces that may reach beyond where they were looked for", () => {
  const hourMs = 3_600_000;
  const range = { beginMs: 0, endMs: 2 * hourMs };
  const reaches = (beginMs: number, durationMs: number, isOrphan = false): boolean => {
    const spans = spansOf([0, 0, durationMs]).map((span) => ({ ...span, isOrphan }));
    return mayReachBeyond({ spans, beginMs, durationMs, services: [], errors: 0, properties: () => null }, range);
  };
  expect(reaches(hourMs, 5000)).toBe(false);
  expect(reaches(hourMs - 5000, 0.4 * hourMs)).toBe(false);
  expect(reaches(hourMs, 2 * hourMs)).toBe(true);
  expect(reaches(hourMs, 0.6 * hourMs)).toBe(true);
  expect(reaches(0.4 * hourMs, 0.7 * hourMs)).toBe(true);
  expect(reaches(-hourMs, 0.1 * hourMs)).toBe(true);
  expect(reaches(hourMs, 5000, true)).toBe(true);
});

it("finds spans again by their ids when others have come in before them", () => {
  const before = spansOf([0, 0, 9], [1, 0, 5], [1, 5, 8]);
  const now = ["0", "late", "1", "2"].map((spanId, at) => ({ ...before[0]!, spanId, at }));
  expect(placesNow(new Set([0, 2]), before, now)).toEqual(new Set([0, 3]));
});

it("follows the critical path backwards along the child that ended last", () => {
  // The first child runs beside the second, which alone held up the end.
  const path = criticalPath(spansOf([0, 0, 10], [1, 1, 4], [1, 1, 8], [2, 2, 7]));
  expect(new Set(path.keys())).toEqual(new Set([0, 2, 3]));
  expect(path.get(0)).toEqual([
    { beginMs: 8, endMs: 10 },
    { beginMs: 0, endMs: 1 },
  ]);
  expect(path.get(2)).toEqual([
    { beginMs: 7, endMs: 8 },
    { beginMs: 1, endMs: 2 },
  ]);
  const total = [...path.values()].flat().reduce((sum, { beginMs, endMs }) => sum + endMs - beginMs, 0);
  expect(total).toBe(10);
});

it("makes one box of spans with the same ancestors, as wide as their time", () => {
  const found = flames(spansOf([0, 0, 10], [1, 1, 4], [1, 4, 9]));
  expect(found.map(({ name, count, left }) => [name, count, left])).toEqual([
    ["root", 1, 0],
    ["child", 2, 0],
  ]);
  expect(found[1]?.width).toBeCloseTo(0.8);
});
