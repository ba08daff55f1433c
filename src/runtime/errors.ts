/**
 * The one error catalogue: code, HTTP status, gRPC status, retryability and the sentence that may be
 * shown to anyone. Every layer throws {@link ServiceError}; only the edge words it for a protocol.
 */

interface CatalogueEntry {
  /** Status of the HTTP response (RFC 9110). */
  readonly http: number;
  /** Status code of gRPC. */
  readonly grpc: number;
  /** Whether the same request, sent again later, may succeed (OTLP: 429, 502, 503, 504 only). */
  readonly retryable: boolean;
  /** What the public reads when nothing more exact may be said. */
  readonly publicMessage: string;
}

/** Every failure that the service knows how to name. */
export const errorCatalogue = {
  BAD_REQUEST: entry(400, 3, false, "the request is malformed"),
  UNAUTHENTICATED: entry(401, 16, false, "authentication failed"),
  FORBIDDEN: entry(403, 7, false, "not allowed"),
  NOT_FOUND: entry(404, 5, false, "not found"),
  METHOD_NOT_ALLOWED: entry(405, 12, false, "method not allowed"),
  CONFLICT: entry(409, 6, false, "conflict with the present state"),
  CLAIM_CONTENDED: entry(409, 10, false, "another claim of the same audience is under way; try again"),
  PAYLOAD_TOO_LARGE: entry(413, 8, false, "the body is too large"),
  UNSUPPORTED_MEDIA_TYPE: entry(415, 3, false, "unsupported content type or encoding"),
  RANGE_NOT_SATISFIABLE: entry(416, 11, false, "the range lies outside of the object"),
  TOO_MANY_REQUESTS: entry(429, 8, true, "too many requests; try again later"),
  OVERLOADED: entry(503, 14, true, "the server is overloaded; try again later"),
  UNAVAILABLE: entry(503, 14, true, "temporarily unavailable; try again later"),
  NOT_CONFIGURED: entry(503, 9, false, "not configured on this server"),
  AUTH_DISABLED: entry(503, 14, false, "not available while authentication is disabled"),
  DEADLINE_EXCEEDED: entry(504, 4, true, "the deadline passed before the work was done"),
  CANCELLED: entry(499, 1, false, "the caller cancelled the request"),
  UNIMPLEMENTED: entry(501, 12, false, "not implemented"),
  INTERNAL: entry(500, 13, false, "internal error"),
} as const satisfies Record<string, CatalogueEntry>;

/** A key of {@link errorCatalogue}. */
export type ErrorCode = keyof typeof errorCatalogue;

/** Extra facts about a {@link ServiceError}. */
interface ServiceErrorOptions {
  /** What led to it; kept for the log, never shown to a caller. */
  readonly cause?: unknown;
  /** Seconds after which a retry makes sense (`Retry-After`, RFC 9110 section 10.2.3). */
  readonly retryAfterSeconds?: number | undefined;
  /** What a caller may read of an `INTERNAL` error in place of the fixed sentence; it is lost between threads. */
  readonly shown?: string;
}

/**
 * A failure with a code of the catalogue. The message is public for every code but `INTERNAL`, so
 * it must not carry a secret or an inner detail; those belong into `cause`.
 */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  /** Seconds after which a retry makes sense; undefined when nothing is known. */
  readonly retryAfterSeconds: number | undefined;
  readonly #shown: string | undefined;

  constructor(code: ErrorCode, message?: string, options?: ServiceErrorOptions) {
    super(
      message ?? errorCatalogue[code].publicMessage,
      options !== undefined && "cause" in options ? { cause: options.cause } : undefined,
    );
    this.name = "ServiceError";
    this.code = code;
    this.retryAfterSeconds = options?.retryAfterSeconds;
    this.#shown = options?.shown;
  }

  /** HTTP status (RFC 9110). */
  get httpStatus(): number {
    return errorCatalogue[this.code].http;
  }

  /** gRPC status code. */
  get grpcStatus(): number {
    return errorCatalogue[this.code].grpc;
  }

  /** Whether the same request, sent again later, may succeed. */
  get retryable(): boolean {
    return errorCatalogue[this.code].retryable;
  }

  /** What a caller may read: the message, and for `INTERNAL` a sentence that says nothing of it. */
  get publicMessage(): string {
    if (this.code !== "INTERNAL") {
      return this.message;
    }
    return this.#shown ?? errorCatalogue.INTERNAL.publicMessage;
  }
}

