/**
 * The identity provider's side of a browser login: authorization code flow with PKCE and nonce
 * (OpenID Connect Core 3.1, RFC 7636), refresh (section 12), both by openid-client.
 *
 * What the provider is and can do is discovered when it is first needed, and again once an hour, so a provider that is
 * down keeps no server from starting. Every request is bounded in time and bytes and follows no redirect. There are
 * three kinds of failures: the provider cannot be reached (UNAVAILABLE), it does not accept this server as its client
 * (NOT_CONFIGURED), it refuses this login (UNAUTHENTICATED). This file does not check signatures of ID tokens:
 * web-session.ts validates every ID token, from a login or a cookie.
 */
import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  calculatePKCECodeChallenge,
  clockTolerance,
  type Configuration,
  customFetch,
  type CustomFetch,
  discovery,
  refreshTokenGrant,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from "openid-client";
import { clientAuthentication, scopeFor } from "telemetry-service-client/shared/oidc-client";

import type { OidcIssuer } from "../../runtime/config/oidc.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { createRareWarning, type RareWarning } from "../../runtime/log/rare-warnings.js";
import { createIssuerFetch, type IssuerFetch } from "./issuer-fetch.js";
import { clockToleranceSeconds } from "./oidc-authenticator.js";

const metadataLifeMs = 3600_000;
const retryMs = 1000;

/** Options of {@link OidcLogin}. */
interface OidcLoginOptions {
  /** The accepted issuers; a login that names none goes to the first. */
  readonly issuers: readonly OidcIssuer[];
  /**
   * Of the first issuer, where it requires one beside PKCE (`SVC_OIDC_CLIENT_SECRET`). No other gets it: it could log in
   * as this server at the first.
   */
  readonly clientSecret: string | null;
  /** Scopes to ask for, separated by spaces (`SVC_OIDC_SCOPE`). */
  readonly scope: string;
  /** Where the provider sends the browser back to. */
  readonly redirectUri: string;
  readonly logger: Logger;
  /** Monotonic milliseconds. */
  readonly monotonicMs: () => number;
  /** Bound on each request to the provider. Default 5 s. */
  readonly requestTimeoutMs?: number;
}

/** What a provider gave. */
interface ProviderTokens {
  readonly idToken: string;
  /** Null when the provider gave none. */
  readonly refreshToken: string | null;
}

/** The provider could not be asked, or had no answer. */
class ProviderUnreachable extends Error {}

interface Discovered {
  readonly configuration: Configuration;
  readonly atMs: number;
}

/** See the head of the file. */
export class OidcLogin {
  readonly #o: OidcLoginOptions;
  readonly #warn: RareWarning;
  readonly #discovered = new Map<string, Discovered>();
  readonly #discovering = new Map<string, Promise<Configuration>>();
  readonly #failedAtMs = new Map<string, number>();
  readonly #fetches: ReadonlyMap<string, IssuerFetch>;

  /** @throws ServiceError NOT_CONFIGURED when the `ca_file` of an issuer cannot be read. */
  constructor(o: OidcLoginOptions) {
    this.#o = o;
    this.#warn = createRareWarning(o.logger);
    this.#fetches = new Map(o.issuers.map((entry) => [entry.issuer, createIssuerFetch(entry)]));
  }

  /** The issuer of that name, or the first when `name` is null; null when it is not configured. */
  issuer(name: string | null): string | null {
    const { issuers } = this.#o;
    return issuers.find(({ issuer }) => name === null || issuer === name)?.issuer ?? null;
  }

