/** Tokens of a program that identifies itself at an OpenID Connect provider (RFC 6749, section 4.4). */
import { isLoopbackHost } from "../shared/loopback.js";
import { type AuthProvider, bearer } from "./auth-provider.js";
import { CredentialError } from "./credential-error.js";

const refreshBeforeSeconds = 300;
/** A provider that is down is asked again after so long: each caller that asks it waits for its time limit. */
const retryAfterMs = 30_000;
const requestTimeoutSeconds = 10;

/** Options of {@link ClientCredentialsProvider}. */
export interface ClientCredentialsOptions {
  /** The provider's token endpoint (`SVC_OIDC_TOKEN_ENDPOINT`): https, or http on loopback. */
  readonly tokenEndpoint: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** API audience, which some providers require. */
  readonly audience?: string | null;
  readonly scope?: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly now?: () => number;
}

interface HeldToken {
  readonly authorization: string;
  /** Milliseconds since the Unix epoch. */
  readonly renewAtMs: number;
  readonly expiresAtMs: number;
}

/**
 * Asks for a token when it is first needed, and for the next five minutes before it expires, or at half of a life of
 * less than ten. All callers wait for one request; a provider that is down does no harm while the old token lasts, and is
 * asked every half a minute.
 */
export class ClientCredentialsProvider implements AuthProvider {
  readonly #o: ClientCredentialsOptions;
  #held: HeldToken | null = null;
  #pending: Promise<HeldToken> | null = null;

  /** @throws CredentialError for an endpoint that would send the secret unencrypted. */
  constructor(o: ClientCredentialsOptions) {
    const url = URL.canParse(o.tokenEndpoint) ? new URL(o.tokenEndpoint) : null;
    if (url === null || !(url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname)))) {
      throw new CredentialError("PROVIDER", "the token endpoint takes https://..., or http:// on loopback");
    }
    this.#o = o;
  }

  async authorization(): Promise<string> {
    const now = this.#now();
    if (this.#held !== null && now < this.#held.renewAtMs) {
      return this.#held.authorization;
    }
    try {
      return (await this.#next()).authorization;
    } catch (error) {
      const held = this.#held;
      if (held === null || now >= held.expiresAtMs) {
        throw error;
      }
      this.#held = { ...held, renewAtMs: Math.min(this.#now() + retryAfterMs, held.expiresAtMs) };
      return held.authorization;
    }
  }

  async replace(authorization: string): Promise<string | null> {
    if (this.#held !== null && this.#held.authorization !== authorization) {
      return this.#held.authorization;
    }
    const next = await this.#next();
    return next.authorization === authorization ? null : next.authorization;
  }

  async #next(): Promise<HeldToken> {
    this.#pending ??= this.#request().finally(() => {
      this.#pending = null;
    });
    this.#held = await this.#pending;
    return this.#held;
  }

  async #request(): Promise<HeldToken> {
    const library = await import("openid-client");
    const { clientAuthentication } = await import("../shared/oidc-client.js");
    const { tokenEndpoint, clientId, clientSecret, scope = null, audience = null } = this.#o;
    const url = new URL(tokenEndpoint);
    const server = { issuer: url.origin, token_endpoint: tokenEndpoint };
    const configuration = new library.Configuration(server, clientId, undefined, clientAuthentication(clientSecret));
    configuration.timeout = requestTimeoutSeconds;
    if (url.protocol === "http:") {
      library.allowInsecureRequests(configuration);
    }
    const parameters = {
      ...(scope === null ? {} : { scope }),
      ...(audience === null ? {} : { audience }),
    };
    let tokens: Awaited<ReturnType<typeof library.clientCredentialsGrant>>;
    try {
      tokens = await library.clientCredentialsGrant(configuration, parameters);
    } catch (cause) {
      const refused = cause instanceof library.ResponseBodyError ? cause.error : null;
      const refusedClient = refused !== null || cause instanceof library.WWWAuthenticateChallengeError;
      throw refusedClient
        ? new CredentialError(
            "LOGIN_REFUSED",
            `${url.origin} refused the client credentials${refused === null ? "" : ` (${refused})`}; check client id and secret`,
            { cause },
          )
        : new CredentialError("PROVIDER", `${tokenEndpoint} gave no token; try again, or check the address`, { cause });
    }
    const lifeMs = (tokens.expires_in ?? 3600) * 1000;
    const now = this.#now();
    return {
      authorization: bearer(tokens.access_token),
      renewAtMs: now + lifeMs - Math.min(refreshBeforeSeconds * 1000, lifeMs / 2),
      expiresAtMs: now + lifeMs,
    };
  }

  #now(): number {
    return (this.#o.now ?? Date.now)();
  }
}
