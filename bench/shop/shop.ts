/** A whole shop of some size, as requests in the order of time. */
import type { LoadSignal } from "../load/otlp-payloads.js";
import { fleet, shopNs } from "./fleet.js";
import { intervalFor, MetricMaker } from "./metrics.js";
import { RequestMaker, type ShopRequest } from "./otlp.js";
import { sizeOf, TraceMaker } from "./traces.js";

/** What shop it is. Equal ones have equal telemetry. */
export interface Shop {
  readonly seed: number;
  /** About so many of each; `bigSpans` of the spans are of the one big trace. */
  readonly spans: number;
  readonly logs: number;
  readonly points: number;
  readonly bigSpans: number;
  /** Nanoseconds since 1970; the shop ends 8 days later. */
  readonly beginNs: bigint;
}

/** The shop of a scale: at 1, 10 million spans and log records and 5 million points. */
export function shopOfScale(scale: number, endMs: number): Shop {
  return {
    seed: 1,
    spans: Math.round(1e7 * scale),
    logs: Math.round(1e7 * scale),
    points: Math.round(5e6 * scale),
    bigSpans: 10_000,
    beginNs: BigInt(Math.floor(endMs)) * 1_000_000n - BigInt(shopNs),
  };
}

/** Exports of a process that travel in one request. */
const exportsOfRequest = 20;
/** Slices of time that the shop is made in. */
const slices = 8 * 24 * 6;

/**
 * Makes the requests of one of `parts` parts of a shop, by time, and waits for `send` between them. The parts have the
 * whole shop's traces in turns, and each its own processes' metrics.
 */
export async function sendShop(
  shop: Shop,
  part: number,
  parts: number,
  send: (request: ShopRequest) => Promise<void>,
): Promise<void> {
  const size = sizeOf(shop.seed, shop.spans, shop.logs, shop.bigSpans);
  let requests: ShopRequest[] = [];
  const maker = new RequestMaker(shop.beginNs, (request) => requests.push(request));
  const traces = new TraceMaker(shop.seed);
  const interval = intervalFor(shop.points);
  const metrics = fleet
    .filter(({ index }) => index % parts === part)
    .map((instance) => new MetricMaker(instance, shop.seed, interval));
  const flush = async (): Promise<void> => {
    for (const request of requests) {
      await send(request);
    }
    requests = [];
  };
  let nextTrace = part;
  let nextLog = part;
  for (let slice = 1; slice <= slices; slice++) {
    const share = slice / slices;
    // By number, so that a slice takes what the whole has of it: a trace's time follows from its number.
    for (; nextTrace < size.traces * share; nextTrace += parts) {
      maker.trace(traces.trace(nextTrace, size.traces));
      if (requests.length > 0) {
        await flush();
      }
    }
    for (; nextLog < size.background * share; nextLog += parts) {
      maker.log(traces.background(nextLog, size.background), null);
    }
    for (const metric of metrics) {
      while (metric.dueNs < shopNs * share) {
        maker.metrics(metric.instance, metric.exports(exportsOfRequest));
      }
    }
    await flush();
  }
  if (part === 0) {
    maker.trace(traces.bigTrace(size.bigBatches));
  }
  maker.end();
  await flush();
}

/** Records by signal. */
export type Counts = Record<LoadSignal, number>;
