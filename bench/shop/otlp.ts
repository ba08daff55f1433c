/** The shop's telemetry as OTLP/protobuf requests: each of one process and one signal, of some hundred records. */
import type { LoadSignal } from "../load/otlp-payloads.js";
import { fleet, type Instance } from "./fleet.js";
import { bounds, exponentialScale, type Metric, type Point, type Series } from "./metrics.js";
import { ProtobufWriter } from "./protobuf-writer.js";
import { type Attributes, type Operation, severities, type ShopLog, type ShopTrace } from "./traces.js";

/** One request. */
export interface ShopRequest {
  readonly signal: LoadSignal;
  readonly records: number;
  readonly body: Buffer;
}

const recordsOfRequest = 500;

/** Nanoseconds since 1970 of times since the shop's begin. */
class ShopClock {
  readonly #high: number;
  readonly #low: number;

  constructor(beginNs: bigint) {
    this.#high = Number(beginNs >> 32n);
    this.#low = Number(beginNs & 0xffff_ffffn);
  }

  write(writer: ProtobufWriter, field: number, ns: number): void {
    const low = this.#low + (ns % 0x1_0000_0000);
    writer.fixed64(field, this.#high + Math.floor(ns / 0x1_0000_0000) + (low > 0xffff_ffff ? 1 : 0), low >>> 0);
  }
}

/** Collects what happens, and gives requests as they are full. */
export class RequestMaker {
  readonly #clock: ShopClock;
  readonly #emit: (request: ShopRequest) => void;
  readonly #spans = fleet.map(() => new Batch());
  readonly #logs = fleet.map(() => new Batch());
  readonly #operations = new Map<Operation, Buffer>();

  /** @param beginNs the shop's begin, nanoseconds since 1970 */
  constructor(beginNs: bigint, emit: (request: ShopRequest) => void) {
    this.#clock = new ShopClock(beginNs);
    this.#emit = emit;
  }

  trace({ id, spans, logs }: ShopTrace): void {
    for (const span of spans) {
      const batch = this.#spans[span.instance.index] as Batch;
      const { writer } = batch;
      const end = writer.begin(2);
      writeTraceId(writer, 1, id);
      writer.id8(2, span.id[0], span.id[1]);
      if (span.parent !== null) {
        writer.id8(4, span.parent.id[0], span.parent.id[1]);
      }
      writer.raw(this.#operation(span.operation));
      this.#clock.write(writer, 7, span.startNs);
      this.#clock.write(writer, 8, span.endNs);
      writeAttributes(writer, 9, span.attributes);
      if (span.exception !== null) {
        const event = writer.begin(11);
        this.#clock.write(writer, 1, span.endNs);
        writer.string(2, "exception");
        writeAttributes(writer, 3, [
          ["exception.type", span.exception[0]],
          ["exception.message", span.exception[1]],
        ]);
        writer.end(event);
      }
      if (span.status !== 0) {
        const status = writer.begin(15);
        writer.string(2, span.message ?? "");
        writer.varint(3, span.status);
        writer.end(status);
      }
      writer.end(end);
      this.#added(batch, "traces", span.instance);
    }
    for (const log of logs) {
      this.log(log, id);
    }
  }

  log(log: ShopLog, traceId: ShopTrace["id"] | null): void {
    const batch = this.#logs[log.instance.index] as Batch;
    const { writer } = batch;
    const end = writer.begin(2);
    this.#clock.write(writer, 1, log.timeNs);
    this.#clock.write(writer, 11, log.timeNs + 1000);
    writer.varint(2, severities[log.level]);
    writer.string(3, log.level.toUpperCase());
    const body = writer.begin(5);
    writer.string(1, log.body);
    writer.end(body);
    writeAttributes(writer, 6, log.attributes);
    if (traceId !== null && log.span !== null) {
      writeTraceId(writer, 9, traceId);
      writer.id8(10, log.span.id[0], log.span.id[1]);
    }
    writer.end(end);
    this.#added(batch, "logs", log.instance);
  }

  metrics(instance: Instance, series: readonly Series[]): void {
    const batch = new Batch();
    const { writer } = batch;
    for (const { metric, attributes, points } of series) {
      const end = writer.begin(2);
      writer.string(1, metric.name);
      writer.string(2, metric.description);
      writer.string(3, metric.unit);
      const data = writer.begin({ gauge: 5, sum: 7, histogram: 9, exponential: 10 }[metric.kind]);
      for (const point of points) {
        const begun = writer.begin(1);
        this.#point(writer, point, metric, attributes);
        writer.end(begun);
        batch.records++;
      }
      if (metric.temporality !== 0) {
        writer.varint(2, metric.temporality);
      }
      if (metric.monotonic) {
        writer.varint(3, 1);
      }
      writer.end(data);
      writer.end(end);
    }
    if (batch.records > 0) {
      this.#flush(batch, "metrics", instance);
    }
  }

  /** Gives what has not filled a request. */
  end(): void {
    for (const instance of fleet) {
      for (const [signal, batches] of [
        ["traces", this.#spans],
        ["logs", this.#logs],
      ] as const) {
        const batch = batches[instance.index] as Batch;
        if (batch.records > 0) {
          this.#flush(batch, signal, instance);
        }
      }
    }
  }

  #point(writer: ProtobufWriter, point: Point, { kind, unit }: Metric, attributes: Attributes): void {
    if (kind === "gauge" || kind === "sum") {
      if (kind === "sum") {
        this.#clock.write(writer, 2, point.startNs);
      }
      this.#clock.write(writer, 3, point.timeNs);
      if (unit.startsWith("{") || unit === "By") {
        writer.fixed64(6, Math.floor(point.value / 0x1_0000_0000), point.value >>> 0);
      } else {
        writer.double(4, point.value);
      }
      writeAttributes(writer, 7, attributes);
      return;
    }
    const counts = point.counts ?? [];
    this.#clock.write(writer, 2, point.startNs);
    this.#clock.write(writer, 3, point.timeNs);
    writer.fixed64(
      4,
      0,
      counts.reduce((sum, count) => sum + count, 0),
    );
    writer.double(5, point.value);
    if (kind === "histogram") {
      for (const count of counts) {
        writer.fixed64(6, 0, count);
      }
      for (const bound of bounds) {
        writer.double(7, bound);
      }
      writeAttributes(writer, 9, attributes);
      return;
    }
    // A signed varint in zigzag.
    writer.varint(6, exponentialScale * 2);
    const positive = writer.begin(8);
    writer.varint(1, point.offset < 0 ? -2 * point.offset - 1 : point.offset * 2);
    for (const count of counts) {
      writer.varint(2, count);
    }
    writer.end(positive);
    writeAttributes(writer, 1, attributes);
  }

  #operation(operation: Operation): Buffer {
    let encoded = this.#operations.get(operation);
    if (encoded === undefined) {
      const writer = new ProtobufWriter();
      writer.string(5, operation.name);
      writer.varint(6, operation.kind);
      writeAttributes(writer, 9, operation.attributes);
      encoded = writer.take();
      this.#operations.set(operation, encoded);
    }
    return encoded;
  }

  #added(batch: Batch, signal: LoadSignal, instance: Instance): void {
    if (++batch.records === recordsOfRequest) {
      this.#flush(batch, signal, instance);
    }
  }

