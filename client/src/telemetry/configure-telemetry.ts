/**
 * Sets up OpenTelemetry for an application that sends to the service. The packages of OpenTelemetry are peer
 * dependencies, loaded here when they are needed.
 */
import type { LoggerProvider } from "@opentelemetry/sdk-logs";
import type { MeterProvider } from "@opentelemetry/sdk-metrics";
import type { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

import { type AuthProvider, staticKey } from "../auth/auth-provider.js";
import { ClientCredentialsProvider } from "../auth/client-credentials-provider.js";
import { otlpExporterConfig } from "./otlp-exporter.js";

/** Options of {@link configureTelemetry}; what is left out comes from the environment. */
export interface TelemetryOptions {
  /** `service.name`. Default: `OTEL_SERVICE_NAME`, or what OpenTelemetry makes of its absence. */
  readonly serviceName?: string;
  /** Attributes of the resource beside those of `OTEL_RESOURCE_ATTRIBUTES`. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** Ingestion server. Default: `SVC_TELEMETRY_URL`. */
  readonly url?: string;
  /** Default: `SVC_INGESTION_API_KEY`, or client credentials by `SVC_OIDC_TOKEN_ENDPOINT`. */
  readonly auth?: AuthProvider;
  /** Time between two exports of metrics. Default one minute. */
  readonly metricsIntervalMs?: number;
  /** Default: that of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Telemetry that was set up; the global logger, meter and tracer providers send. */
export interface Telemetry {
  readonly logs: LoggerProvider;
  readonly metrics: MeterProvider;
  readonly traces: NodeTracerProvider;
  /** Sends what is queued. Never rejects: what cannot be sent is an error of OpenTelemetry's `diag`. */
  flush(): Promise<void>;
  /** Sends what is queued and ends, as `flush` does. Call it before the process exits. */
  shutdown(): Promise<void>;
}

/**
 * Makes OpenTelemetry send logs, metrics and traces of this process to `SVC_TELEMETRY_URL`, with the credential that
 * the environment names: `SVC_INGESTION_API_KEY`, or `SVC_OIDC_TOKEN_ENDPOINT` with `SVC_OIDC_CLIENT_ID`,
 * `SVC_OIDC_CLIENT_SECRET` and, where the provider wants them, `SVC_OIDC_AUDIENCE` and `SVC_OIDC_SCOPE`.
 * @throws TypeError without an address or with half a credential; CredentialError; Error for a missing package
 */
export async function configureTelemetry(o: TelemetryOptions = {}): Promise<Telemetry> {
  const env = o.env ?? process.env;
  const telemetryUrl = o.url ?? given(env, "SVC_TELEMETRY_URL");
  if (telemetryUrl === null) {
    throw new TypeError("SVC_TELEMETRY_URL is not set: the address of the ingestion server");
  }
  const { logsUrl, metricsUrl, tracesUrl } = otlpExporterConfig({ telemetryUrl, apiKey: null });
  const auth = o.auth ?? credentialOf(env);
  const headers = async (): Promise<Record<string, string>> => {
    const authorization = (await auth?.authorization()) ?? null;
    return authorization === null ? {} : { authorization };
  };
  const sdk = await loadPackages();
  const resource = sdk.defaultResource().merge(
    sdk.resourceFromAttributes({
      ...attributesOf(env, (message) => sdk.diag.error(message)),
      ...o.attributes,
      ...(o.serviceName === undefined ? {} : { "service.name": o.serviceName }),
    }),
  );
  const logs = new sdk.LoggerProvider({
    resource,
    processors: [new sdk.BatchLogRecordProcessor({ exporter: new sdk.OTLPLogExporter({ url: logsUrl, headers }) })],
  });
  const exporter = new sdk.OTLPMetricExporter({ url: metricsUrl, headers });
  const interval = o.metricsIntervalMs ?? 60_000;
  const reader = new sdk.PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: interval,
    exportTimeoutMillis: Math.min(interval, 30_000),
  });
  const metrics = new sdk.MeterProvider({ resource, readers: [reader] });
  const traces = new sdk.NodeTracerProvider({
    resource,
    spanProcessors: [new sdk.BatchSpanProcessor(new sdk.OTLPTraceExporter({ url: tracesUrl, headers }))],
  });
  sdk.logs.setGlobalLoggerProvider(logs);
  sdk.metrics.setGlobalMeterProvider(metrics);
  // Sets the context manager and the propagation of W3C trace contexts, too.
  traces.register();
  // Neither the server that is away nor a wrong key may end the application that sends.
  const each = async (work: (provider: LoggerProvider | MeterProvider | NodeTracerProvider) => Promise<void>) => {
    for (const end of await Promise.allSettled([logs, metrics, traces].map(work))) {
      if (end.status === "rejected") {
        sdk.diag.error(`telemetry was not sent: ${reasonOf(end.reason)}`);
      }
    }
  };
  return {
    logs,
    metrics,
    traces,
    flush: () => each((provider) => provider.forceFlush()),
    async shutdown() {
      await each((provider) => provider.shutdown());
      sdk.logs.disable();
      sdk.metrics.disable();
      sdk.trace.disable();
      sdk.context.disable();
      sdk.propagation.disable();
    },
  };
}

