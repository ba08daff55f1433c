/** The role maintenance, put together. Wiring only. It reads the database and never migrates it. */
import { rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";

import { assertSchemaVersion } from "../db/migrations.js";
import { assertSessions } from "../db/sessions.js";
import type { Sql } from "../db/sql.js";
import { assertIdentity } from "../lake/retention/lake-identity.js";
import { startClockWatch } from "../lake/retention/lake-clock.js";
import { createChores } from "../lake/merge/chores.js";
import { Maintenance } from "../lake/merge/maintenance.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import { stepLimitsFor } from "../lake/merge/merge-plan.js";
import { openVerifiedStore } from "../lake/store/open-store.js";
import { makeTempDirectory } from "../engine/temp-directory.js";
import { exposed, startHealthServer } from "../routes/http/health.js";
import type { HttpListener } from "../routes/http/seam.js";
import { systemClock } from "../runtime/clock.js";
import { formatListenAddress } from "../runtime/config/kinds.js";
import type { Config } from "../runtime/config/parse.js";
import { type Component, Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { MergePool } from "../workers/merge-client.js";
import { startRetiredSweep } from "./retired-sweep.js";
import { openPool, readyWith } from "./stores.js";

/** What maintenance needs beside its configuration. */
interface MaintenanceServerOptions {
  readonly config: Config<"maintenance">;
  /** Of the telemetry database, whose schema must be there. */
  readonly connectionString: string;
  readonly objectStoreUri: string;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The process plays no other role, so that nobody else tells how it is. */
  readonly alone: boolean;
}

/** Running maintenance. */
export interface MaintenanceServer extends Component {
  /** HTTP: /health, /ready, /metrics; null where another role of the process serves them. */
  readonly healthAddress: { readonly host: string; readonly port: number } | null;
}

/** Retention runs with every so many looks, and at least every five minutes. */
const retentionLooks = 60;
const maxRetentionPauseMs = 300_000;

/**
 * Starts maintenance.
 * @throws ServiceError when the database, the object store or the address cannot be used.
 */
export async function startMaintenance(o: MaintenanceServerOptions): Promise<MaintenanceServer> {
  const { config, connectionString, objectStoreUri, logger, metrics } = o;
  const scope = new Scope("maintenance", logger);
  const intervalMs = config.maintenanceIntervalSeconds * 1000;
  return scope.orStop(async () => {
    const database = { connectionString, applicationName: "telemetry-maintenance", logger, keepAlive: true };
    await assertSessions(database);
    const sql = openPool(scope, "database connection", { ...database, maxConnections: 1 });
    await assertSchemaVersion(sql);
    const store = await openVerifiedStore(objectStoreUri);
    await assertIdentity(sql, store);
    const tempDirectory = await makeTempDirectory(tmpdir());
    scope.defer("temp directory", () => rm(tempDirectory, { recursive: true, force: true }));
    const merger = await scope.start(
      "merge pool",
      () =>
        new MergePool({
          connectionString,
          objectStoreUri,
          tempDirectory: path.join(tempDirectory, "merge"),
          memoryLimitBytes: config.mergeMemoryBytes,
          maxTempBytes: config.queryTempBytes,
          cpuPercent: config.maintenanceCpuPercent,
          threads: Math.max(1, Math.round((availableParallelism() * config.maintenanceCpuPercent) / 100)),
          logger,
          metrics,
        }),
    );
    startRetiredSweep(scope, sql, store, { logger, metrics });
    startClockWatch(scope, sql, systemClock, logger);
    await scope.start(
      "maintenance",
      () =>
        new Maintenance({
          sql,
          merger,
          chores: createChores({
            sql,
            store,
            rewriter: merger,
            retentionDays: config.retentionDays,
            unstampedAudience: config.unstampedAudience,
            clock: systemClock,
            retentionEveryMs: Math.min(intervalMs * retentionLooks, maxRetentionPauseMs),
            logger,
            metrics,
          }),
          room: stepLimitsFor(config.mergeMemoryBytes),
          intervalMs,
          clock: systemClock,
          logger,
          metrics,
        }),
    );
    const health = o.alone ? await serveHealth(scope, o, { sql, store, merger }) : null;
    return {
      name: "maintenance",
      healthAddress: health?.address ?? null,
      stop: () => scope.stop(),
    };
  });
}

async function serveHealth(
  scope: Scope,
  { config, logger, metrics }: MaintenanceServerOptions,
  { sql, store, merger }: { readonly sql: Sql; readonly store: ObjectStore; readonly merger: MergePool },
): Promise<HttpListener> {
  const { httpDriver: driver, maintenanceHealthListen, httpMaxConnections: maxConnections } = config;
  const listener = await scope.start("health listener", () =>
    startHealthServer({
      ...maintenanceHealthListen,
      driver,
      maxConnections,
      probes: {
        health: () => (merger.healthy ? null : "the merge thread cannot be replaced"),
        ready: readyWith(
          sql,
          () => store.probe(),
          () => store.probeReads(),
        ),
        ...exposed(metrics),
      },
      option: "SVC_MAINTENANCE_HEALTH_LISTEN",
      logger,
    }),
  );
  const url = `http://${formatListenAddress(listener.address)}`;
  logger.info({ health: url }, `maintenance tells how it is on ${url}`);
  return listener;
}
