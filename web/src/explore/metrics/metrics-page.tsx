/** Metrics: the catalogue, and charts of those that were chosen, which are in the address. */
import { ChartLine } from "lucide-react";
import { type ReactElement, useMemo, useRef } from "react";

import { cellsOf } from "../../api/cells.js";
import { useQuerySql } from "../../api/use-query-sql.js";
import { useScope } from "../../app/scope.js";
import { textOf, textsOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { type Unit, unitOf } from "../../ui/chart/units.js";
import { formatCount } from "../../ui/format.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import { DataTable } from "../../ui/table/data-table.js";
import { resultColumns } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import { FindBar } from "../find-bar.js";
import { audienceCondition } from "../services/service-data.js";
import { aggregations, chartText, kindOf, type MetricChart, parseChart } from "./metric-chart.js";
import { MetricChartPart } from "./metric-chart-part.js";
import css from "./metrics-page.module.css";

/** Most charts of a page. */
const maxCharts = 12;

export default function MetricsPage(): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const { audience } = useScope();
  const [state, setState] = useTableState();
  const words = textOf(search["q"]) ?? "";
  const whose = audienceCondition(audience);
  const query = useQuerySql(catalogueSql(whose.sql), { parameters: [...whose.parameters, words] });
  const { result } = query;
  const columns = useMemo(
    () =>
      resultColumns(result, {
        name: { title: "Metric", width: 280, leastWidth: 240 },
        kind: { title: "Kind", width: 130 },
        unit: { title: "Unit", width: 80 },
        series: { title: "Series", width: 80 },
        services: { title: "Services", width: 80 },
        points: { title: "Points", width: 90 },
        last_seen: { title: "Last seen" },
        description: { title: "Description", width: 360 },
      }).filter(({ id }) => id !== "is_monotonic"),
    [result],
  );
  const cells = result === null ? null : cellsOf(result);
  const charts = textsOf(search["chart"])
    .map(parseChart)
    .filter((chart) => chart !== null)
    .slice(0, maxCharts);
  // Rows keep the handler that they were made with.
  const latest = useRef(charts);
  latest.current = charts;
  const set = (next: readonly MetricChart[]): void =>
    change({ chart: next.length === 0 ? undefined : next.map(chartText) });
  const units = new Map<string, Unit>(
    Array.from({ length: result?.rows ?? 0 }, (_, row) => [
      cells?.text("name", row) ?? "",
      unitOf(cells?.text("unit", row) ?? null),
    ]),
  );
  const choose = (row: number | null): void => {
    if (row === null || cells === null) {
      return;
    }
    const name = cells.text("name", row);
    const kind = kindOf(cells.text("kind", row), cells.text("is_monotonic", row) === "true");
    if (kind === null) {
      toast("No chart of a summary", "Its quantiles cannot be put together. SQL shows them: measures.");
    } else if (!latest.current.some((chart) => chart.name === name && chart.kind === kind)) {
      set([...latest.current, { kind, aggregation: aggregations[kind][0] ?? "", by: "", name }].slice(-maxCharts));
    }
  };
  return (
    <div className={css.page}>
      {charts.length === 0 ? null : (
        <div className={css.charts}>
          {charts.map((chart, at) => (
            <MetricChartPart
              key={`${chart.kind} ${chart.name}`}
              chart={chart}
              unit={units.get(chart.name) ?? "number"}
              whose={whose}
              onChange={(next) => set(charts.flatMap((each, i) => (i !== at ? [each] : next === null ? [] : [next])))}
            />
          ))}
        </div>
      )}
      <FindBar
        label="Find a metric"
        placeholder="Name, unit, description"
        words={words}
        onWords={(q) => change({ q }, { replace: true })}
        found={result === null ? "" : formatCount(result.rows, "metric")}
      />
      <LoadingLine running={query.running} />
      {query.error === null ? null : (
        <div className={css.note}>
          <ErrorPart error={query.error} title="The metrics could not be read" onRetry={query.run} />
        </div>
      )}
      {result === null ? (
        query.error === null ? (
          <Skeleton rows={8} />
        ) : null
      ) : result.rows === 0 && query.error !== null ? null : result.rows === 0 ? (
        <EmptyState
          icon={<ChartLine />}
          stale={query.stale}
          title={words === "" ? "No metrics in this time range" : "No metric is called that"}
        >
          {words === "" ? "Choose a longer time range at the top, or send some: see Send data." : "Search for less."}
        </EmptyState>
      ) : (
        <div className={css.table}>
          <DataTable
            label="Metrics"
            columns={columns}
            rows={result.rows}
            version={result}
            state={state}
            onState={setState}
            onSelect={choose}
            stale={query.stale}
          />
        </div>
      )}
    </div>
  );
}

/** One row for each name and kind, whoever may read it. */
function catalogueSql(whose: string): string {
  return `SELECT name, kind, bool_or(is_monotonic) AS is_monotonic, any_value(unit) AS unit, sum(series) AS series,
  max(services) AS services, sum(points) AS points, max(last_seen) AS last_seen, any_value(description) AS description
FROM metric_catalogue WHERE ${whose}
GROUP BY name, kind
HAVING contains(lower(concat_ws(' ', name, any_value(unit), any_value(description))), lower(?))
ORDER BY name LIMIT 10000`;
}
