/**
 * Wires the web server: front end, login, admin thread.
 *
 * Main thread: sockets, cookies, login, routing. Admin thread: everything that asks the database, over
 * the two connections that are all this server opens. It never migrates the schema, and starts without
 * one: its routes fail until the ingestion server has been there.
 */
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";

import type { Caller } from "../auth/caller.js";
import { adminsOpenWarning } from "../auth/grants/grants.js";
import type { MintPolicy } from "../admin/minting-policy.js";
import { createOidcAuthenticator } from "../auth/oidc/oidc-authenticator.js";
import type { OidcConfig } from "../runtime/config/oidc.js";
import { OidcLogin } from "../auth/oidc/oidc-login.js";
import { createWebSessions } from "../auth/oidc/web-session.js";
import { answering, exposed, type HealthProbes, heldReady } from "../routes/http/health.js";
import { readAppFiles } from "../routes/web/app-files.js";
import { webOrigins } from "../routes/web/browser-safety.js";
import { WebFront } from "../routes/web/front.js";
import { listenWeb } from "../routes/web/listener.js";
import { AppRoutes } from "../routes/web/app-routes.js";
import { WebMaps } from "../routes/web/maps.js";
import { loadTrim } from "../engine/unused-memory.js";
import { openObjectStore } from "../lake/store/open-store.js";
import { mapDirectory, type ObjectStore } from "../lake/store/object-store.js";
import { createLoginRoutes } from "../routes/web/login-routes.js";
import { DataSources } from "../routes/web/query/data-sources.js";
import { WebQueries } from "../routes/web/query/web-queries.js";
import { systemClock } from "../runtime/clock.js";
import { formatListenAddress, formatReachableAddress } from "../runtime/config/kinds.js";
import type { Config } from "../runtime/config/parse.js";
import { ServiceError } from "../runtime/errors.js";
import { type Component, gracePeriod, Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { Periodic } from "../runtime/periodic.js";
import { serviceVersion } from "../runtime/version.js";
import { type AdminPool, startAdminPool } from "../workers/admin-client.js";
import { objectStoreUriOf } from "./stores.js";

/** What the web server needs beside its configuration. */
interface WebServerOptions {
  readonly config: Config<"web">;
  /** Of the telemetry database; null only under `--disable-auth`. */
  readonly connectionString: string | null;
  /** Where maps are kept; unless given, that of the configuration. */
  readonly objectStoreUri?: string;
  /** The analytics server of this process, null while it starts; unless given, that of `SVC_ANALYTICS_URI`. */
  readonly analyticsUri?: () => string | null;
  /** The ingestion server that runs beside it, `http://host:port`, once it is known. */
  readonly ingestionUrl?: () => string | null;
  /** How long queries may go on when it stops, where others have a part in that time. Default: the grace period. */
  readonly drainMs?: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** A running web server. */
export interface WebServer extends Component {
  readonly address: { readonly host: string; readonly port: number };
  /** `http://host:port` and the base path, without a slash at its end. */
  readonly url: string;
  /** Without a slash at its end; the empty string for the root. */
  readonly basePath: string;
  /** Where the identity provider sends browsers back to. */
  readonly redirectUri: string;
  /** See HealthProbes. */
  readonly probes: HealthProbes;
}

/** Compiled, this file is dist/src/servers/web.js. */
const appDirectory = fileURLToPath(new URL("../../../web/dist", import.meta.url));

/** Time between two tries to tell whether everybody is an administrator. */
const askAgainMs = 10_000;
/** How much longer a query may take here than at the analytics server. */
const beyondQueryTimeoutMs = 10_000;

/**
 * Starts the web server and waits until it listens.
 * @throws ServiceError NOT_CONFIGURED when authentication is on without OIDC or without a database,
 *   UNAVAILABLE when the address cannot be bound.
 */
export async function startWebServer(o: WebServerOptions): Promise<WebServer> {
  const { config, logger, metrics } = o;
  const oidcConfig = assertConfigured(o);
  const scope = new Scope("web", logger);
  return scope.orStop(async () => {
    const { connectionString } = o;
    const admin =
      connectionString === null
        ? null
        : await scope.start("admin pool", () =>
            startAdminPool({ connectionString, policy: policyOf(config), logger, metrics }),
          );
    const basePath = config.basePath.replace(/\/+$/, "");
    const sources = new DataSources({
      builtIn: o.analyticsUri ?? (() => config.analyticsUri),
      admin,
      monotonicMs: () => systemClock.monotonicMs(),
    });
    scope.defer("data sources", () => {
      sources.stop();
    });
    const app = readAppFiles(appDirectory, basePath);
    if (app === null) {
      logger.warn("the web application has not been built: only its API is served");
    }
    const queries = new WebQueries({
      sources,
      maxRows: config.webQueryMaxRows,
      timeoutMs: config.queryTimeoutSeconds * 1000 + beyondQueryTimeoutMs,
      logger,
      metrics,
    });
    giveBackAfter(queries, scope);
    const front = new WebFront({
      basePath,
      app,
      corsOrigin: config.webCorsOrigin,
      admin,
      appRoutes: admin === null ? null : new AppRoutes({ queries, sources, maps: mapsOf(o, admin), admin }),
      queries,
      drainMs: o.drainMs ?? gracePeriod(config.shutdownGracePeriodSeconds * 1000),
      version: serviceVersion(),
      config: {
        defaultAudience: config.defaultAudience,
        selfService: config.selfServiceMint,
        queryMaxRows: config.webQueryMaxRows,
        ingestionUrl: () => {
          const url = config.webIngestionUrl ?? o.ingestionUrl?.() ?? config.telemetryUrl;
          return url === null ? null : `${url.replace(/\/+$/, "")}/ingestion/otlp`;
        },
      },
      logger,
      metrics,
    });
    const probes: HealthProbes = {
      health: () => (admin?.healthy === false ? "the admin thread cannot be replaced" : null),
      ready: heldReady(async () => (admin === null ? null : await answering("database", admin.probe()))),
      ...exposed(metrics),
    };
    const listener = await scope.start("listener", () =>
      listenWeb({
        ...config.webListen,
        driver: config.httpDriver,
        maxConnections: config.httpMaxConnections,
        front,
        probes,
        basePath,
        logger,
      }),
    );
    const url = `http://${formatListenAddress(listener.address)}${basePath}`;
    const reachable = `http://${formatReachableAddress(listener.address)}${basePath}`;
    const redirectUri = config.authRedirectUri ?? `${reachable}/auth/callback`;
    if (oidcConfig === null) {
      logger.warn("authentication is off: keys, grants and groups cannot be administered");
    } else if (admin !== null) {
      authenticate(scope, o, oidcConfig, front, admin, redirectUri);
      warnOfOpenAdmins(scope, admin, logger);
    }
    logger.info({ address: url }, `web server on ${url}`);
    return {
      name: "web",
      address: listener.address,
      url,
      basePath,
      redirectUri,
      probes,
      stop: () => scope.stop(),
    };
  });
}

/** @returns what people log in by; null under `--disable-auth`. */
function assertConfigured({ config, connectionString }: WebServerOptions): OidcConfig | null {
  if (config.disableAuth) {
    return null;
  }
  if (connectionString === null) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "the web server needs the telemetry database: set SVC_SQL_CONNECTION_STRING",
    );
  }
  if (config.oidcConfig === null) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "no way to log in: set SVC_OIDC_CONFIG; --disable-auth turns authentication off for development",
    );
  }
  return config.oidcConfig;
}

