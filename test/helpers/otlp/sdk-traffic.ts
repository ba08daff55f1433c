/**
 * What an application sends through the real OpenTelemetry JS SDK: logs, metrics of every kind that the SDK makes,
 * spans with events and links. Everything that can be chosen is chosen here, so that a test can read each field back.
 */
import { type Context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags } from "@opentelemetry/api";
import { SeverityNumber } from "@opentelemetry/api-logs";
import { Metadata } from "@grpc/grpc-js";
import { OTLPLogExporter as GrpcLogExporter } from "@opentelemetry/exporter-logs-otlp-grpc";
import { OTLPLogExporter as JsonLogExporter } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as ProtobufLogExporter } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPMetricExporter as GrpcMetricExporter } from "@opentelemetry/exporter-metrics-otlp-grpc";
import { OTLPMetricExporter as JsonMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtobufMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter as GrpcTraceExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider, type LogRecordExporter } from "@opentelemetry/sdk-logs";
import {
  AggregationType,
  MeterProvider,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";

/** How and where to send. */
interface SdkTarget {
  /** `http://host:port` of the ingestion server. */
  readonly url: string;
  /** The same of its OTLP/gRPC; null where that is off. */
  readonly grpcUrl?: string | null;
  readonly key: string;
  /** Over HTTP, or protobuf over gRPC. */
  readonly format: "protobuf" | "json" | "grpc";
  readonly compression: "none" | "gzip";
  /** `service.name` of everything sent. */
  readonly service: string;
}

/** Ids that the SDK chose. */
export interface SdkIds {
  readonly traceId: string;
  readonly rootSpanId: string;
  readonly childSpanId: string;
}

/** The span that the child links to. */
export const linked = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
} as const;

/** Start of the root span, milliseconds since 1970. */
export const startMs = 1_763_740_800_123;

/** Sends everything and resolves when the exporters have had their answers. */
export async function sendWithSdk(target: SdkTarget): Promise<SdkIds> {
  const resource = resourceFromAttributes({
    "service.name": target.service,
    "service.namespace": "shop",
    "service.version": "1.2.3",
    "service.instance.id": `${target.service}-1`,
    "host.name": "node-7",
    "process.pid": 4242,
  });
  const exporters = exportersOf(target);
  const logs = new LoggerProvider({
    resource,
    processors: [
      new BatchLogRecordProcessor({
        exporter: exporters.logs,
      }),
    ],
  });
  const spans = new BasicTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(exporters.traces)],
  });
  const metrics = new MeterProvider({
    resource,
    readers: [
      new PeriodicExportingMetricReader({
        exporter: exporters.metrics,
        exportIntervalMillis: 3_600_000,
      }),
    ],
    views: [
      {
        instrumentName: "payload.size",
        aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM },
      },
    ],
  });
  const ids = makeSpans(spans);
  makeLogs(logs, ids);
  makeMetrics(metrics);
  // Flushes first; flushing the metrics by hand as well would send every point twice.
  await Promise.all([logs.shutdown(), spans.shutdown(), metrics.shutdown()]);
  return ids;
}

interface Exporters {
  readonly logs: LogRecordExporter;
  readonly traces: SpanExporter;
  readonly metrics: PushMetricExporter;
}

function exportersOf(target: SdkTarget): Exporters {
  // The exporters' own type for this option is an enum of the same strings in another package.
  const compression = { compression: target.compression } as object;
  if (target.format === "grpc") {
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${target.key}`);
    const options = { url: target.grpcUrl ?? "", metadata, ...compression };
    return {
      logs: new GrpcLogExporter(options),
      traces: new GrpcTraceExporter(options),
      metrics: new GrpcMetricExporter(options),
    };
  }
  const options = (signal: string): ConstructorParameters<typeof ProtobufLogExporter>[0] => ({
    url: `${target.url}/ingestion/otlp/v1/${signal}`,
    headers: { Authorization: `Bearer ${target.key}` },
    ...compression,
  });
  return target.format === "json"
    ? {
        logs: new JsonLogExporter(options("logs")),
        traces: new JsonTraceExporter(options("traces")),
        metrics: new JsonMetricExporter(options("metrics")),
      }
    : {
        logs: new ProtobufLogExporter(options("logs")),
        traces: new ProtobufTraceExporter(options("traces")),
        metrics: new ProtobufMetricExporter(options("metrics")),
      };
}

function makeSpans(provider: BasicTracerProvider): SdkIds {
  const tracer = provider.getTracer("checkout", "0.9.0");
  const root = tracer.startSpan(
    "POST /checkout",
    { kind: SpanKind.SERVER, startTime: startMs, attributes: { "http.route": "/checkout" } },
    ROOT_CONTEXT,
  );
  const child = tracer.startSpan(
    "charge card",
    {
      kind: SpanKind.CLIENT,
      startTime: startMs + 1,
      links: [
        {
          context: { ...linked, traceFlags: TraceFlags.SAMPLED },
          attributes: { reason: "retry of" },
        },
      ],
    },
    trace.setSpan(ROOT_CONTEXT, root),
  );
  child.addEvent("declined", { code: 51, final: true }, startMs + 2);
  child.addEvent("retried", {}, startMs + 3);
  child.setStatus({ code: SpanStatusCode.ERROR, message: "card declined" });
  child.end(startMs + 5);
  root.end(startMs + 10);
  return {
    traceId: root.spanContext().traceId,
    rootSpanId: root.spanContext().spanId,
    childSpanId: child.spanContext().spanId,
  };
}

function makeLogs(provider: LoggerProvider, ids: SdkIds): void {
  const logger = provider.getLogger("orders", "2.0.0");
  const context: Context = trace.setSpanContext(ROOT_CONTEXT, {
    traceId: ids.traceId,
    spanId: ids.rootSpanId,
    traceFlags: TraceFlags.SAMPLED,
  });
  logger.emit({
    timestamp: startMs,
    observedTimestamp: startMs + 1,
    severityNumber: SeverityNumber.WARN,
    severityText: "WARN",
    body: "stock is low – 3 left ☃",
    attributes: { item: "tea", left: 3, ratio: 0.25, urgent: false, tags: ["a", "b"] },
    context,
  });
  logger.emit({
    timestamp: startMs + 1,
    severityNumber: SeverityNumber.ERROR,
    eventName: "order.failed",
    body: { order: 7, reason: { code: "E1" } },
  });
}

function makeMetrics(provider: MeterProvider): void {
  const meter = provider.getMeter("runtime", "3.1.0");
  meter.createCounter("requests", { unit: "1", description: "Requests" }).add(5, { route: "/a" });
  meter.createUpDownCounter("queue.depth").add(-2);
  meter.createGauge("temperature", { unit: "Cel" }).record(21.5);
  meter.createObservableGauge("uptime").addCallback((result) => result.observe(99, { source: "callback" }));
  const latency = meter.createHistogram("latency", {
    unit: "ms",
    advice: { explicitBucketBoundaries: [10, 100] },
  });
  for (const value of [5, 50, 500]) {
    latency.record(value, { route: "/a" });
  }
  const size = meter.createHistogram("payload.size", { unit: "By" });
  for (const value of [1, 2, 4, 1000]) {
    size.record(value);
  }
}
