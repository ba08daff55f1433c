/** A uWebSockets.js application with the web routes and the health routes, listening on one thread. */
import type { us_listen_socket } from "uWebSockets.js";

import { ServiceError } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log.js";
import { type HealthProbes, registerHealthRoutes } from "../health.js";
import { loadUws } from "../uws.js";
import type { WebFront } from "./front.js";

/** Options of {@link listenWeb}. */
export interface WebListenerOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly front: WebFront;
  readonly probes: HealthProbes;
  /** As in WebFrontOptions; the health routes stand at the root, too, for who probes past an ingress. */
  readonly basePath: string;
  readonly logger: Logger;
}

/** Listens until it is stopped, which answers every open request first. */
export interface WebListener extends Component {
  readonly address: { readonly host: string; readonly port: number };
}

/** LIBUS_LISTEN_EXCLUSIVE_PORT, without which another process could take a share of the connections. */
const exclusivePort = 1;

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export async function listenWeb(o: WebListenerOptions): Promise<WebListener> {
  const uws = await loadUws();
  const app = uws.App();
  registerHealthRoutes(app, o.probes, o.logger);
  if (o.basePath !== "") registerHealthRoutes(app, o.probes, o.logger, o.basePath);
  o.front.register(app);
  const socket = await new Promise<us_listen_socket | false>((resolve) => {
    // The typings lack the overload with host and options, which the addon has.
    const listen = app.listen.bind(app) as unknown as (
      host: string,
      port: number,
      options: number,
      done: (socket: us_listen_socket | false) => void,
    ) => void;
    listen(o.host, o.port, exclusivePort, resolve);
  });
  if (!socket) {
    throw new ServiceError(
      "UNAVAILABLE",
      `cannot listen on ${o.host}:${o.port} for the web server: the address is taken or not of this machine; set SVC_WEB_LISTEN to another`,
    );
  }
  let stopping: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    uws.us_listen_socket_close(socket);
    await o.front.drain();
    app.close();
  };
  return {
    name: "web-listener",
    address: { host: o.host, port: uws.us_socket_local_port(socket) },
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}
