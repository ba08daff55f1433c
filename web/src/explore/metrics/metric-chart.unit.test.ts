import { expect, it } from "vitest";

import { bucketsOf } from "../../ui/chart/buckets.js";
import {
  aggregations,
  chartSql,
  chartText,
  chartUnit,
  kindOf,
  type MetricKind,
  mixedWords,
  nothingDrawn,
  parseChart,
} from "./metric-chart.js";

it.each(Object.keys(aggregations) as MetricKind[])("reads back a chart of a %s", (kind) => {
  for (const aggregation of aggregations[kind]) {
    const chart = { kind, aggregation, by: "http.route", name: "a:b,[c]" };
    expect(parseChart(chartText(chart))).toEqual(chart);
  }
});

it.each([
  "",
  "{}",
  "null",
  "[",
  '["gauge","rate","","a"]',
  '["dial","avg","","a"]',
  '["gauge","avg","",1]',
  '["gauge","avg","","a","b"]',
  '["histogram","heatmap","","a","log"]',
  '["histogram","heatmap","","a","log","round"]',
])("takes %j for no chart", (text) => {
  expect(parseChart(text)).toBeNull();
});

it("keeps the scales of a heatmap that are not the usual ones", () => {
  const chart = { kind: "histogram", aggregation: "heatmap", by: "", name: "a" } as const;
  const other = { ...chart, look: { values: "linear", counts: "log" } } as const;
  expect(parseChart(chartText(other))).toEqual(other);
  expect(chartText({ ...chart, look: { values: "log", counts: "linear" } })).toBe(chartText(chart));
});

it("tells kinds apart", () => {
  expect([kindOf("sum", true), kindOf("sum", false), kindOf("summary", false)]).toEqual(["counter", "gauge", null]);
});

it("binds every value of people and data", () => {
  const name = "'; SELECT";
  const chart = { kind: "counter", aggregation: "rate", by: "it's", name } as const;
  const { sql, parameters } = chartSql(chart, bucketsOf({ beginMs: 0, endMs: 3_600_000 }, 240), {
    sql: "audience = ?",
    parameters: ["a"],
  });
  expect(sql).not.toContain("it's");
  expect(parameters).toEqual(["it's", name, "a"]);
  expect(sql.match(/\?/g)).toHaveLength(3);
});

it("gives rates a unit of their own", () => {
  const chart = { kind: "histogram", aggregation: "rate", by: "", name: "a" } as const;
  expect(chartUnit(chart, "seconds")).toBe("per-second");
  expect(chartUnit({ ...chart, aggregation: "p95" }, "seconds")).toBe("seconds");
});

it("says of which series there is no quantile, and what to do", () => {
  const chart = { kind: "histogram", aggregation: "p95", by: "service_name", name: "a" } as const;
  expect(mixedWords(chart, new Map())).toBeNull();
  const many = new Map(["a", "b", "c", "d", "e"].map((series, at) => [series, at + 1]));
  expect(mixedWords(chart, many)).toBe(
    "No p95 of a in 1 step, of b in 2 steps, of c in 3 steps, of 2 more: histograms of different bounds cannot be added up. Choose mean, rate or heatmap.",
  );
  expect(mixedWords({ ...chart, kind: "exponential_histogram", by: "" }, new Map([["", 2]]))).toBe(
    "No p95 in 2 steps: histograms of different zero thresholds cannot be added up. Draw them by service, or choose mean, rate or heatmap.",
  );
});

it("draws of a name that has points of several kinds those of its own", () => {
  const whose = { sql: "true", parameters: [] };
  const buckets = bucketsOf({ beginMs: 0, endMs: 3_600_000 }, 240);
  const sql = (kind: MetricKind): string =>
    chartSql({ kind, aggregation: "rate", by: "", name: "a" }, buckets, whose).sql;
  expect(sql("histogram")).toContain("AND histogram IS NOT NULL");
  expect(sql("exponential_histogram")).toContain("AND exp_histogram IS NOT NULL");
});

it("leads from quantiles that there are none of to what can be drawn", () => {
  const chart = { kind: "histogram", aggregation: "p95", by: "", name: "a" } as const;
  expect(nothingDrawn(chart)).toContain("choose mean or rate.");
  expect(nothingDrawn({ ...chart, aggregation: "mean" })).not.toContain("mean");
});
