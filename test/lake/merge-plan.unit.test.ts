import { describe, expect, it } from "vitest";

import { groupRowsFor } from "../../src/lake/merge/merge-plan.js";

/** A row group whose widest column has so many bytes a row. */
const group = (rows: number, rowBytes: number) => ({ rows, bytes: rows * rowBytes });

describe("rows of a row group", () => {
  it("are the same for all ordinary records", () => {
    for (const groups of [[], [group(1, 300)], [group(61_440, 546), group(61_440, 20)]]) {
      expect(groupRowsFor(groups)).toBe(61_440);
    }
  });

  it("take 32 MiB in the widest column, in whole vectors of DuckDB's where there is room for one", () => {
    expect(groupRowsFor([group(100_000, 1024)])).toBe(32_768);
    expect(groupRowsFor([group(100_000, 5000)])).toBe(6144);
    expect(groupRowsFor([group(50_000, 16_384)])).toBe(2048);
    expect(groupRowsFor([group(50_000, 20_000)])).toBe(1677);
    expect(groupRowsFor([group(500, 1_000_000)])).toBe(33);
    expect(groupRowsFor([group(500, 100_000_000)])).toBe(1);
  });

  it("leave room for the largest records, which may come together", () => {
    expect(groupRowsFor([group(1_000_000, 300), group(2000, 10_000)])).toBe(47_104);
    expect(groupRowsFor([group(1_000_000, 300), group(20_000, 10_000)])).toBe(2048);
    expect(groupRowsFor([group(1_000_000, 300), group(1, 1_000_000)])).toBe(61_440);
  });
});
