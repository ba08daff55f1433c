/** Calls of the web server's API. A session that has ended is renewed in place, and the call goes on. */
import { type CallOptions, errorOf, send } from "./http.js";
import { checkRights, renewSession } from "./session.js";

/**
 * The answer to a request that succeeded.
 * @throws ApiError for anything but success; DOMException AbortError when the signal fires.
 */
export async function answer(path: string, o: CallOptions = {}): Promise<Response> {
  let response = await send(path, o);
  if (response.status === 401) {
    await renewSession(o.signal);
    response = await send(path, o);
  }
  if (response.status === 403) {
    checkRights().catch(() => undefined); // the refusal says enough
  }
  if (!response.ok) {
    throw await errorOf(response);
  }
  return response;
}

/** The JSON of the answer; undefined where it has no body. @throws as {@link answer} */
export async function call<T>(path: string, o: CallOptions = {}): Promise<T> {
  const body = await (await answer(path, o)).text();
  return (body === "" ? undefined : JSON.parse(body)) as T;
}
