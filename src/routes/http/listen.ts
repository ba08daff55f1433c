/** Listens for HTTP requests with either driver. */
import { chooseDriver, type HttpDriverChoice } from "./choose-driver.js";
import { listenNode } from "./node.js";
import type { HttpListener, HttpListenOptions } from "./seam.js";
import { listenUws } from "./uws.js";

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export async function listenHttp(choice: HttpDriverChoice, o: HttpListenOptions): Promise<HttpListener> {
  const driver = await chooseDriver(choice, o.host, o.logger);
  return await (driver === "uws" ? listenUws(o) : listenNode(o));
}
