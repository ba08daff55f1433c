/**
 * The front end of the ingestion server. OTLP/HTTP: on the main thread, or on several acceptor threads that
 * share the ports and each hold their share of the arena (`SVC_INGESTION_ACCEPTORS`). OTLP/gRPC: on the main thread,
 * in the same arena, or with a share of its own beside threads. Wiring only.
 */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

import type { Authenticator } from "../auth/authenticator.js";
import type { HourlyUsage } from "../auth/keys/hourly-usage.js";
import type { KeyAuthenticator } from "../auth/keys/key-authenticator.js";
import { UsageCounts } from "../auth/keys/usage-counts.js";
import type { IngestSink } from "../ingest/request.js";
import { Arena } from "../runtime/threads/arena.js";
import { formatListenAddress, type ListenAddress } from "../runtime/config/kinds.js";
import type { Config } from "../runtime/config/parse.js";
import { type Component, Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { chooseDriver } from "../routes/http/choose-driver.js";
import { addressTaken } from "../routes/http/guard.js";
import type { HealthProbes } from "../routes/http/health.js";
import type { HttpDriver } from "../routes/http/seam.js";
import { BodyMemory } from "../routes/otlp/body-memory.js";
import { exposeFrontCounters, FrontCounters } from "../routes/otlp/counters.js";
import { httpRoutes, OtlpFront } from "../routes/otlp/front.js";
import { listenOtlp, type OtlpAddress } from "../routes/otlp/listener.js";
import { type Acceptor, startAcceptor } from "../workers/acceptor-client.js";
import { judging, type OtlpGrpc, startOtlpGrpc } from "./otlp-grpc.js";

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
  /** Does without `SVC_OTLP_HTTP_LISTEN` or `SVC_OTLP_GRPC_LISTEN` when that is taken, with a warning. */
  readonly toleratesTaken: boolean;
  readonly sink: IngestSink;
  readonly probes: HealthProbes;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** A listening front end. Stopping it answers every open request first. */
export interface IngestionFront extends Component {
  /** `SVC_INGESTION_LISTEN` with its real port. */
  readonly address: ListenAddress;
  /** `SVC_OTLP_HTTP_LISTEN` likewise; null when it is off, or taken and that was tolerated. */
  readonly otlpHttpAddress: ListenAddress | null;
  /** `SVC_OTLP_GRPC_LISTEN` likewise. */
  readonly otlpGrpcAddress: ListenAddress | null;
  /** False while one of its threads is down. */
  readonly healthy: boolean;
}

/** The part that speaks HTTP. */
interface HttpFront extends Omit<IngestionFront, "otlpGrpcAddress"> {
  readonly counters: readonly FrontCounters[];
  /** For OTLP/gRPC: shared where a front is on this thread, else its own. */
  readonly memory: { readonly memory: BodyMemory; readonly shared: boolean };
}

/**
 * Starts the front end and waits until it listens.
 * @throws ServiceError UNAVAILABLE when an address cannot be bound.
 */
export async function startIngestionFront(o: IngestionFrontOptions): Promise<IngestionFront> {
  const { config, logger } = o;
  const addresses = await addressesOf(o);
  const driver = await driverFor(o, addresses);
  let grpc: OtlpGrpc | null = null;
  const http2Hint = (): string =>
    grpc === null
      ? "OTLP/gRPC is turned off on this server (SVC_OTLP_GRPC_LISTEN)"
      : `OTLP/gRPC is taken on ${formatListenAddress(grpc.address)}`;
  const onThreads = config.ingestionAcceptors > 1 && driver === "uws";
  if (config.ingestionAcceptors > 1 && !onThreads) {
    logger.warn({ driver }, "node:http cannot share a port among threads: SVC_INGESTION_ACCEPTORS has no effect");
  }
  const http = onThreads
    ? await startOnThreads(o, addresses)
    : await startOnMainThread(o, driver, addresses, http2Hint);
  try {
    grpc = await startOtlpGrpc(o, { ...http.memory, httpPort: (http.otlpHttpAddress ?? http.address).port });
  } catch (error) {
    await http.stop();
    throw error;
  }
  const counters = [...http.counters, ...(grpc === null ? [] : [grpc.counters])];
  const hideCounters = exposeFrontCounters(o.metrics, () => counters);
  return {
    name: "front",
    address: http.address,
    otlpHttpAddress: http.otlpHttpAddress,
    otlpGrpcAddress: grpc?.address ?? null,
    get healthy() {
      return http.healthy;
    },
    async stop() {
      await Promise.all([http.stop(), grpc?.stop()]);
      hideCounters();
    },
  };
}

async function addressesOf(o: IngestionFrontOptions): Promise<readonly OtlpAddress[]> {
  const { ingestionListen, otlpHttpListen } = o.config;
  const first: OtlpAddress = { ...ingestionListen, option: "SVC_INGESTION_LISTEN" };
  if (otlpHttpListen === null) {
    return [first];
  }
  const second: OtlpAddress = { ...otlpHttpListen, option: "SVC_OTLP_HTTP_LISTEN" };
  if (o.toleratesTaken) {
    try {
      await freePort(second);
    } catch (error) {
      const address = formatListenAddress(second);
      o.logger.warn({ err: error }, `${address} is taken: nothing sent there comes here; see SVC_OTLP_HTTP_LISTEN`);
      return [first];
    }
  }
  return [first, second];
}

/** One driver for all addresses, since they share an arena and its threads: `uws` where each may have it. */
async function driverFor(o: IngestionFrontOptions, addresses: readonly OtlpAddress[]): Promise<HttpDriver> {
  for (const { host } of addresses) {
    if ((await chooseDriver(o.config.httpDriver, host, o.logger)) === "node") {
      return "node";
    }
  }
  return "uws";
}

/** The addresses by their options. */
function named(addresses: readonly OtlpAddress[]): Pick<IngestionFront, "address" | "otlpHttpAddress"> {
  const find = (wanted: OtlpAddress["option"]): ListenAddress | null => {
    const found = addresses.find(({ option }) => option === wanted);
    return found === undefined ? null : { host: found.host, port: found.port };
  };
  const address = find("SVC_INGESTION_LISTEN");
  if (address === null) {
    throw new TypeError("the ingestion server listens nowhere");
  }
  return { address, otlpHttpAddress: find("SVC_OTLP_HTTP_LISTEN") };
}

async function startOnMainThread(
  o: IngestionFrontOptions,
  driver: HttpDriver,
  addresses: readonly OtlpAddress[],
  http2Hint: () => string,
): Promise<HttpFront> {
  const { config, logger, probes } = o;
  const counters = new FrontCounters();
  const usage = new UsageCounts();
  o.usage.addSource(() => usage.take());
  const memory = new BodyMemory(new Arena(config.ingestionArenaBytes));
  const front = new OtlpFront({
    paths: httpRoutes,
    memory,
    ownsMemory: true,
    counters,
    usage,
    corsOrigins: config.ingestionCorsOrigins ?? [],
    ...judging(o),
  });
  const listener = await listenOtlp({
    addresses,
    driver,
    shared: false,
    maxConnections: config.httpMaxConnections,
    front,
    probes,
    http2Hint,
    logger,
  });
  return {
    name: "http-front",
    ...named(listener.addresses),
    counters: [counters],
    memory: { memory, shared: true },
    healthy: true,
    stop: () => listener.drain().then(() => listener.stop()),
  };
}

async function startOnThreads(o: IngestionFrontOptions, wanted: readonly OtlpAddress[]): Promise<HttpFront> {
  const { config, logger, probes, keys } = o;
  const addresses: OtlpAddress[] = [];
  for (const address of wanted) {
    addresses.push({ ...address, port: await freePort(address) });
  }
  const count = config.ingestionAcceptors;
  const arenaBytes = Math.floor(config.ingestionArenaBytes / (config.otlpGrpcListen === null ? count : count + 1));
  const scope = new Scope("acceptors", logger);
  const counters: FrontCounters[] = [];
  const acceptors: Acceptor[] = [];
  for (let index = 0; index < count; index++) {
    const own = new FrontCounters();
    counters.push(own);
    acceptors.push(
      await scope.start(`acceptor ${index}`, () =>
        startAcceptor({
          addresses,
          corsOrigins: config.ingestionCorsOrigins ?? [],
          arenaBytes,
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
  return {
    name: "http-front",
    ...named(addresses),
    counters,
    // Untouched memory takes none.
    memory: { memory: new BodyMemory(new Arena(arenaBytes)), shared: false },
    get healthy() {
      return acceptors.every((acceptor) => acceptor.healthy);
    },
    async stop() {
      await Promise.all(acceptors.map((acceptor) => acceptor.drain()));
      await scope.stop();
    },
  };
}

/**
 * The port to share: the given one if nobody listens on it, or a free one. Sharing a port would
 * otherwise succeed beside another process that shares it too, and lose it half of its connections.
 */
async function freePort(address: OtlpAddress): Promise<number> {
  const { host, port } = address;
  const probe = createServer();
  try {
    probe.listen({ host, port, exclusive: true });
    await once(probe, "listening");
    return (probe.address() as AddressInfo).port;
  } catch (cause) {
    throw addressTaken(
      { ...address, purpose: "telemetry", dispensable: address.option === "SVC_OTLP_HTTP_LISTEN" },
      cause,
    );
  } finally {
    probe.close();
  }
}
