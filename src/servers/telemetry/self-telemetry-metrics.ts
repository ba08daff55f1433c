/** The metrics registry as OpenTelemetry metrics: what `GET /metrics` shows, sent over OTLP. */
import { type Attributes, type HrTime, ValueType } from "@opentelemetry/api";
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from "@opentelemetry/sdk-metrics";
import type { Resource } from "@opentelemetry/resources";

import type { Metrics } from "../../runtime/metrics.js";

/** A sample of prom-client's `getMetricsAsJSON`, whose declaration leaves out the fields of histograms. */
interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  readonly metricName?: string;
}

interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly values: readonly Sample[];
}

/** `DataPoint["value"]` of a histogram. */
interface HistogramValue {
  buckets: { boundaries: number[]; counts: number[] };
  sum: number;
  count: number;
}

/**
 * A producer over `metrics`: counters become monotonic cumulative sums, gauges gauges, histograms
 * cumulative histograms with explicit bounds. Values that are not finite are left out.
 * @param startedMs when counting began, milliseconds since the Unix epoch.
 */
export function metricsProducer(
  metrics: Metrics,
  resource: Resource,
  scope: { readonly name: string; readonly version: string },
  startedMs: number,
): MetricProducer {
  return {
    async collect() {
      // The exposition runs the collectors of values that are read rather than counted.
      await metrics.text();
      const families = (await metrics.registry.getMetricsAsJSON()) as unknown as readonly Family[];
      const startTime = toHrTime(startedMs);
      const endTime = toHrTime(Date.now());
      const data = families
        .map((family) => convert(family, startTime, endTime))
        .filter((metric) => metric !== null && metric.dataPoints.length > 0) as MetricData[];
      return {
        resourceMetrics: { resource, scopeMetrics: [{ scope, metrics: data }] },
        errors: [],
      };
    },
  };
}

function convert(family: Family, startTime: HrTime, endTime: HrTime): MetricData | null {
  const { type } = family;
  const base = {
    descriptor: {
      name: family.name,
      description: family.help,
      unit: unitOf(family.name),
      valueType: ValueType.DOUBLE,
    },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  if (type === "histogram") {
    const dataPoints = histogramPoints(family, startTime, endTime);
    return { ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  if (type !== "counter" && type !== "gauge") {
    return null;
  }
  const dataPoints: DataPoint<number>[] = family.values
    .filter((sample) => Number.isFinite(sample.value))
    .map((sample) => ({
      startTime,
      endTime,
      attributes: attributesOf(sample.labels),
      value: sample.value,
    }));
  return type === "counter"
    ? { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...base, dataPointType: DataPointType.GAUGE, dataPoints };
}

/** Prometheus buckets count everything below their bound; those of OpenTelemetry only their own share. */
function histogramPoints(family: Family, startTime: HrTime, endTime: HrTime): DataPoint<HistogramValue>[] {
  const series = new Map<string, { attributes: Attributes; value: HistogramValue; below: number }>();
  for (const sample of family.values) {
    const { le, ...labels } = sample.labels;
    const key = JSON.stringify(labels);
    const point = series.get(key) ?? {
      attributes: attributesOf(labels),
      value: { buckets: { boundaries: [], counts: [] }, sum: 0, count: 0 },
      below: 0,
    };
    series.set(key, point);
    if (le !== undefined) {
      // prom-client lists the buckets of a series in ascending order, +Inf last.
      point.value.buckets.counts.push(sample.value - point.below);
      point.below = sample.value;
      if (le !== "+Inf") {
        point.value.buckets.boundaries.push(Number(le));
      }
    } else if (sample.metricName === `${family.name}_sum`) {
      point.value.sum = sample.value;
    } else if (sample.metricName === `${family.name}_count`) {
      point.value.count = sample.value;
    }
  }
  return [...series.values()].map(({ attributes, value }) => ({
    startTime,
    endTime,
    attributes,
    value,
  }));
}

function attributesOf(labels: Sample["labels"]): Attributes {
  return Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== undefined));
}

function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) {
    return "s";
  }
  return /_bytes(_total)?$/.test(name) ? "By" : "";
}

function toHrTime(ms: number): HrTime {
  return [Math.floor(ms / 1000), Math.round((ms % 1000) * 1_000_000)];
}
