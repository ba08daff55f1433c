/**
 * The service's own logs, metrics and spans, sent over OTLP to an ingestion server: to itself in development mode.
 *
 * It does not feed on itself. Every request it sends carries {@link ownTelemetryHeader}; the
 * ingestion server makes no span about such a request, log lines about the export and about what is refused of it
 * are kept out of the export, and metrics are sent at a fixed interval whatever they count. So an
 * idle service sends one metrics request per interval and nothing else.
 *
 * It does not interfere. Queues are bounded and drop the excess; a failed export is a warning at most
 * once a minute; a stop waits at most two seconds for the last export.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { type Attributes, SpanStatusCode, type Tracer } from "@opentelemetry/api";
import { SeverityNumber, type Logger as OtelLogger } from "@opentelemetry/api-logs";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { type Resource, defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

import type { OtlpExporterConfig } from "telemetry-service-client/otlp";
import { atMost } from "../../runtime/at-most.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import type { FinishedSpan, SpanSink } from "../../runtime/spans.js";
import { ownTelemetryHeader } from "../../wire/otlp/own-telemetry.js";
import type { LogLine, LogTap } from "./log-tap.js";
import { metricsProducer } from "./self-telemetry-metrics.js";

/** What {@link startSelfTelemetry} needs. */
interface SelfTelemetryOptions {
  /** Where to send, and with which credential. */
  readonly exporter: OtlpExporterConfig;
  /** `service.name`: the program, for example `telemetry-monolith`. */
  readonly serviceName: string;
  readonly version: string;
  readonly metrics: Metrics;
  readonly logTap: LogTap;
  readonly logger: Logger;
  /** Time between two reports of metrics. */
  readonly metricsIntervalMs: number;
  /** Longest time for one export, its retries included. Default 5000. */
  readonly exportTimeoutMs?: number;
  /** When the process started, milliseconds since the Unix epoch. */
  readonly processStartMs: number;
}

/** Running self-telemetry. */
export interface SelfTelemetry extends Component {
  readonly span: SpanSink;
  /** Sends what is queued now. Never rejects. */
  flush(): Promise<void>;
}

const stopTimeoutMs = 2_000;
const warnEveryMs = 60_000;
const scope = "telemetry-service";

/** Starts reporting; the lines logged since the start of the process are reported first. */
export function startSelfTelemetry(o: SelfTelemetryOptions): SelfTelemetry {
  const resource = describeProcess(o);
  const warn = createExportWarning(o.logger);
  const exportTimeoutMs = o.exportTimeoutMs ?? 5_000;
  const exporterOptions = (url: string): { url: string; headers: Record<string, string>; timeoutMillis: number } => ({
    url,
    headers: { ...o.exporter.headers, [ownTelemetryHeader]: "1" },
    timeoutMillis: exportTimeoutMs,
  });

  const logs = new LoggerProvider({
    resource,
    processors: [
      new BatchLogRecordProcessor({
        exporter: warned(new OTLPLogExporter(exporterOptions(o.exporter.logsUrl)), "logs", warn),
        scheduledDelayMillis: 1000,
        exportTimeoutMillis: exportTimeoutMs,
      }),
    ],
  });
  const spans = new BasicTracerProvider({
    resource,
    spanProcessors: [
      new BatchSpanProcessor(warned(new OTLPTraceExporter(exporterOptions(o.exporter.tracesUrl)), "traces", warn), {
        scheduledDelayMillis: 1000,
        exportTimeoutMillis: exportTimeoutMs,
      }),
    ],
  });
  const meters = new MeterProvider({
    resource,
    readers: [
      new PeriodicExportingMetricReader({
        exporter: warned(new OTLPMetricExporter(exporterOptions(o.exporter.metricsUrl)), "metrics", warn),
        exportIntervalMillis: o.metricsIntervalMs,
        exportTimeoutMillis: Math.min(exportTimeoutMs, o.metricsIntervalMs),
        metricProducers: [metricsProducer(o.metrics, resource, { name: scope, version: o.version }, o.processStartMs)],
      }),
    ],
  });

  const otelLogger = logs.getLogger(scope, o.version);
  o.logTap.listen((line) => emitLine(otelLogger, line));
  const tracer = spans.getTracer(scope, o.version);
  const providers = [logs, spans, meters];
  let stopping: Promise<void> | null = null;

  return {
    name: "self-telemetry",
    span: (finished) => emitSpan(tracer, finished),
    async flush() {
      await Promise.allSettled(providers.map((provider) => provider.forceFlush()));
    },
    stop() {
      stopping ??= (async () => {
        o.logTap.discard();
        const ended = providers.map((provider) => provider.shutdown());
        await atMost(Promise.allSettled(ended), stopTimeoutMs);
      })();
      return stopping;
    },
  };
}

