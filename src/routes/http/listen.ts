/** Listens for HTTP requests with either driver. */
import { listenNode } from "./node.js";
import type { HttpDriver, HttpListener, HttpListenOptions } from "./seam.js";
import { listenUws } from "./uws.js";

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export function listenHttp(driver: HttpDriver, o: HttpListenOptions): Promise<HttpListener> {
  return driver === "uws" ? listenUws(o) : listenNode(o);
}
