/** The login routes behind a plain HTTP server, at a real identity provider. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import type { Authenticator } from "../../../src/auth/authenticator.js";
import type { Caller } from "../../../src/auth/caller.js";
import { createOidcAuthenticator } from "../../../src/auth/oidc/oidc-authenticator.js";
import { OidcLogin } from "../../../src/auth/oidc/oidc-login.js";
import { createWebSessions } from "../../../src/auth/oidc/web-session.js";
import { toServiceError } from "../../../src/runtime/errors.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { webOrigins } from "../../../src/routes/web/browser-safety.js";
import { createLoginRoutes, type LoginResponse, type LoginRoutes } from "../../../src/routes/web/login-routes.js";
import { createRecordingLogger } from "../auth/auth-fixture.js";
import { oidcConfigOf, type TestProvider } from "../auth/auth-oidc-provider.js";

export interface LoginServer {
  /** `http://127.0.0.1:port` and the base path. */
  readonly base: string;
  readonly origin: string;
  /** Everything that was logged. */
  readonly lines: readonly Record<string, unknown>[];
  /** Moves the server's wall clock. */
  advance(ms: number): void;
  /** Another server with the same secret and redirect URI would answer from now on: the memory is new. */
  restart(secret?: string): void;
  stop(): Promise<void>;
}

export interface LoginServerOptions {
  readonly provider: TestProvider;
  /** Issuers after the first. */
  readonly moreProviders?: readonly TestProvider[];
  readonly basePath?: string;
  readonly clientSecret?: string | null;
  readonly corsOrigin?: string;
  readonly isAdmin?: (caller: Caller) => Promise<boolean>;
  /** Another redirect URI than where the server is. */
  readonly redirectUri?: string;
  readonly scope?: string;
  /** How long the provider may take to answer. Default 10 s: a busy machine is no outage. */
  readonly providerTimeoutMs?: number;
}

async function send(response: ServerResponse, answer: Promise<LoginResponse>): Promise<void> {
  try {
    const { status, headers, body } = await answer;
    for (const [name, value] of headers) {
      response.appendHeader(name, value);
    }
    response.writeHead(status).end(body);
  } catch (error) {
    const failure = toServiceError(error);
    response
      .writeHead(failure.httpStatus, { "content-type": "application/json" })
      .end(JSON.stringify({ code: failure.code, message: failure.publicMessage }));
  }
}

const stateSecret = "a state secret for tests";

export async function startLoginServer(o: LoginServerOptions): Promise<LoginServer> {
  const basePath = o.basePath ?? "";
  const providerTimeoutMs = o.providerTimeoutMs ?? 10_000;
  const { logger, lines } = createRecordingLogger();
  let offsetMs = 0;
  const server = createServer((request, response) => {
    const [path = "", query = ""] = (request.url ?? "").split("?", 2);
    const { headers } = request;
    const answer = routes.handle({
      method: request.method ?? "GET",
      path: path.slice(basePath.length),
      query,
      headers: {
        host: headers.host,
        cookie: headers.cookie,
        origin: headers.origin,
        "content-type": headers["content-type"],
        "sec-fetch-site": headers["sec-fetch-site"],
      },
    });
    void send(response, answer);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const base = `${origin}${basePath}`;
  const redirectUri = o.redirectUri ?? `${base}/auth/callback`;
  const providers = [o.provider, ...(o.moreProviders ?? [])];
  for (const provider of providers) {
    provider.allowRedirect(redirectUri);
  }
  const config = oidcConfigOf({
    issuers: providers.map(({ issuer, clientId }) => ({ issuer, audience: clientId })),
  });
  const nowMs = (): number => Date.now() + offsetMs;
  const authenticators: Authenticator[] = [];
  const makeRoutes = (secret: string): LoginRoutes => {
    const authenticator = createOidcAuthenticator({
      config,
      logger,
      metrics: createMetrics(),
      wallMs: nowMs,
      fetchTimeoutMs: providerTimeoutMs,
    });
    authenticators.push(authenticator);
    return createLoginRoutes({
      login: new OidcLogin({
        issuers: config.issuers,
        clientSecret: o.clientSecret === undefined ? "secret" : o.clientSecret,
        scope: o.scope ?? "openid email profile offline_access",
        redirectUri,
        logger,
        monotonicMs: nowMs,
        requestTimeoutMs: providerTimeoutMs,
      }),
      sessions: createWebSessions({ authenticator }),
      redirectUri,
      allowedOrigins: webOrigins({ redirectUri, corsOrigin: o.corsOrigin ?? null }),
      stateSecret: secret,
      isAdmin: o.isAdmin ?? (() => Promise.resolve(false)),
      nowMs,
    });
  };
  let routes = makeRoutes(stateSecret);
  return {
    base,
    origin,
    lines,
    advance(ms) {
      offsetMs += ms;
    },
    restart(secret = stateSecret) {
      routes = makeRoutes(secret);
    },
    async stop() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
      await Promise.all(authenticators.map((authenticator) => authenticator.stop()));
    },
  };
}