  /**
   * Where to send the browser.
   * @throws ServiceError UNAVAILABLE when the provider cannot be asked what it is.
   */
  async authorizationUrl(o: {
    readonly issuer: string;
    readonly state: string;
    readonly nonce: string;
    readonly codeVerifier: string;
  }): Promise<string> {
    const configuration = await this.#configuration(o.issuer);
    const scope = scopeFor(configuration.serverMetadata(), this.#o.scope);
    const url = buildAuthorizationUrl(configuration, {
      redirect_uri: this.#o.redirectUri,
      scope,
      state: o.state,
      nonce: o.nonce,
      code_challenge: await calculatePKCECodeChallenge(o.codeVerifier),
      code_challenge_method: "S256",
      // OpenID Connect Core 11: a request for offline access asks for consent.
      ...(scope.split(" ").includes("offline_access") ? { prompt: "consent" } : {}),
    });
    return url.href;
  }

  /**
   * Exchanges the code of a callback.
   * @param o.query of the callback, as it came, with `state` in it.
   * @throws ServiceError UNAVAILABLE, NOT_CONFIGURED or UNAUTHENTICATED; see the head of the file.
   */
  async exchange(o: {
    readonly issuer: string;
    readonly query: string;
    readonly state: string;
    readonly nonce: string;
    readonly codeVerifier: string;
  }): Promise<ProviderTokens> {
    const configuration = await this.#configuration(o.issuer);
    const callback = new URL(this.#o.redirectUri);
    callback.search = o.query;
    const tokens = await this.#ask(o.issuer, "exchange the code", () =>
      authorizationCodeGrant(configuration, callback, {
        expectedState: o.state,
        expectedNonce: o.nonce,
        pkceCodeVerifier: o.codeVerifier,
        idTokenExpected: true,
      }),
    );
    return tokensOf(tokens);
  }

  /**
   * New tokens for a refresh token.
   * @returns `refreshToken` is the one to use next: a new one, or the same again.
   * @throws ServiceError as {@link exchange}.
   */
  async refresh(issuer: string, refreshToken: string): Promise<ProviderTokens> {
    const configuration = await this.#configuration(issuer);
    const tokens = tokensOf(await this.#ask(issuer, "refresh", () => refreshTokenGrant(configuration, refreshToken)));
    return { ...tokens, refreshToken: tokens.refreshToken ?? refreshToken };
  }

  async #configuration(issuer: string): Promise<Configuration> {
    const nowMs = this.#o.monotonicMs();
    const known = this.#discovered.get(issuer);
    if (known !== undefined && nowMs - known.atMs < metadataLifeMs) {
      return known.configuration;
    }
    const failedAtMs = this.#failedAtMs.get(issuer) ?? Number.NEGATIVE_INFINITY;
    if (!this.#discovering.has(issuer) && nowMs - failedAtMs < retryMs) {
      throw unavailable();
    }
    let discovering = this.#discovering.get(issuer);
    if (discovering === undefined) {
      discovering = this.#discover(issuer).finally(() => this.#discovering.delete(issuer));
      this.#discovering.set(issuer, discovering);
    }
    return discovering;
  }

  async #discover(issuer: string): Promise<Configuration> {
    const entry = this.#o.issuers.find((accepted) => accepted.issuer === issuer);
    const fetchFrom = this.#fetches.get(issuer);
    if (entry === undefined || fetchFrom === undefined) {
      throw new ServiceError("BAD_REQUEST", "this issuer is not accepted");
    }
    let configuration: Configuration;
    try {
      configuration = await discovery(
        new URL(issuer),
        entry.audience,
        // The token is checked once more, with the same tolerance.
        { [clockTolerance]: clockToleranceSeconds },
        clientAuthentication(issuer === this.issuer(null) ? this.#o.clientSecret : null),
        {
          timeout: (this.#o.requestTimeoutMs ?? 5000) / 1000,
          [customFetch]: unlessUnreachable(fetchFrom),
          // Where plain HTTP is not allowed, createIssuerFetch refuses it.
          execute: issuer.startsWith("http:") || entry.allowHttp ? [allowInsecureRequests] : [],
        },
      );
    } catch (error) {
      this.#failedAtMs.set(issuer, this.#o.monotonicMs());
      this.#warn(issuer, { issuer, cause: sentence(error) }, "the identity provider could not be discovered");
      throw unavailable(error);
    }
    this.#failedAtMs.delete(issuer);
    this.#discovered.set(issuer, { configuration, atMs: this.#o.monotonicMs() });
    return configuration;
  }

  async #ask<T>(issuer: string, what: string, request: () => Promise<T>): Promise<T> {
    try {
      return await request();
    } catch (error) {
      const failure = failureOf(error);
      const [fields, message] = [{ issuer, cause: sentence(error) }, `the identity provider did not ${what}`];
      if (failure.code === "UNAUTHENTICATED") {
        this.#o.logger.info(fields, message);
      } else {
        this.#warn(`${what} ${issuer}`, fields, message);
      }
      throw failure;
    }
  }
}

function tokensOf(tokens: { readonly id_token?: string; readonly refresh_token?: string }): ProviderTokens {
  if (tokens.id_token === undefined) {
    throw new ServiceError("UNAUTHENTICATED", "the identity provider gave no new identity token; log in again");
  }
  return { idToken: tokens.id_token, refreshToken: tokens.refresh_token ?? null };
}

function unlessUnreachable(fetchFrom: IssuerFetch): CustomFetch {
  return async (url, options) => {
    let response: Response;
    try {
      // The library's types of bodies are wider than what it sends, which is a form or nothing.
      response = await fetchFrom(url, options as RequestInit);
    } catch (cause) {
      throw new ProviderUnreachable(`no answer: ${cause instanceof Error ? cause.message : "unknown"}`, { cause });
    }
    if (response.status >= 500 || response.status === 429) {
      throw new ProviderUnreachable(`HTTP ${response.status}`);
    }
    return response;
  };
}

function failureOf(error: unknown): ServiceError {
  if (error instanceof ServiceError) {
    return error;
  }
  for (let e: unknown = error; e instanceof Error; e = e.cause) {
    if (e instanceof ProviderUnreachable || e.name === "TimeoutError" || e.name === "AbortError") {
      return unavailable(error);
    }
  }
  if (error instanceof AuthorizationResponseError) {
    return error.error === "temporarily_unavailable" || error.error === "server_error"
      ? unavailable(error)
      : unauthenticated(`the identity provider refused the login (${codeOf(error.error)})`, error);
  }
  // RFC 6749 section 5.2: a challenge is the answer to a client that failed to authenticate.
  if (
    error instanceof WWWAuthenticateChallengeError ||
    (error instanceof ResponseBodyError && (error.error === "invalid_client" || error.error === "unauthorized_client"))
  ) {
    return new ServiceError(
      "NOT_CONFIGURED",
      "the identity provider does not accept this server as its client; check the audience in SVC_OIDC_CONFIG, SVC_OIDC_CLIENT_SECRET and SVC_AUTH_REDIRECT_URI",
      { cause: error },
    );
  }
  return unauthenticated("the identity provider did not confirm the login; log in again", error);
}

function unauthenticated(message: string, cause: unknown): ServiceError {
  return new ServiceError("UNAUTHENTICATED", message, { cause });
}

function unavailable(cause?: unknown): ServiceError {
  return new ServiceError("UNAVAILABLE", "the identity provider cannot be reached; try again", {
    cause,
    retryAfterSeconds: 1,
  });
}

/** The code of an error response, which came through the browser and may be anything. */
function codeOf(error: string): string {
  return /^[a-z_]{1,64}$/.test(error) ? error : "unknown";
}

/** For the log: messages of the library name no token and no secret, their details do. */
function sentence(error: unknown): string {
  if (!(error instanceof Error)) {
    return "unknown";
  }
  const code = error instanceof ResponseBodyError ? ` (${codeOf(error.error)})` : "";
  const inner = error.cause instanceof ProviderUnreachable ? `: ${error.cause.message}` : "";
  return `${error.message}${code}${inner}`;
}
