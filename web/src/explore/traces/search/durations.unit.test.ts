import { expect, it } from "vitest";

import { parseDurationMs } from "./durations.js";

it("reads durations as people write them, and nothing else", () => {
  expect(["250", "250ms", "1.5 s", "2m", "2min5s", "850 µs", "3 h 20 min"].map(parseDurationMs)).toEqual([
    250, 250, 1500, 120_000, 125_000, 0.85, 12_000_000,
  ]);
  for (const nonsense of ["", "x", "-1s", "1 year", "1s;", "s1", "1e400"]) {
    expect(parseDurationMs(nonsense)).toBeNull();
  }
});
