/**
 * The requests of a client to an OpenID Connect provider, by openid-client, which is loaded when the first is made.
 *
 * Every failure is a CredentialError of one sentence. The provider's clock is taken from its answers (`Date`), so
 * that tokens are judged by it, and a clock that is off here does no harm.
 */
import type * as OpenidClient from "openid-client";
import type { Configuration, CustomFetch, DeviceAuthorizationResponse } from "openid-client";

import { isLoopbackHost } from "../shared/loopback.js";
import { CredentialError } from "./credential-error.js";
import { member } from "../shared/json-member.js";
import type { StoredLogin } from "./token-file.js";

const requestTimeoutSeconds = 10;

/** Who asks whom. */
interface OidcClient {
  readonly issuer: string;
  readonly clientId: string;
  /** Some providers require one even with PKCE. */
  readonly clientSecret: string | null;
  /** API audience, which some providers require. */
  readonly audience: string | null;
  /** Separated by spaces. */
  readonly scope: string;
}

/** A login that waits for the browser. */
interface BrowserLogin {
  /** Where to send the browser. */
  readonly url: string;
  readonly state: string;
  /** @param callback the address that the browser came back to, query included */
  finish(callback: URL): Promise<StoredLogin>;
}

/** A provider as it was discovered. Every method throws CredentialError. */
export interface OidcProvider {
  startLogin(redirectUri: string): Promise<BrowserLogin>;
  /** Where the person enters which code, and the end of it. */
  startDeviceLogin(): Promise<{
    readonly device: DeviceAuthorizationResponse;
    finish(signal: AbortSignal): Promise<StoredLogin>;
  }>;
  /** @returns null when the refresh token is no longer accepted */
  refresh(login: StoredLogin): Promise<StoredLogin | null>;
  /** Tells the provider to forget a login, where it can. */
  revoke(token: string): Promise<void>;
}

type Library = typeof OpenidClient;
type Tokens = Awaited<ReturnType<Library["authorizationCodeGrant"]>>;

/** Asks a provider what it is. @throws CredentialError */
export async function discoverProvider(client: OidcClient): Promise<OidcProvider> {
  const { library, ask, configuration, byItsClock } = await openConfiguration(client);
  const server = configuration.serverMetadata();
  const { scopeFor } = await import("../shared/oidc-client.js");
  const scope = scopeFor(server, client.scope);
  const audience: Record<string, string> = client.audience === null ? {} : { audience: client.audience };
  const stored = (tokens: Tokens, before: StoredLogin | null): StoredLogin => storedLogin(client, tokens, before);

  return {
    async startLogin(redirectUri) {
      const verifier = library.randomPKCECodeVerifier();
      const state = library.randomState();
      const nonce = library.randomNonce();
      const address = library.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope,
        state,
        nonce,
        ...audience,
        code_challenge: await library.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
        // OpenID Connect Core 11: a request for offline access asks for consent.
        ...(scope.split(" ").includes("offline_access") ? { prompt: "consent" } : {}),
      });
      return {
        url: address.href,
        state,
        finish: (callback) =>
          ask(async () => {
            const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier };
            return stored(await library.authorizationCodeGrant(byItsClock(), callback, checks), null);
          }),
      };
    },
    async startDeviceLogin() {
      if (server.device_authorization_endpoint === undefined) {
        throw new CredentialError("PROVIDER", `${client.issuer} has no device flow; log in with a browser`);
      }
      const device = await ask(() => library.initiateDeviceAuthorization(configuration, { scope, ...audience }));
      return {
        device,
        finish: (signal) =>
          ask(async () => {
            const tokens = await library.pollDeviceAuthorizationGrant(byItsClock(), device, undefined, { signal });
            return stored(tokens, null);
          }),
      };
    },
    refresh: (login) =>
      ask(async () => {
        try {
          return stored(await library.refreshTokenGrant(byItsClock(), login.refreshToken ?? ""), login);
        } catch (error) {
          if (error instanceof library.ResponseBodyError && error.error === "invalid_grant") {
            return null;
          }
          throw error;
        }
      }),
    async revoke(token) {
      if (server.revocation_endpoint !== undefined) {
        await ask(() => library.tokenRevocation(configuration, token));
      }
    },
  };
}

/** The library, set up for a provider. */
interface OpenedConfiguration {
  readonly library: Library;
  /** Turns every failure into a CredentialError. */
  readonly ask: <T>(work: () => Promise<T>) => Promise<T>;
  readonly configuration: Configuration;
  /** The same, for checks of times by the provider's clock as far as it is known. */
  readonly byItsClock: () => Configuration;
}

