/**
 * The front end of the ingestion server: on the main thread, or on several acceptor threads that
 * share the port and each hold their share of the arena (`SVC_INGESTION_ACCEPTORS`). Wiring only.
 */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

import type { Authenticator } from "../auth/authenticator.js";
import type { HourlyUsage } from "../auth/keys/hourly-usage.js";
import type { KeyAuthenticator } from "../auth/keys/key-authenticator.js";
import { UsageCounts } from "../auth/keys/usage-counts.js";
import type { IngestSink } from "../ingest/request.js";
import { Arena } from "../runtime/threads/arena.js";
import type { Config } from "../runtime/config/parse.js";
import { ServiceError } from "../runtime/errors.js";
import { type Component, Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { chooseDriver } from "../routes/http/choose-driver.js";
import type { HealthProbes } from "../routes/http/health.js";
import type { HttpDriver } from "../routes/http/seam.js";
import { exposeFrontCounters, FrontCounters } from "../routes/otlp/counters.js";
import { OtlpFront } from "../routes/otlp/front.js";
import { listenOtlp } from "../routes/otlp/listener.js";
import { type Acceptor, startAcceptor } from "../workers/acceptor-client.js";

/** What a front end needs. */
export interface IngestionFrontOptions {
  readonly config: Config<"ingestion">;
  readonly authenticator: Authenticator;
  /** The key store, which acceptor threads read from shared memory; null without authentication. */
  readonly keys: KeyAuthenticator | null;
  /** Whether OIDC tokens are accepted; acceptor threads ask this thread about them. */
  readonly oidc: boolean;
  /** Where the use of keys is added up; outlives the front end. */
  readonly usage: HourlyUsage;
  readonly sink: IngestSink;
  readonly probes: HealthProbes;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** A listening front end. Stopping it answers every open request first. */
export interface IngestionFront extends Component {
  readonly address: { readonly host: string; readonly port: number };
  /** False while one of its threads is down. */
  readonly healthy: boolean;
}

/**
 * Starts the front end and waits until it listens.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound.
 */
export async function startIngestionFront(o: IngestionFrontOptions): Promise<IngestionFront> {
  const { config, logger } = o;
  const driver = await chooseDriver(config.httpDriver, config.ingestionListen.host, logger);
  if (config.ingestionAcceptors === 1) {
    return startOnMainThread(o, driver);
  }
  if (driver === "uws") {
    return startOnThreads(o);
  }
  logger.warn({ driver }, "node:http cannot share a port among threads: SVC_INGESTION_ACCEPTORS has no effect");
  return startOnMainThread(o, driver);
}

async function startOnMainThread(o: IngestionFrontOptions, driver: HttpDriver): Promise<IngestionFront> {
  const { config, logger, probes } = o;
  const counters = new FrontCounters();
  const usage = new UsageCounts();
  o.usage.addSource(() => usage.take());
  const front = new OtlpFront({
    arena: new Arena(config.ingestionArenaBytes),
    authenticator: o.authenticator,
    sink: o.sink,
    counters,
    usage,
    maxBodyBytes: config.otlpMaxBodyBytes,
    bodyTimeoutMs: config.otlpBodyTimeoutSeconds * 1000,
    logger,
  });
  const listener = await listenOtlp({
    ...config.ingestionListen,
    driver,
    shared: false,
    maxConnections: config.httpMaxConnections,
    front,
    probes,
    logger,
  });
  const hideCounters = exposeFrontCounters(o.metrics, () => [counters]);
  return {
    name: "front",
    address: listener.address,
    healthy: true,
    async stop() {
      await listener.drain();
      await listener.stop();
      hideCounters();
    },
  };
}

async function startOnThreads(o: IngestionFrontOptions): Promise<IngestionFront> {
  const { config, logger, probes, keys } = o;
  const { host } = config.ingestionListen;
  const port = await freePort(host, config.ingestionListen.port);
  const count = config.ingestionAcceptors;
  const scope = new Scope("acceptors", logger);
  const counters: FrontCounters[] = [];
  const acceptors: Acceptor[] = [];
  for (let index = 0; index < count; index++) {
    const own = new FrontCounters();
    counters.push(own);
    acceptors.push(
      await scope.start(`acceptor ${index}`, () =>
        startAcceptor({
          host,
          port,
          arenaBytes: Math.floor(config.ingestionArenaBytes / count),
          maxBodyBytes: config.otlpMaxBodyBytes,
          bodyTimeoutMs: config.otlpBodyTimeoutSeconds * 1000,
          maxConnections: Math.ceil(config.httpMaxConnections / count),
          counters: own.buffer,
          logLevel: config.logLevel,
          sink: o.sink,
          authenticator: o.authenticator,
          shareAuth: () =>
            keys === null ? { kind: "anonymous" } : { kind: "keys", handle: keys.share(), oidc: o.oidc },
          probes,
          onUsage: (usages) => {
            o.usage.add(usages);
          },
          logger,
        }),
      ),
    );
  }
  const hideCounters = exposeFrontCounters(o.metrics, () => counters);
  return {
    name: "front",
    address: { host, port },
    get healthy() {
      return acceptors.every((acceptor) => acceptor.healthy);
    },
    async stop() {
      await Promise.all(acceptors.map((acceptor) => acceptor.drain()));
      await scope.stop();
      hideCounters();
    },
  };
}

/**
 * The port to share: the given one if nobody listens on it, or a free one. Sharing a port would
 * otherwise succeed beside another process that shares it too, and lose it half of its connections.
 */
async function freePort(host: string, port: number): Promise<number> {
  const probe = createServer();
  try {
    probe.listen({ host, port, exclusive: true });
    await once(probe, "listening");
    return (probe.address() as AddressInfo).port;
  } catch (cause) {
    throw new ServiceError("UNAVAILABLE", `cannot listen on ${host}:${port} for telemetry; is the port in use?`, {
      cause,
    });
  } finally {
    probe.close();
  }
}
