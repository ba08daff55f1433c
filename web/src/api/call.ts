/** Calls of the web server's API. A session that has ended is renewed in place, and the call goes on. */
import { ApiError, inDoubtCode } from "./error.js";
import { type CallOptions, errorOf, send } from "./http.js";
import { checkRights, renewSession } from "./session.js";

/**
 * The answer to a request that succeeded.
 * @throws ApiError for anything but success; DOMException AbortError when the signal fires.
 */
export async function answer(path: string, o: CallOptions = {}): Promise<Response> {
  let response = await sendOnce(path, o);
  if (response.status === 401) {
    await renewSession(o.signal);
    response = await sendOnce(path, o);
  }
  if (response.status === 403) {
    checkRights().catch(() => undefined); // the refusal says enough
  }
  if (!response.ok) {
    throw inDoubt(await errorOf(response), o);
  }
  return response;
}

/** The JSON of the answer; undefined where it has no body. @throws as {@link answer} */
export async function call<T>(path: string, o: CallOptions = {}): Promise<T> {
  const response = await answer(path, o);
  const { status } = response;
  const requestId = response.headers.get("x-request-id");
  let body: string;
  try {
    body = await response.text();
  } catch (error) {
    const broken = new ApiError({ status: 0, code: "OFFLINE", message: "The answer broke off.", requestId });
    throw error instanceof DOMException && error.name === "AbortError" ? error : inDoubt(broken, o);
  }
  try {
    return (body === "" ? undefined : JSON.parse(body)) as T;
  } catch {
    const message = "Something else than the service answered.";
    throw inDoubt(new ApiError({ status, code: "UNKNOWN", message, requestId }), o);
  }
}

async function sendOnce(path: string, o: CallOptions): Promise<Response> {
  try {
    return await send(path, o);
  } catch (error) {
    throw inDoubt(error, o);
  }
}

/** The error to tell: when no answer of the service came to a request for a change, it may have been made. */
function inDoubt(error: unknown, { method = "GET" }: CallOptions): unknown {
  if (method === "GET" || !(error instanceof ApiError)) {
    return error;
  }
  const { code, status, message, requestId } = error;
  const isLost = code === "OFFLINE" || (code === "UNKNOWN" && (status < 300 || status >= 500));
  return isLost ? new ApiError({ status, code: inDoubtCode, message, requestId }) : error;
}
