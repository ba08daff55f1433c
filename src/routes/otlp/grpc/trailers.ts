/**
 * Responses of OTLP/HTTP as gRPC has them: the body of an error, a `google.rpc.Status`, becomes the trailers, and
 * `Retry-After` a `google.rpc.RetryInfo` in them, without which a sender does not repeat what it is refused.
 */
import { decodeRpcStatus, encodeRetryStatus } from "../../../wire/otlp/rpc-status.js";

/** Field lines of HTTP/2. */
type Http2Fields = Readonly<Record<string, string | number>>;

/** What every response begins with. */
export const responseFields: Http2Fields = {
  ":status": 200,
  "content-type": "application/grpc",
  "grpc-accept-encoding": "identity,gzip,deflate,zstd",
};

/** gRPC's word for a coding or a format that a server does not know. */
const unimplemented = 12;
/** Clients refuse a response whose header fields take more than 8 KiB, and see neither code nor text then. */
const maxMessageCharacters = 600;

/**
 * The trailers of an error.
 * @param httpStatus of its OTLP/HTTP response, `body` in protobuf. @param retryAfterSeconds undefined: a retry does
 *   not help.
 */
export function errorTrailers(
  httpStatus: number,
  body: Uint8Array,
  retryAfterSeconds: number | undefined,
): Http2Fields {
  const status = decodeRpcStatus(body);
  const code = httpStatus === 415 ? unimplemented : status.code;
  const message = status.message.slice(0, maxMessageCharacters);
  return {
    "grpc-status": code,
    "grpc-message": percentEncoded(message),
    ...(retryAfterSeconds === undefined
      ? {}
      : { "grpc-status-details-bin": base64(encodeRetryStatus(code, message, retryAfterSeconds)) }),
  };
}

/** A text as `grpc-message` has it: printable ASCII but the percent sign as it is, all else byte by byte. */
export function percentEncoded(text: string): string {
  // Not by encodeURIComponent: it throws at half a surrogate pair.
  return Array.from(Buffer.from(text), (byte) =>
    byte >= 0x20 && byte <= 0x7e && byte !== 0x25
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`,
  ).join("");
}

/** Binary header fields travel without padding. */
function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64").replaceAll("=", "");
}
