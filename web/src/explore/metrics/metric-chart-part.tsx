/** One chart of a metric, what it shows of it, and traces that were measured for it. */
import { Link } from "@tanstack/react-router";
import { X } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { cellsOf } from "../../api/cells.js";
import type { QueryResult } from "../../api/query.js";
import type { Condition } from "../../ui/filters/filters.js";
import { useQuerySql } from "../../api/use-query-sql.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { bucketsOf } from "../../ui/chart/buckets.js";
import { isDrawn, toSeries, withHoles } from "../../ui/chart/series.js";
import { TimeChart } from "../../ui/chart/time-chart.js";
import { formatUnit, type Unit } from "../../ui/chart/units.js";
import { IconButton, Select } from "../../ui/controls/controls.js";
import { ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { absoluteRange } from "../../ui/time-range.js";
import type { BucketKind } from "./heatmap/heatmap-query.js";
import { HeatmapPart } from "./heatmap/heatmap-part.js";
import { aggregations, chartSql, chartUnit, type MetricChart, mixedWords, nothingDrawn } from "./metric-chart.js";
import css from "./metrics-page.module.css";

const pixels = 600;
/** Points come this often from most SDKs, or less often. */
const leastSeconds = 15;

export function MetricChartPart({
  chart,
  unit,
  whose,
  onChange,
}: {
  readonly chart: MetricChart;
  /** Of the metric. */
  readonly unit: Unit;
  readonly whose: Condition;
  /** Null takes the chart away. */
  readonly onChange: (chart: MetricChart | null) => void;
}): ReactElement {
  const kind = chart.kind === "counter" || chart.kind === "gauge" ? null : chart.kind;
  const isHeatmap = kind !== null && chart.aggregation === "heatmap";
  return (
    <section className={css.chart} aria-label={chart.name}>
      <header className={css.head}>
        <h2>{chart.name}</h2>
        <div className={css.tools}>
          <Select
            label={`Shown of ${chart.name}`}
            value={chart.aggregation}
            options={aggregations[chart.kind].map((value) => ({ value, label: value }))}
            onChange={(aggregation) => onChange({ ...chart, aggregation })}
          />
          {isHeatmap ? null : <BySelect chart={chart} whose={whose} onChange={(by) => onChange({ ...chart, by })} />}
          <IconButton label={`Remove ${chart.name}`} onClick={() => onChange(null)}>
            <X />
          </IconButton>
        </div>
      </header>
      {isHeatmap ? (
        <HeatmapPart
          chart={chart}
          kind={kind}
          unit={unit}
          whose={whose}
          leastSeconds={leastSeconds}
          onLook={(look) => onChange({ ...chart, look })}
        />
      ) : (
        <Lines chart={chart} unit={unit} whose={whose} />
      )}
      {kind === null ? null : <Exemplars kind={kind} name={chart.name} unit={unit} whose={whose} />}
    </section>
  );
}

function Lines({
  chart,
  unit,
  whose,
}: {
  readonly chart: MetricChart;
  readonly unit: Unit;
  readonly whose: Condition;
}): ReactElement {
  const { resolved, setRange } = useTimeRange();
  const buckets = useMemo(() => bucketsOf(resolved, pixels, { leastSeconds }), [resolved]);
  const query = useQuerySql(...asked(chartSql(chart, buckets, whose)));
  const { result } = query;
  const data = useMemo(() => {
    if (result === null) {
      return null;
    }
    const found = toSeries(result, { time: "time", value: "value", name: chart.by === "" ? null : "series" });
    return withHoles(found);
  }, [result, chart.by]);
  const mixed = useMemo(() => (result === null ? null : mixedWords(chart, mixedOf(result))), [result, chart]);
  return (
    <>
      <LoadingLine running={query.running} />
      {query.error === null ? null : <ErrorPart error={query.error} title="No chart" onRetry={query.run} />}
      {data === null ? (
        query.error === null ? (
          <Skeleton rows={4} />
        ) : null
      ) : data.times.length === 0 ? (
        <p className={css.said}>{query.stale ? "" : "No points in this time range."}</p>
      ) : !isDrawn(data) ? (
        mixed === null ? (
          <p className={css.said}>{nothingDrawn(chart)}</p>
        ) : null
      ) : (
        <TimeChart
          title={`${chart.aggregation} of ${chart.name}`}
          data={data}
          range={resolved}
          unit={chartUnit(chart, unit)}
          legend={chart.by !== ""}
          onRange={(range) => setRange(absoluteRange(range))}
          stale={query.stale}
        />
      )}
      {mixed === null ? null : <p className={css.said}>{mixed}</p>}
    </>
  );
}

/** Series, with how many of their steps have no quantile. */
function mixedOf(result: QueryResult): ReadonlyMap<string, number> {
  const { value, text } = cellsOf(result);
  const counts = new Map<string, number>();
  for (let row = 0; row < result.rows; row++) {
    if (value("mixed", row) === true) {
      const series = text("series", row);
      counts.set(series, (counts.get(series) ?? 0) + 1);
    }
  }
  return counts;
}

const asked = ({ sql, parameters }: Condition): [string, Pick<Condition, "parameters">] => [sql, { parameters }];

/** All together, by service, or by one of the attributes that its series have. */
function BySelect({
  chart,
  whose,
  onChange,
}: {
  readonly chart: MetricChart;
  readonly whose: Condition;
  readonly onChange: (by: string) => void;
}): ReactElement {
  const { result } = useQuerySql(
    `SELECT DISTINCT unnest(json_keys(properties)) AS key FROM metric_series
WHERE name = ? AND ${whose.sql} ORDER BY 1 LIMIT 200`,
    { parameters: [chart.name, ...whose.parameters] },
  );
  const cells = result === null ? null : cellsOf(result);
  const keys = Array.from({ length: result?.rows ?? 0 }, (_, row) => cells?.text("key", row) ?? "");
  const given = ["", "service_name"].includes(chart.by) ? [] : [chart.by];
  return (
    <Select
      label={`Series of ${chart.name}`}
      value={chart.by}
      options={[
        { value: "", label: "all together" },
        { value: "service_name", label: "by service" },
        ...[...new Set([...given, ...keys])].map((key) => ({ value: key, label: `by ${key}` })),
      ]}
      onChange={onChange}
    />
  );
}

/** The largest measurements that name the trace in which they were made. */
function Exemplars({
  kind,
  name,
  unit,
  whose,
}: {
  readonly kind: BucketKind;
  readonly name: string;
  readonly unit: Unit;
  readonly whose: Condition;
}): ReactElement | null {
  const { result } = useQuerySql(
    `SELECT e.trace_id AS trace_id, e.value AS value
FROM (SELECT unnest(exemplars) AS e FROM histograms WHERE metric_type = ? AND name = ? AND ${whose.sql})
WHERE e.trace_id IS NOT NULL ORDER BY value DESC LIMIT 5`,
    { parameters: [kind, name, ...whose.parameters] },
  );
  if (result === null || result.rows === 0) {
    return null;
  }
  const cells = cellsOf(result);
  return (
    <p className={css.said}>
      Traces of large values:{" "}
      {Array.from({ length: result.rows }, (_, row) => (
        <Link key={row} to={`/traces/${cells.text("trace_id", row)}`} className={css.exemplar}>
          {formatUnit(cells.number("value", row), unit)}
        </Link>
      ))}
    </p>
  );
}
