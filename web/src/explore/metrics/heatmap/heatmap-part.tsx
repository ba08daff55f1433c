/** The heatmap of a metric: its queries, its states, and how it is scaled. */
import { useNavigate } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";

import type { Condition } from "../../../ui/filters/filters.js";
import { useQuerySql } from "../../../api/use-query-sql.js";
import { useTimeRange } from "../../../app/time-range-context.js";
import { bucketsOf } from "../../../ui/chart/buckets.js";
import type { Unit } from "../../../ui/chart/units.js";
import { Select } from "../../../ui/controls/controls.js";
import { ErrorPart, LoadingLine, Skeleton } from "../../../ui/states.js";
import { absoluteRange } from "../../../ui/time-range.js";
import { traceAddress } from "../../trace-address.js";
import { type HeatmapLook, type MetricChart, usualLook } from "../metric-chart.js";
import css from "../metrics-page.module.css";
import { hasBounds } from "./bins.js";
import { HeatmapChart } from "./heatmap-chart.js";
import { type BucketKind, exemplarsSql, heatmapSql, readExemplars, readHeatmap } from "./heatmap-query.js";
import { scales } from "./scale.js";

/** A column is some eight pixels wide. */
const pixels = 300;
/** Zooming ends at as many steps. */
const leastSteps = 8;

export function HeatmapPart({
  chart,
  kind,
  unit,
  whose,
  leastSeconds,
  onLook,
}: {
  readonly chart: MetricChart;
  readonly kind: BucketKind;
  readonly unit: Unit;
  readonly whose: Condition;
  /** Of a step. */
  readonly leastSeconds: number;
  readonly onLook: (look: HeatmapLook) => void;
}): ReactElement {
  const { resolved, setRange } = useTimeRange();
  const navigate = useNavigate();
  const { seconds } = bucketsOf(resolved, pixels, { leastSeconds });
  const asked = heatmapSql(kind, chart.name, seconds, whose);
  const query = useQuerySql(asked.sql, { parameters: asked.parameters });
  const examples = exemplarsSql(kind, chart.name, seconds * 4, whose);
  const { result: found } = useQuerySql(examples.sql, { parameters: examples.parameters });
  const exemplars = useMemo(() => readExemplars(found), [found]);
  const heatmap = useMemo(() => (query.result === null ? null : readHeatmap(kind, query.result)), [query.result, kind]);
  return (
    <>
      <LoadingLine running={query.running} />
      {query.error === null ? null : <ErrorPart error={query.error} title="No heatmap" onRetry={query.run} />}
      {heatmap === null ? (
        query.error === null ? (
          <Skeleton rows={6} />
        ) : null
      ) : heatmap.times.length === 0 ? (
        <p className={css.said}>
          {query.stale
            ? ""
            : query.result?.rows === 0
              ? "No points in this time range."
              : "No values in this time range: every bucket of its points is empty."}
        </p>
      ) : !hasBounds(heatmap) ? (
        <p className={css.said}>Its points have no buckets. See their mean or their rate.</p>
      ) : (
        <HeatmapChart
          title={`Heatmap of ${chart.name}`}
          heatmap={heatmap}
          exemplars={exemplars}
          range={resolved}
          seconds={seconds}
          leastMs={leastSteps * leastSeconds * 1000}
          unit={unit}
          look={chart.look ?? usualLook}
          stale={query.stale}
          tools={<LookSelects chart={chart} onChange={onLook} />}
          onRange={(range) => setRange(absoluteRange(range))}
          onExemplar={({ traceId, timeMs, spanId }) => void navigate(traceAddress(traceId, timeMs, spanId))}
        />
      )}
    </>
  );
}

/** Scales of values and of colours. */
function LookSelects({
  chart,
  onChange,
}: {
  readonly chart: MetricChart;
  readonly onChange: (look: HeatmapLook) => void;
}): ReactElement {
  const look = chart.look ?? usualLook;
  const select = (name: keyof HeatmapLook, words: string): ReactElement => (
    <Select
      label={`${words} of ${chart.name}`}
      value={look[name]}
      options={scales.map((scale) => ({ value: scale, label: `${words}: ${scale}` }))}
      onChange={(value) => onChange({ ...look, [name]: scales.find((scale) => scale === value) ?? look[name] })}
    />
  );
  return (
    <>
      {select("values", "Values")}
      {select("counts", "Colours")}
    </>
  );
}
