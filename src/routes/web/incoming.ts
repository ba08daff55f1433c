/** What is kept of a request's head, and the limits of its body. */
import { requestOrigin, type RequestOrigin } from "../../auth/audit.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Operation } from "../../wire/web/operation.js";
import { bodyTooLarge } from "../http/body-exchange.js";
import type { RequestHead } from "../http/request-head.js";
import { type HttpReply, type HttpRequest, remoteAddress } from "../http/seam.js";
import { isJson } from "./browser-safety.js";

/** Largest body of JSON. */
const maxBodyBytes = 1024 * 1024;

/** A request without its body. */
export interface IncomingRequest {
  readonly method: string;
  /** Below the base path; null above it, the empty string for the base path without its slash. */
  readonly path: string | null;
  readonly query: string;
  readonly host: string;
  readonly cookie: string;
  readonly origin: string;
  readonly contentType: string;
  readonly acceptEncoding: string;
  readonly fetchSite: string;
  readonly accept: string;
  readonly ifNoneMatch: string;
  readonly peer: RequestOrigin;
  readonly contentLength: number;
  readonly plainEncoding: boolean;
}

/** Reads a request, from within its handler. @param basePath see WebFrontOptions */
export function readRequest(
  reply: HttpReply,
  request: HttpRequest,
  head: RequestHead,
  basePath: string,
): IncomingRequest {
  const url = request.getUrl();
  return {
    method: request.getCaseSensitiveMethod(),
    path: url === basePath || url.startsWith(`${basePath}/`) ? url.slice(basePath.length) : null,
    query: request.getQuery() ?? "",
    host: request.getHeader("host"),
    cookie: request.getHeader("cookie"),
    origin: request.getHeader("origin"),
    contentType: head.contentType,
    acceptEncoding: request.getHeader("accept-encoding"),
    fetchSite: request.getHeader("sec-fetch-site"),
    accept: request.getHeader("accept"),
    ifNoneMatch: request.getHeader("if-none-match"),
    peer: requestOrigin(remoteAddress(reply), forwardedFor(request)),
    contentLength: head.contentLength,
    plainEncoding: ["", "identity"].includes(head.contentEncoding.toLowerCase()),
  };
}

function forwardedFor(request: HttpRequest): readonly string[] {
  const fields: string[] = [];
  request.forEach((name, value) => {
    if (name === "x-forwarded-for") {
      fields.push(value);
    }
  });
  return fields;
}

/** Largest body of a request; 0 for none. */
export function maxBodyBytesOf({ body, upload }: Operation): number {
  return upload?.maxBytes ?? (body === null ? 0 : maxBodyBytes);
}

/** @throws ServiceError for a body of another type or encoding, or one that announces too much. */
export function judgeBody(incoming: IncomingRequest, operation: Operation): void {
  const maxBytes = maxBodyBytesOf(operation);
  if (maxBytes === 0) {
    return;
  }
  const { upload } = operation;
  const type = incoming.contentType.split(";", 1)[0]?.trim().toLowerCase();
  if (upload === null ? !isJson(incoming.contentType) : type !== upload.type) {
    throw new ServiceError("UNSUPPORTED_MEDIA_TYPE", `Content-Type takes ${upload?.type ?? "application/json"}`);
  }
  if (!incoming.plainEncoding) {
    throw new ServiceError("UNSUPPORTED_MEDIA_TYPE", "Content-Encoding takes identity");
  }
  if (incoming.contentLength > maxBytes) {
    throw bodyTooLarge(maxBytes);
  }
}
