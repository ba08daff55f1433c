/**
 * What a front end counts, in shared memory: one thread writes with plain additions, the main thread
 * reads when somebody asks for the metrics. No object and no lock per request.
 */
import type { Histogram } from "prom-client";

import type { IngestResult } from "../../ingest/request.js";
import { durationBucketsSeconds, type Metrics } from "../../runtime/metrics.js";
import type { OtlpSignal } from "../../wire/otlp/rpc-status.js";

/**
 * Status codes that are counted, in the order of their counters; 499 is a client that left before its answer. Those of OTLP/gRPC
 * count as what they would be over HTTP.
 */
export const statuses = [200, 400, 401, 403, 404, 405, 413, 415, 499, 500, 503] as const;

/** Names of signals by number; 0 is a path that is no OTLP route. */
const signalNames = ["none", "logs", "metrics", "traces"] as const;

const perSignal = ["records", "rejected", "dropped", "bytes"] as const;

const requestsAt = 0;
const valuesAt = requestsAt + signalNames.length * statuses.length;
const latencyAt = valuesAt + signalNames.length * perSignal.length;
/** One count per bucket, one for what is above all buckets, then the sum. */
const latencySumAt = latencyAt + durationBucketsSeconds.length + 1;
const arenaUsedAt = latencySumAt + 1;
const arenaSizeAt = arenaUsedAt + 1;
const openAt = arenaSizeAt + 1;
const length = openAt + 1;

/** The counters of one front end. */
export class FrontCounters {
  readonly buffer: SharedArrayBuffer;
  readonly protocol: "http" | "grpc";
  readonly #values: Float64Array;

  /**
   * @param buffer the memory of counters that exist already, to read or write them on another thread.
   * @param protocol what the front end speaks
   */
  constructor(buffer?: SharedArrayBuffer, protocol: "http" | "grpc" = "http") {
    this.protocol = protocol;
    this.buffer = buffer ?? new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT);
    this.#values = new Float64Array(this.buffer);
  }

  /** @param signal 0 for a path that is no OTLP route. */
  request(signal: OtlpSignal | 0, status: number): void {
    const index = statuses.indexOf(status as (typeof statuses)[number]);
    if (index >= 0) {
      this.#add(requestsAt + signal * statuses.length + index, 1);
    }
  }

  /** A complete body, with the time from its last byte to its answer. */
  answered(signal: OtlpSignal, bodyBytes: number, seconds: number, result: IngestResult): void {
    const at = valuesAt + signal * perSignal.length;
    if (result.kind === "stored") {
      this.#add(at, result.records);
      this.#add(at + 1, result.rejected);
      this.#add(at + 2, result.droppedAttributes);
    }
    this.#add(at + 3, bodyBytes);
    let bucket = 0;
    while (bucket < durationBucketsSeconds.length && seconds > (durationBucketsSeconds[bucket] as number)) {
      bucket++;
    }
    this.#add(latencyAt + bucket, 1);
    this.#add(latencySumAt, seconds);
  }

  /** Sets the gauges: bytes of bodies held, size of the arena, requests that are open. */
  gauges(arenaUsedBytes: number, arenaSizeBytes: number, openRequests: number): void {
    this.#values[arenaUsedAt] = arenaUsedBytes;
    this.#values[arenaSizeAt] = arenaSizeBytes;
    this.#values[openAt] = openRequests;
  }

  /** One value; for {@link exposeFrontCounters}. */
  at(index: number): number {
    return this.#values[index] ?? 0;
  }

  #add(index: number, by: number): void {
    this.#values[index] = (this.#values[index] ?? 0) + by;
  }
}

/** Puts the sums over all front ends into the metrics. `fronts` is asked at every exposition. */
export function exposeFrontCounters(metrics: Metrics, fronts: () => readonly FrontCounters[]): () => void {
  const requests = metrics.counter("ingestion_requests_total", "Answered OTLP requests", [
    "signal",
    "code",
    "protocol",
  ]);
  const values = {
    records: metrics.counter("ingestion_records_total", "Records stored", ["signal"]),
    rejected: metrics.counter("ingestion_rejected_records_total", "Records refused", ["signal"]),
    dropped: metrics.counter(
      "ingestion_dropped_attributes_total",
      "svc.* attributes that clients sent and that were dropped",
      ["signal"],
    ),
    bytes: metrics.counter("ingestion_body_bytes_total", "Bytes of bodies as sent", ["signal"]),
  };
  const arenaUsed = metrics.gauge("ingestion_arena_used_bytes", "Bytes held by bodies in flight");
  const arenaSize = metrics.gauge("ingestion_arena_size_bytes", "Size of the body arenas");
  const open = metrics.gauge("ingestion_open_requests", "Requests without an answer yet");
  registerLatency(metrics, fronts);
  const sum = (index: number): number => fronts().reduce((total, counters) => total + counters.at(index), 0);
  return metrics.onCollect(() => {
    requests.reset();
    for (const counter of Object.values(values)) {
      counter.reset();
    }
    signalNames.forEach((signal, number) => {
      statuses.forEach((status, index) => {
        for (const counters of fronts()) {
          const count = counters.at(requestsAt + number * statuses.length + index);
          if (count > 0) {
            requests.inc({ signal, code: String(status), protocol: counters.protocol }, count);
          }
        }
      });
      perSignal.forEach((name, index) => {
        if (number > 0) {
          values[name].inc({ signal }, sum(valuesAt + number * perSignal.length + index));
        }
      });
    });
    arenaUsed.set(sum(arenaUsedAt));
    arenaSize.set(sum(arenaSizeAt));
    open.set(sum(openAt));
  });
}

/** prom-client has no way to set a histogram's buckets, so this one is exposed by hand. */
function registerLatency(metrics: Metrics, fronts: () => readonly FrontCounters[]): void {
  const name = "ingestion_ack_seconds";
  if (metrics.registry.getSingleMetric(name) !== undefined) {
    return;
  }
  const help = "Time from the last byte of a body to its answer";
  const get = (): Promise<unknown> => {
    const sum = (index: number): number => fronts().reduce((total, counters) => total + counters.at(index), 0);
    let count = 0;
    const buckets = [...durationBucketsSeconds, Number.POSITIVE_INFINITY].map((bound, index) => ({
      metricName: `${name}_bucket`,
      labels: { le: bound === Number.POSITIVE_INFINITY ? "+Inf" : bound },
      value: (count += sum(latencyAt + index)),
    }));
    const values = [
      ...buckets,
      { metricName: `${name}_sum`, labels: {}, value: sum(latencySumAt) },
      { metricName: `${name}_count`, labels: {}, value: count },
    ];
    return Promise.resolve({ name, help, type: "histogram", values, aggregator: "sum" });
  };
  metrics.registry.registerMetric({ name, get } as unknown as Histogram);
}
