/** Everything that a shop of bench/shop sends, as plain objects: what a second implementation computes answers from. */
import { fleet, type Instance, shopNs } from "../../../bench/shop/fleet.js";
import { intervalFor, type Metric, MetricMaker, type Point } from "../../../bench/shop/metrics.js";
import type { Shop } from "../../../bench/shop/shop.js";
import {
  type Attributes,
  bigTraceId,
  type ShopLog,
  type ShopSpan,
  type ShopTrace,
  sizeOf,
  TraceMaker,
  type Value,
} from "../../../bench/shop/traces.js";

/** A span in its trace. */
export interface ModelSpan extends ShopSpan {
  readonly traceId: string;
}

/** A log record, in its trace if it has one. */
interface ModelLog extends ShopLog {
  readonly traceId: string | null;
}

/** A series of one process. */
export interface ModelSeries {
  readonly instance: Instance;
  readonly metric: Metric;
  readonly attributes: Attributes;
  readonly points: readonly Point[];
}

/** All of it. Times are nanoseconds since the shop's begin. */
export interface ShopModel {
  readonly shop: Shop;
  readonly spans: readonly ModelSpan[];
  readonly logs: readonly ModelLog[];
  readonly series: readonly ModelSeries[];
}

/** Makes the same telemetry as `sendShop`. */
export function modelOf(shop: Shop): ShopModel {
  const size = sizeOf(shop.seed, shop.spans, shop.logs, shop.bigSpans);
  const maker = new TraceMaker(shop.seed);
  const spans: ModelSpan[] = [];
  const logs: ModelLog[] = [];
  const add = ({ id, ...trace }: ShopTrace): void => {
    const traceId = id.map((part) => part.toString(16).padStart(8, "0")).join("");
    spans.push(...trace.spans.map((span) => ({ ...span, traceId })));
    logs.push(...trace.logs.map((log) => ({ ...log, traceId })));
  };
  for (let i = 0; i < size.traces; i++) {
    add(maker.trace(i, size.traces));
  }
  for (let i = 0; i < size.background; i++) {
    logs.push({ ...maker.background(i, size.background), traceId: null });
  }
  add(maker.bigTrace(size.bigBatches));
  const interval = intervalFor(shop.points);
  const series = fleet.flatMap((instance) =>
    new MetricMaker(instance, shop.seed, interval)
      .exports(Number.POSITIVE_INFINITY)
      .map(({ metric, attributes, points }) => ({ instance, metric, attributes, points })),
  );
  return { shop, spans, logs, series };
}

/** Milliseconds since 1970 of a time of the shop. */
export function msOf({ shop }: ShopModel, ns: number): number {
  return Number(shop.beginNs / 1_000_000n) + ns / 1e6;
}

/** The value of an attribute of a span, those of its operation included. */
export function attributeOf(span: ShopSpan, name: string): Value | null {
  return valueOf([...span.operation.attributes, ...span.attributes], name);
}

/** The value of an attribute. */
export function valueOf(attributes: Attributes, name: string): Value | null {
  return attributes.find(([key]) => key === name)?.[1] ?? null;
}

export { bigTraceId, shopNs };
