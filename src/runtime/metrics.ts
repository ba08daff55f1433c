import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";

import { paced } from "./single-flight.js";

/**
 * The metrics of one server: a private prom-client registry. Asking twice for one name returns the
 * same metric; asking for it as another type is an error.
 */
export interface Metrics {
  readonly registry: Registry;
  counter(name: string, help: string, labelNames?: readonly string[]): Counter;
  gauge(name: string, help: string, labelNames?: readonly string[]): Gauge;
  /** `buckets` are upper bounds in the unit of the name (seconds, bytes), ascending. */
  histogram(name: string, help: string, buckets: readonly number[], labelNames?: readonly string[]): Histogram;
  /** Calls `fn` before every exposition, for values that are read rather than counted. Returns its removal. */
  onCollect(fn: () => void): () => void;
  /** The Prometheus text exposition, as of now or a moment later: whoever asks meanwhile gets the same one. */
  text(): Promise<string>;
  /** The content type that belongs to {@link text}. */
  readonly contentType: string;
}

/** Upper bounds in seconds for durations between 0.1 ms and 10 s. */
export const durationBucketsSeconds: readonly number[] = [
  0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/**
 * Creates an empty registry.
 * @param o.processMetrics also report CPU, memory, event loop and garbage collection of the process (default false).
 */
export function createMetrics(o?: { readonly processMetrics?: boolean }): Metrics {
  const registry = new Registry();
  const collectors = new Set<() => void>();
  if (o?.processMetrics === true) {
    collectDefaultMetrics({ register: registry });
  }
  const once = <T>(name: string, type: new (...args: never[]) => T, make: () => T): T => {
    const known: unknown = registry.getSingleMetric(name);
    if (known === undefined) {
      return make();
    }
    if (!(known instanceof type)) {
      throw new TypeError(`metric ${name} is registered as another type`);
    }
    return known;
  };
  return {
    registry,
    contentType: registry.contentType,
    counter: (name, help, labelNames = []) =>
      once(name, Counter, () => new Counter({ name, help, labelNames, registers: [registry] })),
    gauge: (name, help, labelNames = []) =>
      once(name, Gauge, () => new Gauge({ name, help, labelNames, registers: [registry] })),
    histogram: (name, help, buckets, labelNames = []) =>
      once(
        name,
        Histogram,
        () => new Histogram({ name, help, labelNames, buckets: [...buckets], registers: [registry] }),
      ),
    onCollect(fn) {
      collectors.add(fn);
      return () => {
        collectors.delete(fn);
      };
    },
    text: paced(async () => {
      for (const collect of collectors) {
        collect();
      }
      return await registry.metrics();
    }),
  };
}
