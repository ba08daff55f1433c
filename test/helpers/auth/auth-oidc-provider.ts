/** A real identity provider (oidc-provider) on loopback, whose tokens and outages a test controls. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { exportJWK, generateKeyPair, importJWK, type JWK, type JWTPayload, SignJWT } from "jose";
import { Provider } from "oidc-provider";

import { checkOidcConfig, type OidcConfig } from "../../../src/runtime/config/oidc.js";
import { freePort } from "../free-port.js";

/** The configuration that servers read from this document. */
export function oidcConfigOf(document: unknown): OidcConfig {
  const config = checkOidcConfig(document);
  if (typeof config === "string") {
    throw new Error(config);
  }
  return config;
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** A private signing key with its `kid`. */
export interface SigningKey {
  readonly jwk: JWK;
  readonly alg: string;
}

export async function makeSigningKey(kid: string, alg = "RS256"): Promise<SigningKey> {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { jwk: { ...(await exportJWK(privateKey)), kid, alg, use: "sig" }, alg };
}

/** A token by `key` that holds exactly `claims`; for what a provider would never issue. */
export async function signToken(
  key: SigningKey,
  claims: JWTPayload,
  header: Record<string, unknown> = {},
): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: key.alg, ...(key.jwk.kid ? { kid: key.jwk.kid } : {}), ...header })
    .sign(await importJWK(key.jwk, key.alg));
}

export interface TestProvider {
  readonly issuer: string;
  readonly clientId: string;
  /** Requests for the key set so far. */
  readonly keySetRequests: () => number;
  /** A token from the token endpoint, by the client-credentials grant. */
  issueToken(): Promise<string>;
  /** The provider signs with `key` from now on, and publishes no other. */
  rotate(key: SigningKey): void;
  /** Adds an address that logins may come back to. */
  allowRedirect(uri: string): void;
  /** Something else answers instead of the provider, or, with null, the provider again. */
  intercept(handler: ((path: string) => Handler | null) | null): void;
  goDown(): Promise<void>;
  comeUp(): Promise<void>;
  stop(): Promise<void>;
}

/** Lets people log in at the provider, by its development pages; see web-browser.ts. */
export interface ProviderLogin {
  /** Claims of the user who logs in under a name. */
  readonly claimsOf: (login: string) => Record<string, unknown>;
  /** A client without a secret; it can use no client credentials. */
  readonly publicClient?: boolean;
  readonly idTokenSeconds?: () => number;
}

export async function startOidcProvider(o: {
  readonly key: SigningKey;
  /** Claims beside the standard ones. */
  readonly claims?: Record<string, unknown>;
  readonly login?: ProviderLogin;
  /** PEM; the provider speaks https then. */
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Default 127.0.0.1. */
  readonly host?: string;
}): Promise<TestProvider> {
  const host = o.host ?? "127.0.0.1";
  const clientId = "telemetry-client";
  let handler: Handler = () => undefined;
  let interceptor: ((path: string) => Handler | null) | null = null;
  let keySetRequests = 0;
  // Nobody takes it while the provider is down.
  const port = await freePort();
  let server: Server | null = null;

  const serve: Handler = (request, response) => {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    if (path === "/jwks") {
      keySetRequests++;
    }
    (interceptor?.(path) ?? handler)(request, response);
  };
  const comeUp = async (): Promise<void> => {
    server = o.tls === undefined ? createServer(serve) : createTlsServer(o.tls, serve);
    server.listen(port, host);
    await once(server, "listening");
  };
  const goDown = async (): Promise<void> => {
    if (server === null) {
      return;
    }
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    server = null;
    await closed;
  };
  await comeUp();
  const issuer = `${o.tls === undefined ? "http" : "https"}://${host}:${port}`;

  let signing = o.key;
  let redirectUris: readonly string[] = [];
  const rotate = (key: SigningKey): void => {
    if (key !== signing) {
      signing = key;
      rebuild();
    }
  };
  const rebuild = (): void => {
    const { alg, jwk } = signing;
    const { login } = o;
    const provider = new Provider(issuer, {
      clients: [
        {
          client_id: clientId,
          ...(login?.publicClient === true ? { token_endpoint_auth_method: "none" } : { client_secret: "secret" }),
          grant_types: [
            ...(login?.publicClient === true ? [] : ["client_credentials"]),
            ...(login === undefined
              ? []
              : ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"]),
          ],
          redirect_uris: login === undefined ? [] : redirectUris,
          response_types: login === undefined ? [] : ["code"],
          id_token_signed_response_alg: alg,
        },
      ],
      ...(login === undefined ? {} : loginConfiguration(login)),
      jwks: { keys: [jwk] },
      ttl: {
        ClientCredentials: 3600,
        IdToken: login?.idTokenSeconds ?? 3600,
      },
      extraTokenClaims: () => o.claims ?? {},
      features: {
        devInteractions: { enabled: login !== undefined },
        clientCredentials: { enabled: true },
        deviceFlow: { enabled: login !== undefined },
        revocation: { enabled: true },
        resourceIndicators: {
          enabled: true,
          // Logins are about identity alone.
          defaultResource: (ctx: { oidc: { params?: { grant_type?: string } } }) =>
            ctx.oidc.params?.grant_type === "client_credentials" ? "urn:telemetry" : undefined,
          getResourceServerInfo: () => ({
            audience: clientId,
            scope: "read",
            accessTokenFormat: "jwt",
            accessTokenTTL: 3600,
            jwt: { sign: { alg, kid: jwk.kid } },
          }),
        },
      },
    });
    const answer = provider.callback();
    handler = (request, response) => {
      void answer(request, response);
    };
  };
  rebuild();

  return {
    issuer,
    clientId,
    keySetRequests: () => keySetRequests,
    async issueToken() {
      const response = await fetch(`${issuer}/token`, {
        method: "POST",
        headers: {
          authorization: `Basic ${Buffer.from(`${clientId}:secret`).toString("base64")}`,
          "content-type": "application/x-www-form-urlencoded",
        },
        body: "grant_type=client_credentials",
      });
      const body = (await response.json()) as { access_token?: string };
      if (body.access_token === undefined) {
        throw new Error(JSON.stringify(body));
      }
      return body.access_token;
    },
    rotate,
    allowRedirect(uri) {
      redirectUris = [...redirectUris, uri];
      rebuild();
    },
    intercept(next) {
      interceptor = next;
    },
    goDown,
    comeUp,
    stop: goDown,
  };
}

function loginConfiguration(login: ProviderLogin): Record<string, unknown> {
  return {
    // Claims in the identity token itself, as the providers do it that people use.
    conformIdTokenClaims: false,
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    rotateRefreshToken: true,
    cookies: { keys: ["cookie-signing-key-of-the-test-provider"] },
    findAccount: (_ctx: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, ...login.claimsOf(id) }),
    }),
  };
}
