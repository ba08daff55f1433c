/** Listeners with the OTLP routes and the health routes, on one thread: all addresses serve the same. */
import type { ListenAddress } from "../../runtime/config/kinds.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { type HealthProbes, healthRoutes } from "../http/health.js";
import { listenHttp } from "../http/listen.js";
import type { HttpDriver, HttpListener } from "../http/seam.js";
import type { OtlpFront } from "./front.js";

/**
 * Where to listen. Port 0 picks a free one, which cannot be listened on again for a minute; so not where threads are
 * replaced.
 */
export interface OtlpAddress extends ListenAddress {
  /** That says so. */
  readonly option: "SVC_INGESTION_LISTEN" | "SVC_OTLP_HTTP_LISTEN";
}

/** Options of {@link listenOtlp}. */
interface OtlpListenerOptions {
  readonly driver: HttpDriver;
  readonly addresses: readonly OtlpAddress[];
  /** Whether other threads listen on the same ports; the kernel spreads connections over them then. */
  readonly shared: boolean;
  /** Of each address. */
  readonly maxConnections: number;
  readonly front: OtlpFront;
  readonly probes: HealthProbes;
  /** Where OTLP/gRPC is taken, for those who speak it here; a clause. */
  readonly http2Hint: () => string;
  readonly logger: Logger;
}

/** Listens until it is stopped. */
export interface OtlpListener extends Component {
  /** Where it listens, in the order of the options. */
  readonly addresses: readonly OtlpAddress[];
  /** Takes no more connections and resolves when every open request is answered. */
  drain(): Promise<void>;
  /** Closes every connection; {@link drain} comes first unless answers do not matter. */
  stop(): Promise<void>;
}

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when an address cannot be bound; NOT_CONFIGURED without a binary of the addon.
 */
export async function listenOtlp(o: OtlpListenerOptions): Promise<OtlpListener> {
  const { front } = o;
  const routes = new Map([...healthRoutes(o.probes, o.logger), ...front.routes]);
  const listeners: HttpListener[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(listeners.map((listener) => listener.stop()));
  };
  for (const { host, port, option } of o.addresses) {
    try {
      listeners.push(
        await listenHttp(o.driver, {
          host,
          port,
          shared: o.shared,
          maxConnections: o.maxConnections,
          answersHalfClosed: true,
          routes,
          fallback: front.fallback,
          purpose: "telemetry",
          option,
          dispensable: option === "SVC_OTLP_HTTP_LISTEN",
          onHttp2: (from) => {
            const sentence = `this port takes OTLP/HTTP (HTTP/1.1); ${o.http2Hint()}`;
            front.refusedOutside(505, sentence, "", from);
            return sentence;
          },
          logger: o.logger,
        }),
      );
    } catch (error) {
      await stop();
      throw error;
    }
  }
  return {
    name: "otlp-listener",
    addresses: o.addresses.map((address, i) => ({ ...address, port: listeners[i]?.address.port ?? 0 })),
    async drain() {
      for (const listener of listeners) {
        listener.stopListening();
      }
      await front.drain();
    },
    stop,
  };
}