/** The resource of this process (OpenTelemetry semantic conventions: service, host, process). */
function describeProcess(o: SelfTelemetryOptions): Resource {
  return defaultResource().merge(
    resourceFromAttributes({
      "service.name": o.serviceName,
      "service.version": o.version,
      "service.instance.id": randomUUID(),
      "host.name": hostname(),
      "process.pid": process.pid,
      "process.creation.time": new Date(o.processStartMs).toISOString(),
      "process.executable.name": "node",
      "process.runtime.name": "nodejs",
      "process.runtime.version": process.versions.node,
    }),
  );
}

const severities: Readonly<Record<string, SeverityNumber>> = {
  trace: SeverityNumber.TRACE,
  debug: SeverityNumber.DEBUG,
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
  fatal: SeverityNumber.FATAL,
};

function emitLine(logger: OtelLogger, line: LogLine): void {
  const { level, time, service, msg, err, ...rest } = line;
  const severity = severities[String(level)];
  // Lines below info come with every batch and every request: reporting them would report the reporting.
  if (severity === undefined || severity < SeverityNumber.INFO) {
    return;
  }
  const attributes: Attributes = typeof service === "string" ? { service } : {};
  for (const [name, value] of Object.entries(rest)) {
    if (value === null || value === undefined) {
      continue;
    }
    const isScalar = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
    attributes[name] = isScalar ? value : JSON.stringify(value);
  }
  logger.emit({
    timestamp: typeof time === "string" ? new Date(time) : new Date(),
    severityNumber: severity,
    severityText: String(level).toUpperCase(),
    body: typeof msg === "string" ? msg : "",
    attributes: { ...attributes, ...exceptionAttributes(err) },
  });
}

function emitSpan(tracer: Tracer, finished: FinishedSpan): void {
  const span = tracer.startSpan(finished.name, {
    root: true,
    startTime: finished.startMs,
    attributes: finished.attributes,
  });
  if (finished.error !== null) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: finished.error });
  }
  span.end(finished.endMs);
}

/** Semantic conventions: exceptions in logs. */
function exceptionAttributes(err: unknown): Attributes {
  if (typeof err !== "object" || err === null) {
    return {};
  }
  const { type, message, stack } = err as { type?: unknown; message?: unknown; stack?: unknown };
  return {
    ...(typeof type === "string" ? { "exception.type": type } : {}),
    ...(typeof message === "string" ? { "exception.message": message } : {}),
    ...(typeof stack === "string" ? { "exception.stacktrace": stack } : {}),
  };
}

/** What the exporters of all three signals share. */
interface Exporter<Items> {
  export(items: Items, done: (result: { code: number; error?: Error }) => void): void;
}

type ExportWarning = (signal: string, error: Error | undefined) => void;

/** Logs a failed export, at most once a minute; the line itself is not exported. */
function createExportWarning(logger: Logger): ExportWarning {
  let lastMs = Number.NEGATIVE_INFINITY;
  let unreported = 0;
  return (signal, error) => {
    const nowMs = performance.now();
    unreported += 1;
    if (nowMs - lastMs < warnEveryMs) {
      return;
    }
    lastMs = nowMs;
    logger.warn(
      { selfTelemetry: true, signal, failures: unreported, reason: error?.message },
      "the service's own telemetry could not be sent",
    );
    unreported = 0;
  };
}

/** `exporter` itself, its failures seen by `warn` on their way to the SDK, which drops them silently. */
function warned<Items, E extends Exporter<Items>>(exporter: E, signal: string, warn: ExportWarning): E {
  const send = exporter.export.bind(exporter);
  exporter.export = (items, done) => {
    send(items, (result) => {
      if (result.code !== 0) {
        warn(signal, result.error);
      }
      done(result);
    });
  };
  return exporter;
}
