/**
 * Wires the analytics server: authentication, query engines, Flight SQL over gRPC, health sidecar. It
 * never migrates the database.
 */
import { createHash, randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { availableParallelism, tmpdir, totalmem } from "node:os";
import path from "node:path";

import { createReadPolicy, openReadPolicy, type ReadPolicy } from "../auth/grants/read-policy.js";
import { assertSchemaVersion } from "../db/migrations.js";
import { assertSessions } from "../db/sessions.js";
import { connect, type Sql } from "../db/sql.js";
import { EngineSupervisor, processBytes } from "../engine/supervisor.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import { openReadableStore } from "../lake/store/open-store.js";
import { DenialRules } from "../query/admin/denials.js";
import { EngineBackend } from "../query/backend/engine-backend.js";
import { type EngineSizing, sizeEngines } from "../query/backend/engine-sizing.js";
import { FairQueue } from "../runtime/turns/fair-queue.js";
import { LethalStatements } from "../query/lethal-statements.js";
import { createQueryLog } from "../query/query-log.js";
import { QueryService, type QueryServiceOptions } from "../query/query-service.js";
import { createScrubber } from "../query/backend/scrub.js";
import { makeTempDirectory } from "../engine/temp-directory.js";
import { createFlightService, type FlightService } from "../routes/flight/service.js";
import { type FlightServer, startFlightServer } from "../routes/flight/server.js";
import { exposed, type HealthProbes, startHealthServer } from "../routes/http/health.js";
import type { HttpListener } from "../routes/http/seam.js";
import { systemClock } from "../runtime/clock.js";
import type { Config } from "../runtime/config/parse.js";
import { type Component, gracePeriod, Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import type { SpanSink } from "../runtime/spans.js";
import { createGateThread } from "../workers/gate-client.js";
import { MergePool } from "../workers/merge-client.js";
import { startAuthentication } from "./authentication.js";
import { startLakeFiles } from "./lake-files.js";
import { openTls } from "./tls-files.js";
import { openPool, readyWith } from "./stores.js";

/** What the analytics server needs beside its configuration. */
export interface AnalyticsServerOptions {
  readonly config: Config<"analytics">;
  /** Of the telemetry database, whose schema must be there. */
  readonly connectionString: string;
  readonly objectStoreUri: string;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Told about every query. */
  readonly span?: SpanSink;
  /** How long queries may go on when it stops, where others have a part in that time. Default: the grace period. */
  readonly drainMs?: () => number;
  /**
   * A reader that has taken nothing for so long gives its place up to those who wait, in milliseconds. Default 30,000.
   */
  readonly stalledMs?: number;
}

/** A running analytics server. */
export interface AnalyticsServer extends Component {
  /** gRPC. */
  readonly address: { readonly host: string; readonly port: number };
  /** HTTP: /health, /ready, /metrics. */
  readonly healthAddress: { readonly host: string; readonly port: number };
  readonly probes: HealthProbes;
}

const ticketLifeMs = 10 * 60_000;
/** Queries that may wait for a place, per place. */
const queuePerPlace = 64;

/**
 * Starts the analytics server and waits until it listens.
 * @throws ServiceError when the database, the object store or an address cannot be used, and
 *   NOT_CONFIGURED when no way to authenticate callers is configured.
 */
export async function startAnalyticsServer(o: AnalyticsServerOptions): Promise<AnalyticsServer> {
  const { config, logger, metrics } = o;
  const scope = new Scope("analytics", logger);
  return scope.orStop(async () => {
    const database = { connectionString: o.connectionString, applicationName: "telemetry-analytics", logger };
    await assertSessions(database);
    const sql = openPool(scope, "database pool", { ...database, maxConnections: config.sqlMaxConnections });
    await assertSchemaVersion(sql);
    // The caller closes it.
    const reopen = (): Sql => connect({ ...database, maxConnections: 1 });
    const { authenticator, keys } = await startAuthentication(scope, {
      config,
      table: "analytics_api_keys",
      sql,
      reopen,
      logger,
      metrics,
    });
    const policy = await scope.start("read policy", () => readPolicy(o, sql, reopen));
    const store = await openReadableStore(o.objectStoreUri);
    const { queries, health } = await startQueries(scope, { sql, reopen, policy, store }, o);
    const service = createFlightService({
      authenticator,
      queries,
      ticketSecret: ticketSecretOf(config),
      ticketsShared: config.analyticsTicketSecret !== null,
      ticketLifeMs,
      timeoutMs: config.queryTimeoutSeconds * 1000,
      clock: systemClock,
      logger,
      metrics,
      ...(o.span === undefined ? {} : { span: o.span }),
    });
    const dependencies = readyWith(sql, () => store.probeReads());
    let stopping = false;
    const probes: HealthProbes = {
      health: () => health() ?? (keys?.healthy === false ? "keys cannot be looked up" : null),
      // It is asked at another address than the one that takes no more calls.
      ready: () => (stopping ? Promise.resolve("the server is stopping") : dependencies()),
      ...exposed(metrics),
    };
    const listeners = await startListeners(scope, service, probes, o);
    return {
      name: "analytics",
      ...listeners,
      probes,
      stop() {
        stopping = true;
        return scope.stop();
      },
    };
  });
}

/** Starts what answers queries. @returns `health`: what is wrong with it, or null */
async function startQueries(
  scope: Scope,
  {
    sql,
    reopen,
    policy,
    store,
  }: { readonly sql: Sql; readonly reopen: () => Sql; readonly policy: ReadPolicy; readonly store: ObjectStore },
  o: AnalyticsServerOptions,
): Promise<{ readonly queries: QueryService; readonly health: HealthProbes["health"] }> {
  const { config, logger, metrics } = o;
  const lake = await startLakeFiles(scope, store, o);
  const tempDirectory = await makeTempDirectory(tmpdir());
  scope.defer("query temp directory", () => rm(tempDirectory, { recursive: true, force: true }));
  const sizing = sizeEngines({
    maxConcurrent: config.queryMaxConcurrent,
    memoryBytes: config.queryMemoryBytes,
    processBytes,
    machineBytes: machineMemory(),
    cores: availableParallelism(),
  });
  const engines = await scope.start("engines", () => startEngines(sizing, tempDirectory, o));
  const backend = new EngineBackend({
    engines,
    scrub: createScrubber([lake.root, tempDirectory]),
    gateThread: createGateThread({ logger, metrics }),
    maxResultRows: config.queryMaxResultRows,
    maxResultBytes: config.queryMaxResultBytes,
  });
  const cluster = await openCluster(scope, backend, store, o);
  const merger = await scope.start("merge pool", () => createMergePool(tempDirectory, o));
  const log = await scope.start("query log", () => createQueryLog({ sql, reopen, logger, metrics }));
  const denials = await scope.start("query denials", () => new DenialRules({ sql, backend, logger, metrics }));
  const queries = new QueryService({
    backend,
    policy,
    unstampedAudience: config.unstampedAudience,
    sql,
    files: lake.files,
    denials,
    merger,
    log,
    queue: createQueue(sizing.queries, o),
    inspections: new FairQueue({
      places: sizing.inspections,
      placesToSpare: sizing.inspections,
      maxWaiting: sizing.queries * queuePerPlace,
    }),
    lethal: new LethalStatements(systemClock, metrics),
    clock: systemClock,
    ...cluster,
  });
  const health = (): string | null => {
    if (!engines.healthy) {
      return "the query engines cannot be started";
    }
    return merger.healthy ? null : "the merge thread cannot be replaced";
  };
  return { queries, health };
}

/** Listens for health checks, then for queries. */
async function startListeners(
  scope: Scope,
  service: FlightService,
  probes: HealthProbes,
  { config, logger, drainMs }: AnalyticsServerOptions,
): Promise<Pick<AnalyticsServer, "address" | "healthAddress">> {
  const health: HttpListener = await scope.start("health sidecar", () =>
    startHealthServer({
      ...config.analyticsHealthListen,
      driver: config.httpDriver,
      maxConnections: config.httpMaxConnections,
      probes,
      option: "SVC_ANALYTICS_HEALTH_LISTEN",
      logger,
    }),
  );
  const tls = await openTls("SVC_ANALYTICS_TLS", config.analyticsTlsCertFile, config.analyticsTlsKeyFile, logger);
  scope.defer("certificate", () => tls?.stop());
  const server: FlightServer = await scope.start("flight server", () =>
    startFlightServer({
      ...config.analyticsListen,
      tls: tls?.credentials ?? null,
      maxConnections: config.httpMaxConnections,
      service,
      drainMs: drainMs ?? gracePeriod(config.shutdownGracePeriodSeconds * 1000),
      logger,
    }),
  );
  const uri = `${tls === null ? "grpc" : "grpc+tls"}://${server.address.host}:${server.address.port}`;
  logger.info({ address: uri, health: `http://${health.address.host}:${health.address.port}` }, `Flight SQL on ${uri}`);
  return { address: server.address, healthAddress: health.address };
}

/** What this process may use of the machine's memory: a container has less than there is. */
function machineMemory(): number {
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

function startEngines(
  sizing: EngineSizing,
  tempDirectory: string,
  { config, logger, metrics }: AnalyticsServerOptions,
): Promise<EngineSupervisor> {
  return EngineSupervisor.start({
    engines: sizing.queries + sizing.inspections,
    spares: config.querySpareEngines,
    memoryBytes: sizing.memoryBytes,
    tempBytes: config.queryTempBytes,
    tempDirectory,
    threads: sizing.threads,
    logger,
    metrics,
  });
}

/** What merges for administrators who ask for it. */
function createMergePool(tempDirectory: string, o: AnalyticsServerOptions): MergePool {
  const { config, connectionString, objectStoreUri, logger, metrics } = o;
  return new MergePool({
    connectionString,
    objectStoreUri,
    tempDirectory: path.join(tempDirectory, "merge"),
    memoryLimitBytes: config.mergeMemoryBytes,
    maxTempBytes: config.queryTempBytes,
    // Somebody waits for the end of the call.
    cpuPercent: null,
    threads: 1 + (availableParallelism() >> 1),
    logger,
    metrics,
  });
}

function createQueue(places: number, { metrics, stalledMs }: AnalyticsServerOptions): FairQueue {
  const queue = new FairQueue({
    places,
    maxWaiting: places * queuePerPlace,
    ...(stalledMs === undefined ? {} : { stalledMs }),
  });
  const running = metrics.gauge("query_running", "Queries that hold a place");
  const waiting = metrics.gauge("query_waiting", "Queries that wait for a place");
  metrics.onCollect(() => {
    running.set(queue.running);
    waiting.set(queue.waiting);
  });
  return queue;
}

/** Without authentication everybody reads everything. */
function readPolicy(o: AnalyticsServerOptions, sql: Sql, reopen: () => Sql): ReadPolicy {
  const { config, logger, metrics } = o;
  const { unstampedAudience } = config;
  if (config.disableAuth) {
    return openReadPolicy(unstampedAudience);
  }
  const ttlMs = config.authCacheTtlSeconds * 1000;
  return createReadPolicy({ sql, reopen, ttlMs, unstampedAudience, logger, metrics });
}

/** The key that signs tickets: derived from the configured secret, else one that only this process knows. */
function ticketSecretOf({ analyticsTicketSecret }: Config<"analytics">): Uint8Array {
  return analyticsTicketSecret === null
    ? randomBytes(32)
    : createHash("sha256").update(`flight tickets\0${analyticsTicketSecret}`).digest();
}

/** The cluster for large queries, when one is configured; nothing of it is loaded otherwise. */
async function openCluster(
  scope: Scope,
  backend: EngineBackend,
  store: ObjectStore,
  { config, logger, metrics }: AnalyticsServerOptions,
): Promise<Pick<QueryServiceOptions, "cluster">> {
  if (config.queryClusterUri === null) {
    return {};
  }
  const { startCluster } = await import("../query/cluster/start-cluster.js");
  const cluster = startCluster(config.queryClusterUri, store, {
    minBytes: config.queryClusterMinBytes,
    maxResultRows: config.queryMaxResultRows,
    maxResultBytes: config.queryMaxResultBytes,
    parse: (texts, ask) => backend.parse(texts, ask),
    clock: systemClock,
    logger,
    metrics,
  });
  scope.defer("cluster", () => {
    cluster.stop();
  });
  return { cluster };
}
