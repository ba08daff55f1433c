/** Writes the responses of the web server: the only place that knows their status lines and fields. */
import type { HttpResponse } from "uWebSockets.js";

import type { ServiceError } from "../../runtime/errors.js";

/** A response ready to be written. */
export interface WebResponse {
  readonly status: number;
  /** Beside those that every response has. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
  /** Closes the connection after it. */
  readonly close?: boolean;
}

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  204: "No Content",
  302: "Found",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** A key shown once must not stay in a cache, and no answer is a page to be guessed at or framed. */
const always: readonly (readonly [string, string])[] = [
  ["Cache-Control", "no-store"],
  ["X-Content-Type-Options", "nosniff"],
  ["Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"],
];

const json = ["Content-Type", "application/json"] as const;

/** A JSON text as a response; null is one without a body. */
export function jsonResponse(status: number, body: string | null): WebResponse {
  return { status, headers: body === null ? [] : [json], body: body ?? "" };
}

/** `{"code", "message"}` (decisions, Bodies and codes). @param requestId shown with INTERNAL only. */
export function errorResponse(error: ServiceError, requestId: string): WebResponse {
  const message =
    error.code === "INTERNAL"
      ? `${error.publicMessage}; request id ${requestId}`
      : error.publicMessage;
  const { retryAfterSeconds } = error;
  return {
    status: error.httpStatus,
    headers: [
      json,
      ...(retryAfterSeconds === undefined
        ? []
        : ([["Retry-After", String(retryAfterSeconds)]] as const)),
    ],
    body: JSON.stringify({ code: error.code, message }),
  };
}

/** Ends a response. @param head the request was HEAD, whose response says what a body would measure. */
export function writeResponse(response: HttpResponse, answer: WebResponse, head: boolean): void {
  const { status, body } = answer;
  const close = answer.close ?? false;
  response.cork(() => {
    response.writeStatus(`${status} ${reasons[status] ?? "Error"}`);
    const own = new Set(answer.headers.map(([name]) => name));
    for (const [name, value] of always) if (!own.has(name)) response.writeHeader(name, value);
    for (const [name, value] of answer.headers) response.writeHeader(name, value);
    if (status === 204) response.endWithoutBody(undefined, close);
    else if (head) response.endWithoutBody(Buffer.byteLength(body), close);
    else response.end(body, close);
  });
}

/** More than uWebSockets.js gathers before it writes; see routes/otlp/responses.ts, writeFramingRefusal. */
const paddingBytes = 17 * 1024;

/** 400, and nothing more of the connection is parsed; from within the route handler only. */
export function writeFramingError(response: HttpResponse, message: string): void {
  const body = JSON.stringify({ code: "BAD_REQUEST", message });
  response.writeStatus("400 Bad Request").writeHeader(...json);
  response.end(body + " ".repeat(paddingBytes), true);
}
