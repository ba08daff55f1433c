import { expect, it } from "vitest";

import { explicitHeatmap, exponentialHeatmap, hasBounds, type ExponentialStep, summaryOf } from "./bins.js";
import { binText, edgeLabels, heatOf, rowsOf, yOf, zoomedRange } from "./scale.js";

const exponential = (o: Partial<ExponentialStep>): ExponentialStep => ({
  timeMs: 0,
  scale: 0,
  zeroCount: 0,
  zeroThreshold: 0,
  positiveOffset: 0,
  positive: [],
  negativeOffset: 0,
  negative: [],
  ...o,
});

it("keeps explicit buckets, and leaves out empty ones at the ends", () => {
  const heatmap = explicitHeatmap([
    { timeMs: 10, bounds: [1, 2, 4], counts: [0, 3, 0, 0] },
    { timeMs: 0, bounds: [1, 2, 4], counts: [0, 1, 2, 0] },
  ]);
  expect(heatmap.times).toEqual([0, 10]);
  expect(heatmap.bins).toEqual([
    { low: 1, high: 2 },
    { low: 2, high: 4 },
  ]);
  expect([...heatmap.counts]).toEqual([1, 2, 3, 0]);
});

it("tells histograms without bounds from those with one", () => {
  const heatmap = (bounds: readonly number[], counts: readonly number[]): boolean =>
    hasBounds(explicitHeatmap([{ timeMs: 0, bounds, counts }]));
  expect(heatmap([], [7])).toBe(false);
  expect(heatmap([1], [7, 0])).toBe(true);
  expect(heatmap([1], [0, 7])).toBe(true);
});

it("brings buckets of other bounds together without losing any", () => {
  const { bins, counts } = explicitHeatmap([
    { timeMs: 0, bounds: [2, 4], counts: [4, 8, 1] },
    { timeMs: 0, bounds: [1, 2, 3, 6], counts: [0, 0, 0, 0, 5] },
  ]);
  expect(bins.map(({ high }) => high)).toEqual([1, 2, 3, 4, 6, Infinity]);
  // Up to 2 is half up to 1 and half up to 2; above 4 is next to 4, above 6 stays there.
  expect([...counts]).toEqual([2, 2, 4, 4, 1, 5]);
});

it("has at most 60 bins of many bounds", () => {
  const bounds = Array.from({ length: 500 }, (_, at) => at + 1);
  const { bins, counts } = explicitHeatmap([{ timeMs: 0, bounds, counts: [...bounds, 0].map(() => 1) }]);
  expect(bins.length).toBeLessThanOrEqual(60);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBeCloseTo(501);
});

it("keeps exponential buckets at the scale of their step, and spreads those of coarser ones over the finer", () => {
  const { times, bins, counts } = exponentialHeatmap([
    exponential({ scale: 1, positiveOffset: -2, positive: [1, 2, 3, 4], zeroCount: 7, zeroThreshold: 0.1 }),
    exponential({ timeMs: 10, scale: 0, positive: [10], negativeOffset: 1, negative: [5] }),
    exponential({ timeMs: 20, scale: -1, positiveOffset: 0, positive: [8] }),
  ]);
  expect(bins.map(({ low }) => low)).toEqual([-4, -0.1, 0.5, 2 ** -0.5, 1, 2 ** 0.5, 2]);
  expect(bins.at(-1)).toEqual({ low: 2, high: 4 });
  expect(times).toEqual([0, 10, 20]);
  const columns = [0, 1, 2].map((step) => [...counts.subarray(step * bins.length, (step + 1) * bins.length)]);
  expect(columns).toEqual([
    [0, 7, 1, 2, 3, 4, 0],
    [5, 0, 0, 0, 5, 5, 0],
    [0, 0, 0, 0, 2, 2, 4],
  ]);
});

it("leaves other steps as they are where one is coarse", () => {
  const fine = Array.from({ length: 5 }, (_, at) =>
    exponential({ timeMs: at, scale: 4, positiveOffset: 16, positive: Array.from({ length: 16 }, () => 1) }),
  );
  const { bins, counts } = exponentialHeatmap([...fine, exponential({ timeMs: 5, scale: -3, positive: [32] })]);
  expect(bins.filter(({ low, high }) => low >= 2 && high <= 4)).toHaveLength(16);
  expect(counts.slice(0, bins.length).filter((count) => count === 1)).toHaveLength(16);
  expect(counts.slice(5 * bins.length).reduce((sum, count) => sum + count, 0)).toBeCloseTo(32);
});