/** The store is opened by the first map: nothing else needs one. */
function mapsOf({ config, objectStoreUri, logger }: WebServerOptions, admin: AdminPool): WebMaps {
  let opened: Promise<ObjectStore> | null = null;
  const store = async (): Promise<ObjectStore> => {
    opened ??= openObjectStore(objectStoreUri ?? objectStoreUriOf(config));
    try {
      return await opened;
    } catch (error) {
      opened = null;
      throw error;
    }
  };
  return new WebMaps({ admin, store, directory: mapDirectory, logger });
}

function policyOf(config: Config<"web">): MintPolicy {
  return {
    selfServiceMint: config.selfServiceMint,
    maxClaimsPerCaller: config.selfServiceMaxClaimsPerCaller,
    maxKeysPerCaller: config.selfServiceMaxKeysPerCaller,
    defaultAudience: config.defaultAudience,
    reservedAudiences: new Set(["public", config.defaultAudience, config.unstampedAudience]),
  };
}

/** Once the address is known: the identity provider sends browsers back to it. */
function authenticate(
  scope: Scope,
  o: WebServerOptions,
  oidcConfig: OidcConfig,
  front: WebFront,
  admin: AdminPool,
  redirectUri: string,
): void {
  const { config, logger, metrics } = o;
  const authenticator = createOidcAuthenticator({ config: oidcConfig, logger, metrics });
  scope.defer("OIDC", () => authenticator.stop());
  const sessions = createWebSessions({ authenticator });
  const allowedOrigins = webOrigins({ redirectUri, corsOrigin: config.webCorsOrigin });
  const login = createLoginRoutes({
    login: new OidcLogin({
      issuers: oidcConfig.issuers,
      clientSecret: config.oidcClientSecret,
      scope: config.oidcScope,
      redirectUri,
      logger,
      monotonicMs: () => systemClock.monotonicMs(),
    }),
    sessions,
    redirectUri,
    allowedOrigins,
    stateSecret: config.stateSecret ?? randomBytes(32).toString("base64url"),
    isAdmin: async (caller) => (await admin.standing(caller)).isAdmin,
    nowMs: () => systemClock.nowMs(),
  });
  front.authenticate({ sessions, login, allowedOrigins });
}

/** After so many bytes of results the allocator may keep memory that is worth giving back. */
const worthBytes = 64 << 20;
const giveBackMs = 60_000;

function giveBackAfter(queries: WebQueries, scope: Scope): void {
  const giveBack = loadTrim();
  let beforeBytes = 0;
  const periodic = new Periodic(() => {
    if (queries.sentBytes - beforeBytes >= worthBytes) {
      beforeBytes = queries.sentBytes;
      giveBack();
    }
    return Promise.resolve();
  }, giveBackMs);
  scope.defer("unused memory", () => periodic.stop());
}

/**
 * Says so when everybody is an administrator, as soon as it can be told: the database may be away, or have
 * no schema yet, when this server starts.
 */
function warnOfOpenAdmins(scope: Scope, admin: AdminPool, logger: Logger): void {
  const nobody: Caller = { issuer: "", subject: "", email: null, name: "" };
  let stopped = false;
  const ask = async (): Promise<void> => {
    try {
      if ((await admin.standing(nobody)).adminsOpen) {
        logger.warn(adminsOpenWarning);
      }
    } catch (error) {
      logger.debug({ err: error }, "it is not known yet whether everybody is an administrator");
      if (!stopped) {
        timer = setTimeout(() => void ask(), askAgainMs).unref();
      }
    }
  };
  let timer: NodeJS.Timeout | undefined;
  scope.defer("look at the administrators", () => {
    stopped = true;
    clearTimeout(timer);
  });
  void ask();
}
