/** A uWebSockets.js application with the OTLP routes and the health routes, listening on one thread. */

import type { us_listen_socket } from "uWebSockets.js";

import { ServiceError } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log.js";
import { type HealthProbes, registerHealthRoutes } from "../health.js";
import { loadUws } from "../uws.js";
import type { OtlpFront } from "./front.js";

/** Options of {@link listenOtlp}. */
export interface OtlpListenerOptions {
  readonly host: string;
  /** 0 picks a free port, which cannot be listened on again for a minute; so not where threads are replaced. */
  readonly port: number;
  /** Whether other threads listen on the same port; the kernel spreads connections over them then. */
  readonly shared: boolean;
  readonly front: OtlpFront;
  readonly probes: HealthProbes;
  readonly logger: Logger;
}

/** Listens until it is stopped. */
export interface OtlpListener extends Component {
  readonly address: { readonly host: string; readonly port: number };
  /** Takes no more connections and resolves when every open request is answered. */
  drain(): Promise<void>;
  /** Closes every connection; {@link drain} comes first unless answers do not matter. */
  stop(): Promise<void>;
}

/** LIBUS_LISTEN_EXCLUSIVE_PORT, without which another process could take a share of the connections. */
const exclusivePort = 1;

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export async function listenOtlp(o: OtlpListenerOptions): Promise<OtlpListener> {
  const uws = await loadUws();
  const app = uws.App();
  registerHealthRoutes(app, o.probes, o.logger);
  o.front.register(app);
  const socket = await new Promise<us_listen_socket | false>((resolve) => {
    // The typings lack the overload with host and options, which the addon has.
    const listen = app.listen.bind(app) as unknown as (
      host: string,
      port: number,
      options: number,
      done: (socket: us_listen_socket | false) => void,
    ) => void;
    listen(o.host, o.port, o.shared ? 0 : exclusivePort, resolve);
  });
  if (!socket) {
    throw new ServiceError(
      "UNAVAILABLE",
      `cannot listen on ${o.host}:${o.port} for telemetry: the address is taken or not of this machine; set SVC_INGESTION_LISTEN to another`,
    );
  }
  const address = { host: o.host, port: uws.us_socket_local_port(socket) };
  let listening = true;
  let open = true;
  const stopListening = (): void => {
    if (!listening) return;
    listening = false;
    uws.us_listen_socket_close(socket);
  };
  return {
    name: "otlp-listener",
    address,
    async drain() {
      stopListening();
      await o.front.drain();
    },
    stop() {
      stopListening();
      if (open) {
        open = false;
        app.close();
      }
      return Promise.resolve();
    },
  };
}
