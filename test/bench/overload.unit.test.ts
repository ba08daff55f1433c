/** What a run under overload comes to. */
import { expect, test } from "vitest";

import type { LoadReport } from "../../bench/load/load-generator.js";
import { bystanderFigures, overloadFigures } from "../../bench/overload.js";

const reportOf = (seconds: number, statuses: Record<string, number>, unsent = 0): LoadReport => {
  const requests = Object.values(statuses).reduce((sum, count) => sum + count, 0);
  return {
    seconds,
    offeredRequestsPerSecond: null,
    requests,
    unsent,
    records: requests * 10,
    acknowledgedRecords: (statuses["200"] ?? 0) * 10,
    statuses,
    latencyMs: { p50: 1, p90: 1, p99: 1, p999: 1, max: 1 },
    cpuSeconds: 1,
    bodyBytes: 100,
  };
};

const highest = reportOf(10, { 200: 1000 });
const flat = Array.from({ length: 40 }, () => 2e8);

const valuesOf = (report: LoadReport, memory: readonly number[] = flat): Record<string, number | null> =>
  Object.fromEntries(overloadFigures(highest, report, memory).map(({ id, value }) => [id, value]));

test("goodput is a share of the highest rate, and refusals are counted by status", () => {
  expect(valuesOf(reportOf(60, { 200: 5700, 429: 300, 503: 12_000 }))).toEqual({
    "ingest.overload goodput": 0.95,
    "ingest.overload memory, last quarter to second": 1,
    "ingest.overload refused": 12_300,
    "ingest.overload refused with 429": 300,
    "ingest.overload refused with 503": 12_000,
  });
});

test("a generator that did not send enough measured no goodput, unless the server kept its senders waiting", () => {
  const slow = overloadFigures(highest, reportOf(60, { 200: 6000 }), flat);
  expect(slow[0]).toMatchObject({ value: null, why: "the generator sent 1 times the highest rate, not 3" });
  expect(valuesOf(reportOf(60, { 200: 6000 }, 500))["ingest.overload goodput"]).toBe(1);
});

test("growth of memory is held against its limit in a long run alone", () => {
  const growing = flat.map((bytes, i) => bytes + i * 2e6);
  const memory = (seconds: number) => overloadFigures(highest, reportOf(seconds, { 200: 300 * seconds }), growing)[1];
  expect(memory(60)?.value).toBeGreaterThan(1.1);
  expect(memory(60)?.limit).toEqual({ most: 1.1, of: "target" });
  expect(memory(8)?.limit?.most).toBeUndefined();
});

test("without samples growth is not measured", () => {
  expect(valuesOf(reportOf(60, { 200: 18_000 }), [])["ingest.overload memory, last quarter to second"]).toBeNull();
});

test("what another audience sent and was not stored is counted, whether it was refused or found no connection", () => {
  expect(bystanderFigures(reportOf(60, { 200: 1190, 503: 6 }, 4))[0]).toMatchObject({ value: 10, limit: { most: 0 } });
});
