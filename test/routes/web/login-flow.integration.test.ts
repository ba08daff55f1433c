import { text } from "node:stream/consumers";

import { decodeJwt, type JWTPayload } from "jose";
import { beforeAll, describe, expect, it } from "vitest";

import { makeSigningKey, type SigningKey, signToken } from "../../helpers/auth/auth-oidc-provider.js";
import { codeOf, useLogin } from "../../helpers/web/login-fixture.js";
import { TestBrowser } from "../../helpers/web/web-browser.js";

const claimsOf = (login: string): Record<string, unknown> => ({
  email: `${login}@Example.com`,
  email_verified: login !== "unverified",
  ...(login === "nameless" ? {} : { name: `The ${login}` }),
});

const t = useLogin({ claimsOf });
/** Has the name of the provider's. */
let foreignKey: SigningKey;
beforeAll(async () => {
  foreignKey = await makeSigningKey("first");
});

const post = { method: "POST", headers: { "content-type": "application/json" } };

/** Answers the token endpoint in the provider's place. */
const answerTokens = (body: (claims: JWTPayload) => Promise<Record<string, unknown>>): void => {
  t.answerTokens(() => body(t.claims()));
};

describe("a login", () => {
  it("leads through the provider to return_to, with the cookies of a session", async () => {
    const server = await t.start({
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

  it("ends where the browser comes back, whichever name of this machine it began with", async () => {
    const server = await t.start({ basePath: "/base" });
    const browser = new TestBrowser();
    const begun = server.base.replace("127.0.0.1", "localhost");
    const end = await browser.logIn(`${begun}/auth/login?return_to=%2Fbase%2Fx%3Fa%3Db%26c`, "ann", ({ pathname }) =>
      pathname.startsWith("/base/x"),
    );
    expect(end.url).toBe(`${server.base}/x?a=b&c`);
    expect((await browser.request(`${server.base}/auth/me`)).status).toBe(200);
  });

  it("stays with the name that a proxy gives the server, and with one of another machine", async () => {
    const server = await t.start({ redirectUri: "http://127.0.0.1:1/auth/callback" });
    const remote = await t.start({ redirectUri: "https://telemetry.example/auth/callback" });
    for (const { base } of [server, remote]) {
      const response = await fetch(`${base.replace("127.0.0.1", "localhost")}/auth/login`, { redirect: "manual" });
      expect(response.headers.get("location")).toMatch(`${t.provider.issuer}/auth?`);
    }
  });

  it("uses PKCE with S256, a nonce and a state of its own each time, and sends no secret", async () => {
    const server = await t.start();
    const seen = new Set<string>();
    for (let i = 0; i < 2; i++) {
      const response = await fetch(`${server.base}/auth/login`, { redirect: "manual" });
      const to = new URL(response.headers.get("location") ?? "");
      expect(to.origin).toBe(t.provider.issuer);
      const query = Object.fromEntries(to.searchParams);
      expect(query).toMatchObject({
        client_id: t.provider.clientId,
        response_type: "code",
        redirect_uri: `${server.base}/auth/callback`,
        code_challenge_method: "S256",
        code_challenge: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/) as string,
        scope: "openid email profile offline_access",
        prompt: "consent",
      });
      for (const name of ["state", "nonce", "code_challenge"]) {
        seen.add(query[name] ?? "");
      }
    }
    expect(seen.size).toBe(6);
  });

  it("leaves an email that is not verified out, and shows the subject of who has no name", async () => {
    const server = await t.start();
    const unverified = await t.loggedIn(server, "unverified");
    expect(await (await unverified.request(`${server.base}/auth/me`)).json()).toMatchObject({
      email: null,
      name: "The unverified",
    });
    const nameless = await t.loggedIn(server, "nameless");
    expect(await (await nameless.request(`${server.base}/auth/me`)).json()).toMatchObject({
      name: "nameless@example.com",
    });
  });

  it("works for a client without a secret", async () => {
    const open = await t.startProvider({ claimsOf, publicClient: true });
    const server = await t.start({ provider: open, clientSecret: null });
    expect((await t.loggedIn(server)).cookie("id_token")).not.toBeNull();
  });

  it("says NOT_CONFIGURED when the provider does not know this client's secret", async () => {
    const server = await t.start({ clientSecret: "another" });
    const browser = new TestBrowser();
    const response = await browser.request(await t.callbackUrl(server, browser));
    expect(await codeOf(response)).toBe("503 NOT_CONFIGURED");
  });

  it("can go to any configured issuer, and to no other", async () => {
    const second = await t.startProvider({ claimsOf, publicClient: true });
    const server = await t.start({ moreProviders: [second] });
    const browser = new TestBrowser();
    const url = await t.callbackUrl(server, browser, "bob", `?issuer=${encodeURIComponent(second.issuer)}`);
    expect(new URL(url).searchParams.get("iss")).toBe(second.issuer);
    expect((await browser.request(url)).status).toBe(302);
    expect(decodeJwt(browser.cookie("id_token") ?? "").iss).toBe(second.issuer);
    const other = await fetch(`${server.base}/auth/login?issuer=https://evil.example`);
    expect(await codeOf(other)).toBe("400 BAD_REQUEST");
  });

  it("shows its secret to the first issuer alone", async () => {
    const second = await t.startProvider({ claimsOf, publicClient: true });
    const server = await t.start({ moreProviders: [second] });
    const asked: (readonly [issuer: string, isSecretShown: boolean])[] = [];
    for (const provider of [t.provider, second]) {
      const browser = new TestBrowser();
      const url = await t.callbackUrl(server, browser, "bob", `?issuer=${encodeURIComponent(provider.issuer)}`);
      provider.intercept((path) =>
        path === "/token"
          ? (request, response) => {
              void text(request).then((body) => {
                const said = `${body} ${request.headers.authorization ?? ""}`;
                asked.push([provider.issuer, /secret|Basic/u.test(said)]);
                return response.writeHead(500).end();
              });
            }
          : null,
      );
      expect((await browser.request(url)).status).toBe(503);
    }
    expect(asked).toEqual([
      [t.provider.issuer, true],
      [second.issuer, false],
    ]);
  });

  it("refuses a return_to that leads elsewhere before anything else happens", async () => {
    const server = await t.start();
    for (const to of ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x"]) {
      const response = await fetch(`${server.base}/auth/login?return_to=${encodeURIComponent(to)}`, {
        redirect: "manual",
      });
      expect([to, await codeOf(response)]).toEqual([to, "400 BAD_REQUEST"]);
      expect(response.headers.getSetCookie()).toEqual([]);
    }
  });

  it("logs no token, code, state or secret", async () => {
    const server = await t.start();
    const browser = new TestBrowser();
    const url = await t.callbackUrl(server, browser);
    await browser.request(url);
    await browser.request(url);
    await browser.request(`${server.base}/auth/refresh`, post);
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
    const server = await t.start();
    const browser = new TestBrowser();
    const url = await t.callbackUrl(server, browser);
    const [cookie = ""] = browser.cookieField(url).split("; ");
    expect(cookie).toMatch(/^login_browser_/);
    expect((await browser.request(url)).status).toBe(302);
    expect(browser.cookieField(url)).not.toContain("login_browser");
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
    const server = await t.start();
    const browser = new TestBrowser();
    const url = await t.callbackUrl(server, browser);
    const both = await Promise.all([browser.request(url), browser.request(url)]);
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([302, 400]));
  });

  it("uses no state up without a code or an error", async () => {
    const server = await t.start();
    const browser = new TestBrowser();
    const url = await t.callbackUrl(server, browser);
    const bare = new URL(url);
    bare.searchParams.delete("code");
    expect(await (await browser.request(bare.href)).json()).toEqual({
      code: "BAD_REQUEST",
      message: "code and error are missing",
    });
    expect((await browser.request(url)).status).toBe(302);
  });

  it("refuses a state of another browser, which is how somebody else's login would be planted", async () => {
    const server = await t.start();
    const attacker = new TestBrowser();
    const url = await t.callbackUrl(server, attacker, "mallory");
    const victim = new TestBrowser();
    expect(await codeOf(await victim.request(url))).toBe("400 BAD_REQUEST");
    await t.callbackUrl(server, victim);
    expect(await codeOf(await victim.request(url))).toBe("400 BAD_REQUEST");
    expect(victim.cookie("id_token")).toBeNull();
  });

  it("ends the login of each tab, when several began one at the same time", async () => {
    const server = await t.start();
    const browser = new TestBrowser();
    const urls: string[] = [];
    for (const tab of ["/logs", "/admin", "/sql"]) {
      urls.push(await t.callbackUrl(server, browser, "ann", `?return_to=${tab}`));
    }
    const ends = [];
    for (const url of urls) {
      const { status, headers } = await browser.request(url);
      ends.push([status, headers.get("location")]);
    }
    expect(ends).toEqual([
      [302, "/logs"],
      [302, "/admin"],
      [302, "/sql"],
    ]);
    expect(browser.cookieField(urls[0] ?? "")).not.toContain("login_browser");
  });

  it("keeps the cookies of twenty logins that did not end, and drops the oldest", async () => {
    const server = await t.start();
    const browser = new TestBrowser();
    const first = await t.callbackUrl(server, browser);
    const second = await t.callbackUrl(server, browser);
    for (let i = 0; i < 19; i++) {
      await browser.request(`${server.base}/auth/login`);
    }
    expect(browser.cookieField(first).match(/login_browser_/g)).toHaveLength(20);
    expect(await codeOf(await browser.request(first))).toBe("400 BAD_REQUEST");
    expect((await browser.request(second)).status).toBe(302);
  });

  it("off loopback takes the browser value from a cookie that no neighbouring host can plant", async () => {
    const redirectUri = "https://telemetry.example.com/auth/callback";
    const server = await t.start({ redirectUri });
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
    const server = await t.start();
    const browser = new TestBrowser();
    const url = new URL(await t.callbackUrl(server, browser));
    const state = url.searchParams.get("state") ?? "";
    const [payload = "", mac = ""] = state.split(".");
    const changed = Buffer.from(
      Buffer.from(payload, "base64url").toString().replace('"returnTo":"/"', '"returnTo":"/x"'),
    ).toString("base64url");
    expect(changed).not.toBe(payload);
    for (const forged of [`${changed}.${mac}`, `${payload}.`, payload, `${payload}.AAAA`, "", "."]) {
      url.searchParams.set("state", forged);
      expect([forged, await codeOf(await browser.request(url.href))]).toEqual([forged, "400 BAD_REQUEST"]);
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
    const server = await t.start();
    const browser = new TestBrowser();
    const url = await t.callbackUrl(server, browser);
    server.restart("another secret of this server");
    expect(await codeOf(await browser.request(url))).toBe("400 BAD_REQUEST");
  });

  it("refuses a state ten minutes after its login began", async () => {
    const server = await t.start();
    const browser = new TestBrowser();
    const url = await t.callbackUrl(server, browser);
    server.advance(10 * 60_000);
    const response = await browser.request(url);
    expect(await response.json()).toEqual({
      code: "BAD_REQUEST",
      message: "this login has expired; start again at /auth/login",
    });
  });

  it("refuses the code of another login: the PKCE verifier does not fit", async () => {
    const server = await t.start();
    const attacker = new TestBrowser();
    const stolen = new URL(await t.callbackUrl(server, attacker, "mallory"));
    const victim = new TestBrowser();
    const url = new URL(await t.callbackUrl(server, victim));
    url.searchParams.set("code", stolen.searchParams.get("code") ?? "");
    const response = await victim.request(url.href);
    expect(await codeOf(response)).toBe("401 UNAUTHENTICATED");
    expect(victim.cookie("id_token")).toBeNull();
  });

  it("refuses an answer that names another issuer than the login went to", async () => {
    const second = await t.startProvider();
    const server = await t.start({ moreProviders: [second] });
    const browser = new TestBrowser();
    const url = new URL(await t.callbackUrl(server, browser));
    url.searchParams.set("iss", second.issuer);
    expect(await codeOf(await browser.request(url.href))).toBe("401 UNAUTHENTICATED");
  });

  it("says that the provider refused, and 503 when the provider says that it cannot now", async () => {
    const server = await t.start();
    for (const [error, expected] of [
      ["access_denied", "401 UNAUTHENTICATED"],
      ["temporarily_unavailable", "503 UNAVAILABLE"],
    ] as const) {
      const browser = new TestBrowser();
      const url = new URL(await t.callbackUrl(server, browser));
      url.searchParams.delete("code");
      url.searchParams.set("error", error);
      expect([error, await codeOf(await browser.request(url.href))]).toEqual([error, expected]);
    }
  });

  it("accepts no identity token with a wrong nonce, key, audience, issuer or time, and none at all", async () => {
    const server = await t.start();
    for (const [what, make] of Object.entries<(claims: JWTPayload, nonce: string) => Promise<string | undefined>>({
      "wrong nonce": (claims) => signToken(t.key, { ...claims, nonce: "another" }),
      "no nonce": (claims) => signToken(t.key, claims),
      "foreign key": (claims, nonce) => signToken(foreignKey, { ...claims, nonce }),
      "wrong audience": (claims, nonce) => signToken(t.key, { ...claims, nonce, aud: "other" }),
      "wrong issuer": (claims, nonce) => signToken(t.key, { ...claims, nonce, iss: "https://evil.example" }),
      expired: (claims, nonce) => signToken(t.key, { ...claims, nonce, exp: 1000, iat: 900 }),
      none: () => Promise.resolve(undefined),
    })) {
      const browser = new TestBrowser();
      let nonce = "";
      const { url } = await browser.logIn(`${server.base}/auth/login`, "ann", (at) => {
        nonce = at.searchParams.get("nonce") ?? nonce;
        return at.pathname.endsWith("/auth/callback");
      });
      answerTokens(async (claims) => ({ id_token: await make(claims, nonce) }));
      expect([what, await codeOf(await browser.request(url))]).toEqual([what, "401 UNAUTHENTICATED"]);
      expect(browser.cookie("id_token")).toBeNull();
      t.provider.intercept(null);
    }
    // The same way of answering is accepted when nothing is wrong, and the provider's clock less than a minute ahead.
    const browser = new TestBrowser();
    let nonce = "";
    const { url } = await browser.logIn(`${server.base}/auth/login`, "ann", (at) => {
      nonce = at.searchParams.get("nonce") ?? nonce;
      return at.pathname.endsWith("/auth/callback");
    });
    const ahead = Math.floor(Date.now() / 1000) + 50;
    answerTokens(async (claims) => ({
      id_token: await signToken(t.key, { ...claims, nonce, iat: ahead, nbf: ahead }),
    }));
    expect((await browser.request(url)).status).toBe(302);
  });

  it("refuses an identity token that no browser would keep, and says why", async () => {
    const server = await t.start();
    const browser = new TestBrowser();
    let nonce = "";
    const { url } = await browser.logIn(`${server.base}/auth/login`, "ann", (at) => {
      nonce = at.searchParams.get("nonce") ?? nonce;
      return at.pathname.endsWith("/auth/callback");
    });
    answerTokens(async (claims) => ({
      id_token: await signToken(t.key, { ...claims, nonce, groups: "x".repeat(4000) }),
    }));
    expect(await codeOf(await browser.request(url))).toBe("503 NOT_CONFIGURED");
  });
});
