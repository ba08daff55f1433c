/** Writes OTLP/HTTP responses: the only place that knows their status lines, fields and bodies. */

import type { HttpResponse } from "uWebSockets.js";

import type { IngestResult } from "../../ingest/request.js";
import { type ErrorCode, errorCatalogue } from "../../runtime/errors.js";
import {
  encodeExportResponse,
  encodeRpcStatus,
  type OtlpFormat,
  type OtlpSignal,
  otlpContentType,
} from "../../wire/rpc-status.js";

/** A response other than success. */
export interface Refusal {
  readonly code: ErrorCode;
  /** Public text. */
  readonly message: string;
  /** Adds `Retry-After` (RFC 9110 section 10.2.3). */
  readonly retryAfterSeconds?: number;
  /** Closes the connection after the response, whatever the body. */
  readonly close?: boolean;
}

const reasons: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** The status code of a refusal. */
export function statusOf(refusal: Refusal): number {
  return errorCatalogue[refusal.code].http;
}

/**
 * Ends a response with an error: `google.rpc.Status` in the request's encoding.
 * @param head the request was HEAD, whose response has no body.
 */
export function writeRefusal(
  response: HttpResponse,
  format: OtlpFormat,
  refusal: Refusal,
  close: boolean,
  head = false,
): void {
  const status = statusOf(refusal);
  response.writeStatus(`${status} ${reasons[status] ?? "Error"}`);
  response.writeHeader("Content-Type", otlpContentType(format));
  if (status === 401) response.writeHeader("WWW-Authenticate", "Bearer");
  if (status === 405) response.writeHeader("Allow", "POST");
  if (refusal.retryAfterSeconds !== undefined) {
    response.writeHeader("Retry-After", String(refusal.retryAfterSeconds));
  }
  const body = encodeRpcStatus(format, errorCatalogue[refusal.code].grpc, refusal.message);
  response.end(head ? "" : body, close);
}

/** More than uWebSockets.js gathers before it writes (16 KiB). */
const paddingBytes = 17 * 1024;

/**
 * Answers 400 and closes the connection before anything more of it is parsed; from within the route
 * handler only. What stands behind an ambiguous head in the same packet may be what a smuggler wants
 * to be taken for a request, and uWebSockets.js parses on as long as it holds a response back to
 * write it in one piece. A body too large for that is written at once, and the connection closed with
 * it: hence the padding, as white space or as a field that no reader knows.
 */
export function writeFramingRefusal(
  response: HttpResponse,
  format: OtlpFormat,
  message: string,
): void {
  const { http, grpc } = errorCatalogue.BAD_REQUEST;
  const status = encodeRpcStatus(format, grpc, message);
  const padding =
    format === "json"
      ? Buffer.alloc(paddingBytes, " ")
      : // Field 15, length-delimited, the length in three bytes.
        Buffer.concat([
          Buffer.from([
            0x7a,
            (paddingBytes & 0x7f) | 0x80,
            (paddingBytes >> 7) | 0x80,
            paddingBytes >> 14,
          ]),
          Buffer.alloc(paddingBytes),
        ]);
  response.writeStatus(`${http} ${reasons[http]}`);
  response.writeHeader("Content-Type", otlpContentType(format));
  response.end(Buffer.concat([status, padding]), true);
}

/** Ends a response to a path that is no route: 404 as JSON (decisions, "Bodies and codes"), or as Status to who sent protobuf. */
export function writeNotFound(
  response: HttpResponse,
  format: OtlpFormat,
  close: boolean,
  head: boolean,
): void {
  const message = "no such path";
  if (format === "protobuf") {
    writeRefusal(response, format, { code: "NOT_FOUND", message }, close, head);
    return;
  }
  const body = JSON.stringify({ code: "NOT_FOUND", message });
  response.writeStatus("404 Not Found").writeHeader("Content-Type", "application/json");
  response.end(head ? "" : body, close);
}

/** Ends the response to an accepted request. */
export function writeExportResponse(
  response: HttpResponse,
  format: OtlpFormat,
  signal: OtlpSignal,
  result: Extract<IngestResult, { kind: "stored" }>,
): void {
  response.writeHeader("Content-Type", otlpContentType(format));
  if (result.rejected === 0 && result.rejectedReason === null) {
    response.end(format === "json" ? "{}" : "");
    return;
  }
  response.end(encodeExportResponse(format, signal, result.rejected, result.rejectedReason));
}

/** The refusal that tells a sender about its result. */
export function refusalFor(result: Exclude<IngestResult, { kind: "stored" }>): Refusal {
  switch (result.kind) {
    case "failed":
      return { code: result.code, message: result.message };
    case "internal":
      return {
        code: "INTERNAL",
        message: `${errorCatalogue.INTERNAL.publicMessage}; request id ${result.requestId}`,
      };
    case "unavailable":
      return {
        code: "UNAVAILABLE",
        message: errorCatalogue.UNAVAILABLE.publicMessage,
        retryAfterSeconds: result.retryAfterSeconds,
      };
  }
}
