/**
 * An application with the OpenTelemetry JS SDK, configured by nothing but the standard variables: sends one log record
 * and one span whose text is its first argument, and exits with 1 when the exporter reports a failure.
 */
import { SeverityNumber } from "@opentelemetry/api-logs";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { LoggerProvider, SimpleLogRecordProcessor } from "@opentelemetry/sdk-logs";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

const text = process.argv[2] ?? "hello";
const resource = resourceFromAttributes({ "service.name": "otlp-sender" });

interface Exporter<Items> {
  export(items: Items, done: (result: { code: number; error?: Error }) => void): void;
}

function failing<Items, E extends Exporter<Items>>(exporter: E): E {
  const send = exporter.export.bind(exporter);
  exporter.export = (items, done) => {
    send(items, (result) => {
      if (result.code !== 0) {
        process.exitCode = 1;
        console.error(result.error?.message ?? "the export failed");
      }
      done(result);
    });
  };
  return exporter;
}

const logs = new LoggerProvider({
  resource,
  processors: [new SimpleLogRecordProcessor({ exporter: failing(new OTLPLogExporter()) })],
});
logs.getLogger("sender").emit({ body: text, severityNumber: SeverityNumber.INFO, attributes: { order: 42 } });
const spans = new BasicTracerProvider({
  resource,
  spanProcessors: [new SimpleSpanProcessor(failing(new OTLPTraceExporter()))],
});
spans.getTracer("sender").startSpan(text).end();
await logs.shutdown();
await spans.shutdown();
