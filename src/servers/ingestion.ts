/**
 * Wires the ingestion server: front end, batcher, encode pool, committer.
 *
 * It stops against the flow: first it takes no new connections, then it answers every accepted request,
 * which needs all other parts; then those stop in reverse.
 */
import { availableParallelism } from "node:os";

import { DeadlineSql } from "../db/deadline-sql.js";
import { HourlyUsage } from "../auth/keys/hourly-usage.js";
import { migrate } from "../db/migrations.js";
import { assertSessions } from "../db/sessions.js";
import { connect, type Sql } from "../db/sql.js";
import { Batcher } from "../ingest/batcher.js";
import { createCommitter } from "../lake/committer.js";
import { assertIdentity } from "../lake/retention/lake-identity.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import { openVerifiedStore } from "../lake/store/open-store.js";
import { systemClock } from "../runtime/clock.js";
import { formatListenAddress, type ListenAddress, otlpGrpcUrl } from "../runtime/config/kinds.js";
import type { Config } from "../runtime/config/parse.js";
import { ServiceError } from "../runtime/errors.js";
import { type Component, Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import type { SpanSink } from "../runtime/spans.js";
import { exposed, type HealthProbes } from "../routes/http/health.js";
import { startEncodePool } from "../workers/encode-client.js";
import { startAuthentication } from "./authentication.js";
import { type IngestionFront, startIngestionFront } from "./ingestion-front.js";
import { openPool, readyWith } from "./stores.js";

/** What the ingestion server needs beside its configuration. */
export interface IngestionServerOptions {
  readonly config: Config<"ingestion">;
  /** Of the telemetry database; this server migrates it. */
  readonly connectionString: string;
  readonly objectStoreUri: string;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Told about batches, see BatcherOptions. */
  readonly span?: SpanSink;
  /**
   * Does without `SVC_OTLP_HTTP_LISTEN` or `SVC_OTLP_GRPC_LISTEN` when that is taken, with a warning. Default: that is
   * an error.
   */
  readonly toleratesTaken?: boolean;
}

/** A running ingestion server. */
export interface IngestionServer extends Component {
  readonly address: ListenAddress;
  /** See IngestionFront. */
  readonly otlpHttpAddress: ListenAddress | null;
  /** See IngestionFront. */
  readonly otlpGrpcAddress: ListenAddress | null;
  /** See HealthProbes: for a process that serves them elsewhere, too. */
  readonly probes: HealthProbes;
}

/** Requests wait and none was answered for this long: the pipeline is stuck, and `/health` says so. */
const stuckAfterMs = 30_000;
/** Postgres ends a statement then. One that it says nothing about at all is given up a little later. */
const statementTimeoutMs = 20_000;
const commitTimeoutMs = 25_000;
const usageTimeoutMs = 5000;
/** Deepest nesting of messages and AnyValue. */
const maxDepth = 100;

/**
 * Starts the ingestion server and waits until it listens.
 * @throws ServiceError when the database, the object store or an address cannot be used, and
 *   NOT_CONFIGURED when no way to authenticate callers is configured.
 */
export async function startIngestionServer(o: IngestionServerOptions): Promise<IngestionServer> {
  const { config, logger, metrics } = o;
  const scope = new Scope("ingestion", logger);
  return scope.orStop(async () => {
    const { sql, reopen, commitSql } = await openDatabase(scope, o);
    const { authenticator, keys, oidc } = await startAuthentication(scope, {
      config,
      table: "ingestion_api_keys",
      refuseUnstamped: config.refuseUnstamped,
      sql,
      reopen,
      logger,
      metrics,
    });
    const store = await openVerifiedStore(o.objectStoreUri);
    await assertIdentity(sql, store);
    const encoder = await scope.start("encode pool", () =>
      startEncodePool({
        threads: config.ingestionWorkers === 0 ? availableParallelism() + 1 : config.ingestionWorkers,
        objectStoreUri: o.objectStoreUri,
        maxInflatedBytes: config.otlpMaxInflatedBytes,
        maxDepth,
        compression: config.lakeCompression,
        batchBytes: config.ingestionBatchBytes,
        clock: systemClock,
        logger,
        metrics,
      }),
    );
    const committer = await scope.start("committer", () =>
      createCommitter({ sql: commitSql, logger, metrics, clock: systemClock }),
    );
    const batcher = await scope.start(
      "batcher",
      () =>
        new Batcher({
          encoder,
          committer,
          removeObject: (path) => store.remove(path),
          maxBatchBytes: config.ingestionBatchBytes,
          clock: systemClock,
          logger,
          metrics,
          ...(o.span === undefined ? {} : { span: o.span }),
        }),
    );
    const usageSql = await scope.start(
      "pool for usage of keys",
      () => new DeadlineSql({ sql, reopen, timeoutMs: usageTimeoutMs }),
    );
    const usage = await scope.start("usage of keys", () => new HourlyUsage({ sql: usageSql, logger, metrics }));
    const dependencies = readyWith(sql, () => store.probe());
    let front: IngestionFront | null = null;
    const probes: HealthProbes = {
      health: () => unhealthyPart({ front, encoder, committer, keys, batcher }),
      ready: async () =>
        (await dependencies()) ?? (batcher.storing ? null : "most of the last writes failed; the log says why"),
      ...exposed(metrics),
    };
    front = await scope.start("front", () =>
      startIngestionFront({
        config,
        authenticator,
        keys,
        oidc,
        usage,
        toleratesTaken: o.toleratesTaken ?? false,
        sink: batcher,
        probes,
        logger,
        metrics,
      }),
    );
    announce(o, front, store);
    const { address, otlpHttpAddress, otlpGrpcAddress } = front;
    return { name: "ingestion", address, otlpHttpAddress, otlpGrpcAddress, probes, stop: () => scope.stop() };
  });
}

/** What the server has of the database. */
interface Database {
  /** For everything but commits. */
  readonly sql: Sql;
  /** Opens another connection like those of `sql`, which the caller closes. */
  readonly reopen: () => Sql;
  readonly commitSql: DeadlineSql;
}

/** Opens the pools, and brings the schema up to date. */
async function openDatabase(
  scope: Scope,
  { config, connectionString, logger }: IngestionServerOptions,
): Promise<Database> {
  if (config.sqlMaxConnections < 2) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "SVC_SQL_MAX_CONNECTIONS of ingestion must be at least 2: one connection commits, and the others look up keys.",
    );
  }
  // The second is made when large requests are stored.
  const commitConnections = Math.min(2, config.sqlMaxConnections - 1);
  const database = { connectionString, applicationName: "telemetry-ingestion", logger, statementTimeoutMs };
  const sql = openPool(scope, database.applicationName, {
    ...database,
    maxConnections: config.sqlMaxConnections - commitConnections,
  });
  await assertSessions(database);
  await migrate(sql, logger, { bootstrapAdmin: config.bootstrapAdmin });
  const forCommits = {
    ...database,
    applicationName: "telemetry-ingestion-commit",
    maxConnections: commitConnections,
  };
  const commitSql = await scope.start(
    "pool for commits",
    () =>
      new DeadlineSql({
        sql: openPool(scope, forCommits.applicationName, forCommits),
        reopen: () => connect(forCommits),
        timeoutMs: commitTimeoutMs,
      }),
  );
  return { sql, reopen: () => connect({ ...database, maxConnections: 1 }), commitSql };
}

