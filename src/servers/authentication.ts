/**
 * Wires how the ingestion and the analytics server tell who is calling: OIDC first, then the keys of their table.
 */
import {
  anonymousAuthenticator,
  type Authenticator,
  chainAuthenticators,
  refuseUnstamped,
} from "../auth/authenticator.js";
import { createKeyAuthenticator, type KeyAuthenticator } from "../auth/keys/key-authenticator.js";
import type { KeyTable } from "../auth/keys/keys.js";
import { authStartRefusal } from "../auth/keys/startup.js";
import type { Sql } from "../db/sql.js";
import type { Config } from "../runtime/config/parse.js";
import { ServiceError } from "../runtime/errors.js";
import type { Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";

/** What {@link startAuthentication} needs. */
interface AuthenticationOptions {
  readonly config: Pick<
    Config<"ingestion"> | Config<"analytics">,
    | "disableAuth"
    | "oidcConfig"
    | "apiKeyCacheSize"
    | "apiKeyUnknownCacheSize"
    | "apiKeyUnknownCacheTtlSeconds"
    | "authCacheTtlSeconds"
  >;
  readonly table: KeyTable;
  /** Forbids credentials without a write audience. */
  readonly refuseUnstamped?: boolean;
  readonly sql: Sql;
  /** Opens another pool like `sql`; see deadline-sql.ts. */
  readonly reopen: () => Sql;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The authentication of a server; its parts belong to the scope that it was started in. */
interface Authentication {
  readonly authenticator: Authenticator;
  /** The key store, which other threads can share; null under `--disable-auth`. */
  readonly keys: KeyAuthenticator | null;
  /** Whether tokens that look like JWTs can be accepted. */
  readonly oidc: boolean;
}

/**
 * Starts the chain.
 * @throws ServiceError NOT_CONFIGURED when it could accept nobody, or the `ca_file` of an issuer
 *   cannot be read; database errors as they are.
 */
export async function startAuthentication(scope: Scope, o: AuthenticationOptions): Promise<Authentication> {
  const { config, table, sql, logger, metrics } = o;
  if (config.disableAuth) {
    return { authenticator: anonymousAuthenticator(logger), keys: null, oidc: false };
  }
  const { oidcConfig } = config;
  const refusal = await authStartRefusal({ sql, table, oidcConfigured: oidcConfig !== null });
  if (refusal !== null) {
    throw new ServiceError("NOT_CONFIGURED", refusal);
  }
  const oidc =
    oidcConfig === null
      ? null
      : await scope.start("OIDC", async () => {
          const { createOidcAuthenticator } = await import("../auth/oidc/oidc-authenticator.js");
          return createOidcAuthenticator({ config: oidcConfig, logger, metrics });
        });
  const keys = await scope.start("key store", () =>
    createKeyAuthenticator({
      sql,
      reopen: o.reopen,
      table,
      cacheSize: config.apiKeyCacheSize,
      cacheTtlMs: config.authCacheTtlSeconds * 1000,
      unknownCacheSize: config.apiKeyUnknownCacheSize,
      unknownCacheTtlMs: config.apiKeyUnknownCacheTtlSeconds * 1000,
      logger,
      metrics,
    }),
  );
  return {
    authenticator:
      oidc === null ? keys : chainAuthenticators(o.refuseUnstamped === true ? refuseUnstamped(oidc) : oidc, keys),
    keys,
    oidc: oidc !== null,
  };
}
