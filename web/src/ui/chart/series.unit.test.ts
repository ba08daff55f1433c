import { expect, it, onTestFinished, vi } from "vitest";

import { Column, type Value } from "../../arrow/column.js";
import type { QueryResult } from "../../api/query.js";
import { showTimesIn } from "../format.js";
import { bucketsOf, perSecond } from "./buckets.js";
import { isDrawn, lineValues, lonePoints, rangeOfDays, stacked, toSeries, withHoles } from "./series.js";

const infinity = (2n ** 63n - 1n) * 1000n;

function rows(...cells: readonly (readonly [time: bigint | null, value: number])[]): QueryResult {
  const time = new Column("time", { kind: "timestamp", unit: "ns", zoned: false });
  const value = new Column("value", { kind: "float", bits: 64 });
  vi.spyOn(time, "value").mockImplementation((row): Value => cells[row]?.[0] ?? null);
  vi.spyOn(value, "value").mockImplementation((row): Value => cells[row]?.[1] ?? null);
  return { columns: [time, value], rows: cells.length };
}

const seriesOf = (result: QueryResult): ReturnType<typeof toSeries> =>
  toSeries(result, { time: "time", value: "value", name: null });

it("leaves out rows without a moment", () => {
  const { times, series } = seriesOf(rows([2_000_000n, 2], [1_000_000n, 1], [null, 99], [infinity, 98]));
  expect([...times]).toEqual([1, 2]);
  expect(series.map(({ values }) => [...values])).toEqual([[1, 2]]);
});

it("stacks what is not finite as nothing, and says whether there is anything to draw", () => {
  const mixed = seriesOf(rows([1_000_000n, Number.NEGATIVE_INFINITY], [2_000_000n, 2], [3_000_000n, Number.NaN]));
  expect(stacked(mixed.series).map((sums) => [...sums])).toEqual([[0, 2, 0]]);
  expect(isDrawn(mixed)).toBe(true);
  expect(isDrawn(seriesOf(rows([1_000_000n, Number.NaN], [2_000_000n, Infinity])))).toBe(false);
});

it("begins the days of a column of dates where those of the zone do, and shows them in whole", () => {
  const result = { rows: 2, columns: [new Column("time", { kind: "date", unit: "day" }), ...rows().columns.slice(1)] };
  const days = [Date.UTC(2026, 0, 2), Date.UTC(2026, 0, 3)];
  vi.spyOn(result.columns[0] as Column, "number").mockImplementation((row) => days[row] ?? Number.NaN);
  showTimesIn("America/New_York");
  onTestFinished(() => showTimesIn(null));
  const { times } = seriesOf(result);
  expect([...times].map((ms) => new Date(ms).toISOString())).toEqual([
    "2026-01-02T05:00:00.000Z",
    "2026-01-03T05:00:00.000Z",
  ]);
  const [first = 0] = times;
  const hour = 3_600_000;
  expect(rangeOfDays(times, { beginMs: first + 40 * hour, endMs: first + 41 * hour })).toEqual({
    beginMs: first,
    endMs: first + 48 * hour,
  });
  const later = { beginMs: first + 90 * hour, endMs: first + 91 * hour };
  expect(rangeOfDays(times, later)).toEqual({ beginMs: first, endMs: first + 48 * hour });
});

it("has no more series than make a picture, and says how many there are", () => {
  const result = rows(...Array.from({ length: 200 }, (_, n) => [BigInt(n) * 1_000_000n, n] as const));
  const name = new Column("name", { kind: "text" });
  vi.spyOn(name, "value").mockImplementation((row): Value => `series ${row % 70}`);
  const data = toSeries(
    { ...result, columns: [...result.columns, name] },
    { time: "time", value: "value", name: "name" },
  );
  expect(data.series.map((each) => each.name)).toEqual(Array.from({ length: 50 }, (_, n) => `series ${n}`));
  expect(data.of).toBe(70);
  expect(data.series[3]?.values[143]).toBe(143);
});

it("draws the line of a series on over times that only others have, and no line over a hole", () => {
  const minute = 60_000;
  const times = [0, 0.25, 1, 1.25, 2, 3, 3.25, 9, 9.25, 10].map((minutes) => minutes * minute);
  const own = [1, NaN, 1, NaN, 2, 2, NaN, 3, NaN, 3];
  const drawn = lineValues(Float64Array.from(times), Float64Array.from(own));
  expect(drawn).toEqual([1, undefined, 1, undefined, 2, 2, null, 3, undefined, 3]);
  expect(lineValues(new Float64Array(0), new Float64Array(0))).toEqual([]);
  expect(lineValues(Float64Array.of(0, 1), Float64Array.of(NaN, 5))).toEqual([null, 5]);
});

it("has a time without values in a hole of all series", () => {
  const series = [{ name: "a", values: Float64Array.of(1, 2, 3, 4) }];
  const { times, series: found } = withHoles({ times: Float64Array.of(0, 10, 40, 90), series });
  expect([...times]).toEqual([0, 10, 40, 90]);
  expect([...(found[0]?.values ?? [])]).toEqual([1, 2, 3, 4]);
  const holed = withHoles({ times: Float64Array.of(0, 10, 20, 90), series });
  expect([...holed.times]).toEqual([0, 10, 20, 30, 90]);
  expect(lineValues(holed.times, holed.series[0]?.values ?? new Float64Array(0))).toEqual([1, 2, 3, null, 4]);
});

it("counts for a second what lies in the range of the first and the last bucket", () => {
  const buckets = bucketsOf({ beginMs: 95_000, endMs: 245_000 }, 80, { leastSeconds: 60 });
  expect([...buckets.times]).toEqual([60_000, 120_000, 180_000, 240_000]);
  const series = [{ name: "a", values: Float64Array.of(25, 60, 60, 5) }];
  const { series: found } = perSecond({ times: buckets.times, series }, buckets);
  expect([...(found[0]?.values ?? [])]).toEqual([1, 1, 1, 1]);
});

it.each([
  [
    [1, null, 2, 3, null, 4],
    [0, 5],
  ],
  [[null, 1, null], [1]],
  [[1], [0]],
  [[1, 2, null, null], null],
  [[1, undefined, 2, null], null],
  [[], null],
])("finds the points of %j that no line leads to", (values, alone) => {
  expect(lonePoints(values)).toEqual(alone);
});
