import type { ServerResponse } from "node:http";
import { decodeJwt, type JWTPayload } from "jose";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import {
  type Handler,
  makeSigningKey,
  type SigningKey,
  signToken,
  startOidcProvider,
  type TestProvider,
} from "../../helpers/auth/auth-oidc-provider.js";
import { TestBrowser } from "../../helpers/web/web-browser.js";
import {
  type LoginServer,
  type LoginServerOptions,
  startLoginServer,
} from "../../helpers/web/web-login.js";

let key: SigningKey;
let foreignKey: SigningKey;
let provider: TestProvider;
const servers: LoginServer[] = [];
const providers: TestProvider[] = [];

const claimsOf = (login: string): Record<string, unknown> => ({
  email: `${login}@Example.com`,
  email_verified: login !== "unverified",
  ...(login === "nameless" ? {} : { name: `The ${login}` }),
});

beforeAll(async () => {
  [key, foreignKey] = await Promise.all([makeSigningKey("first"), makeSigningKey("first")]);
  provider = await startOidcProvider({ key, login: { claimsOf } });
});
afterEach(async () => {
  provider.intercept(null);
  await Promise.all(servers.splice(0).map((server) => server.stop()));
  await Promise.all(providers.splice(0).map((other) => other.stop()));
});
afterAll(() => provider.stop());

async function start(o: Partial<LoginServerOptions> = {}): Promise<LoginServer> {
  const server = await startLoginServer({ provider, ...o });
  servers.push(server);
  return server;
}

async function startProvider(
  o: Partial<Parameters<typeof startOidcProvider>[0]> = {},
): Promise<TestProvider> {
  const other = await startOidcProvider({ key, login: { claimsOf }, ...o });
  providers.push(other);
  return other;
}

/** Logs in up to the provider's redirect, and gives the address that the browser is sent back to. */
async function callbackUrl(
  server: LoginServer,
  browser: TestBrowser,
  login = "ann",
  query = "",
): Promise<string> {
  const { url } = await browser.logIn(`${server.base}/auth/login${query}`, login, ({ pathname }) =>
    pathname.endsWith("/auth/callback"),
  );
  return url;
}

async function loggedIn(server: LoginServer, login = "ann"): Promise<TestBrowser> {
  const browser = new TestBrowser();
  const response = await browser.request(await callbackUrl(server, browser, login));
  expect(response.status).toBe(302);
  return browser;
}

async function codeOf(response: Response): Promise<string> {
  return `${response.status} ${((await response.json()) as { code: string }).code}`;
}

const post = (headers: Record<string, string> = { "content-type": "application/json" }) => ({
  method: "POST",
  headers,
});

/** Answers the token endpoint in the provider's place. */
function answerTokens(body: (claims: JWTPayload) => Promise<Record<string, unknown>>): void {
  const handler: Handler = (_request, response: ServerResponse) => {
    const now = Math.floor(Date.now() / 1000);
    const { issuer: iss, clientId: aud } = provider;
    void body({ iss, aud, sub: "ann", iat: now, exp: now + 600 }).then((tokens) =>
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ access_token: "a", token_type: "Bearer", ...tokens })),
    );
  };
  provider.intercept((path) => (path === "/token" ? handler : null));
}

