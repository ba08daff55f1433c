/** How programs of several languages send telemetry. Each reads the same variables; the rest is theirs. */

export interface Settings {
  /** Where OTLP/HTTP goes, without a slash at its end. */
  readonly endpoint: string;
  /** Null: none was minted yet. */
  readonly key: string | null;
  readonly service: string;
}

/** A text to copy, and what it is. */
interface Snippet {
  readonly title: string;
  readonly text: string;
}

export interface Language {
  readonly id: string;
  readonly name: string;
  readonly snippets: (settings: Settings) => readonly Snippet[];
}

const keyOr = (key: string | null): string => key ?? "<your key>";

function shellQuoted(text: string): string {
  return /^[\w./:%=@-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** The variables of OpenTelemetry's specification that every SDK reads. */
function environment({ endpoint, key, service }: Settings): string {
  return [
    ["OTEL_SERVICE_NAME", service],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", endpoint],
    ["OTEL_EXPORTER_OTLP_HEADERS", `Authorization=Bearer%20${keyOr(key)}`],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"],
  ]
    .map(([name, value = ""]) => `export ${name}=${shellQuoted(value)}`)
    .join("\n");
}

const variables = (settings: Settings): Snippet => ({
  title: "Set these where the program runs",
  text: environment(settings),
});

export const languages: readonly Language[] = [
  {
    id: "nodejs",
    name: "Node.js",
    snippets: (settings) => [
      variables(settings),
      {
        title: "Start it with instrumentation; its code stays as it is",
        text: `npm install @opentelemetry/api @opentelemetry/auto-instrumentations-node
export OTEL_LOGS_EXPORTER=otlp OTEL_METRICS_EXPORTER=otlp
node --require @opentelemetry/auto-instrumentations-node/register app.js`,
      },
    ],
  },
  {
    id: "python",
    name: "Python",
    snippets: (settings) => [
      variables(settings),
      {
        title: "Start it with instrumentation; its code stays as it is",
        text: `pip install opentelemetry-distro opentelemetry-exporter-otlp-proto-http \\
  opentelemetry-instrumentation-logging
opentelemetry-instrument --logs_exporter otlp python app.py`,
      },
    ],
  },
  {
    id: "java",
    name: "Java",
    snippets: (settings) => [
      variables(settings),
      {
        title: "Start it with the agent; its code stays as it is",
        text: `curl -LO https://github.com/open-telemetry/opentelemetry-java-instrumentation/releases/latest/download/opentelemetry-javaagent.jar
java -javaagent:opentelemetry-javaagent.jar -jar app.jar`,
      },
    ],
  },
  {
    id: "go",
    name: "Go",
    snippets: (settings) => [
      variables(settings),
      {
        title: "Get the packages",
        text: `go get go.opentelemetry.io/otel/sdk \\
  go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp`,
      },
      {
        title: "At the beginning of main",
        text: `exporter, err := otlptracehttp.New(ctx) // reads the variables
if err != nil {
	log.Fatal(err)
}
provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
defer provider.Shutdown(ctx)
otel.SetTracerProvider(provider)`,
      },
    ],
  },
  {
    id: "dotnet",
    name: ".NET",
    snippets: (settings) => [
      variables(settings),
      {
        title: "Get the packages",
        text: `dotnet add package OpenTelemetry.Extensions.Hosting
dotnet add package OpenTelemetry.Exporter.OpenTelemetryProtocol
dotnet add package OpenTelemetry.Instrumentation.AspNetCore`,
      },
      {
        title: "In Program.cs",
        text: `builder.Services.AddOpenTelemetry()
    .WithTracing(tracing => tracing.AddAspNetCoreInstrumentation())
    .WithMetrics(metrics => metrics.AddAspNetCoreInstrumentation())
    .WithLogging()
    .UseOtlpExporter();`,
      },
    ],
  },
  {
    id: "ruby",
    name: "Ruby",
    snippets: (settings) => [
      variables(settings),
      {
        title: "Get the gems",
        text: "bundle add opentelemetry-sdk opentelemetry-exporter-otlp opentelemetry-instrumentation-all",
      },
      {
        title: "In an initializer",
        text: `require "opentelemetry/sdk"
require "opentelemetry/instrumentation/all"
OpenTelemetry::SDK.configure(&:use_all)`,
      },
    ],
  },
  {
    id: "collector",
    name: "Collector",
    snippets: ({ endpoint, key }) => [
      {
        title: "In the configuration; name it in the pipelines; before 0.144 it is called otlphttp",
        text: `exporters:
  otlp_http:
    endpoint: ${endpoint}
    headers:
      Authorization: Bearer ${keyOr(key)}`,
      },
    ],
  },
  {
    id: "curl",
    name: "curl",
    snippets: ({ endpoint, key, service }) => [
      {
        title: "Sends one log record, to see whether all is well",
        text: `curl ${shellQuoted(`${endpoint}/v1/logs`)} \\
  -H 'Content-Type: application/json' -H ${shellQuoted(`Authorization: Bearer ${keyOr(key)}`)} \\
  -d ${shellQuoted(helloRecord(service))}`,
      },
    ],
  },
];

function helloRecord(service: string): string {
  return JSON.stringify({
    resourceLogs: [
      {
        resource: { attributes: [{ key: "service.name", value: { stringValue: service } }] },
        scopeLogs: [{ logRecords: [{ severityNumber: 9, body: { stringValue: "hello" } }] }],
      },
    ],
  });
}
