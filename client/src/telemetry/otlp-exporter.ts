/** What an OTLP/HTTP exporter needs to send to an ingestion server. */

/** Path below an ingestion server's address that OTLP exporters append `/v1/<signal>` to. */
const otlpBasePath = "/ingestion/otlp";

/** Addresses and headers for the three OTLP exporters. */
export interface OtlpExporterConfig {
  readonly logsUrl: string;
  readonly metricsUrl: string;
  readonly tracesUrl: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Exporter configuration from `SVC_TELEMETRY_URL` and `SVC_INGESTION_API_KEY`.
 * @param o.telemetryUrl address of the ingestion server, `http://host:port`, with or without the
 *   path `/ingestion/otlp`; @param o.apiKey ingestion key, or null to send none.
 * @throws TypeError when the address is no http(s) URL.
 */
export function otlpExporterConfig(o: {
  readonly telemetryUrl: string;
  readonly apiKey: string | null;
}): OtlpExporterConfig {
  const url = URL.canParse(o.telemetryUrl) ? new URL(o.telemetryUrl) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new TypeError("the telemetry URL takes http://host:port or https://host:port");
  }
  const path = url.pathname.replace(/\/+$/, "");
  const base = `${url.origin}${path.endsWith(otlpBasePath) ? path : path + otlpBasePath}`;
  return {
    logsUrl: `${base}/v1/logs`,
    metricsUrl: `${base}/v1/metrics`,
    tracesUrl: `${base}/v1/traces`,
    headers: o.apiKey === null ? {} : { Authorization: `Bearer ${o.apiKey}` },
  };
}

/**
 * The standard environment variables that point any OpenTelemetry SDK at an ingestion server, as `[name,
 * value]` pairs. Header values are percent-encoded, as OpenTelemetry demands (W3C baggage format).
 */
export function otlpEnvironment(o: {
  readonly ingestionUrl: string;
  readonly apiKey: string;
}): readonly (readonly [name: string, value: string])[] {
  return [
    ["OTEL_EXPORTER_OTLP_ENDPOINT", `${o.ingestionUrl}${otlpBasePath}`],
    ["OTEL_EXPORTER_OTLP_HEADERS", `Authorization=${encodeURIComponent(`Bearer ${o.apiKey}`)}`],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"],
  ];
}
