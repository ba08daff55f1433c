import { expect, it, vi } from "vitest";

import { Column, type Value } from "../../arrow/column.js";
import { bucketsOf } from "../../ui/chart/buckets.js";
import { redSeries } from "./red-series.js";

it("has no requests, no share of errors and no duration in a minute without requests", () => {
  const buckets = bucketsOf({ beginMs: 0, endMs: 180_000 }, 9, { leastSeconds: 60 });
  const column = (name: string, values: readonly Value[], kind: Column["type"]): Column => {
    const made = new Column(name, kind);
    vi.spyOn(made, "value").mockImplementation((row): Value => values[row] ?? null);
    return made;
  };
  const numbers = { kind: "float", bits: 64 } as const;
  const bucket = column("bucket", [0n, 120_000_000_000n], { kind: "timestamp", unit: "ns", zoned: false });
  const columns = ["requests", "errors", "p50", "p95", "p99"].map((name) =>
    column(name, name === "errors" ? [0, 0.5] : [60, 120], numbers),
  );
  const series = redSeries({ columns: [bucket, ...columns], rows: 2 }, "red", buckets);
  expect([...buckets.times]).toEqual([0, 60_000, 120_000]);
  const valuesOf = (name: keyof typeof series): number[][] => series[name].series.map(({ values }) => [...values]);
  expect(valuesOf("requests")).toEqual([[1, 0, 2]]);
  expect(valuesOf("errors")).toEqual([[0, Number.NaN, 0.5]]);
  expect(valuesOf("durations")).toEqual(Array.from({ length: 3 }, () => [60, Number.NaN, 120]));
});
