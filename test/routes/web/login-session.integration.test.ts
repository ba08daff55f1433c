import { createHmac } from "node:crypto";
import { decodeJwt, type JWTPayload } from "jose";
import { afterEach, describe, expect, it } from "vitest";

import { ServiceError } from "../../../src/runtime/errors.js";
import { type Handler, makeSigningKey, signToken } from "../../helpers/auth/auth-oidc-provider.js";
import { codeOf, useLogin } from "../../helpers/web/login-fixture.js";
import { TestBrowser } from "../../helpers/web/web-browser.js";
import type { LoginServer } from "../../helpers/web/web-login.js";

let idTokenSeconds = 3600;
const t = useLogin({
  claimsOf: (login) => ({ email: `${login}@example.com` }),
  idTokenSeconds: () => idTokenSeconds,
});
afterEach(() => {
  idTokenSeconds = 3600;
});

const json = { method: "POST", headers: { "content-type": "application/json" } };

const claims = (over: JWTPayload = {}): JWTPayload => t.claims({ email: "ann@example.com", ...over });

const me = (server: LoginServer, cookie: string): Promise<Response> =>
  fetch(`${server.base}/auth/me`, { headers: { cookie } });

describe("cookies", () => {
  const attributes = (browser: TestBrowser, name: string): string =>
    browser.received
      .findLast((field) => field.startsWith(name) && !/^[^=]*=;/u.test(field))
      ?.replace(/^[^;]*; /u, "")
      .replace(/Max-Age=\d+/u, "Max-Age=N") ?? "";

  it("are HttpOnly and SameSite=Lax, without Secure on loopback, each for its own path", async () => {
    const server = await t.start({ basePath: "/telemetry" });
    const browser = await t.loggedIn(server);
    const rest = "Max-Age=N; HttpOnly; SameSite=Lax";
    expect(attributes(browser, "id_token")).toBe(`Path=/telemetry; ${rest}`);
    expect(attributes(browser, "refresh_token")).toBe(`Path=/telemetry/auth/refresh; ${rest}`);
    expect(attributes(browser, "login_browser")).toBe(`Path=/telemetry/auth; ${rest}`);
    expect(browser.cookieField(`${server.base}/api/audit`)).not.toContain("refresh_token");
  });

  it("are Secure when browsers see another address than loopback", async () => {
    const server = await t.start({
      redirectUri: "https://telemetry.example.com/tele/auth/callback",
    });
    const begun = await fetch(`${server.base}/auth/login`, { redirect: "manual" });
    const [loginCookie = ""] = begun.headers.getSetCookie();
    // RFC 6265bis, 4.1.3.2: browsers take the prefix only with Secure, Path=/ and without Domain.
    expect(loginCookie).toMatch(
      /^__Host-login_browser_[\w-]{22}=[\w-]{43}; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
    );
    const { url } = await new TestBrowser().logIn(
      begun.headers.get("location") ?? "",
      "ann",
      ({ hostname }) => hostname === "telemetry.example.com",
    );
    const response = await fetch(`${server.base}/auth/callback${new URL(url).search}`, {
      headers: { cookie: loginCookie.split(";", 1)[0] ?? "" },
      redirect: "manual",
    });
    expect(response.headers.get("location")).toBe("/tele/");
    const fields = response.headers.getSetCookie();
    expect(fields).toHaveLength(3);
    for (const field of fields) {
      expect(field).toMatch(/; HttpOnly; SameSite=Lax; Secure$/);
    }
  });

  it("hold the identity token for as long as it lives, and the refresh token sealed", async () => {
    idTokenSeconds = 900;
    const server = await t.start();
    const browser = await t.loggedIn(server);
    const maxAge = Number(
      /^id_token=.*Max-Age=(\d+)/u.exec(browser.received.findLast((field) => field.startsWith("id_token=")) ?? "")?.[1],
    );
    expect(maxAge).toBeGreaterThan(890);
    expect(maxAge).toBeLessThanOrEqual(900);
    // A token that the provider would take: the sealed one is none.
    const response = await fetch(`${t.provider.issuer}/token`, {
      method: "POST",
      headers: {
        authorization: `Basic ${Buffer.from(`${t.provider.clientId}:secret`).toString("base64")}`,
        "content-type": "application/x-www-form-urlencoded",
      },
      body: new URLSearchParams({
        grant_type: "refresh_token",
        refresh_token: browser.cookie("refresh_token") ?? "",
      }),
    });
    expect(response.status).toBe(400);
  });
});