describe("a login", () => {
  it("leads through the provider to return_to, with the cookies of a session", async () => {
    const server = await start({
      isAdmin: ({ email }) => Promise.resolve(email === "ann@example.com"),
    });
    const browser = new TestBrowser();
    const end = await browser.logIn(
      `${server.base}/auth/login?return_to=${encodeURIComponent("/admin?tab=1#top")}`,
      "ann",
      ({ pathname }) => pathname === "/admin",
    );
    expect(end.url).toBe(`${server.base}/admin?tab=1#top`);
    const me = await browser.request(`${server.base}/auth/me`);
    expect(me.status).toBe(200);
    expect(me.headers.get("cache-control")).toBe("no-store");
    const { exp } = decodeJwt(browser.cookie("id_token") ?? "");
    expect(await me.json()).toEqual({
      email: "ann@example.com",
      name: "The ann",
      subject: "ann",
      is_admin: true,
      expires_at: new Date((exp ?? 0) * 1000).toISOString(),
    });
  });

  it("uses PKCE with S256, a nonce and a state of its own each time, and sends no secret", async () => {
    const server = await start();
    const seen = new Set<string>();
    for (let i = 0; i < 2; i++) {
      const response = await fetch(`${server.base}/auth/login`, { redirect: "manual" });
      const to = new URL(response.headers.get("location") ?? "");
      expect(to.origin).toBe(provider.issuer);
      const query = Object.fromEntries(to.searchParams);
      expect(query).toMatchObject({
        client_id: provider.clientId,
        response_type: "code",
        redirect_uri: `${server.base}/auth/callback`,
        code_challenge_method: "S256",
        code_challenge: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/) as string,
        scope: "openid email profile offline_access",
        prompt: "consent",
      });
      for (const name of ["state", "nonce", "code_challenge"]) seen.add(query[name] ?? "");
    }
    expect(seen.size).toBe(6);
  });

  it("leaves an email that is not verified out, and shows the subject of who has no name", async () => {
    const server = await start();
    const unverified = await loggedIn(server, "unverified");
    expect(await (await unverified.request(`${server.base}/auth/me`)).json()).toMatchObject({
      email: null,
      name: "The unverified",
    });
    const nameless = await loggedIn(server, "nameless");
    expect(await (await nameless.request(`${server.base}/auth/me`)).json()).toMatchObject({
      name: "nameless@example.com",
    });
  });

  it("works for a client without a secret", async () => {
    const open = await startProvider({ login: { claimsOf, publicClient: true } });
    const server = await start({ provider: open, clientSecret: null });
    expect((await loggedIn(server)).cookie("id_token")).not.toBeNull();
  });

  it("says NOT_CONFIGURED when the provider does not know this client's secret", async () => {
    const server = await start({ clientSecret: "another" });
    const browser = new TestBrowser();
    const response = await browser.request(await callbackUrl(server, browser));
    expect(await codeOf(response)).toBe("503 NOT_CONFIGURED");
  });

  it("can go to any configured issuer, and to no other", async () => {
    const second = await startProvider();
    const server = await start({ moreProviders: [second] });
    const browser = new TestBrowser();
    const url = await callbackUrl(
      server,
      browser,
      "bob",
      `?issuer=${encodeURIComponent(second.issuer)}`,
    );
    expect(new URL(url).searchParams.get("iss")).toBe(second.issuer);
    expect((await browser.request(url)).status).toBe(302);
    expect(decodeJwt(browser.cookie("id_token") ?? "").iss).toBe(second.issuer);
    const other = await fetch(`${server.base}/auth/login?issuer=https://evil.example`);
    expect(await codeOf(other)).toBe("400 BAD_REQUEST");
  });

  it("refuses a return_to that leads elsewhere before anything else happens", async () => {
    const server = await start();
    for (const to of [
      "https://evil.example/",
      "//evil.example",
      "/\\evil.example",
      "javascript:x",
    ]) {
      const response = await fetch(
        `${server.base}/auth/login?return_to=${encodeURIComponent(to)}`,
        { redirect: "manual" },
      );
      expect([to, await codeOf(response)]).toEqual([to, "400 BAD_REQUEST"]);
      expect(response.headers.getSetCookie()).toEqual([]);
    }
  });

  it("logs no token, code, state or secret", async () => {
    const server = await start();
    const browser = new TestBrowser();
    const url = await callbackUrl(server, browser);
    await browser.request(url);
    await browser.request(url);
    await browser.request(`${server.base}/auth/refresh`, post());
    const log = JSON.stringify(server.lines);
    const secrets = [
      ...["id_token", "refresh_token"].map((name) => browser.cookie(name)),
      ...["code", "state"].map((name) => new URL(url).searchParams.get(name)),
      "a state secret for tests",
    ];
    for (const secret of secrets) {
      expect(secret).not.toBeNull();
      expect(log).not.toContain(secret);
    }
  });
});

