/**
 * The monolith: several roles in one process, over one database and one object store. Wiring only.
 *
 * Order: database, migrations, first keys (development mode), servers, the file that hands the keys
 * out, and last the reporting of the service's own telemetry, which is thus the first to stop, while
 * the ingestion server it may send to still runs.
 */
import path from "node:path";
import { pathToFileURL } from "node:url";

import { otlpExporterConfig } from "../client/telemetry-exporter.js";
import { startEmbeddedPostgres } from "../db/embedded.js";
import { migrate } from "../db/migrations.js";
import { connect } from "../db/sql.js";
import { type ListenAddress, formatListenAddress } from "../runtime/config/kinds.js";
import type { Config } from "../runtime/config/parse.js";
import { type MonolithRole, monolithRoles } from "../runtime/config/table.js";
import { ServiceError } from "../runtime/errors.js";
import type { Scope } from "../runtime/lifecycle.js";
import { startAnalyticsServer } from "./analytics.js";
import {
  type DevelopmentKeys,
  developmentFile,
  prepareDevelopmentKeys,
  writeDevelopmentFile,
} from "./development.js";
import { startIngestionServer } from "./ingestion.js";
import type { ProcessTelemetry } from "./process-telemetry.js";
import { startWebServer } from "./web.js";

/** What {@link startMonolith} needs. */
export interface MonolithOptions {
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
  /** `grpc://host:port` or `grpc+tls://host:port` */
  readonly analyticsUri: string | null;
  /** `http://host:port` of the analytics server's health routes. */
  readonly analyticsHealthUrl: string | null;
  /** `http://host:port` and the base path */
  readonly webUrl: string | null;
  readonly dataDirectory: string;
  /** The file of development mode, else null. */
  readonly developmentFile: string | null;
}

/** Roles that this version can play. */
const playable: readonly MonolithRole[] = ["ingestion", "analytics", "web"];

/**
 * Starts the roles of the configuration.
 * @throws ServiceError, one sentence each, when a role, the database, the store or an address is not
 *   to be had; what had started belongs to `scope` and is stopped by whoever stops that.
 */
export async function startMonolith(o: MonolithOptions): Promise<Monolith> {
  const { config, telemetry, scope } = o;
  const { logger, metrics, span } = telemetry;
  const roles = rolesToPlay(config);
  const dataDirectory = path.resolve(config.dataDir);
  const connectionString = config.sqlConnectionString ?? (await ownDatabase(o, dataDirectory));
  const objectStoreUri =
    config.objectStoreUri ?? pathToFileURL(path.join(dataDirectory, "lake")).href;
  const keys = await prepareDatabase(o, connectionString, dataDirectory);
  const shared = { connectionString, objectStoreUri, logger, metrics, span };

  // At once: none needs another, and most of each start is waiting for its threads.
  const [ingestion, analytics, web] = await Promise.all([
    roles.has("ingestion")
      ? scope.start("ingestion", () =>
          startIngestionServer({ ...shared, config: config.byRole.ingestion }),
        )
      : null,
    roles.has("analytics")
      ? scope.start("analytics", () =>
          startAnalyticsServer({ ...shared, config: config.byRole.analytics }),
        )
      : null,
    roles.has("web")
      ? scope.start("web", () => startWebServer({ ...shared, config: config.byRole.web }))
      : null,
  ]);

  const monolith: Monolith = {
    roles: [...roles],
    ingestionUrl: ingestion === null ? null : `http://${reachable(ingestion.address)}`,
    analyticsUri:
      analytics === null ? null : `${analyticsScheme(config)}://${reachable(analytics.address)}`,
    analyticsHealthUrl: analytics === null ? null : `http://${reachable(analytics.healthAddress)}`,
    webUrl: web === null ? null : `http://${reachable(web.address)}${web.basePath}`,
    dataDirectory,
    developmentFile: keys === null ? null : developmentFile(dataDirectory),
  };
  if (keys !== null) {
    const configured = configuredAddresses(config);
    await writeDevelopmentFile(dataDirectory, keys, {
      ingestionUrl: monolith.ingestionUrl ?? configured.ingestionUrl,
      analyticsUri: monolith.analyticsUri ?? configured.analyticsUri,
    });
  }
  const toItself =
    keys === null || monolith.ingestionUrl === null
      ? null
      : otlpExporterConfig({ telemetryUrl: monolith.ingestionUrl, apiKey: keys.ingestionKey });
  await telemetry.report(scope, toItself);
  return monolith;
}

/**
 * The roles asked for; `all` is all that exist, but for the web server where nobody could log in:
 * without OIDC, or without authentication.
 */
function rolesToPlay(config: Config<"monolith">): ReadonlySet<MonolithRole> {
  const asked = config.roles;
  if (asked.length === monolithRoles.length) {
    const canLogIn = config.oidcConfig !== null && !config.disableAuth;
    return new Set(playable.filter((role) => role !== "web" || canLogIn));
  }
  const missing = asked.filter((role) => !playable.includes(role));
  if (missing.length > 0) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `this version has no role ${missing.join(" and no role ")}; SVC_ROLES takes ${playable.join(",")} or all`,
    );
  }
  return new Set(asked);
}

async function ownDatabase(o: MonolithOptions, dataDirectory: string): Promise<string> {
  const { logger } = o.telemetry;
  const postgres = await o.scope.start("embedded Postgres", () =>
    startEmbeddedPostgres({ dataDirectory, logger }),
  );
  return postgres.connectionString;
}

/** Brings the schema up to date, and in development mode makes sure of the first keys. */
async function prepareDatabase(
  o: MonolithOptions,
  connectionString: string,
  dataDirectory: string,
): Promise<DevelopmentKeys | null> {
  const { config, telemetry } = o;
  const sql = connect({
    connectionString,
    maxConnections: 1,
    applicationName: "telemetry-monolith",
    logger: telemetry.logger,
  });
  try {
    await migrate(sql, telemetry.logger);
    if (!config.development) return null;
    return await prepareDevelopmentKeys({
      sql,
      dataDirectory,
      audience: config.defaultAudience,
      addresses: configuredAddresses(config),
    });
  } finally {
    await sql.end({ timeout: 5 });
  }
}

function configuredAddresses(config: Config<"monolith">): {
  readonly ingestionUrl: string;
  readonly analyticsUri: string;
} {
  return {
    ingestionUrl: `http://${reachable(config.ingestionListen)}`,
    analyticsUri: `${analyticsScheme(config)}://${reachable(config.analyticsListen)}`,
  };
}

function analyticsScheme(config: Config<"monolith">): string {
  return config.analyticsTlsCertFile === null ? "grpc" : "grpc+tls";
}

/** `host:port` for a client on this machine: a wildcard address is reached over loopback. */
function reachable(address: ListenAddress): string {
  if (address.host === "0.0.0.0") return formatListenAddress({ ...address, host: "127.0.0.1" });
  if (address.host === "::") return formatListenAddress({ ...address, host: "::1" });
  return formatListenAddress(address);
}
