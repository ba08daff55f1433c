/** Answers to the questions about metrics and attributes: see shop-answers.ts. */
import { bounds, exponentialScale } from "../../../bench/shop/metrics.js";
import { groupBy, hourOf, mean, type ShopAnswer, sum } from "./shop-answer.js";
import { type ModelSeries, msOf, type ShopModel } from "./shop-model.js";

/** What each point of a counter adds: all of it after a start, else the difference. All points are of known starts. */
function increases({ metric, points }: ModelSeries): { timeNs: number; value: number; counts: number[] }[] {
  return points.map(({ startNs, timeNs, value, counts }, i) => {
    const before = points[i - 1];
    const goesOn = metric.temporality === 2 && before !== undefined && before.startNs === startNs;
    return {
      timeNs,
      value: goesOn ? value - before.value : value,
      counts: (counts ?? []).map((count, bucket) => count - (goesOn ? (before.counts?.[bucket] ?? 0) : 0)),
    };
  });
}

/** Counts of a metric's buckets by service, over all that its points added. */
function countsByService(model: ShopModel, name: string): (readonly [service: string, counts: number[]])[] {
  const series = model.series.filter(({ metric, points }) => metric.name === name && points.length > 0);
  return groupBy(series, ({ instance }) => instance.service.name).map((group) => {
    const all = group.flatMap((one) => increases(one).map(({ counts }) => counts));
    const counts = (all[0] ?? []).map((_, bucket) => sum(all.map((of) => of[bucket] ?? 0)));
    return [group[0]?.instance.service.name ?? "", counts] as const;
  });
}

/** The bucket that holds a quantile, and how far into it the quantile is. */
function place(counts: readonly number[], q: number): readonly [bucket: number, share: number] {
  let rank = q * sum(counts);
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && rank <= count) {
      return [bucket, rank / count];
    }
    rank -= count;
  }
  throw new Error("no values");
}

/** Rows that have each attribute, by the type that the service knows, and its distinct values. */
function attributesOf(view: string, rows: readonly (readonly (readonly [string, unknown])[])[]): ShopAnswer["rows"] {
  const pairs = rows.flatMap((row) =>
    row.map(([key, value]) => ({
      key,
      value,
      type: typeof value === "string" ? "string" : Number.isInteger(value) ? "int" : "double",
    })),
  );
  // A part of the rows is looked at when there are more than 50,000.
  const near = (wanted: number) => (found: unknown) =>
    Math.abs(Number(found) - wanted) <= (rows.length > 50_000 ? 0.05 * wanted + 200 : 0);
  return groupBy(pairs, ({ key, type }) => `${key} ${type}`).map((group) => ({
    view,
    key: group[0]?.key ?? "",
    type: group[0]?.type ?? "",
    rows: near(group.length),
    // HyperLogLog.
    distinct_values: (found: unknown) => {
      const distinct = new Set(group.map(({ value }) => value)).size;
      return Math.abs(Number(found) - distinct) <= 1 + 0.25 * distinct;
    },
    audience: "public",
  }));
}

const kinds = {
  gauge: "gauge",
  sum: "sum",
  histogram: "histogram",
  exponential: "exponential_histogram",
} as const;

/** Answers by the number of the question. */
export const metricAnswers: Readonly<Record<number, (model: ShopModel) => ShopAnswer>> = {
  20: (model) => {
    const all = model.series
      .filter(({ metric }) => metric.name === "shop.requests")
      .flatMap((series) => increases(series).map((rise) => ({ ...rise, service: series.instance.service.name })));
    return {
      keys: ["hour", "service_name"],
      order: ["hour", 1],
      rows: groupBy(all, ({ service, timeNs }) => `${service} ${hourOf(model, timeNs)}`).map((group) => ({
        hour: hourOf(model, group[0]?.timeNs ?? 0),
        service_name: group[0]?.service ?? "",
        per_second: sum(group.map(({ value }) => value)) / 3600,
      })),
    };
  },
  21: (model) => ({
    keys: ["service_name"],
    rows: countsByService(model, "http.server.request.duration").map(([service_name, counts]) => {
      const [bucket, share] = place(counts, 0.95);
      const lower = bounds[bucket - 1] ?? 0;
      const upper = bounds[bucket];
      return { service_name, p95: upper === undefined ? lower : lower + (upper - lower) * share };
    }),
  }),
  22: (model) => ({
    keys: ["service_name"],
    rows: countsByService(model, "db.client.operation.duration").map(([service_name, counts]) => {
      const [bucket, share] = place(counts, 0.95);
      const offset = model.series.find(({ metric }) => metric.kind === "exponential")?.points[0]?.offset ?? 0;
      return { service_name, p95: 2 ** ((offset + bucket + share) / 2 ** exponentialScale) };
    }),
  }),
  23: (model) => {
    const points = model.series
      .filter(({ metric }) => metric.name === "process.memory.usage")
      .flatMap(({ instance, points }) => points.map((point) => ({ ...point, service: instance.service.name })));
    return {
      keys: ["hour", "service_name"],
      order: ["hour", 1],
      rows: groupBy(points, ({ service, timeNs }) => `${service} ${hourOf(model, timeNs)}`).map((group) => ({
        hour: hourOf(model, group[0]?.timeNs ?? 0),
        service_name: group[0]?.service ?? "",
        bytes: mean(group.map(({ value }) => value)),
      })),
    };
  },
  24: (model) => ({
    keys: ["name"],
    rows: groupBy(
      model.series.filter(({ points }) => points.length > 0),
      ({ metric }) => metric.name,
    ).map((group) => ({
      name: group[0]?.metric.name ?? "",
      kind: kinds[group[0]?.metric.kind ?? "gauge"],
      unit: group[0]?.metric.unit ?? "",
      services: new Set(group.map(({ instance }) => instance.service.name)).size,
      series: group.length,
      points: sum(group.map(({ points }) => points.length)),
      last_seen: msOf(model, Math.max(...group.map(({ points }) => points.at(-1)?.timeNs ?? 0))),
    })),
  }),
  25: ({ spans, logs, series }) => {
    const pointsOf = (...names: readonly string[]) =>
      series
        .filter(({ metric }) => names.includes(metric.kind))
        .flatMap(({ attributes, points }) => points.map(() => attributes));
    return {
      keys: ["view", "key", "type"],
      rows: [
        ...attributesOf(
          "spans",
          spans.map(({ operation, attributes }) => [...operation.attributes, ...attributes]),
        ),
        ...attributesOf(
          "log_entries",
          logs.map(({ attributes }) => attributes),
        ),
        ...attributesOf("measures", pointsOf("gauge", "sum")),
        ...attributesOf("histograms", pointsOf("histogram", "exponential")),
      ],
    };
  },
};
