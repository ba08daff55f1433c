import { describe, expect, it } from "vitest";

import { OidcLogin } from "../../../src/auth/oidc/oidc-login.js";
import { createRefreshCookies } from "../../../src/auth/oidc/refresh-cookie.js";
import { LoginStates } from "../../../src/auth/oidc/login-state.js";
import { checkBrowserSafety, corsHeaders, webOrigins } from "../../../src/routes/web/browser-safety.js";
import { createLoginRoutes } from "../../../src/routes/web/login-routes.js";
import { safeReturnTo } from "../../../src/routes/web/return-to.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { readCookie, setCookie } from "../../../src/wire/web/cookies.js";
import { until } from "../../helpers/until.js";

const own = "https://telemetry.example.com";
const app = "https://app.example.com";
const origins = webOrigins({
  redirectUri: `${own}/tele/auth/callback`,
  corsOrigin: `${app}/some/path`,
});

describe("return_to", () => {
  const at = (basePath: string): Parameters<typeof safeReturnTo>[1] => ({
    origin: own,
    basePath,
    allowedOrigins: origins,
  });

  it("stays below the base path, beside which other services may be", () => {
    for (const inside of ["/tele", "/tele/", "/tele/x?a=1#top", "/tele/a/../b", `${own}/tele/x`, `${app}/x`]) {
      expect([inside, safeReturnTo(inside, at("/tele"))]).toEqual([inside, inside.replace("a/../", "")]);
    }
    for (const outside of ["/", "/other-app/x", "/tele/../x", "/tele/%2e%2e/x", "/television", `${own}/other-app/x`]) {
      expect([outside, safeReturnTo(outside, at("/tele"))]).toEqual([outside, null]);
    }
  });

  it("may be a path of this server or an address of an allowed origin", () => {
    for (const [given, expected] of [
      ["/", "/"],
      ["/admin/keys?a=1&b=%2F#top", "/admin/keys?a=1&b=%2F#top"],
      ["/a/../b", "/b"],
      ["/?next=//evil.example", "/?next=//evil.example"],
      ["/%5Cevil.example", "/%5Cevil.example"],
      [`${own}/x`, `${own}/x`],
      [app, `${app}/`],
      ["HTTPS://APP.example.com/x", `${app}/x`],
    ]) {
      expect([given, safeReturnTo(given ?? "", at(""))]).toEqual([given, expected]);
    }
  });

  it("is refused when a browser would leave for another site or run it", () => {
    for (const given of [
      "",
      "admin",
      "?x",
      "//evil.example",
      "///evil.example",
      "/\\evil.example",
      "\\\\evil.example",
      "/\t/evil.example",
      "/\n/evil.example",
      " //evil.example",
      "/.//evil.example",
      "/a/..//evil.example",
      "https://evil.example",
      "https:evil.example",
      "https:/evil.example",
      "http://telemetry.example.com/",
      "https://telemetry.example.com:444/",
      "https://telemetry.example.com@evil.example/",
      "https://user:pass@telemetry.example.com/",
      "https://telemetry.example.com.evil.example/",
      "javascript:alert(1)",
      "data:text/html,x",
      "blob:https://telemetry.example.com/x",
      "/\u0000",
      `/${"a".repeat(1024)}`,
    ]) {
      expect([JSON.stringify(given), safeReturnTo(given, at(""))]).toEqual([JSON.stringify(given), null]);
    }
  });
});

