import { expect, it, onTestFinished, vi } from "vitest";

import { Column, type Value } from "../../arrow/column.js";
import type { QueryResult } from "../../api/query.js";
import { showTimesIn } from "../format.js";
import { isDrawn, rangeOfDays, stacked, toSeries } from "./series.js";

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
