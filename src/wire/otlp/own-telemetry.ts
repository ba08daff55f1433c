/**
 * The header field of requests that carry the service's own telemetry. The ingestion server makes no
 * span for them, or two servers would report each other for ever.
 */
export const ownTelemetryHeader = "svc-self-telemetry";
