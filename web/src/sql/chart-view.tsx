/** A result as a chart: times across, a number up, one series for each name. */
import { type ReactElement, useMemo } from "react";

import type { QueryResult } from "../api/query.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { useSettings } from "../app/settings.js";
import { useTimeRange } from "../app/time-range-context.js";
import { isTime, rangeOfDays, toSeries } from "../ui/chart/series.js";
import { TimeChart } from "../ui/chart/time-chart.js";
import { type Unit } from "../ui/chart/units.js";
import { Select } from "../ui/controls/controls.js";
import { EmptyState } from "../ui/states.js";
import { isNumeric } from "../ui/table/table-columns.js";
import { absoluteRange } from "../ui/time-range.js";
import css from "./sql-page.module.css";

const units: readonly { readonly value: Unit; readonly label: string }[] = [
  { value: "number", label: "Plain numbers" },
  { value: "bytes", label: "Bytes" },
  { value: "milliseconds", label: "Milliseconds" },
  { value: "nanoseconds", label: "Nanoseconds" },
  { value: "seconds", label: "Seconds" },
  { value: "fraction", label: "Percent" },
];

export function ChartView({ result, stale }: { readonly result: QueryResult; readonly stale: boolean }): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const { resolved, setRange } = useTimeRange();
  const { timeZone } = useSettings();
  const choice = (key: string, from: readonly string[]): string => {
    const asked = textOf(search[key]);
    return asked !== null && from.includes(asked) ? asked : (from[0] ?? "");
  };
  const times = result.columns.filter(isTime).map(({ name }) => name);
  const numbers = result.columns.filter(({ type }) => isNumeric(type)).map(({ name }) => name);
  const names = ["", ...result.columns.filter(({ type }) => type.kind === "text").map(({ name }) => name)];
  const time = choice("x", times);
  const value = choice("y", numbers);
  const name = textOf(search["by"]) === "-" ? "" : choice("by", [...names.slice(1), ""]);
  const kind = textOf(search["as"]) === "bars" ? "bars" : "lines";
  const unit = units.find((each) => each.value === search["unit"])?.value ?? "number";
  const data = useMemo(
    () => toSeries(result, { time, value, name: name === "" ? null : name }),
    [result, time, value, name, timeZone], // days begin where the zone says
  );
  if (times.length === 0 || numbers.length === 0) {
    return (
      <EmptyState title="Nothing to draw">
        A chart needs a column of times and one of numbers, for example date_bin(INTERVAL 1 MINUTE, time) and count(*).
      </EmptyState>
    );
  }
  const isOfDays = result.columns.some((column) => column.name === time && column.type.kind === "date");
  const range = isOfDays ? rangeOfDays(data.times, resolved) : rangeOf(data.times, resolved);
  const pick = (key: string, label: string, chosen: string, from: readonly string[]): ReactElement => (
    <Select
      label={label}
      value={chosen}
      options={from.map((each) => ({ value: each, label: each === "" ? "One series" : `${label}: ${each}` }))}
      onChange={(next) => change({ [key]: next === "" ? "-" : next }, { replace: true })}
    />
  );
  return (
    <div className={css.chart}>
      <div className={css.choices}>
        {times.length > 1 ? pick("x", "Time", time, times) : null}
        {numbers.length > 1 ? pick("y", "Value", value, numbers) : null}
        {names.length > 1 ? pick("by", "Series", name, names) : null}
        <Select
          label="Unit"
          value={unit}
          options={units}
          onChange={(next) => change({ unit: next === "number" ? undefined : next }, { replace: true })}
        />
        <Select
          label="Drawn as"
          value={kind}
          options={[
            { value: "lines", label: "Lines" },
            { value: "bars", label: "Stacked bars" },
          ]}
          onChange={(next) => change({ as: next === "bars" ? next : undefined }, { replace: true })}
        />
      </div>
      <TimeChart
        title={`${value} over ${time}`}
        data={data}
        range={range}
        unit={unit}
        kind={kind}
        height={300}
        onRange={(drawn) => setRange(absoluteRange(drawn))}
        stale={stale}
      />
    </div>
  );
}

/** The range of the page, unless the rows are of another time altogether. */
function rangeOf(
  times: Float64Array,
  page: { readonly beginMs: number; readonly endMs: number },
): { readonly beginMs: number; readonly endMs: number } {
  const first = times[0] ?? page.beginMs;
  const last = times.at(-1) ?? page.endMs;
  return first >= page.endMs || last <= page.beginMs
    ? { beginMs: first, endMs: Math.max(last, first + 1000) }
    : { beginMs: Math.min(first, page.beginMs), endMs: Math.max(last, page.endMs) };
}
