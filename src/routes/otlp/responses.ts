/** OTLP/HTTP responses: the only place that knows their fields and bodies. */

import type { IngestResult } from "../../ingest/request.js";
import { type ErrorCode, errorCatalogue } from "../../runtime/errors.js";
import {
  encodeExportResponse,
  encodeRpcStatus,
  type OtlpFormat,
  type OtlpSignal,
  otlpContentType,
} from "../../wire/otlp/rpc-status.js";
import type { HttpAnswer } from "../http/answer.js";
import type { HttpReply } from "../http/seam.js";

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

/** The status code of a refusal. */
export function httpStatusOf(refusal: Refusal): number {
  return errorCatalogue[refusal.code].http;
}

/** An error as a response: `google.rpc.Status` in the request's encoding. */
export function refusalAnswer(format: OtlpFormat, refusal: Refusal, close: boolean): HttpAnswer {
  const status = httpStatusOf(refusal);
  const headers: [string, string][] = [["Content-Type", otlpContentType(format)]];
  if (status === 401) {
    headers.push(["WWW-Authenticate", "Bearer"]);
  }
  if (status === 405) {
    headers.push(["Allow", "POST"]);
  }
  if (refusal.retryAfterSeconds !== undefined) {
    headers.push(["Retry-After", String(refusal.retryAfterSeconds)]);
  }
  const body = encodeRpcStatus(format, errorCatalogue[refusal.code].grpc, refusal.message);
  return { status, headers, body, close };
}

/** The response to a path that is no route: 404 as JSON, or as Status to who sent protobuf. */
export function notFoundAnswer(format: OtlpFormat, close: boolean): HttpAnswer {
  const message = "no such path";
  if (format === "protobuf") {
    return refusalAnswer(format, { code: "NOT_FOUND", message }, close);
  }
  const body = JSON.stringify({ code: "NOT_FOUND", message });
  return { status: 404, headers: [["Content-Type", "application/json"]], body, close };
}

/** Ends the response to an accepted request. @param close the connection, too. */
export function writeExportResponse(
  reply: HttpReply,
  format: OtlpFormat,
  signal: OtlpSignal,
  result: Extract<IngestResult, { kind: "stored" }>,
  close: boolean,
): void {
  reply.writeHeader("Content-Type", otlpContentType(format));
  if (result.rejected === 0 && result.rejectedReason === null) {
    reply.end(format === "json" ? "{}" : "", close);
    return;
  }
  const body = encodeExportResponse(format, signal, result.rejected, result.rejectedReason);
  reply.end(body, close);
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
        message: result.reason ?? errorCatalogue.UNAVAILABLE.publicMessage,
        retryAfterSeconds: result.retryAfterSeconds,
      };
  }
}
