/** A listener with the routes of the object cache and the health routes. */
import type { Logger } from "../../runtime/log/log.js";
import { type HealthProbes, healthRoutes } from "../http/health.js";
import { type FrontListener, withFront } from "../http/front-listener.js";
import { listenHttp } from "../http/listen.js";
import type { HttpDriver } from "../http/seam.js";
import type { ObjectCacheFront } from "./front.js";

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon
 */
export async function listenObjectCache(o: {
  readonly driver: HttpDriver;
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly maxConnections: number;
  readonly front: ObjectCacheFront;
  readonly probes: HealthProbes;
  readonly logger: Logger;
}): Promise<FrontListener> {
  const { front, logger } = o;
  const listener = await listenHttp(o.driver, {
    host: o.host,
    port: o.port,
    maxConnections: o.maxConnections,
    routes: healthRoutes(o.probes, logger),
    fallback: front.handler,
    purpose: "the object cache",
    option: "SVC_OBJECT_CACHE_LISTEN",
    logger,
  });
  return withFront("object-cache-listener", listener, front);
}
