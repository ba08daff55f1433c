/** The responses of the web server: the only place that knows their fields. */
import { type HttpAnswer, jsonType } from "../http/answer.js";

/** A key shown once must not stay in a cache, and no answer is a page to be guessed at or framed. */
const always: readonly (readonly [string, string])[] = [
  ["Cache-Control", "no-store"],
  ["X-Content-Type-Options", "nosniff"],
  ["Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"],
];

/** A JSON text as a response; null is one without a body. */
export function jsonResponse(status: number, body: string | null): HttpAnswer {
  return { status, headers: body === null ? [] : [jsonType], body: body ?? "" };
}

/** Adds the fields that every response has, unless it has its own. */
export function withCommonHeaders<A extends Omit<HttpAnswer, "body">>(answer: A): A {
  const own = new Set(answer.headers.map(([name]) => name));
  return { ...answer, headers: [...always.filter(([name]) => !own.has(name)), ...answer.headers] };
}