/** What `/health` says of the first part that does not work, or null. */
function unhealthyPart(parts: {
  readonly front: { readonly healthy: boolean } | null;
  readonly encoder: { readonly healthy: boolean };
  readonly committer: { readonly healthy: boolean };
  readonly keys: { readonly healthy: boolean } | null;
  readonly batcher: { readonly stalledMs: number };
}): string | null {
  if (parts.front?.healthy === false) {
    return "an acceptor thread is down";
  }
  if (!parts.encoder.healthy) {
    return "the encode threads cannot be replaced";
  }
  if (!parts.committer.healthy) {
    return "commits keep failing";
  }
  if (parts.keys?.healthy === false) {
    return "keys cannot be looked up";
  }
  return parts.batcher.stalledMs > stuckAfterMs ? "the commit loop is stuck" : null;
}

/** Says in the log where telemetry is taken. */
function announce({ config, logger }: IngestionServerOptions, front: IngestionFront, store: ObjectStore): void {
  const { address, otlpHttpAddress, otlpGrpcAddress } = front;
  const urls = [address, ...(otlpHttpAddress === null ? [] : [otlpHttpAddress])].map(
    (listening) => `http://${formatListenAddress(listening)}`,
  );
  logger.info({ address: urls[0], objectStore: store.uri }, `OTLP/HTTP on ${urls.join(" and ")}`);
  if (otlpGrpcAddress !== null) {
    const url = otlpGrpcUrl(config.otlpGrpcTlsCertFile, formatListenAddress(otlpGrpcAddress));
    logger.info({ address: url }, `OTLP/gRPC on ${url}`);
  }
}