/** Returns `e` itself when it is a {@link ServiceError}, else `INTERNAL` with `e` as its cause. */
export function toServiceError(e: unknown): ServiceError {
  return e instanceof ServiceError ? e : new ServiceError("INTERNAL", undefined, { cause: e });
}

/** Why a signal was aborted: its reason when that is one of ours, else CANCELLED. */
export function abortReason({ reason }: AbortSignal): ServiceError {
  return reason instanceof ServiceError ? reason : new ServiceError("CANCELLED", undefined, { cause: reason });
}

/** An error as plain data: it survives structured cloning with class name, code, stack and causes. */
export interface ErrorRecord {
  /** Class name of the error, for example `RangeError`. */
  readonly name: string;
  readonly message: string;
  /** Code of the catalogue, or null when the error was not a {@link ServiceError}. */
  readonly code: ErrorCode | null;
  /** A code of another library (`ENOENT`, an SQLSTATE); null when there was none. */
  readonly foreignCode: string | null;
  readonly retryAfterSeconds: number | null;
  readonly stack: string | null;
  readonly cause: ErrorRecord | null;
}

/** A chain of causes longer than this is cut; it also ends a cycle. */
const maxCauseDepth = 8;

/** Turns anything thrown into a record that can be posted to another thread. */
export function toErrorRecord(e: unknown): ErrorRecord {
  return recordAt(e, 0);
}

function recordAt(e: unknown, depth: number): ErrorRecord {
  if (!(e instanceof Error)) {
    return {
      name: "Error",
      message: typeof e === "string" ? e : `thrown value of type ${e === null ? "null" : typeof e}`,
      code: null,
      foreignCode: null,
      retryAfterSeconds: null,
      stack: null,
      cause: null,
    };
  }
  const service = e instanceof ServiceError ? e : null;
  const foreign: unknown = "code" in e && service === null ? e.code : null;
  const hasCause = e.cause !== undefined && e.cause !== null && depth < maxCauseDepth;
  return {
    name: e.name,
    message: e.message,
    code: service?.code ?? null,
    foreignCode: typeof foreign === "string" ? foreign : null,
    retryAfterSeconds: service?.retryAfterSeconds ?? null,
    stack: e.stack ?? null,
    cause: hasCause ? recordAt(e.cause, depth + 1) : null,
  };
}

/**
 * Rebuilds an error from its record. A record that was no {@link ServiceError} becomes `INTERNAL`
 * with the original (name, message, stack, foreign code) as its cause.
 */
export function fromErrorRecord(r: ErrorRecord): ServiceError {
  const rebuilt = rebuild(r);
  return toServiceError(rebuilt);
}

function rebuild(r: ErrorRecord): Error {
  const cause = r.cause === null ? undefined : rebuild(r.cause);
  const error =
    r.code === null
      ? new Error(r.message, cause === undefined ? undefined : { cause })
      : new ServiceError(r.code, r.message, {
          ...(cause === undefined ? {} : { cause }),
          retryAfterSeconds: r.retryAfterSeconds ?? undefined,
        });
  error.name = r.name;
  if (r.stack !== null) {
    error.stack = r.stack;
  }
  if (r.foreignCode !== null) {
    Object.assign(error, { code: r.foreignCode });
  }
  return error;
}

function entry(http: number, grpc: number, retryable: boolean, publicMessage: string): CatalogueEntry {
  return { http, grpc, retryable, publicMessage };
}

/** Codes of Node's TLS: a server's certificate is not trusted, or what it speaks is no TLS. */
export const tlsFailureCode =
  /^(?:ERR_(?:SSL|TLS)_|EPROTO$|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|PATH_LENGTH_|INVALID_CA$|INVALID_PURPOSE$|HOSTNAME_MISMATCH$)/u;
