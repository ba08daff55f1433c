/** A listener with the OTLP routes and the health routes, on one thread. */
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { type HealthProbes, healthRoutes } from "../http/health.js";
import { listenHttp } from "../http/listen.js";
import type { HttpDriver } from "../http/seam.js";
import type { OtlpFront } from "./front.js";

/** Options of {@link listenOtlp}. */
export interface OtlpListenerOptions {
  readonly driver: HttpDriver;
  readonly host: string;
  /** 0 picks a free port, which cannot be listened on again for a minute; so not where threads are replaced. */
  readonly port: number;
  /** Whether other threads listen on the same port; the kernel spreads connections over them then. */
  readonly shared: boolean;
  readonly maxConnections: number;
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

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export async function listenOtlp(o: OtlpListenerOptions): Promise<OtlpListener> {
  const { front } = o;
  const listener = await listenHttp(o.driver, {
    host: o.host,
    port: o.port,
    shared: o.shared,
    maxConnections: o.maxConnections,
    answersHalfClosed: true,
    routes: new Map([...healthRoutes(o.probes, o.logger), ...front.routes]),
    fallback: front.fallback,
    purpose: "telemetry",
    option: "SVC_INGESTION_LISTEN",
    logger: o.logger,
  });
  return {
    name: "otlp-listener",
    address: listener.address,
    async drain() {
      listener.stopListening();
      await front.drain();
    },
    stop: () => listener.stop(),
  };
}
