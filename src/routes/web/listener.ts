/** A listener with the web routes and the health routes, on one thread. */
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { type HealthProbes, healthRoutes } from "../http/health.js";
import { listenHttp } from "../http/listen.js";
import type { HttpDriver } from "../http/seam.js";
import type { WebFront } from "./front.js";

/** Options of {@link listenWeb}. */
export interface WebListenerOptions {
  readonly driver: HttpDriver;
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly maxConnections: number;
  readonly front: WebFront;
  readonly probes: HealthProbes;
  /** As in WebFrontOptions; the health routes are at the root, too, for probes that bypass the ingress. */
  readonly basePath: string;
  readonly logger: Logger;
}

/** Listens until it is stopped, which answers every open request first. */
export interface WebListener extends Component {
  readonly address: { readonly host: string; readonly port: number };
}

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export async function listenWeb(o: WebListenerOptions): Promise<WebListener> {
  const { front, probes, basePath, logger } = o;
  const listener = await listenHttp(o.driver, {
    host: o.host,
    port: o.port,
    maxConnections: o.maxConnections,
    routes: new Map([...healthRoutes(probes, logger), ...healthRoutes(probes, logger, basePath)]),
    fallback: front.handler,
    purpose: "the web server",
    option: "SVC_WEB_LISTEN",
    logger,
  });
  let stopping: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    listener.stopListening();
    await front.drain();
    await listener.stop();
  };
  return {
    name: "web-listener",
    address: listener.address,
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}