  #flush(batch: Batch, signal: LoadSignal, instance: Instance): void {
    const items = batch.writer.take();
    const resource = resourceOf(instance);
    const writer = new ProtobufWriter(items.length + 2048);
    const whole = writer.begin(1);
    writer.raw(resource);
    const scoped = writer.begin(2);
    const scope = writer.begin(1);
    writer.string(1, `shop.${instance.service.name}`);
    writer.string(2, instance.version);
    writer.end(scope);
    writer.raw(items);
    writer.end(scoped);
    writer.end(whole);
    this.#emit({ signal, records: batch.records, body: writer.take() });
    batch.records = 0;
  }
}

class Batch {
  readonly writer = new ProtobufWriter(1 << 18);
  records = 0;
}

function resourceOf({ service, version, id, host }: Instance): Buffer {
  const writer = new ProtobufWriter();
  const resource = writer.begin(1);
  writeAttributes(writer, 1, [
    ["service.name", service.name],
    ["service.namespace", "shop"],
    ["service.version", version],
    ["service.instance.id", id],
    ["host.name", host],
    ["deployment.environment.name", "production"],
    ["telemetry.sdk.name", "opentelemetry"],
    ["telemetry.sdk.language", service.language],
    ["telemetry.sdk.version", "1.40.0"],
  ]);
  writer.end(resource);
  return writer.take();
}

function writeTraceId(writer: ProtobufWriter, field: number, [a, b, c, d]: ShopTrace["id"]): void {
  writer.id16(field, a, b, c, d);
}

function writeAttributes(writer: ProtobufWriter, field: number, attributes: Attributes): void {
  for (const [key, value] of attributes) {
    const pair = writer.begin(field);
    writer.string(1, key);
    const any = writer.begin(2);
    if (typeof value === "string") {
      writer.string(1, value);
    } else if (Number.isInteger(value)) {
      writer.varint(3, value);
    } else {
      writer.double(4, value);
    }
    writer.end(any);
    writer.end(pair);
  }
}
