/** Logger, metrics and spans of a process, and the reporting of all three once there is somewhere to. */
import { type OtlpExporterConfig, otlpExporterConfig } from "telemetry-service-client/otlp";
import type { Scope } from "../../runtime/lifecycle.js";
import { type Logger, createDefaultDestination, createLogger } from "../../runtime/log/log.js";
import { type Metrics, createMetrics } from "../../runtime/metrics.js";
import type { FinishedSpan, SpanSink } from "../../runtime/spans.js";
import { serviceVersion } from "../../runtime/version.js";
import { createLogTap } from "./log-tap.js";
import type { SelfTelemetry } from "./self-telemetry.js";

/** The options of a server that are about its own telemetry. */
interface ProcessTelemetryOptions {
  /** Name of the program, for example `telemetry-ingestion-srv`. */
  readonly service: string;
  readonly logLevel: string;
  /** `SVC_TELEMETRY_URL` */
  readonly telemetryUrl: string | null;
  /** `SVC_INGESTION_API_KEY` */
  readonly ingestionApiKey: string | null;
  /** `SVC_TELEMETRY_INTERVAL_SECONDS` */
  readonly telemetryIntervalSeconds: number;
}

/** What a process logs to, counts with and reports through. */
export interface ProcessTelemetry {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** For the servers of the process; spans before {@link report} is called are kept, up to a bound. */
  readonly span: SpanSink;
  /**
   * Starts reporting to `exporter`, or to `SVC_TELEMETRY_URL` when it is null, as the last component of `scope`, so
   * that it is stopped first, while the servers still run. Without either, lines and spans are no longer kept.
   */
  report(scope: Scope, exporter: OtlpExporterConfig | null): Promise<void>;
}

const keptSpans = 100;
/** A busy server finishes hundreds of batches a second; a sample of them says as much. */
const spansPerSecond = 50;

/** Creates logger and metrics; nothing is sent yet. */
export function createProcessTelemetry(o: ProcessTelemetryOptions): ProcessTelemetry {
  const processStartMs = Date.now() - performance.now();
  const logTap = createLogTap(createDefaultDestination());
  const logger = createLogger({
    level: o.logLevel,
    service: o.service,
    destination: logTap.destination,
  });
  const metrics = createMetrics({ processMetrics: true });
  const unreported = metrics.counter(
    "self_telemetry_spans_dropped_total",
    "Spans of the service itself that were not reported, to bound their rate",
  );
  let reporting: SelfTelemetry | null = null;
  let kept: FinishedSpan[] | null = [];
  let second = 0;
  let inSecond = 0;

  return {
    logger,
    metrics,
    span(finished) {
      const now = Math.floor(finished.endMs / 1000);
      inSecond = now === second ? inSecond + 1 : 1;
      second = now;
      if (inSecond > spansPerSecond) {
        unreported.inc();
      } else if (reporting !== null) {
        reporting.span(finished);
      } else if (kept !== null && kept.length < keptSpans) {
        kept.push(finished);
      }
    },
    async report(scope, exporter) {
      const target =
        exporter ??
        (o.telemetryUrl === null
          ? null
          : otlpExporterConfig({ telemetryUrl: o.telemetryUrl, apiKey: o.ingestionApiKey }));
      if (target === null) {
        kept = null;
        logTap.discard();
        return;
      }
      // Half of what a server loads, and most report nowhere.
      const { startSelfTelemetry } = await import("./self-telemetry.js");
      const waiting = kept ?? [];
      kept = null;
      reporting = await scope.start("self-telemetry", () =>
        startSelfTelemetry({
          exporter: target,
          serviceName: o.service,
          version: serviceVersion(),
          metrics,
          logTap,
          logger,
          metricsIntervalMs: o.telemetryIntervalSeconds * 1000,
          processStartMs,
        }),
      );
      for (const finished of waiting) {
        reporting.span(finished);
      }
      const started: FinishedSpan = {
        name: "start",
        startMs: processStartMs,
        endMs: Date.now(),
        attributes: {},
        error: null,
      };
      reporting.span(started);
      // The first rows should be there before somebody asks for them.
      void reporting.flush();
    },
  };
}
