/** What passes between the front end, the batcher and the encode workers about one request. */

import type { OtlpFormat, OtlpSignal } from "../wire/otlp/rpc-status.js";

/** Content codings in the order of their code; see {@link requestCode}. */
const encodings = ["identity", "gzip", "deflate", "zstd"] as const;

/** A content coding of a request body (RFC 9110 section 8.4.1). */
export type BodyEncoding = (typeof encodings)[number];

/**
 * Signal, format and content coding in one small integer (bits 0-1 signal, bit 2 JSON, bits 3-4 coding,
 * bit 5 telemetry of the service itself): what travels between threads instead of three strings.
 */
export function requestCode(
  signal: OtlpSignal,
  format: OtlpFormat,
  encoding: BodyEncoding,
  ownTelemetry = false,
): number {
  return (
    signal | (format === "json" ? 4 : 0) | (encodings.indexOf(encoding) << 3) | (ownTelemetry ? ownTelemetryBit : 0)
  );
}

const ownTelemetryBit = 32;

/** Whether the request of a {@link requestCode} carries the service's own telemetry. */
export function codeIsOwnTelemetry(code: number): boolean {
  return (code & ownTelemetryBit) !== 0;
}

/** The signal in a {@link requestCode}. */
export function codeSignal(code: number): OtlpSignal {
  return (code & 3) as OtlpSignal;
}

/** The format in a {@link requestCode}. */
export function codeFormat(code: number): OtlpFormat {
  return (code & 4) === 0 ? "protobuf" : "json";
}

/** The content coding in a {@link requestCode}. */
export function codeEncoding(code: number): BodyEncoding {
  return encodings[(code >> 3) & 3] ?? "identity";
}

/** What became of the records of an accepted request. */
interface StoredCounts {
  /** Records that were stored, without those that the same bytes had stored earlier. */
  readonly records: number;
  readonly rejected: number;
  /** Why the first of the rejected was; public text. */
  readonly rejectedReason: string | null;
  /** Attributes with a reserved name (`svc.*`) that were left out. */
  readonly droppedAttributes: number;
}

/** The final result of one request, as its sender sees it. */
export type IngestResult =
  | ({ readonly kind: "stored" } & StoredCounts)
  /** The request itself is at fault. */
  | {
      readonly kind: "failed";
      readonly code: "BAD_REQUEST" | "PAYLOAD_TOO_LARGE";
      readonly message: string;
    }
  /** Not now: 503 with Retry-After. `reason` is public text, where something is known. */
  | { readonly kind: "unavailable"; readonly retryAfterSeconds: number; readonly reason?: string }
  /** A defect: 500 with an id under which the log says more. */
  | { readonly kind: "internal"; readonly requestId: string };

/**
 * A complete body in shared memory that waits for its result. Its creator keeps the bytes in place until
 * `answer` is called, which happens exactly once.
 */
export interface PendingRequest {
  readonly buffer: SharedArrayBuffer;
  /** Where the body starts in `buffer`, in bytes. */
  readonly offset: number;
  /** Bytes of the body as sent. */
  readonly length: number;
  /** See {@link requestCode}. */
  readonly code: number;
  /** Write audience of the credential; null leaves the rows unstamped. */
  readonly audience: string | null;
  /** `performance.now()` when the body was complete. */
  readonly sinceMs: number;
  answer(result: IngestResult): void;
}

/** Where a front end hands complete bodies over. */
export interface IngestSink {
  /** Why new bodies are better refused before they are read: stopping, or storage is out. Public text; null: they are not. */
  readonly obstacle: string | null;
  submit(request: PendingRequest): void;
}
