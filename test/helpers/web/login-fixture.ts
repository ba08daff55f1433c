/** What the tests of logging in share: a provider for a file, and servers that end with each test. */
import type { JWTPayload } from "jose";
import { afterAll, afterEach, beforeAll, expect } from "vitest";

import {
  makeSigningKey,
  type ProviderLogin,
  type SigningKey,
  startOidcProvider,
  type TestProvider,
} from "../auth/auth-oidc-provider.js";
import { TestBrowser } from "./web-browser.js";
import { type LoginServer, type LoginServerOptions, startLoginServer } from "./web-login.js";

interface LoginFixture {
  readonly provider: TestProvider;
  /** The provider's. */
  readonly key: SigningKey;
  readonly start: (o?: Partial<LoginServerOptions>) => Promise<LoginServer>;
  /** Another provider with the same key. */
  readonly startProvider: (login?: ProviderLogin) => Promise<TestProvider>;
  /** Logs in up to the provider's redirect, and gives the address that the browser is sent back to. */
  readonly callbackUrl: (server: LoginServer, browser: TestBrowser, login?: string, query?: string) => Promise<string>;
  readonly loggedIn: (server: LoginServer, login?: string) => Promise<TestBrowser>;
  /** Claims of a token of ann's that lives for ten minutes. */
  readonly claims: (over?: JWTPayload) => JWTPayload;
  /** Answers the token endpoint in the provider's place until the test ends. */
  readonly answerTokens: (body: () => Promise<Record<string, unknown>>) => void;
}

/** Registers the hooks of the calling test file. */
export function useLogin(login: ProviderLogin): LoginFixture {
  let provider: TestProvider;
  let key: SigningKey;
  const servers: LoginServer[] = [];
  const providers: TestProvider[] = [];
  beforeAll(async () => {
    key = await makeSigningKey("first");
    provider = await startOidcProvider({ key, login });
  });
  afterEach(async () => {
    provider.intercept(null);
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    await Promise.all(providers.splice(0).map((other) => other.stop()));
  });
  afterAll(() => provider.stop());

  const callbackUrl: LoginFixture["callbackUrl"] = async (server, browser, login = "ann", query = "") => {
    const { url } = await browser.logIn(`${server.base}/auth/login${query}`, login, ({ pathname }) =>
      pathname.endsWith("/auth/callback"),
    );
    return url;
  };
  return {
    get provider() {
      return provider;
    },
    get key() {
      return key;
    },
    start: async (o = {}) => {
      const server = await startLoginServer({ provider, ...o });
      servers.push(server);
      return server;
    },
    startProvider: async (other = login) => {
      const started = await startOidcProvider({ key, login: other });
      providers.push(started);
      return started;
    },
    callbackUrl,
    loggedIn: async (server, login) => {
      const browser = new TestBrowser();
      const response = await browser.request(await callbackUrl(server, browser, login));
      expect(response.status).toBe(302);
      return browser;
    },
    claims: (over = {}) => {
      const now = Math.floor(Date.now() / 1000);
      const { issuer: iss, clientId: aud } = provider;
      return { iss, aud, sub: "ann", iat: now, exp: now + 600, ...over };
    },
    answerTokens: (body) => {
      provider.intercept((path) =>
        path === "/token"
          ? (_request, response) => {
              void body().then((tokens) =>
                response
                  .writeHead(200, { "content-type": "application/json" })
                  .end(JSON.stringify({ access_token: "a", token_type: "Bearer", ...tokens })),
              );
            }
          : null,
      );
    },
  };
}

/** Status and code of an answer. */
export async function codeOf(response: Response): Promise<string> {
  return `${response.status} ${((await response.json()) as { code: string }).code}`;
}
