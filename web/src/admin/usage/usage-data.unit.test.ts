import { expect, it } from "vitest";

import type { UsageRow } from "../../api/wire.js";
import { chartOf, sumsOf } from "./usage-data.js";

const row = (o: Partial<UsageRow>): UsageRow => ({
  at: "2026-01-01T00:00:00.000Z",
  key_id: "00000000-0000-4000-8000-000000000001",
  name: "build",
  audience: "team-a",
  requests: 1,
  bytes: 10,
  records: 100,
  ...o,
});
const other = "00000000-0000-4000-8000-000000000002";
const hour = 3_600_000;
const midnight = Date.parse("2026-01-01T00:00:00Z");

it("sums up keys and audiences, the largest first", () => {
  const rows = [row({}), row({ at: "2026-01-01T01:00:00.000Z" }), row({ key_id: other, bytes: 500 })];
  expect(sumsOf(rows, "key", "bytes").map(({ id, bytes, last }) => [id, bytes, last])).toEqual([
    [other, 500, "2026-01-01T00:00:00.000Z"],
    ["00000000-0000-4000-8000-000000000001", 20, "2026-01-01T01:00:00.000Z"],
  ]);
  expect(sumsOf(rows, "audience", "requests")).toMatchObject([
    { id: "team-a", name: "team-a", requests: 3, bytes: 520 },
  ]);
});

it("fills hours without use, and tells keys of one name apart", () => {
  const rows = [row({}), row({ key_id: other, at: "2026-01-01T02:00:00.000Z" })];
  const range = { beginMs: midnight + 1, endMs: midnight + 3 * hour, stepMs: hour };
  const chart = chartOf(rows, sumsOf(rows, "key", "bytes"), { by: "key", measure: "bytes", ...range });
  expect([...chart.times]).toEqual([midnight, midnight + hour, midnight + 2 * hour]);
  expect(chart.series.map(({ name, values }) => [name, [...values]])).toEqual([["build (00000000)", [10, 0, 10]]]);
});
