/**
 * Wires the login of development mode: an identity provider of the service's own, unless one is configured, and what
 * the servers have to know of it. Other starts load none of its code.
 */
import path from "node:path";

import type { IdentityProvider } from "../../login/identity-provider.js";
import type { Config } from "../../runtime/config/parse.js";
import { checkOidcConfig } from "../../runtime/config/oidc.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Scope } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { administrator, guest } from "../../login/accounts.js";
import { commandLineClientId, webClientId } from "../../login/clients.js";

/** Where the identity provider listens unless SVC_DEVELOPMENT_OIDC_LISTEN says otherwise. */
const defaultListen = { host: "127.0.0.1", port: 3001 };

/** The only administrator of a database that is created in development mode. */
export const developmentAdministrator = `user:${administrator.email}`;

/** Whom people can log in as, for the announcement. */
export const developmentAccounts = { administrator: administrator.email, guest: guest.email };

/** The client of the command line at the identity provider. */
export const developmentClientId = commandLineClientId;

/** Whether people log in at the service's own identity provider, when it plays the role web. */
export function hasDevelopmentLogin(config: Config<"monolith">): boolean {
  const { ingestion, analytics, web } = config.byRole;
  const configured = [ingestion, analytics, web].some((role) => role.oidcConfig !== null);
  return config.development && !config.disableAuth && !configured;
}

/**
 * Starts the identity provider.
 * @throws ServiceError NOT_CONFIGURED outside of development mode and off loopback, UNAVAILABLE when the address cannot
 *   be bound.
 */
export async function startDevelopmentLogin(o: {
  readonly config: Config<"monolith">;
  readonly dataDirectory: string;
  readonly scope: Scope;
  readonly logger: Logger;
}): Promise<IdentityProvider> {
  const { config, logger } = o;
  if (!config.development) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "the service has an identity provider of its own in development mode only",
    );
  }
  const { startIdentityProvider } = await import("../../login/identity-provider.js");
  return await o.scope.start("identity provider", () =>
    startIdentityProvider({
      listen: config.developmentOidcListen ?? defaultListen,
      directory: path.join(o.dataDirectory, "development-login"),
      logger,
    }),
  );
}

/** The configuration in which every server takes the identity provider's tokens, and the web server is its client. */
export function withDevelopmentLogin(config: Config<"monolith">, provider: IdentityProvider): Config<"monolith"> {
  const { issuer, secrets } = provider;
  const oidcConfig = checkOidcConfig({
    // The first is whom the web server logs people in as.
    issuers: [webClientId, commandLineClientId].map((audience) => ({ issuer, audience })),
  });
  if (typeof oidcConfig === "string") {
    throw new ServiceError("INTERNAL", `the identity provider of development mode: ${oidcConfig}`);
  }
  const { byRole } = config;
  return {
    ...config,
    byRole: {
      ...byRole,
      ingestion: { ...byRole.ingestion, oidcConfig },
      analytics: { ...byRole.analytics, oidcConfig },
      web: {
        ...byRole.web,
        oidcConfig,
        oidcClientSecret: secrets.clientSecret,
        stateSecret: byRole.web.stateSecret ?? secrets.stateSecret,
      },
    },
  };
}
