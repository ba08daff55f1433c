/** What `pnpm bench compare` calls a change. */
import { expect, test } from "vitest";

import { atMost, type Figure, figure, isMet, noLimit, notMeasured } from "../../bench/figures.js";
import { compareRuns } from "../../bench/run/compare.js";
import type { RunResult } from "../../bench/run/report.js";

const speed = { wallMs: 1, cpuMs: 1 };

const runOf = (figures: readonly Figure[], settings: readonly string[] = []): RunResult => ({
  kind: "telemetry-bench-run",
  environment: {
    date: "2026-01-01T00:00:00.000Z",
    commit: "0000000",
    node: "v20.0.0",
    cpu: "any",
    cores: 2,
    memoryBytes: 1,
    hashesPerSecond: 1,
  },
  versions: {},
  results: [{ id: "b", area: "ingestion", settings, how: "done", seconds: 1, before: speed, after: speed, figures }],
});

const verdict = (before: number | number[], after: number | number[]): string | undefined =>
  compareRuns(runOf([figure("f", "ms", before)]), runOf([figure("f", "ms", after)])).changes[0]?.verdict;

test("rounds that do not touch have moved", () => {
  expect(verdict([10, 11, 12], [20, 21, 22])).toBe("moved");
  expect(verdict([20, 21, 22], [10, 11, 12])).toBe("moved");
});

test("rounds that touch are the same, however far their medians are apart", () => {
  expect(verdict([10, 11, 20], [20, 30, 40])).toBe("same");
});

test("rounds that hardly differ are the same although they do not touch", () => {
  expect(verdict([100, 100.1], [101, 101.1])).toBe("same");
});

test("without rounds only much is a change, and only perhaps", () => {
  expect(verdict(10, 12)).toBe("same");
  expect(verdict(10, 14)).toBe("perhaps");
  expect(verdict([10, 11], 15)).toBe("perhaps");
});

test("what only one run has, or with other settings, is not compared", () => {
  const missing = compareRuns(runOf([figure("f", "ms", 1)]), runOf([notMeasured("f", "ms", "no peer")]));
  expect(missing).toEqual({ changes: [], left: ["b: f: not measured in both"] });
  const settings = compareRuns(runOf([figure("f", "ms", 1)], ["--rounds", "2"]), runOf([figure("f", "ms", 9)]));
  expect(settings).toEqual({ changes: [], left: ["b: the settings differ"] });
  const added = compareRuns(runOf([]), runOf([figure("f", "ms", 1)]));
  expect(added).toEqual({ changes: [], left: ["b: f: only the second run has it"] });
  const alone = compareRuns({ ...runOf([]), results: [] }, runOf([]));
  expect(alone.left).toEqual(["b: only the second run has it"]);
});

test("a figure is met, missed, or neither", () => {
  expect(isMet(figure("f", "ms", 1, atMost(1)))).toBe(true);
  expect(isMet(figure("f", "ms", 1.1, atMost(1)))).toBe(false);
  expect(isMet(figure("f", "ms", 1))).toBe(null);
  expect(isMet(figure("f", "ms", 1, noLimit("target is for more")))).toBe(null);
  expect(isMet(figure("f", "ms", Number.NaN, atMost(1)))).toBe(null);
});