describe("browser safety", () => {
  const code = (method: string, headers: Record<string, string>): string | null =>
    checkBrowserSafety(method, headers, origins)?.code ?? null;

  it("lets every reading request pass", () => {
    for (const method of ["GET", "HEAD", "OPTIONS"]) {
      expect(code(method, { origin: "https://evil.example" })).toBeNull();
    }
  });

  it("lets a changing request pass from an allowed origin, or with JSON where no origin is told", () => {
    expect(code("POST", { origin: own })).toBeNull();
    expect(code("POST", { origin: app, "content-type": "text/plain" })).toBeNull();
    expect(code("POST", { "content-type": "Application/JSON; charset=utf-8" })).toBeNull();
    expect(code("DELETE", { "content-type": "application/json" })).toBeNull();
    expect(code("DELETE", { origin: own })).toBeNull();
    expect(code("POST", { origin: own, "sec-fetch-site": "same-origin" })).toBeNull();
    expect(code("POST", { origin: app, "sec-fetch-site": "same-site" })).toBeNull();
  });

  it("refuses what another site could have a browser send", () => {
    for (const method of ["POST", "DELETE", "PUT", "PATCH"]) {
      for (const origin of ["https://evil.example", "null", "http://telemetry.example.com"]) {
        expect(code(method, { origin, "content-type": "application/json" })).toBe("FORBIDDEN");
      }
      for (const site of ["cross-site", "same-site"]) {
        expect(code(method, { "sec-fetch-site": site, "content-type": "application/json" })).toBe("FORBIDDEN");
      }
    }
    for (const method of ["POST", "DELETE", "PUT", "PATCH"]) {
      for (const type of ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"]) {
        expect(code(method, { "content-type": type })).toBe("UNSUPPORTED_MEDIA_TYPE");
      }
    }
  });

  it("answers CORS for the one configured origin, and names no other", () => {
    expect(corsHeaders("GET", app, null)).toEqual([]);
    expect(corsHeaders("GET", "https://evil.example", app)).toEqual([["Vary", "Origin"]]);
    expect(Object.fromEntries(corsHeaders("OPTIONS", app, `${app}/ui`))).toMatchObject({
      "Access-Control-Allow-Origin": app,
      "Access-Control-Allow-Credentials": "true",
      "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    });
    expect(Object.fromEntries(corsHeaders("GET", app, app))).not.toHaveProperty("Access-Control-Allow-Methods");
  });
});

describe("cookies", () => {
  it("are read by their whole name, whatever is around them", () => {
    expect(readCookie("a=1; id_token=x.y.z; b=2", "id_token")).toBe("x.y.z");
    expect(readCookie('id_token="x"', "id_token")).toBe("x");
    expect(readCookie("id_token=a=b", "id_token")).toBe("a=b");
    expect(readCookie("my_id_token=1;id_token2=2;ID_TOKEN=3", "id_token")).toBeNull();
    expect(readCookie("", "id_token")).toBeNull();
    expect(readCookie(`id_token=1; ${"x".repeat(30_000)}`, "id_token")).toBeNull();
  });

  it("that come twice are ambiguous unless they are the same", () => {
    expect(readCookie("t=1; t=1", "t")).toBe("1");
    expect(readCookie("t=1; t=2", "t")).toEqual({ ambiguous: true });
  });

  it("carry no value that would become an attribute or another field", () => {
    const o = { path: "/", secure: true, maxAgeSeconds: 1.9 };
    expect(setCookie("t", "v", o)).toBe("t=v; Path=/; Max-Age=1; HttpOnly; SameSite=Lax; Secure");
    for (const value of ["a;b", "a b", "a\r\nSet-Cookie: x=y", 'a"', "a,b", "\u00e9"]) {
      expect(() => setCookie("t", value, o)).toThrow(RangeError);
    }
  });
});

describe("login states", () => {
  it("have a browser value and secrets of their own each, and work with no other's", () => {
    const states = new LoginStates({ secret: "s".repeat(16), nowMs: () => 0 });
    const first = states.begin({ issuer: "i", returnTo: "/" });
    const second = states.begin({ issuer: "i", returnTo: "/" });
    expect(second.browser).not.toBe(first.browser);
    expect(second.nonce).not.toBe(first.nonce);
    expect(() => states.redeem(first.state, () => second.browser)).toThrow(/in another browser/);
    for (const begun of [first, second]) {
      expect(states.redeem(begun.state, (id) => (id === begun.id ? begun.browser : null))).toEqual({
        id: begun.id,
        issuer: "i",
        returnTo: "/",
        nonce: begun.nonce,
        codeVerifier: begun.codeVerifier,
      });
    }
  });

  it("that were redeemed are remembered up to a bound, the oldest forgotten first, and no login is refused for it", () => {
    const states = new LoginStates({ secret: "s".repeat(16), nowMs: () => 0, maxRedeemed: 2 });
    const begun = Array.from({ length: 3 }, () => states.begin({ issuer: "i", returnTo: "/" }));
    const redeem = (at: number): string => states.redeem(begun[at]?.state ?? "", () => begun[at]?.browser ?? null).id;
    for (const [at, { id }] of begun.entries()) {
      expect(redeem(at)).toBe(id);
    }
    expect(() => redeem(1)).toThrow(/was used already/);
    expect(() => redeem(2)).toThrow(/was used already/);
    expect(redeem(0)).toBe(begun[0]?.id);
  });
});

describe("a refresh", () => {
  it("is shared by tabs, however many cookies somebody makes up meanwhile", async () => {
    const [secret, issuer, nowMs] = ["a state secret", "https://id.example", Date.now];
    let asked = 0;
    let answer: () => void = () => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    class SlowProvider extends OidcLogin {
      override async refresh() {
        asked++;
        await answered;
        return { idToken: "t", refreshToken: null };
      }
    }
    const caller = { issuer, subject: "ann", email: null, name: "ann" };
    const outcome = { kind: "ok", caller, displayName: "Ann", expiresAtMs: nowMs() + 60_000 } as const;
    const routes = createLoginRoutes({
      login: new SlowProvider({
        issuers: [{ issuer, audience: "app", allowHttp: false, caFile: null }],
        clientSecret: null,
        scope: "openid",
        redirectUri: `${own}/auth/callback`,
        logger: createSilentLogger(),
        monotonicMs: nowMs,
      }),
      sessions: { caller: () => Promise.resolve(outcome), verify: () => Promise.resolve(outcome) },
      redirectUri: `${own}/auth/callback`,
      allowedOrigins: origins,
      stateSecret: secret,
      isAdmin: () => Promise.resolve(false),
      nowMs,
    });
    const refresh = (cookie: string): Promise<number | null> =>
      routes
        .handle({
          method: "POST",
          path: "/auth/refresh",
          query: "",
          headers: { cookie: `refresh_token=${cookie}`, "content-type": "application/json" },
        })
        .then(
          ({ status }) => status,
          () => null,
        );
    const cookie = await createRefreshCookies({ secret, nowMs }).seal({ issuer, subject: "ann", refreshToken: "r" });
    const first = refresh(cookie);
    await until(() => asked > 0);
    // All that one packet holds arrive together.
    const madeUp = Array.from({ length: 2000 }, (_, i) => refresh(`made-up-${i}`));
    const second = refresh(cookie);
    expect(new Set(await Promise.all(madeUp))).toEqual(new Set([null]));
    answer();
    expect([await first, await second, asked]).toEqual([200, 200, 1]);
  });
});