it("makes exponential buckets coarser until there are few enough", () => {
  const positive = Array.from({ length: 160 }, () => 1);
  const { bins, counts } = exponentialHeatmap([exponential({ scale: 5, positiveOffset: -80, positive })]);
  expect(bins.length).toBeLessThanOrEqual(60);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(160);
  expect(bins[0]?.low).toBeCloseTo(2 ** (-80 / 32));
});

it("is empty for nothing", () => {
  expect(explicitHeatmap([])).toMatchObject({ times: [], bins: [] });
  expect(exponentialHeatmap([exponential({})])).toMatchObject({ times: [], bins: [] });
});

it("says where most values of a bin are", () => {
  const heatmap = explicitHeatmap([
    { timeMs: 0, bounds: [1], counts: [1, 5] },
    { timeMs: 10, bounds: [1], counts: [4, 5] },
  ]);
  expect(summaryOf(heatmap)).toEqual([
    { bin: { low: 1, high: Infinity }, total: 10, most: 5, mostAtMs: 0 },
    { bin: { low: -Infinity, high: 1 }, total: 5, most: 4, mostAtMs: 10 },
  ]);
});

it("places bins by their logarithm or their width, and values in them", () => {
  const bins = [
    { low: 1, high: 10 },
    { low: 10, high: 100 },
  ];
  const log = rowsOf(bins, "log", 0, 100);
  expect(log.map(({ top }) => Math.abs(Math.round(top)))).toEqual([50, 0]);
  expect(yOf(Math.sqrt(1000), bins, log, "log")).toBeCloseTo(25);
  const linear = rowsOf(bins, "linear", 0, 99);
  expect(linear.map(({ top }) => Math.abs(Math.round(top)))).toEqual([90, 0]);
  expect(yOf(55, bins, linear, "linear")).toBeCloseTo(45);
  expect(yOf(1000, bins, log, "log")).toBeNull();
  // What has no end gets room all the same.
  const open = rowsOf([{ low: -Infinity, high: 1 }, ...bins], "log", 0, 90);
  expect(open.map(({ top, bottom }) => Math.round(bottom - top))).toEqual([30, 30, 30]);
  expect(rowsOf([{ low: 0, high: 0 }], "log", 0, 50)).toEqual([{ top: 0, bottom: 50 }]);
});

it("gives more a stronger colour, and none to nothing", () => {
  expect([0, 1, 50, 100].map((count) => heatOf(count, 100, "linear"))).toEqual([-1, 0, 3, 7]);
  expect([0.2, 9, 1000].map((count) => heatOf(count, 1000, "log"))).toEqual([0, 2, 7]);
});

it("labels edges that are far enough apart, and bins in words", () => {
  const bins = [
    { low: -Infinity, high: 1 },
    { low: 1, high: 2 },
    { low: 2, high: Infinity },
  ];
  expect(edgeLabels(bins, rowsOf(bins, "log", 0, 90), 20).map(({ value }) => value)).toEqual([1, 2]);
  expect(edgeLabels(bins, rowsOf(bins, "log", 0, 30), 20).map(({ value }) => value)).toEqual([1]);
  expect(bins.map((bin) => binText(bin, "seconds"))).toEqual(["up to 1 s", "1 s – 2 s", "above 2 s"]);
  expect(binText({ low: 0, high: 0 }, "seconds")).toBe("0");
});

it("zooms to a quarter around a place, never out of the range nor below what makes sense", () => {
  const range = { beginMs: 0, endMs: 1000 };
  expect(zoomedRange(range, 500, 10)).toEqual({ beginMs: 375, endMs: 625 });
  expect(zoomedRange(range, 990, 10)).toEqual({ beginMs: 750, endMs: 1000 });
  expect(zoomedRange(range, 0, 600)).toEqual({ beginMs: 0, endMs: 600 });
  expect(zoomedRange(range, 0, 1000)).toBeNull();
});
