/** Writes whole responses: status lines, fields, what HEAD and 204 leave out, and how a connection ends. */
import { STATUS_CODES } from "node:http";

import type { ServiceError } from "../../runtime/errors.js";
import type { RequestHead } from "./request-head.js";
import type { HttpReply, HttpRequest } from "./seam.js";

/** A response ready to be written. */
export interface HttpAnswer {
  readonly status: number;
  /** Without `Content-Length`, `Connection` and `Date`. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | Uint8Array;
  /** What the body would measure, for a HEAD that has none at hand. */
  readonly bodyBytes?: number;
  /** Closes the connection after it. */
  readonly close?: boolean;
}

/** Node.js has the name that 413 had before RFC 9110. */
const reasons: Readonly<Record<number, string | undefined>> = { ...STATUS_CODES, 413: "Content Too Large" };

/** A status code with its reason phrase (RFC 9110 section 15). */
export function statusLine(status: number): string {
  return `${status} ${reasons[status] ?? "Error"}`;
}

/**
 * A connection whose request announced at most this many bytes is kept after an early answer, and the bytes dropped.
 */
const maxDroppedBytes = 64 * 1024 * 1024;

/** The type of JSON as a field. */
export const jsonType = ["Content-Type", "application/json"] as const;

/** What an answer says of an error. @param requestId shown with INTERNAL only */
export function messageOf({ code, publicMessage }: ServiceError, requestId: string): string {
  return code === "INTERNAL" ? `${publicMessage}; request id ${requestId}` : publicMessage;
}

/**
 * `{"code", "message"}`.
 * @param requestId shown with INTERNAL only
 * @param more fields of it
 */
export function errorAnswer(error: ServiceError, requestId: string, more: HttpAnswer["headers"] = []): HttpAnswer {
  const { code, httpStatus: status, retryAfterSeconds } = error;
  const message = messageOf(error, requestId);
  const headers = [jsonType, ...more];
  return {
    status,
    headers: retryAfterSeconds === undefined ? headers : [...headers, ["Retry-After", String(retryAfterSeconds)]],
    body: JSON.stringify({ code, message }),
  };
}

/** Whether the rest of a body that nobody wants is better cut off than read. */
export function closesEarly(head: Pick<RequestHead, "chunked" | "contentLength">): boolean {
  return head.chunked || head.contentLength > maxDroppedBytes;
}

/** Ends a response. @param head the request was HEAD, whose response says what the body would measure. */
export function writeAnswer(reply: HttpReply, answer: HttpAnswer, head = false): void {
  const { status, body } = answer;
  const close = answer.close ?? false;
  const bodiless = status === 204 || status === 304;
  reply.cork(() => {
    writeHead(reply, answer);
    if (!bodiless && !head) {
      endWith(reply, body, close);
      return;
    }
    // uWebSockets.js never finishes a response whose length it is told and whose body is missing.
    if (head && !bodiless) {
      reply.writeHeader("Content-Length", String(answer.bodyBytes ?? byteLength(body)));
    }
    if (close) {
      reply.writeHeader("Connection", "close");
    }
    reply.endWithoutBody();
  });
}

/**
 * Ends a response with its body, of which nothing is copied for a client that does not take it. uWebSockets.js parses all
 * requests of a packet, thousands, and keeps what `end` is given of each; while a response waits for its client it cuts a
 * connection that sends the next request.
 */
function endWith(reply: HttpReply, body: string | Uint8Array, close: boolean): void {
  if (close || body.length === 0) {
    reply.end(body, close);
    return;
  }
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  const [, ended] = reply.tryEnd(bytes, bytes.length);
  if (!ended) {
    reply.onWritable(() => reply.tryEnd(bytes.subarray(reply.getWriteOffset()), bytes.length)[0]);
  }
}

/** Writes the `last` answer of a connection when the parser is done: it would take what follows for a next request. */
export function whenParsed(last: boolean, write: () => void): void {
  if (last) {
    setImmediate(write);
  } else {
    write();
  }
}

/** Ends a response from within the handler; the body is not read. */
export function answerNow(reply: HttpReply, request: HttpRequest, head: RequestHead, answer: HttpAnswer): void {
  if (head.lastOfConnection) {
    writeLastAnswer(reply, answer);
  } else {
    const close = closesEarly(head) || answer.close === true;
    // It may take longer than the handler's call, and nobody else has to know when the client leaves.
    reply.onAborted(() => undefined);
    writeAnswer(reply, { ...answer, close }, request.getCaseSensitiveMethod() === "HEAD");
  }
}

/** More than uWebSockets.js gathers before it writes (16 KiB). */
const paddingBytes = 17 * 1024;

/**
 * Ends a response and its connection before anything more of it is parsed; from within the handler only.
 *
 * Bytes behind a body in the same packet may be a smuggled request, and uWebSockets.js parses on for as long as it
 * holds a response back to write it in one piece. A body too large for that is written at once, and the connection
 * closed with it: hence the padding, as white space, or in protobuf as a field that no reader knows.
 */
export function writeLastAnswer(reply: HttpReply, answer: HttpAnswer): void {
  writeHead(reply, answer);
  const type = answer.headers.find(([name]) => name.toLowerCase() === "content-type")?.[1] ?? "";
  const padding = type === "application/x-protobuf" ? unknownField() : Buffer.alloc(paddingBytes, "\n");
  reply.end(Buffer.concat([Buffer.from(answer.body), padding]), true);
}

/** Field 15, length-delimited, the length in three bytes. */
function unknownField(): Buffer {
  const tag = [0x7a, (paddingBytes & 0x7f) | 0x80, (paddingBytes >> 7) | 0x80, paddingBytes >> 14];
  return Buffer.concat([Buffer.from(tag), Buffer.alloc(paddingBytes)]);
}

function writeHead(reply: HttpReply, { status, headers }: HttpAnswer): void {
  reply.writeStatus(statusLine(status));
  for (const [name, value] of headers) {
    reply.writeHeader(name, value);
  }
}

function byteLength(body: string | Uint8Array): number {
  return typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
}
