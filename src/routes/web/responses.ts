/** The responses of the web server: the only place that knows their fields. */
import type { ServiceError } from "../../runtime/errors.js";
import type { HttpAnswer } from "../http/answer.js";

/** A key shown once must not stay in a cache, and no answer is a page to be guessed at or framed. */
const always: readonly (readonly [string, string])[] = [
  ["Cache-Control", "no-store"],
  ["X-Content-Type-Options", "nosniff"],
  ["Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"],
];

const json = ["Content-Type", "application/json"] as const;

/** A JSON text as a response; null is one without a body. */
export function jsonResponse(status: number, body: string | null): HttpAnswer {
  return { status, headers: body === null ? [] : [json], body: body ?? "" };
}

/** `{"code", "message"}`. @param requestId shown with INTERNAL only. */
export function errorResponse(error: ServiceError, requestId: string): HttpAnswer {
  const message = error.code === "INTERNAL" ? `${error.publicMessage}; request id ${requestId}` : error.publicMessage;
  const { retryAfterSeconds } = error;
  return {
    status: error.httpStatus,
    headers: [
      json,
      ...(retryAfterSeconds === undefined ? [] : ([["Retry-After", String(retryAfterSeconds)]] as const)),
    ],
    body: JSON.stringify({ code: error.code, message }),
  };
}

/** Adds the fields that every response has, unless it has its own. */
export function withCommonHeaders<A extends Omit<HttpAnswer, "body">>(answer: A): A {
  const own = new Set(answer.headers.map(([name]) => name));
  return { ...answer, headers: [...always.filter(([name]) => !own.has(name)), ...answer.headers] };
}