describe("/auth/me", () => {
  it("accepts an identity token from wherever it was issued, without a login here", async () => {
    const server = await t.start();
    const response = await me(server, `id_token=${await signToken(t.key, claims())}`);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ email: "ann@example.com", is_admin: false });
  });

  it("is 401 without a cookie and for one that is expired, forged, foreign or no identity token", async () => {
    const server = await t.start();
    const other = await makeSigningKey("first");
    const past = Math.floor(Date.now() / 1000) - 3600;
    const good = await signToken(t.key, claims());
    const [header = "", payload = ""] = good.split(".");
    const hmacHeader = Buffer.from('{"alg":"HS256","kid":"first"}').toString("base64url");
    const cookies: Record<string, string> = {
      none: "",
      empty: "id_token=",
      "another cookie": `token=${good}`,
      expired: `id_token=${await signToken(t.key, claims({ iat: past - 60, exp: past }))}`,
      "foreign key": `id_token=${await signToken(other, claims())}`,
      "foreign audience": `id_token=${await signToken(t.key, claims({ aud: "somebody else" }))}`,
      "foreign issuer": `id_token=${await signToken(t.key, claims({ iss: "https://evil.example" }))}`,
      "several audiences": `id_token=${await signToken(t.key, claims({ aud: [t.provider.clientId, "x"] }))}`,
      unsigned: `id_token=${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.`,
      "no signature": `id_token=${header}.${payload}.`,
      hmac: `id_token=${hmacHeader}.${payload}.${createHmac("sha256", "x").update(`${hmacHeader}.${payload}`).digest("base64url")}`,
      "access token": `id_token=${await t.provider.issueToken()}`,
      "logout token": `id_token=${await signToken(t.key, claims(), { typ: "logout+jwt" })}`,
      "API key": `id_token=svk_${"a".repeat(49)}`,
      "two of them": `id_token=${good}; id_token=${await signToken(t.key, claims({ sub: "bob" }))}`,
      garbage: "id_token=%00;;;=;id_token",
    };
    for (const [what, cookie] of Object.entries(cookies)) {
      expect([what, await codeOf(await me(server, cookie))]).toEqual([what, "401 UNAUTHENTICATED"]);
    }
    // What all of them are measured against.
    expect((await me(server, `a=b; id_token=${good}; c=d`)).status).toBe(200);
  });

  it("takes no bearer token", async () => {
    const server = await t.start();
    const response = await fetch(`${server.base}/auth/me`, {
      headers: { authorization: `Bearer ${await signToken(t.key, claims())}` },
    });
    expect(await codeOf(response)).toBe("401 UNAUTHENTICATED");
  });

  it("is 503 and not 401 while the provider's keys or the group of admins cannot be read", async () => {
    const server = await t.start({
      isAdmin: () => Promise.reject(new ServiceError("UNAVAILABLE")),
    });
    const cookie = `id_token=${await signToken(t.key, claims())}`;
    await t.provider.goDown();
    try {
      expect(await codeOf(await me(server, cookie))).toBe("503 UNAVAILABLE");
    } finally {
      await t.provider.comeUp();
    }
    server.restart();
    expect(await codeOf(await me(server, cookie))).toBe("503 UNAVAILABLE");
  });
});

