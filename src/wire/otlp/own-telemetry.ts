/**
 * Field that marks requests which carry the telemetry of a server of this service. The ingestion
 * server makes no span about such a request, or two of them would report each other for ever.
 */
export const ownTelemetryHeader = "svc-self-telemetry";