async function openConfiguration({ issuer, clientId, clientSecret }: OidcClient): Promise<OpenedConfiguration> {
  if (!URL.canParse(issuer)) {
    throw new CredentialError("PROVIDER", `the issuer ${issuer} is no address`);
  }
  const library = await import("openid-client");
  const { clientAuthentication } = await import("../shared/oidc-client.js");
  const url = new URL(issuer);
  const insecure = url.protocol === "http:" && isLoopbackHost(url.hostname);
  const authentication = clientAuthentication(clientSecret);
  let skewSeconds = 0;
  const ask = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw failureOf(library, error, issuer, skewSeconds);
    }
  };
  const fetchAndLook: CustomFetch = async (address, options) => {
    // The library's types of bodies are wider than what it sends, which is a form or nothing.
    const response = await fetch(address, options as RequestInit);
    const date = Date.parse(response.headers.get("date") ?? "");
    if (Number.isFinite(date)) {
      skewSeconds = Math.round((date - Date.now()) / 1000);
    }
    return response;
  };
  const configuration = await ask(() =>
    library.discovery(url, clientId, undefined, authentication, {
      timeout: requestTimeoutSeconds,
      execute: insecure ? [library.allowInsecureRequests] : [],
      [library.customFetch]: fetchAndLook,
    }),
  );
  const byItsClock = (): Configuration => {
    // The library allows 30 seconds; as many are not worth correcting.
    if (Math.abs(skewSeconds) < 15) {
      return configuration;
    }
    const server = configuration.serverMetadata();
    const corrected = new library.Configuration(server, clientId, { [library.clockSkew]: skewSeconds }, authentication);
    corrected.timeout = requestTimeoutSeconds;
    corrected[library.customFetch] = fetchAndLook;
    if (insecure) {
      library.allowInsecureRequests(corrected);
    }
    return corrected;
  };
  return { library, ask, configuration, byItsClock };
}

/** The lifetime counts from now by this machine's clock, so that a clock that is off does no harm. */
function storedLogin(client: OidcClient, tokens: Tokens, before: StoredLogin | null): StoredLogin {
  const idToken = tokens.id_token ?? null;
  if (idToken === null && before?.idToken !== null && before !== null) {
    throw new CredentialError("LOGIN_REQUIRED", `${client.issuer} gave no new identity token; run: telemetry login`);
  }
  const lifetimes = [tokens.expires_in, idToken === null ? undefined : tokenLifetime(idToken)];
  const known = lifetimes.filter((seconds) => seconds !== undefined);
  return {
    issuer: client.issuer,
    clientId: client.clientId,
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token ?? before?.refreshToken ?? null,
    idToken,
    expiresAt: Math.floor(Date.now() / 1000) + (known.length === 0 ? 3600 : Math.min(...known)),
  };
}

/** Seconds between `iat` and `exp` of a JWT, which is not checked here; undefined where it does not tell. */
export function tokenLifetime(token: string): number | undefined {
  const claims = claimsOf(token);
  const issued = member(claims, "iat");
  const expires = member(claims, "exp");
  return typeof issued === "number" && typeof expires === "number" && expires > issued ? expires - issued : undefined;
}

/** The claims of a JWT without checking it; undefined for something else. */
export function claimsOf(token: string): unknown {
  try {
    return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8")) as unknown;
  } catch {
    // Not a JWT: access tokens may be anything.
    return undefined;
  }
}

function failureOf(library: Library, error: unknown, issuer: string, skewSeconds: number): CredentialError {
  if (error instanceof CredentialError) {
    return error;
  }
  const fail = (code: CredentialError["code"], message: string): CredentialError =>
    new CredentialError(code, message, { cause: error });
  if (error instanceof library.AuthorizationResponseError) {
    return fail("LOGIN_REFUSED", `${issuer} refused the login: ${words(error.error, error.error_description)}`);
  }
  if (error instanceof library.ResponseBodyError) {
    return fail("LOGIN_REFUSED", `${issuer} refused: ${words(error.error, error.error_description)}`);
  }
  if (error instanceof library.WWWAuthenticateChallengeError) {
    return fail("LOGIN_REFUSED", `${issuer} does not accept this client; check the client id and secret`);
  }
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && cause.code === "OAUTH_JWT_TIMESTAMP_CHECK_FAILED") {
      return fail("CLOCK", `the token of ${issuer} is not valid now; this machine's clock is off by ${-skewSeconds} s`);
    }
    if ("code" in cause && typeof cause.code === "string" && /^(?:E[A-Z]+|UND_ERR\w*|CERT_\w+)$/.test(cause.code)) {
      return fail("PROVIDER", `${issuer} cannot be reached (${cause.code}); try again, or check the address`);
    }
    if (cause.name === "TimeoutError" || cause.name === "AbortError") {
      return fail("PROVIDER", `${issuer} did not answer in time; try again`);
    }
  }
  const message = error instanceof Error ? error.message : "unknown";
  return fail("PROVIDER", `${issuer} did not answer as an OpenID Connect provider: ${message}`);
}

/** An error response, which came over the network and may be anything, as words for a terminal. */
function words(code: string, description: string | undefined): string {
  const text = description === undefined ? code : `${code} (${description})`;
  return text.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 300);
}
