/**
 * The monolith: several roles in one process, over one database and one object store. Wiring only.
 *
 * Order: database, in development mode the identity provider, migrations, first keys (development mode), servers, the
 * file that hands the keys out, and last the reporting of the service's own telemetry, which is thus the first to stop, while
 * the ingestion server it may send to still runs.
 */
import path from "node:path";

import { otlpExporterConfig } from "telemetry-service-client/otlp";
import { startEmbeddedPostgres } from "../db/embedded/embedded.js";
import { migrate } from "../db/migrations.js";
import { assertSessions } from "../db/sessions.js";
import { connect } from "../db/sql.js";
import { type ListenAddress, formatReachableAddress, otlpGrpcUrl } from "../runtime/config/kinds.js";
import type { Config } from "../runtime/config/parse.js";
import { options } from "../runtime/config/options.js";
import { type MonolithRole, monolithRoles } from "../runtime/config/table.js";
import { ServiceError } from "../runtime/errors.js";
import { gracePeriod, type Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { AnalyticsServer } from "./analytics.js";
import {
  type DevelopmentAddresses,
  type DevelopmentKeys,
  developmentFile,
  prepareDevelopmentKeys,
  writeDevelopmentFile,
} from "./development/keys.js";
import {
  developmentAccounts,
  developmentAdministrator,
  developmentClientId,
  hasDevelopmentLogin,
  startDevelopmentLogin,
  withDevelopmentLogin,
} from "./development/login.js";
import type { IngestionServer } from "./ingestion.js";
import type { MaintenanceServer } from "./maintenance.js";
import type { ProcessTelemetry } from "./telemetry/process-telemetry.js";
import { rolesToPlay, storesAs } from "./monolith-roles.js";
import { objectStoreUriOf } from "./stores.js";
import type { WebServer } from "./web.js";

/** What {@link startMonolith} needs. */
interface MonolithOptions {
  readonly config: Config<"monolith">;
  readonly telemetry: ProcessTelemetry;
  /** Owns everything that is started, also when a later start fails. */
  readonly scope: Scope;
}

/** Where a running monolith is reached; null for a role it does not play. */
export interface Monolith {
  readonly roles: readonly MonolithRole[];
  /** `http://host:port` */
  readonly ingestionUrl: string | null;
  /** `http://host:port` of `SVC_OTLP_HTTP_LISTEN`; null also where that is off. */
  readonly otlpHttpUrl: string | null;
  /** `http://host:port`, or `https://` with TLS, of `SVC_OTLP_GRPC_LISTEN`; null also where that is off. */
  readonly otlpGrpcUrl: string | null;
  /** `grpc://host:port` or `grpc+tls://host:port` */
  readonly analyticsUri: string | null;
  /** `http://host:port` of the analytics server's health routes. */
  readonly analyticsHealthUrl: string | null;
  /** `http://host:port` of maintenance's health routes; null where another role has some. */
  readonly maintenanceHealthUrl: string | null;
  /** `http://host:port` and the base path */
  readonly webUrl: string | null;
  readonly dataDirectory: string;
  /** The file of development mode, else null. */
  readonly developmentFile: string | null;
  /** Emails of whom people can log in as where the service has an identity provider of its own, else null. */
  readonly developmentAccounts: typeof developmentAccounts | null;
}

/**
 * Starts the roles of the configuration.
 * @throws ServiceError, one sentence each: NOT_CONFIGURED for a role that was named and cannot run, UNAVAILABLE when
 *   the database, the store or an address cannot be used. What has started belongs to `scope` and stops with it.
 */
export async function startMonolith(o: MonolithOptions): Promise<Monolith> {
  const { telemetry, scope } = o;
  const { logger } = telemetry;
  const { roles, leftOut } = rolesToPlay(o.config);
  const dataDirectory = path.resolve(o.config.dataDir);
  const databases = await databasesOf(o, roles, dataDirectory);
  const login =
    roles.has("web") && hasDevelopmentLogin(o.config)
      ? await startDevelopmentLogin({ config: o.config, dataDirectory, scope, logger })
      : null;
  const config = login === null ? o.config : withDevelopmentLogin(o.config, login);
  for (const [role, reason] of leftOut) {
    logger.info({ role, reason }, `the role ${role} is left out: ${reason}`);
  }
  const keys = await prepareDatabase(o, roles, databases, dataDirectory);
  const { ingestion, analytics, web, maintenance } = await startServers(o, config, roles, databases);
  if (web !== null) {
    login?.serve(web.redirectUri);
  }

  const monolith: Monolith = {
    roles: [...roles],
    ingestionUrl: urlOf(ingestion?.address),
    otlpHttpUrl: urlOf(ingestion?.otlpHttpAddress),
    otlpGrpcUrl:
      ingestion === null || ingestion.otlpGrpcAddress === null
        ? null
        : otlpGrpcUrl(config.otlpGrpcTlsCertFile, formatReachableAddress(ingestion.otlpGrpcAddress)),
    analyticsUri: analytics === null ? null : analyticsUriOf(config, analytics),
    analyticsHealthUrl: urlOf(analytics?.healthAddress),
    maintenanceHealthUrl: urlOf(maintenance?.healthAddress),
    webUrl: web === null ? null : `http://${formatReachableAddress(web.address)}${web.basePath}`,
    dataDirectory,
    developmentFile: keys === null ? null : developmentFile(dataDirectory),
    developmentAccounts: login === null ? null : developmentAccounts,
  };
  if (keys !== null) {
    const configured = configuredAddresses(config);
    await writeDevelopmentFile(dataDirectory, keys, {
      ingestionUrl: monolith.ingestionUrl ?? configured.ingestionUrl,
      analyticsUri: monolith.analyticsUri ?? configured.analyticsUri,
      webUrl: monolith.webUrl,
      login: login === null ? null : { issuer: login.issuer, clientId: developmentClientId },
    });
  }
  const toItself =
    keys === null || monolith.ingestionUrl === null
      ? null
      : otlpExporterConfig({ telemetryUrl: monolith.ingestionUrl, apiKey: keys.ingestionKey });
  await telemetry.report(scope, toItself);
  return monolith;
}

/** The servers of a monolith; null for a role that it does not play. */
interface Servers {
  readonly ingestion: IngestionServer | null;
  readonly analytics: AnalyticsServer | null;
  readonly web: WebServer | null;
  readonly maintenance: MaintenanceServer | null;
}

/** Starts a server for each role, and loads the code of those alone. */
async function startServers(
  o: MonolithOptions,
  config: Config<"monolith">,
  roles: ReadonlySet<MonolithRole>,
  databases: Databases,
): Promise<Servers> {
  const { scope } = o;
  const { metrics, logger, span } = o.telemetry;
  const shared = { metrics, span };
  // Queries of both servers end before it does: ingestion may stop last.
  const drainMs = gracePeriod(config.shutdownGracePeriodSeconds * 1000);
  // Where the web server asks, unless it was told where.
  let ownAnalytics: string | null = null;
  let ownIngestion: string | null = null;
  const asksItself = roles.has("analytics") && config.byRole.web.analyticsUri === options.SVC_ANALYTICS_URI.default;
  // At once: none needs another, and most of each start is waiting for its threads.
  const [ingestion, analytics, web, maintenance] = await Promise.all([
    roles.has("ingestion")
      ? scope.start("ingestion", async () => {
          const { startIngestionServer } = await import("./ingestion.js");
          const server = await startIngestionServer({
            ...shared,
            config: config.byRole.ingestion,
            connectionString: databases.ingestion,
            objectStoreUri: objectStoreUriOf(config.byRole.ingestion),
            logger: loggerOf(o, "ingestion"),
            // A developer's machine may run a Collector already.
            toleratesTaken: config.development,
          });
          ownIngestion = urlOf(server.address);
          return server;
        })
      : null,
    roles.has("analytics")
      ? scope.start("analytics", async () => {
          const { startAnalyticsServer } = await import("./analytics.js");
          const server = await startAnalyticsServer({
            ...shared,
            config: config.byRole.analytics,
            connectionString: databases.analytics,
            objectStoreUri: objectStoreUriOf(config.byRole.analytics),
            logger: loggerOf(o, "analytics"),
            drainMs,
          });
          ownAnalytics = analyticsUriOf(config, server);
          return server;
        })
      : null,
    roles.has("web")
      ? scope.start("web", async () => {
          const { startWebServer } = await import("./web.js");
          return await startWebServer({
            ...shared,
            config: config.byRole.web,
            connectionString: databases.web,
            // Maps lie beside the lake.
            objectStoreUri: objectStoreUriOf(config.byRole[roles.has("ingestion") ? "ingestion" : "web"]),
            ...(asksItself ? { analyticsUri: () => ownAnalytics } : {}),
            ingestionUrl: () => ownIngestion,
            drainMs,
            logger,
          });
        })
      : null,
    roles.has("maintenance")
      ? scope.start("maintenance", async () => {
          const { startMaintenance } = await import("./maintenance.js");
          return await startMaintenance({
            config: config.byRole.maintenance,
            connectionString: databases.maintenance,
            objectStoreUri: objectStoreUriOf(config.byRole[storesAs("maintenance", roles)]),
            logger,
            metrics,
            alone: roles.size === 1,
          });
        })
      : null,
  ]);
  return { ingestion, analytics, web, maintenance };
}

function analyticsUriOf(config: Config<"monolith">, { address }: AnalyticsServer): string {
  return `${analyticsScheme(config)}://${formatReachableAddress(address)}`;
}

function urlOf(address: ListenAddress | null | undefined): string | null {
  return address === null || address === undefined ? null : `http://${formatReachableAddress(address)}`;
}

/** Connection string by role. */
type Databases = Readonly<Record<MonolithRole, string>>;

/**
 * The database of each role: the configured one, else an embedded Postgres that all roles share.
 * @throws ServiceError NOT_CONFIGURED when only some of the roles have one; they have to meet in one.
 */
async function databasesOf(
  o: MonolithOptions,
  roles: ReadonlySet<MonolithRole>,
  dataDirectory: string,
): Promise<Databases> {
  const configured = monolithRoles.map(
    (role) => [role, o.config.byRole[storesAs(role, roles)].sqlConnectionString] as const,
  );
  const played = configured.filter(([role]) => roles.has(role));
  const without = played.filter(([, database]) => database === null).map(([role]) => role);
  if (without.length > 0 && without.length < played.length) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `SVC_SQL_CONNECTION_STRING has to name the database of ${without.join(" and ")}, because another role has one`,
    );
  }
  const own = without.length === 0 ? "" : await ownDatabase(o, dataDirectory);
  return Object.fromEntries(configured.map(([role, database]) => [role, database ?? own])) as Databases;
}