/** In short: an error of an exporter also holds the whole answer. @param error several, from what exports traces */
function reasonOf(error: unknown): string {
  const [first] = Array.isArray(error) ? (error as unknown[]) : [error];
  if (!(first instanceof Error)) {
    return "unknown";
  }
  const code = "code" in first ? String(first.code) : first.name;
  return first.message.includes(code) ? first.message : `${first.message} (${code})`.trimStart();
}

/** The credential that the environment names; null for none. */
function credentialOf(env: Readonly<Record<string, string | undefined>>): AuthProvider | null {
  const key = given(env, "SVC_INGESTION_API_KEY");
  if (key !== null) {
    return staticKey(key);
  }
  const tokenEndpoint = given(env, "SVC_OIDC_TOKEN_ENDPOINT");
  if (tokenEndpoint === null) {
    return null;
  }
  const clientId = given(env, "SVC_OIDC_CLIENT_ID");
  const clientSecret = given(env, "SVC_OIDC_CLIENT_SECRET");
  if (clientId === null || clientSecret === null) {
    throw new TypeError("SVC_OIDC_TOKEN_ENDPOINT needs SVC_OIDC_CLIENT_ID and SVC_OIDC_CLIENT_SECRET beside it");
  }
  return new ClientCredentialsProvider({
    tokenEndpoint,
    clientId,
    clientSecret,
    audience: given(env, "SVC_OIDC_AUDIENCE"),
    scope: given(env, "SVC_OIDC_SCOPE"),
  });
}

/** `OTEL_RESOURCE_ATTRIBUTES`, percent-encoded, and `OTEL_SERVICE_NAME`. @param report told what is wrong with them */
function attributesOf(
  env: Readonly<Record<string, string | undefined>>,
  report: (message: string) => void,
): Record<string, string> {
  const name = given(env, "OTEL_SERVICE_NAME");
  const named = name === null ? {} : { "service.name": name };
  const pairs = (given(env, "OTEL_RESOURCE_ATTRIBUTES") ?? "").split(",").filter((pair) => pair.includes("="));
  try {
    const attributes = pairs.map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())] as const;
    });
    return { ...Object.fromEntries(attributes), ...named };
  } catch {
    // OpenTelemetry's resource SDK specification: then the whole variable counts for nothing. An application has to start.
    report("OTEL_RESOURCE_ATTRIBUTES is left out: it is not percent-encoded");
    return named;
  }
}

function given(env: Readonly<Record<string, string | undefined>>, name: string): string | null {
  const value = env[name];
  return value === undefined || value === "" ? null : value;
}

async function loadPackages() {
  try {
    const [api, apiLogs, resources, logs, metrics, traces, logExporter, metricExporter, traceExporter] =
      await Promise.all([
        import("@opentelemetry/api"),
        import("@opentelemetry/api-logs"),
        import("@opentelemetry/resources"),
        import("@opentelemetry/sdk-logs"),
        import("@opentelemetry/sdk-metrics"),
        import("@opentelemetry/sdk-trace-node"),
        import("@opentelemetry/exporter-logs-otlp-proto"),
        import("@opentelemetry/exporter-metrics-otlp-proto"),
        import("@opentelemetry/exporter-trace-otlp-proto"),
      ]);
    return {
      context: api.context,
      diag: api.diag,
      metrics: api.metrics,
      propagation: api.propagation,
      trace: api.trace,
      logs: apiLogs.logs,
      defaultResource: resources.defaultResource,
      resourceFromAttributes: resources.resourceFromAttributes,
      BatchLogRecordProcessor: logs.BatchLogRecordProcessor,
      LoggerProvider: logs.LoggerProvider,
      MeterProvider: metrics.MeterProvider,
      PeriodicExportingMetricReader: metrics.PeriodicExportingMetricReader,
      BatchSpanProcessor: traces.BatchSpanProcessor,
      NodeTracerProvider: traces.NodeTracerProvider,
      OTLPLogExporter: logExporter.OTLPLogExporter,
      OTLPMetricExporter: metricExporter.OTLPMetricExporter,
      OTLPTraceExporter: traceExporter.OTLPTraceExporter,
    };
  } catch (cause) {
    const missing = /package '([^']+)'/.exec(cause instanceof Error ? cause.message : "")?.[1];
    if (missing === undefined) {
      throw cause;
    }
    throw new Error(`configureTelemetry needs OpenTelemetry: npm install ${missing}`, { cause });
  }
}
