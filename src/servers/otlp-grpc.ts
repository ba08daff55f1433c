/** OTLP/gRPC as part of the ingestion server: a front of its own on the main thread. Wiring only. */
import { UsageCounts } from "../auth/keys/usage-counts.js";
import { keepAliveSeconds } from "../routes/http/seam.js";
import type { BodyMemory } from "../routes/otlp/body-memory.js";
import { FrontCounters } from "../routes/otlp/counters.js";
import { OtlpFront, type OtlpFrontOptions } from "../routes/otlp/front.js";
import { grpcRoutes, listenOtlpGrpc, type OtlpGrpcListener } from "../routes/otlp/grpc/listener.js";
import { formatListenAddress, type ListenAddress } from "../runtime/config/kinds.js";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { IngestionFrontOptions } from "./ingestion-front.js";
import { openTls } from "./tls-files.js";

/** A listening server. Stopping it answers every open call first. */
export interface OtlpGrpc extends Component {
  readonly address: ListenAddress;
  readonly counters: FrontCounters;
}

/** What every front judges requests by. */
export function judging({
  authenticator,
  sink,
  config,
  logger,
}: IngestionFrontOptions): Pick<
  OtlpFrontOptions,
  "authenticator" | "sink" | "maxBodyBytes" | "bodyTimeoutMs" | "logger"
> {
  const { otlpMaxBodyBytes: maxBodyBytes, otlpBodyTimeoutSeconds } = config;
  return { authenticator, sink, maxBodyBytes, bodyTimeoutMs: otlpBodyTimeoutSeconds * 1000, logger };
}

/**
 * Starts to listen at `SVC_OTLP_GRPC_LISTEN`; null when that is off, or taken and that is tolerated.
 * @param place.shared whether another front accounts for the arena. @param place.httpPort where OTLP/HTTP is taken
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED when certificate or key are no good
 */
export async function startOtlpGrpc(
  o: IngestionFrontOptions,
  place: { readonly memory: BodyMemory; readonly shared: boolean; readonly httpPort: number },
): Promise<OtlpGrpc | null> {
  const { config, logger } = o;
  if (config.otlpGrpcListen === null) {
    return null;
  }
  const tls = await openTls("SVC_OTLP_GRPC_TLS", config.otlpGrpcTlsCertFile, config.otlpGrpcTlsKeyFile, logger);
  const counters = new FrontCounters(undefined, "grpc");
  const usage = new UsageCounts();
  const front = new OtlpFront({
    paths: grpcRoutes,
    memory: place.memory,
    ownsMemory: !place.shared,
    counters,
    usage,
    corsOrigins: [],
    ...judging(o),
  });
  let listener: OtlpGrpcListener;
  try {
    listener = await listenOtlpGrpc({
      ...config.otlpGrpcListen,
      tls: tls?.credentials ?? null,
      maxConnections: config.httpMaxConnections,
      idleMs: keepAliveSeconds * 1000,
      bodyTimeoutMs: config.otlpBodyTimeoutSeconds * 1000,
      front,
      httpHint: `OTLP/HTTP is taken on port ${place.httpPort}: POST /v1/logs, /v1/metrics or /v1/traces.`,
      logger,
    });
  } catch (error) {
    await Promise.all([front.drain(), tls?.stop()]);
    if (!o.toleratesTaken || !(error instanceof ServiceError) || error.code !== "UNAVAILABLE") {
      throw error;
    }
    const address = formatListenAddress(config.otlpGrpcListen);
    logger.warn({ err: error }, `${address} is taken: nothing sent there comes here; see SVC_OTLP_GRPC_LISTEN`);
    return null;
  }
  o.usage.addSource(() => usage.take());
  return {
    name: "otlp-grpc",
    address: listener.address,
    counters,
    async stop() {
      await tls?.stop();
      await listener.drain();
      await listener.stop();
    },
  };
}
