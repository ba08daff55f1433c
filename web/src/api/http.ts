/** Requests to the web server, and what its answers say. */
import { ApiError } from "./error.js";
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
  /** Media type of the answer; JSON unless given. */
  readonly accept?: string;
}

/** One request, without a word about its status. @throws ApiError OFFLINE. */
export async function send(path: string, o: CallOptions = {}): Promise<Response> {
  const { method = "GET", query, body, signal, accept = "application/json" } = o;
  const isBytes = body instanceof Blob || body instanceof ArrayBuffer || body instanceof Uint8Array;
  const askedMs = Date.now();
  try {
    const response = await fetch(apiUrl(path, query), {
      method,
      ...(body === undefined ? {} : { body: isBytes ? (body as BodyInit) : JSON.stringify(body) }),
      headers: { accept, ...(body === undefined || isBytes ? {} : { "content-type": "application/json" }) },
      signal: signal ?? null,
    });
    learnServerTime(response, askedMs);
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      throw error;
    }
    throw new ApiError({ status: 0, code: "OFFLINE", message: "The server cannot be reached.", requestId: null });
  }
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