describe("/auth/refresh", () => {
  it("gives a new identity token and a new refresh token for the old one", async () => {
    idTokenSeconds = 100;
    const server = await t.start();
    const browser = await t.loggedIn(server);
    const before = { id: browser.cookie("id_token"), refresh: browser.cookie("refresh_token") };
    idTokenSeconds = 5000;
    const response = await browser.request(`${server.base}/auth/refresh`, json);
    expect(response.status).toBe(200);
    const after = browser.cookie("id_token") ?? "";
    expect(after).not.toBe(before.id);
    const { exp, sub } = decodeJwt(after);
    expect(sub).toBe("ann");
    expect(exp).toBeGreaterThan(Date.now() / 1000 + 4000);
    expect(await response.json()).toEqual({
      expires_at: new Date((exp ?? 0) * 1000).toISOString(),
    });
    expect(browser.cookie("refresh_token")).not.toBe(before.refresh);
    expect((await browser.request(`${server.base}/auth/refresh`, json)).status).toBe(200);
    expect((await browser.request(`${server.base}/auth/me`)).status).toBe(200);
  });

  it("asks the provider once when several tabs ask at the same time, and serves a late one too", async () => {
    const server = await t.start();
    const browser = await t.loggedIn(server);
    const cookie = browser.cookieField(`${server.base}/auth/refresh`);
    let asked = 0;
    t.provider.intercept((path) => {
      if (path === "/token") {
        asked++;
      }
      return null;
    });
    const refresh = (): Promise<Response> =>
      fetch(`${server.base}/auth/refresh`, { ...json, headers: { ...json.headers, cookie } });
    const tabs = await Promise.all([refresh(), refresh(), refresh()]);
    // A page gives up after 20 s, and may have lost the answer.
    server.advance(30_000);
    const late = await refresh();
    expect([...tabs, late].map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(new Set([...tabs, late].map((r) => r.headers.getSetCookie().join())).size).toBe(1);
    expect(asked).toBe(1);
  });

  it("is 401 once the provider takes the refresh token no longer", async () => {
    const server = await t.start();
    const browser = await t.loggedIn(server);
    const cookie = browser.cookieField(`${server.base}/auth/refresh`);
    expect((await browser.request(`${server.base}/auth/refresh`, json)).status).toBe(200);
    server.advance(61_000);
    // The provider rotates: a second use of the old one ends the session at the provider.
    const reused = await fetch(`${server.base}/auth/refresh`, {
      ...json,
      headers: { ...json.headers, cookie },
    });
    expect(await codeOf(reused)).toBe("401 UNAUTHENTICATED");
    const ended = await browser.request(`${server.base}/auth/refresh`, json);
    expect(await codeOf(ended)).toBe("401 UNAUTHENTICATED");
  });

  it("is 401 without a refresh cookie, and for one that is forged, expired or of another secret", async () => {
    const server = await t.start();
    const browser = await t.loggedIn(server);
    const good = browser.cookie("refresh_token") ?? "";
    const refresh = async (value: string | null): Promise<string> =>
      codeOf(
        await fetch(`${server.base}/auth/refresh`, {
          ...json,
          headers: {
            ...json.headers,
            ...(value === null ? {} : { cookie: `refresh_token=${value}` }),
          },
        }),
      );
    const at = good.length - 30;
    const changed = `${good.slice(0, at)}${good[at] === "A" ? "B" : "A"}${good.slice(at + 1)}`;
    for (const value of [null, "", "x", "a.b.c.d.e", changed, browser.cookie("id_token")]) {
      expect([String(value), await refresh(value)]).toEqual([String(value), "401 UNAUTHENTICATED"]);
    }
    server.restart("another secret of this server");
    expect(await refresh(good)).toBe("401 UNAUTHENTICATED");
    server.restart();
    server.advance(30 * 24 * 3600_000 + 1000);
    expect(await refresh(good)).toBe("401 UNAUTHENTICATED");
  });

  it("refuses the identity of somebody else", async () => {
    const server = await t.start();
    const browser = await t.loggedIn(server);
    t.answerTokens(async () => ({ id_token: await signToken(t.key, claims({ sub: "mallory" })) }));
    const response = await browser.request(`${server.base}/auth/refresh`, json);
    expect(await codeOf(response)).toBe("401 UNAUTHENTICATED");
    expect(decodeJwt(browser.cookie("id_token") ?? "").sub).toBe("ann");
  });
});

describe("a provider that is down", () => {
  it("makes login, callback and refresh 503, loses no session, and is used again once it is up", async () => {
    const server = await t.start();
    const fresh = await t.start();
    const browser = await t.loggedIn(server);
    const late = new TestBrowser();
    const { url } = await late.logIn(`${server.base}/auth/login`, "bob", ({ pathname }) =>
      pathname.endsWith("/auth/callback"),
    );
    await t.provider.goDown();
    try {
      expect(await codeOf(await fetch(`${fresh.base}/auth/login`))).toBe("503 UNAVAILABLE");
      expect(await codeOf(await late.request(url))).toBe("503 UNAVAILABLE");
      const refused = await browser.request(`${server.base}/auth/refresh`, json);
      expect(refused.headers.getSetCookie()).toEqual([]);
      expect(await codeOf(refused)).toBe("503 UNAVAILABLE");
      // Keys and token are in memory.
      expect((await browser.request(`${server.base}/auth/me`)).status).toBe(200);
    } finally {
      await t.provider.comeUp();
    }
    expect((await browser.request(`${server.base}/auth/refresh`, json)).status).toBe(200);
    fresh.advance(2000);
    expect((await fetch(`${fresh.base}/auth/login`, { redirect: "manual" })).status).toBe(302);
  });

  it("loses no session while it refreshes, and its keys cannot be fetched to check what it gave", async () => {
    const server = await t.start();
    const browser = await t.loggedIn(server);
    server.restart();
    t.provider.intercept((path) => (path === "/jwks" ? (_request, response) => response.writeHead(500).end() : null));
    expect(await codeOf(await browser.request(`${server.base}/auth/refresh`, json))).toBe("503 UNAVAILABLE");
    t.provider.intercept(null);
    const again = async (): Promise<number> => (await browser.request(`${server.base}/auth/refresh`, json)).status;
    await expect.poll(again).toBe(200);
  });

  it("counts as down when it answers 500, nothing at all, too much, or sends us elsewhere", async () => {
    const answers: Record<string, Handler> = {
      "500": (_request, response) => response.writeHead(500).end("{}"),
      silence: () => undefined,
      "too much": (_request, response) => response.writeHead(200).end(Buffer.alloc(600 * 1024, 32)),
      redirect: (_request, response) => response.writeHead(302, { location: "http://127.0.0.1:9/" }).end(),
      "another issuer": (_request, response) =>
        response
          .writeHead(200, { "content-type": "application/json" })
          .end(JSON.stringify({ issuer: "https://evil.example" })),
    };
    for (const [what, handler] of Object.entries(answers)) {
      const server = await t.start({ providerTimeoutMs: 300 });
      t.provider.intercept(() => handler);
      expect([what, await codeOf(await fetch(`${server.base}/auth/login`))]).toEqual([what, "503 UNAVAILABLE"]);
      t.provider.intercept(null);
    }
  });
});

describe("/auth/logout", () => {
  it("deletes every cookie, also without a session, and leaves /auth/me with 401", async () => {
    const server = await t.start({ basePath: "/telemetry" });
    const browser = await t.loggedIn(server);
    await browser.request(`${server.base}/auth/login`);
    const names = (): readonly string[] =>
      browser
        .cookieField(`${server.base}/auth/refresh`)
        .match(/(?:id_token|refresh_token|login_browser)(?=[\w-]*=)/g) ?? [];
    expect(names().toSorted()).toEqual(["id_token", "login_browser", "refresh_token"]);
    const response = await browser.request(`${server.base}/auth/logout`, json);
    expect(response.status).toBe(204);
    expect(names()).toEqual([]);
    expect(await codeOf(await browser.request(`${server.base}/auth/me`))).toBe("401 UNAUTHENTICATED");
    expect((await fetch(`${server.base}/auth/logout`, json)).status).toBe(204);
  });
});

describe("requests of other origins", () => {
  it("neither log out nor refresh: 403 for a foreign origin, 415 without origin and JSON", async () => {
    const server = await t.start();
    const browser = await t.loggedIn(server);
    const refused: readonly (readonly [Record<string, string>, string])[] = [
      [{ origin: "https://evil.example" }, "403 FORBIDDEN"],
      [{ origin: "https://evil.example", "content-type": "application/json" }, "403 FORBIDDEN"],
      [{ origin: "null", "content-type": "application/json" }, "403 FORBIDDEN"],
      [{ origin: `${server.origin}.evil.example` }, "403 FORBIDDEN"],
      [{ "content-type": "text/plain" }, "415 UNSUPPORTED_MEDIA_TYPE"],
      [{ "content-type": "text/plain; application/json" }, "415 UNSUPPORTED_MEDIA_TYPE"],
      [{}, "415 UNSUPPORTED_MEDIA_TYPE"],
    ];
    for (const path of ["/auth/logout", "/auth/refresh"]) {
      for (const [headers, expected] of refused) {
        const response = await browser.request(`${server.base}${path}`, {
          method: "POST",
          headers,
        });
        expect(response.headers.getSetCookie()).toEqual([]);
        expect([JSON.stringify(headers), await codeOf(response)]).toEqual([JSON.stringify(headers), expected]);
      }
    }
    expect((await browser.request(`${server.base}/auth/me`)).status).toBe(200);
  });

  it("are let in from this server and from the configured web application", async () => {
    const server = await t.start({ corsOrigin: "https://app.example.com/ui" });
    for (const origin of [server.origin, "https://app.example.com"]) {
      const response = await fetch(`${server.base}/auth/logout`, {
        method: "POST",
        headers: { origin },
      });
      expect([origin, response.status]).toEqual([origin, 204]);
    }
    const returned = await fetch(
      `${server.base}/auth/login?return_to=${encodeURIComponent("https://app.example.com/keys")}`,
      { redirect: "manual" },
    );
    expect(returned.status).toBe(302);
  });
});

describe("other paths and methods below /auth", () => {
  it("are 404, and 405 with Allow", async () => {
    const server = await t.start();
    expect(await codeOf(await fetch(`${server.base}/auth/other`))).toBe("404 NOT_FOUND");
    for (const [path, allow] of [
      ["/auth/logout", "POST"],
      ["/auth/refresh", "POST"],
      ["/auth/login", "GET"],
      ["/auth/callback", "GET"],
      ["/auth/me", "GET"],
    ] as const) {
      const response = await fetch(`${server.base}${path}`, {
        ...json,
        method: allow === "POST" ? "GET" : "POST",
        redirect: "manual",
      });
      expect([path, response.headers.get("allow")]).toEqual([path, allow]);
      expect([path, await codeOf(response)]).toEqual([path, "405 METHOD_NOT_ALLOWED"]);
    }
  });
});
