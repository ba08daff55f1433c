/** Requests to the web server, and what its answers say. */
import { followSignals } from "telemetry-service-client/shared/abort";

import { ApiError, lateCode } from "./error.js";
import { learnServerTime } from "./server-clock.js";

/** The base path as browsers see it, with a slash at its end. */
export const baseUrl = new URL(".", document.baseURI);

/** @param path below the base path, without a slash at its beginning: `api/groups`. */
export function apiUrl(path: string, query: Readonly<Record<string, string | number | boolean | null>> = {}): string {
  const url = new URL(path, baseUrl);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null) {
      url.searchParams.set(name, String(value));
    }
  }
  return url.href;
}

export interface CallOptions {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | boolean | null>>;
  /** Sent as JSON, unless it is bytes. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** It can be asked again when no answer comes: it is given up after a while. By default of a GET only. */
  readonly mayGiveUp?: boolean;
  /** Media type of the answer; JSON unless given. */
  readonly accept?: string;
}

/**
 * The service answers what only reads within 15 s, if with an error. The answer to a renewal of the session can be asked
 * for again, for longer than this.
 */
const lateAfterMs = 20_000;

/** One request, without a word about its status. @throws ApiError OFFLINE; LATE for one that may be given up. */
export async function send(path: string, o: CallOptions = {}): Promise<Response> {
  const { method = "GET", query, body, signal, accept = "application/json", mayGiveUp = method === "GET" } = o;
  const isBytes = body instanceof Blob || body instanceof ArrayBuffer || body instanceof Uint8Array;
  const askedMs = Date.now();
  const { controller, release } = followSignals(mayGiveUp && signal !== undefined ? [signal] : []);
  const timer = mayGiveUp ? setTimeout(() => controller.abort(lateError()), lateAfterMs) : undefined;
  try {
    const response = await fetch(apiUrl(path, query), {
      method,
      ...(body === undefined ? {} : { body: isBytes ? (body as BodyInit) : JSON.stringify(body) }),
      headers: { accept, ...(body === undefined || isBytes ? {} : { "content-type": "application/json" }) },
      signal: mayGiveUp ? controller.signal : (signal ?? null), // of the body, too
    });
    learnServerTime(response, askedMs);
    return response;
  } catch (error) {
    release();
    if (error instanceof ApiError || (error instanceof DOMException && error.name === "AbortError")) {
      throw error;
    }
    throw new ApiError({ status: 0, code: "OFFLINE", message: "The server cannot be reached.", requestId: null });
  } finally {
    clearTimeout(timer);
  }
}

function lateError(): ApiError {
  const message = `The server has not answered for ${lateAfterMs / 1000} seconds.`;
  return new ApiError({ status: 0, code: lateCode, message, requestId: null });
}

/** The error that an answer tells. */
export async function errorOf(response: Response): Promise<ApiError> {
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  const base = {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    retryAfterSeconds: Number.isFinite(retryAfter) ? retryAfter : null,
  };
  try {
    const said = (await response.json()) as { code?: unknown; message?: unknown; request_id?: unknown };
    const message = typeof said.message === "string" ? said.message : `The server answered ${response.status}.`;
    return new ApiError({
      ...base,
      code: typeof said.code === "string" ? said.code : "UNKNOWN",
      message,
      requestId:
        base.requestId ??
        (typeof said.request_id === "string" ? said.request_id : (/request id (\S+)$/.exec(message)?.[1] ?? null)),
    });
  } catch {
    return new ApiError({ ...base, code: "UNKNOWN", message: `The server answered ${response.status}.` });
  }
}
