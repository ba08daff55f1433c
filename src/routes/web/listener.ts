/** A listener with the web routes and the health routes, on one thread. */
import type { HttpDriverChoice } from "../http/choose-driver.js";
import { type HealthProbes, healthRoutes } from "../http/health.js";
import { type FrontListener, withFront } from "../http/front-listener.js";
import { listenHttp } from "../http/listen.js";
import type { HttpHandler, HttpPlace } from "../http/seam.js";
import type { WebFront } from "./front.js";

/** Options of {@link listenWeb}. */
interface WebListenerOptions extends HttpPlace {
  readonly driver: HttpDriverChoice;
  readonly front: WebFront;
  readonly probes: HealthProbes;
  /** As in WebFrontOptions; the health routes are at the root, too, for probes that bypass the ingress. */
  readonly basePath: string;
}

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export async function listenWeb(o: WebListenerOptions): Promise<FrontListener> {
  const { driver, front, probes, basePath, ...place } = o;
  const { logger } = place;
  const routes = new Map([...healthRoutes(probes, logger), ...healthRoutes(probes, logger, basePath)]);
  const metrics = routes.get(`${basePath}/metrics`);
  if (metrics !== undefined) {
    routes.set(`${basePath}/metrics`, pageOr(front.handler, metrics));
  }
  const listener = await listenHttp(driver, {
    ...place,
    routes,
    fallback: front.handler,
    purpose: "the web server",
    option: "SVC_WEB_LISTEN",
  });
  return withFront("web-listener", listener, front);
}

/** One path is both a page of the application and what is scraped: a browser asks for HTML, a scraper does not. */
function pageOr(page: HttpHandler, other: HttpHandler): HttpHandler {
  return {
    handle(reply, request, head) {
      const isPage = request.getHeader("accept").includes("text/html");
      (isPage ? page : other).handle(reply, request, head);
    },
    malformed: (reply, request, head) => {
      other.malformed(reply, request, head);
    },
  };
}
