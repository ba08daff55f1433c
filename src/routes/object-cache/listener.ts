/** A listener with the routes of the object cache and the health routes. */
import type { HttpDriverChoice } from "../http/choose-driver.js";
import { type HealthProbes, healthRoutes } from "../http/health.js";
import { type FrontListener, withFront } from "../http/front-listener.js";
import { listenHttp } from "../http/listen.js";
import type { HttpPlace } from "../http/seam.js";
import type { ObjectCacheFront } from "./front.js";

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon
 */
export async function listenObjectCache({
  driver,
  front,
  probes,
  ...place
}: HttpPlace & {
  readonly driver: HttpDriverChoice;
  readonly front: ObjectCacheFront;
  readonly probes: HealthProbes;
}): Promise<FrontListener> {
  const listener = await listenHttp(driver, {
    ...place,
    routes: healthRoutes(probes, place.logger),
    fallback: front.handler,
    purpose: "the object cache",
    option: "SVC_OBJECT_CACHE_LISTEN",
  });
  return withFront("object-cache-listener", listener, front);
}