describe("a callback", () => {
  it("works once: not again in the same browser, not with the cookie put back, not after a restart", async () => {
    const server = await start();
    const browser = new TestBrowser();
    const url = await callbackUrl(server, browser);
    const cookie = `login_browser=${browser.cookie("login_browser")}`;
    expect((await browser.request(url)).status).toBe(302);
    expect(browser.cookie("login_browser")).toBeNull();
    expect(await codeOf(await browser.request(url))).toBe("400 BAD_REQUEST");
    const replayed = await fetch(url, { headers: { cookie }, redirect: "manual" });
    expect(await replayed.json()).toEqual({
      code: "BAD_REQUEST",
      message: "this login was used already; start again at /auth/login",
    });
    server.restart();
    const later = await fetch(url, { headers: { cookie }, redirect: "manual" });
    expect(await codeOf(later)).toBe("401 UNAUTHENTICATED");
    expect(later.headers.getSetCookie()).toEqual([]);
  });

  it("goes on for one of two that come with the same state at the same time", async () => {
    const server = await start();
    const browser = new TestBrowser();
    const url = await callbackUrl(server, browser);
    const both = await Promise.all([browser.request(url), browser.request(url)]);
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([302, 400]));
  });

  it("refuses a state of another browser, which is how somebody else's login would be planted", async () => {
    const server = await start();
    const attacker = new TestBrowser();
    const url = await callbackUrl(server, attacker, "mallory");
    const victim = new TestBrowser();
    expect(await codeOf(await victim.request(url))).toBe("400 BAD_REQUEST");
    await callbackUrl(server, victim);
    expect(await codeOf(await victim.request(url))).toBe("400 BAD_REQUEST");
    expect(victim.cookie("id_token")).toBeNull();
  });

  it("refuses a state whose browser value a neighbouring host planted before the login began", async () => {
    const server = await start();
    const attacker = new TestBrowser();
    const url = await callbackUrl(server, attacker, "mallory");
    const victim = new TestBrowser();
    victim.plant("login_browser", attacker.cookie("login_browser") ?? "", server.base, "/auth");
    await callbackUrl(server, victim);
    expect(await codeOf(await victim.request(url))).toBe("400 BAD_REQUEST");
    expect(victim.cookie("id_token")).toBeNull();
  });

  it("off loopback takes the browser value from a cookie that no neighbouring host can plant", async () => {
    const redirectUri = "https://telemetry.example.com/auth/callback";
    const server = await start({ redirectUri });
    const { headers } = await fetch(`${server.base}/auth/login`, { redirect: "manual" });
    const cookie = headers.getSetCookie()[0]?.split(";", 1)[0] ?? "";
    const back = await new TestBrowser().logIn(
      headers.get("location") ?? "",
      "mallory",
      ({ hostname }) => hostname === "telemetry.example.com",
    );
    const callback = (field: string): Promise<Response> =>
      fetch(`${server.base}/auth/callback${new URL(back.url).search}`, {
        headers: { cookie: field },
        redirect: "manual",
      });
    const planted = await callback(cookie.replace("__Host-", ""));
    expect(await codeOf(planted)).toBe("400 BAD_REQUEST");
    expect((await callback(cookie)).status).toBe(302);
  });

  it("refuses a state that is forged, changed, missing or given twice", async () => {
    const server = await start();
    const browser = new TestBrowser();
    const url = new URL(await callbackUrl(server, browser));
    const state = url.searchParams.get("state") ?? "";
    const [payload = "", mac = ""] = state.split(".");
    const changed = Buffer.from(
      Buffer.from(payload, "base64url").toString().replace('"returnTo":"/"', '"returnTo":"/x"'),
    ).toString("base64url");
    expect(changed).not.toBe(payload);
    for (const forged of [
      `${changed}.${mac}`,
      `${payload}.`,
      payload,
      `${payload}.AAAA`,
      "",
      ".",
    ]) {
      url.searchParams.set("state", forged);
      expect([forged, await codeOf(await browser.request(url.href))]).toEqual([
        forged,
        "400 BAD_REQUEST",
      ]);
    }
    url.searchParams.delete("state");
    expect(await codeOf(await browser.request(url.href))).toBe("400 BAD_REQUEST");
    url.searchParams.append("state", state);
    url.searchParams.append("state", state);
    expect(await codeOf(await browser.request(url.href))).toBe("400 BAD_REQUEST");
    url.searchParams.set("state", state);
    expect((await browser.request(url.href)).status).toBe(302);
  });

  it("refuses a state made under another secret", async () => {
    const server = await start();
    const browser = new TestBrowser();
    const url = await callbackUrl(server, browser);
    server.restart("another secret of this server");
    expect(await codeOf(await browser.request(url))).toBe("400 BAD_REQUEST");
  });

  it("refuses a state ten minutes after its login began", async () => {
    const server = await start();
    const browser = new TestBrowser();
    const url = await callbackUrl(server, browser);
    server.advance(10 * 60_000);
    const response = await browser.request(url);
    expect(await response.json()).toEqual({
      code: "BAD_REQUEST",
      message: "this login has expired; start again at /auth/login",
    });
  });

  it("refuses the code of another login: the PKCE verifier does not fit", async () => {
    const server = await start();
    const attacker = new TestBrowser();
    const stolen = new URL(await callbackUrl(server, attacker, "mallory"));
    const victim = new TestBrowser();
    const url = new URL(await callbackUrl(server, victim));
    url.searchParams.set("code", stolen.searchParams.get("code") ?? "");
    const response = await victim.request(url.href);
    expect(await codeOf(response)).toBe("401 UNAUTHENTICATED");
    expect(victim.cookie("id_token")).toBeNull();
  });

  it("refuses an answer that names another issuer than the login went to", async () => {
    const second = await startProvider();
    const server = await start({ moreProviders: [second] });
    const browser = new TestBrowser();
    const url = new URL(await callbackUrl(server, browser));
    url.searchParams.set("iss", second.issuer);
    expect(await codeOf(await browser.request(url.href))).toBe("401 UNAUTHENTICATED");
  });

  it("says that the provider refused, and 503 when the provider says that it cannot now", async () => {
    const server = await start();
    for (const [error, expected] of [
      ["access_denied", "401 UNAUTHENTICATED"],
      ["temporarily_unavailable", "503 UNAVAILABLE"],
    ] as const) {
      const browser = new TestBrowser();
      const url = new URL(await callbackUrl(server, browser));
      url.searchParams.delete("code");
      url.searchParams.set("error", error);
      expect([error, await codeOf(await browser.request(url.href))]).toEqual([error, expected]);
    }
  });

  it("accepts no identity token with a wrong nonce, key, audience, issuer or time, and none at all", async () => {
    const server = await start();
    for (const [what, make] of Object.entries<
      (claims: JWTPayload, nonce: string) => Promise<string | undefined>
    >({
      "wrong nonce": (claims) => signToken(key, { ...claims, nonce: "another" }),
      "no nonce": (claims) => signToken(key, claims),
      "foreign key": (claims, nonce) => signToken(foreignKey, { ...claims, nonce }),
      "wrong audience": (claims, nonce) => signToken(key, { ...claims, nonce, aud: "other" }),
      "wrong issuer": (claims, nonce) =>
        signToken(key, { ...claims, nonce, iss: "https://evil.example" }),
      expired: (claims, nonce) => signToken(key, { ...claims, nonce, exp: 1000, iat: 900 }),
      none: () => Promise.resolve(undefined),
    })) {
      const browser = new TestBrowser();
      let nonce = "";
      const { url } = await browser.logIn(`${server.base}/auth/login`, "ann", (at) => {
        nonce = at.searchParams.get("nonce") ?? nonce;
        return at.pathname.endsWith("/auth/callback");
      });
      answerTokens(async (claims) => ({ id_token: await make(claims, nonce) }));
      expect([what, await codeOf(await browser.request(url))]).toEqual([
        what,
        "401 UNAUTHENTICATED",
      ]);
      expect(browser.cookie("id_token")).toBeNull();
      provider.intercept(null);
    }
    // The same way of answering is accepted when nothing is wrong.
    const browser = new TestBrowser();
    let nonce = "";
    const { url } = await browser.logIn(`${server.base}/auth/login`, "ann", (at) => {
      nonce = at.searchParams.get("nonce") ?? nonce;
      return at.pathname.endsWith("/auth/callback");
    });
    answerTokens(async (claims) => ({ id_token: await signToken(key, { ...claims, nonce }) }));
    expect((await browser.request(url)).status).toBe(302);
  });

  it("refuses an identity token that no browser would keep, and says why", async () => {
    const server = await start();
    const browser = new TestBrowser();
    let nonce = "";
    const { url } = await browser.logIn(`${server.base}/auth/login`, "ann", (at) => {
      nonce = at.searchParams.get("nonce") ?? nonce;
      return at.pathname.endsWith("/auth/callback");
    });
    answerTokens(async (claims) => ({
      id_token: await signToken(key, { ...claims, nonce, groups: "x".repeat(4000) }),
    }));
    expect(await codeOf(await browser.request(url))).toBe("503 NOT_CONFIGURED");
  });
});