async function ownDatabase(o: MonolithOptions, dataDirectory: string): Promise<string> {
  const { logger } = o.telemetry;
  const postgres = await o.scope.start("embedded Postgres", () => startEmbeddedPostgres({ dataDirectory, logger }));
  return postgres.connectionString;
}

function loggerOf(o: MonolithOptions, role: "ingestion" | "analytics"): Logger {
  const { logger } = o.telemetry;
  const { logLevel } = o.config.byRole[role];
  return logLevel === o.config.logLevel ? logger : logger.child({}, { level: logLevel });
}

/**
 * Brings the schema up to date, and in development mode makes sure of the first keys. A web server alone
 * has no right to either: it leaves the database as it is.
 */
async function prepareDatabase(
  o: MonolithOptions,
  roles: ReadonlySet<MonolithRole>,
  databases: Databases,
  dataDirectory: string,
): Promise<DevelopmentKeys | null> {
  const { config, telemetry } = o;
  const role = (["ingestion", "analytics", "maintenance"] as const).find((r) => roles.has(r));
  if (role === undefined) {
    return null;
  }
  const database = {
    // Where roles have logins of their own, the one without a role's name may change tables.
    connectionString: config.sqlConnectionString ?? databases[role],
    applicationName: "telemetry-monolith",
    logger: telemetry.logger,
  };
  await assertSessions(database);
  const sql = connect({ ...database, maxConnections: 1 });
  try {
    const administrator = hasDevelopmentLogin(config) ? developmentAdministrator : null;
    await migrate(sql, telemetry.logger, { bootstrapAdmin: config.bootstrapAdmin ?? administrator });
    if (!config.development) {
      return null;
    }
    return await prepareDevelopmentKeys({
      sql,
      dataDirectory,
      audience: config.byRole.ingestion.defaultAudience,
      administrator,
      addresses: configuredAddresses(config),
    });
  } finally {
    await sql.end({ timeout: 5 });
  }
}

function configuredAddresses(config: Config<"monolith">): DevelopmentAddresses {
  return {
    ingestionUrl: `http://${formatReachableAddress(config.ingestionListen)}`,
    analyticsUri: `${analyticsScheme(config)}://${formatReachableAddress(config.analyticsListen)}`,
    webUrl: null,
    login: null,
  };
}

function analyticsScheme(config: Config<"monolith">): string {
  return config.analyticsTlsCertFile === null ? "grpc" : "grpc+tls";
}
