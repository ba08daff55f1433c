import { createHmac } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { exportSPKI, importJWK, type JWTPayload } from "jose";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Authenticator, AuthOutcome } from "../../src/auth/authenticator.js";
import { createOidcAuthenticator, type OidcAuthenticatorOptions } from "../../src/auth/oidc/oidc-authenticator.js";
import { checkOidcConfig, type OidcConfig } from "../../src/runtime/config/oidc.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import {
  makeSigningKey,
  oidcConfigOf,
  type SigningKey,
  signToken,
  startOidcProvider,
  type TestProvider,
} from "../helpers/auth/auth-oidc-provider.js";
import { until } from "../helpers/until.js";

const rejected = { kind: "rejected", message: "invalid token" };
const unavailable = { kind: "unavailable", retryAfterSeconds: 1 };
const bearer = (token: string): string => `Bearer ${token}`;
const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

let key: SigningKey;
let provider: TestProvider;
let nowMs = 0;
const made: Authenticator[] = [];

function config(over: Partial<OidcConfig> = {}): OidcConfig {
  const { issuer, clientId } = provider;
  const parsed = oidcConfigOf({ issuers: [{ issuer, audience: clientId }] });
  return { ...parsed, ...over };
}

function oidc(over: Partial<OidcConfig> = {}, o: Partial<OidcAuthenticatorOptions> = {}): Authenticator {
  nowMs = 0;
  const wallAtStart = Date.now();
  const authenticator = createOidcAuthenticator({
    config: config(over),
    logger: createSilentLogger(),
    metrics: createMetrics(),
    clock: () => nowMs,
    wallMs: () => wallAtStart + nowMs,
    fetchTimeoutMs: 20_000,
    ...o,
  });
  made.push(authenticator);
  return authenticator;
}

function claims(over: JWTPayload = {}): JWTPayload {
  const now = Math.floor(Date.now() / 1000);
  const { issuer, clientId } = provider;
  return { iss: issuer, aud: clientId, sub: "someone", iat: now, exp: now + 3600, ...over };
}

beforeAll(async () => {
  key = await makeSigningKey("first");
  provider = await startOidcProvider({ key, claims: { email: "Ann@Example.com" } });
});
afterEach(async () => {
  provider.intercept(null);
  provider.rotate(key);
  await Promise.all(made.splice(0).map((authenticator) => authenticator.stop()));
});
afterAll(async () => {
  await provider.stop();
});

describe("tokens of a real provider", () => {
  it("are accepted with subject and email, from memory the second time", async () => {
    const authenticator = oidc();
    const token = await provider.issueToken();
    expect(authenticator.authenticateNow(bearer(token))).toBeNull();
    const outcome = await authenticator.authenticate(bearer(token));
    expect(outcome).toEqual({
      kind: "ok",
      principal: {
        kind: "oidc",
        keyId: null,
        issuer: provider.issuer,
        subject: provider.clientId,
        email: "ann@example.com",
        name: "ann@example.com",
        audience: null,
      },
    });
    expect(authenticator.authenticateNow(bearer(token))).toBe(outcome);
  });

  it("stay valid in the cache for its TTL, and never past exp", async () => {
    const authenticator = oidc({ tokenCacheTtlMs: 300_000 });
    const long = await provider.issueToken();
    const short = await signToken(key, claims({ exp: Math.floor(Date.now() / 1000) + 100 }));
    await authenticator.authenticate(bearer(long));
    await authenticator.authenticate(bearer(short));
    nowMs = 98_000;
    expect(authenticator.authenticateNow(bearer(short))).toMatchObject({ kind: "ok" });
    nowMs = 101_000;
    expect(authenticator.authenticateNow(bearer(short))).toBeNull();
    nowMs = 299_000;
    expect(authenticator.authenticateNow(bearer(long))).toMatchObject({ kind: "ok" });
    expect(await authenticator.authenticate(bearer(short))).toEqual({
      kind: "rejected",
      message: "invalid token: it has expired",
    });
    nowMs = 300_000;
    expect(authenticator.authenticateNow(bearer(long))).toBeNull();
  });

  it("are cached up to the size given", async () => {
    const authenticator = oidc({ tokenCacheSize: 3 });
    const tokens = await Promise.all(Array.from({ length: 10 }, (_, i) => signToken(key, claims({ sub: `s${i}` }))));
    await Promise.all(tokens.map((token) => authenticator.authenticate(bearer(token))));
    const held = tokens.filter((token) => authenticator.authenticateNow(bearer(token)) !== null);
    expect(held.length).toBe(3);
  });

  it("share one fetch of the key set", async () => {
    const authenticator = oidc();
    const tokens = await Promise.all(Array.from({ length: 20 }, (_, i) => signToken(key, claims({ sub: `s${i}` }))));
    const before = provider.keySetRequests();
    const outcomes = await Promise.all(
      [...tokens, ...tokens].map((token) => authenticator.authenticate(bearer(token))),
    );
    expect(outcomes.every((outcome) => outcome.kind === "ok")).toBe(true);
    expect(provider.keySetRequests() - before).toBe(1);
  });

  it.each([
    ["another id", "second", "ES256"],
    ["the id of the old one", "first", "RS256"],
  ])("are accepted after a rotation to a key with %s, which one fetch discovers", async (_what, kid, alg) => {
    const authenticator = oidc();
    await authenticator.authenticate(bearer(await provider.issueToken()));
    const next = await makeSigningKey(kid, alg);
    provider.rotate(next);
    nowMs = 31_000;
    const before = provider.keySetRequests();
    expect(await authenticator.authenticate(bearer(await provider.issueToken()))).toMatchObject({
      kind: "ok",
    });
    expect(provider.keySetRequests() - before).toBe(1);
    // What the withdrawn key signed is no longer believed.
    const old = await signToken(key, claims());
    expect(await authenticator.authenticate(bearer(old))).toEqual(rejected);
  });

  it("lead to no more than one fetch per cool-down, however many unknown key ids arrive", async () => {
    const authenticator = oidc();
    await authenticator.authenticate(bearer(await provider.issueToken()));
    const before = provider.keySetRequests();
    for (let i = 0; i < 20; i++) {
      const stranger = { ...key, jwk: { ...key.jwk, kid: `unknown-${i}` } };
      const token = await signToken(stranger, claims());
      expect(await authenticator.authenticate(bearer(token))).toEqual(rejected);
      nowMs += 500;
    }
    expect(provider.keySetRequests() - before).toBe(2);
    // Forged tokens keep a new key from being found for no longer than that.
    provider.rotate(await makeSigningKey("second"));
    const token = await provider.issueToken();
    nowMs += 5000;
    expect(await authenticator.authenticate(bearer(token))).toMatchObject({ kind: "ok" });
  });

  it("are accepted while forged ones wait for the keys of a provider that hangs", async () => {
    const other = await startOidcProvider({ key });
    const plain = { allowHttp: false, caFile: null, audience: provider.clientId };
    const authenticator = oidc({
      issuers: [provider, other].map(({ issuer }) => ({ ...plain, issuer })),
    });
    await authenticator.authenticate(bearer(await signToken(key, claims())));
    for (const hanging of [provider, other]) {
      hanging.intercept((path) => (path === "/jwks" ? () => undefined : null));
    }
    let [count, answered] = [0, 0];
    const forgedFor = (iss: string): Promise<AuthOutcome>[] =>
      Array.from({ length: 600 }, () => {
        const token = `${base64({ alg: "RS256", kid: `forged-${count++}` })}.${base64(claims({ iss }))}.AAAA`;
        return authenticator.authenticate(bearer(token)).finally(() => answered++);
      });
    // One provider whose keys are known, and one whose keys never were.
    const before = provider.keySetRequests();
    const forged = forgedFor(provider.issuer);
    await until(() => provider.keySetRequests() > before);
    forged.push(...forgedFor(other.issuer));
    await until(() => other.keySetRequests() > 0);
    expect(await authenticator.authenticate(bearer(await signToken(key, claims({ sub: "another" }))))).toMatchObject({
      kind: "ok",
    });
    // Nor may any number of them wait.
    await Promise.all(forgedFor(provider.issuer));
    expect(answered).toBe(88 + 88 + 600);
    await authenticator.stop();
    expect(new Set((await Promise.all(forged)).map(({ kind }) => kind))).toEqual(new Set(["unavailable"]));
    await other.stop();
  });

  it("are refreshed in keys before the interval ends, beside the requests", async () => {
    const authenticator = oidc({ jwksRefreshIntervalMs: 100_000, tokenCacheTtlMs: 0 });
    const token = await provider.issueToken();
    await authenticator.authenticate(bearer(token));
    const before = provider.keySetRequests();
    nowMs = 80_000;
    expect(await authenticator.authenticate(bearer(token))).toMatchObject({ kind: "ok" });
    await until(() => provider.keySetRequests() > before);
    nowMs = 120_000;
    expect(await authenticator.authenticate(bearer(token))).toMatchObject({ kind: "ok" });
  });

  it("leave several issuers and audiences side by side", async () => {
    const plain = { allowHttp: false, caFile: null };
    const otherKey = await makeSigningKey("other");
    const other = await startOidcProvider({ key: otherKey });
    const authenticator = oidc({
      issuers: [
        { ...plain, issuer: provider.issuer, audience: "a" },
        { ...plain, issuer: provider.issuer, audience: "b" },
        { ...plain, issuer: other.issuer, audience: "c" },
      ],
    });
    const attempt = async (k: SigningKey, iss: string, aud: string): Promise<string> =>
      (await authenticator.authenticate(bearer(await signToken(k, claims({ iss, aud }))))).kind;
    expect(await attempt(key, provider.issuer, "a")).toBe("ok");
    expect(await attempt(key, provider.issuer, "b")).toBe("ok");
    expect(await attempt(otherKey, other.issuer, "c")).toBe("ok");
    // Neither another issuer's audience nor another issuer's key will do.
    expect(await attempt(key, provider.issuer, "c")).toBe("rejected");
    expect(await attempt(otherKey, other.issuer, "a")).toBe("rejected");
    expect(await attempt(otherKey, provider.issuer, "a")).toBe("rejected");
    await other.stop();
  });
});

describe("bad tokens", () => {
  it("are refused, each for its reason", async () => {
    const authenticator = oidc();
    const now = Math.floor(Date.now() / 1000);
    const { exp: _exp, ...withoutExp } = claims();
    const { iat: _iat, ...withoutIat } = claims();
    const { sub: _sub, ...withoutSub } = claims();
    const { aud: _aud, ...withoutAud } = claims();
    const good = await signToken(key, claims());
    const [header = "", body = "", signature = ""] = good.split(".");
    const publicKey = await importJWK({ ...key.jwk, d: undefined } as never, "RS256");
    const spki = await exportSPKI(publicKey);
    const hmacInput = `${base64({ alg: "HS256", kid: "first" })}.${body}`;
    const stranger = await makeSigningKey("first");
    const bad: Record<string, string> = {
      "alg none": `${base64({ alg: "none" })}.${body}.`,
      "alg none with a signature": `${base64({ alg: "none" })}.${body}.${signature}`,
      "HMAC with the public key": `${hmacInput}.${createHmac("sha256", spki).update(hmacInput).digest("base64url")}`,
      "another key under the known kid": await signToken(stranger, claims()),
      "changed claims": `${header}.${base64(claims({ sub: "admin" }))}.${signature}`,
      "no signature": `${header}.${body}.`,
      "wrong issuer": await signToken(key, claims({ iss: "https://elsewhere.example" })),
      "issuer with a slash more": await signToken(key, claims({ iss: `${provider.issuer}/` })),
      "wrong audience": await signToken(key, claims({ aud: "somebody-else" })),
      "array audience of none": await signToken(key, claims({ aud: [] })),
      "array audience of two": await signToken(key, claims({ aud: [provider.clientId, "x"] })),
      "authorized party of another client": await signToken(key, claims({ azp: "x" })),
      "no audience": await signToken(key, withoutAud),
      expired: await signToken(key, claims({ exp: now - 61 })),
      "exp beyond all dates": await signToken(key, claims({ exp: 1e308 })),
      "no exp": await signToken(key, withoutExp),
      "text exp": await signToken(key, claims({ exp: `${now + 60}` as unknown as number })),
      "not yet valid": await signToken(key, claims({ nbf: now + 90 })),
      "issued in the future": await signToken(key, claims({ iat: now + 90 })),
      "no iat": await signToken(key, withoutIat),
      "no sub": await signToken(key, withoutSub),
      "empty sub": await signToken(key, claims({ sub: "" })),
      "critical header": await signToken(key, claims(), { crit: ["exotic"], exotic: 1 }).catch(
        () => `${base64({ alg: "RS256", kid: "first", crit: ["exotic"], exotic: 1 })}.${body}.${signature}`,
      ),
      "logout token": await signToken(key, claims(), { typ: "logout+jwt" }),
      "type of another kind": await signToken(key, claims(), { typ: 7 }),
      "payload not an object": `${header}.${base64([1])}.${signature}`,
      garbage: "a.b.c",
      "header not base64": `!!.${body}.${signature}`,
    };
    expect(await authenticator.authenticate(bearer(good))).toMatchObject({ kind: "ok" });
    const accepted: string[] = [];
    for (const [name, token] of Object.entries(bad)) {
      const outcome = await authenticator.authenticate(bearer(token));
      if (outcome.kind !== "rejected") {
        accepted.push(`${name}: ${outcome.kind}`);
      }
    }
    expect(accepted).toEqual([]);
  });

  it("are told what is wrong with what their issuer did sign, and no more than that otherwise", async () => {
    const authenticator = oidc();
    const now = Math.floor(Date.now() / 1000);
    const clocks = "check the clocks of this server and of the identity provider";
    const { sub: _sub, ...withoutSub } = claims();
    const stranger = await makeSigningKey("first");
    for (const [token, message] of [
      [await signToken(key, claims({ exp: now - 90 })), "invalid token: it has expired"],
      [await signToken(key, claims({ iat: now + 90 })), `invalid token: it was issued in the future; ${clocks}`],
      [await signToken(key, claims({ nbf: now + 90 })), `invalid token: it is not valid yet; ${clocks}`],
      [
        await signToken(key, claims({ aud: "x" })),
        "invalid token: its audience is not, or not only, the one in SVC_OIDC_CONFIG",
      ],
      [await signToken(key, withoutSub), 'invalid token: missing required "sub" claim'],
      [await signToken(stranger, claims({ exp: now - 90 })), "invalid token"],
    ]) {
      expect(await authenticator.authenticate(bearer(token ?? ""))).toEqual({ kind: "rejected", message });
    }
  });

  it("within the clock tolerance of 60 s pass", async () => {
    const authenticator = oidc();
    const now = Math.floor(Date.now() / 1000);
    for (const over of [{ exp: now - 30 }, { nbf: now + 30 }, { iat: now + 30 }]) {
      const token = await signToken(key, claims(over));
      expect(await authenticator.authenticate(bearer(token))).toMatchObject({ kind: "ok" });
    }
  });

  it("of a megabyte, or of no configured issuer, are refused without a fetch", async () => {
    const authenticator = oidc();
    const before = provider.keySetRequests();
    const huge = await signToken(key, claims({ junk: "x".repeat(1_000_000) }));
    expect(await authenticator.authenticate(bearer(huge))).toEqual({
      kind: "rejected",
      message: "authentication failed",
    });
    const foreign = await signToken(key, claims({ iss: "https://elsewhere.example" }));
    expect(await authenticator.authenticate(bearer(foreign))).toEqual({
      kind: "rejected",
      message: "invalid token: SVC_OIDC_CONFIG does not name its issuer",
    });
    expect(provider.keySetRequests()).toBe(before);
  });
});

describe("the email of a token", () => {
  it("counts unless the token says that it is not verified", async () => {
    const authenticator = oidc();
    const emailOf = async (over: JWTPayload): Promise<unknown> => {
      const outcome = await authenticator.authenticate(bearer(await signToken(key, claims(over))));
      return outcome.kind === "ok" ? outcome.principal.email : outcome.kind;
    };
    const email = "Ann@Example.com";
    expect(await emailOf({ email })).toBe("ann@example.com");
    expect(await emailOf({ email, email_verified: true })).toBe("ann@example.com");
    expect(await emailOf({ email, email_verified: false })).toBeNull();
    expect(await emailOf({ email, email_verified: "false" })).toBeNull();
    expect(await emailOf({})).toBeNull();
    expect(await emailOf({ email: ["ann@example.com"] })).toBeNull();
    expect(await emailOf({ email: "x".repeat(256) })).toBeNull();
  });
});

describe("a provider in trouble", () => {
  it("makes tokens unavailable, not rejected, until it is back", async () => {
    const token = await provider.issueToken();
    const metrics = createMetrics();
    const authenticator = oidc({}, { metrics });
    // It is there before it counts: an alert does not see the step from nothing to 1.
    expect(await metrics.text()).toMatch(/^oidc_key_set_error_count\{.*\} 0$/mu);
    await provider.goDown();
    expect(await authenticator.authenticate(bearer(token))).toEqual(unavailable);
    expect(await metrics.text()).toMatch(/^oidc_key_set_error_count\{.*\} 1$/mu);
    await provider.comeUp();
    expect(await authenticator.authenticate(bearer(token))).toEqual(unavailable);
    nowMs += 1_000;
    expect(await authenticator.authenticate(bearer(token))).toMatchObject({ kind: "ok" });
  });

  it("leaves known keys and cached tokens in use until the refresh interval ends", async () => {
    const [token, later] = [await provider.issueToken(), await signToken(key, claims())];
    const authenticator = oidc({ jwksRefreshIntervalMs: 100_000, tokenCacheTtlMs: 10_000 });
    await authenticator.authenticate(bearer(token));
    await provider.goDown();
    nowMs = 90_000;
    expect(await authenticator.authenticate(bearer(later))).toMatchObject({ kind: "ok" });
    nowMs = 100_001;
    expect(await authenticator.authenticate(bearer(token))).toEqual(unavailable);
    await provider.comeUp();
  });

  it.each([
    ["slow", () => undefined],
    ["endless", endless],
    ["not JSON", answer("<html>")],
    ["no key set", answer('{"keys": 7}')],
    ["not an object", answer("null")],
    ["of far too many keys", answer(JSON.stringify({ keys: Array.from({ length: 5000 }, () => ({ kty: "RSA" })) }))],
    ["an error", answer("{}", 500)],
    ["a redirect", answer("", 302, { location: "http://127.0.0.1:1/" })],
  ] as const)("and a key set that is %s is our failure, not the caller's", async (name, handler) => {
    const token = await provider.issueToken();
    const authenticator = oidc({}, name === "slow" ? { fetchTimeoutMs: 1500 } : {});
    provider.intercept((path) => (path === "/jwks" ? handler : null));
    expect(await authenticator.authenticate(bearer(token))).toEqual(unavailable);
    provider.intercept(null);
    nowMs += 1_000;
    expect(await authenticator.authenticate(bearer(token))).toMatchObject({ kind: "ok" });
  });

  it("whose discovery names another issuer, or keys over plain http elsewhere, is not believed", async () => {
    const token = await provider.issueToken();
    const documents = [
      { issuer: "https://elsewhere.example", jwks_uri: `${provider.issuer}/jwks` },
      { issuer: provider.issuer, jwks_uri: "http://elsewhere.example/jwks" },
      { issuer: provider.issuer, jwks_uri: "file:///etc/passwd" },
      { issuer: provider.issuer },
    ];
    for (const document of documents) {
      const authenticator = oidc();
      provider.intercept((path) => (path.startsWith("/.well-known") ? answer(JSON.stringify(document)) : null));
      expect(await authenticator.authenticate(bearer(token))).toEqual(unavailable);
    }
  });

  it("cannot smuggle a symmetric key into the set", async () => {
    const secret = { kty: "oct", kid: "sym", k: Buffer.from("secret").toString("base64url") };
    provider.intercept((path) => (path === "/jwks" ? answer(JSON.stringify({ keys: [secret] })) : null));
    const input = `${base64({ alg: "HS256", kid: "sym" })}.${base64(claims())}`;
    const token = `${input}.${createHmac("sha256", "secret").update(input).digest("base64url")}`;
    expect(await oidc().authenticate(bearer(token))).toMatchObject({ kind: "rejected" });
  });
});

describe("SVC_OIDC_CONFIG", () => {
  const entry = { issuer: "https://id.example", audience: "app" };

  it("takes the documented fields and their defaults", () => {
    expect(checkOidcConfig({ issuers: [entry] })).toEqual({
      issuers: [{ ...entry, allowHttp: false, caFile: null }],
      jwksRefreshIntervalMs: 3_600_000,
      tokenCacheSize: 1000,
      tokenCacheTtlMs: 300_000,
    });
    expect(
      checkOidcConfig({
        issuers: [{ ...entry, issuer: "http://id.example", allow_http: true, ca_file: "ca.pem" }],
        jwks_refresh_interval_secs: 60,
        token_cache_size: 5,
        token_cache_ttl_secs: 0,
      }),
    ).toEqual({
      issuers: [{ issuer: "http://id.example", audience: "app", allowHttp: true, caFile: "ca.pem" }],
      jwksRefreshIntervalMs: 60_000,
      tokenCacheSize: 5,
      tokenCacheTtlMs: 0,
    });
  });

  it("is refused with the name of the field that is wrong", () => {
    const wrong: [unknown, RegExp][] = [
      [[], /object/],
      [{}, /issuers/],
      [{ issuers: [] }, /issuers/],
      [{ issuers: [7] }, /issuers\[0\] must be an object/],
      [{ issuers: [{ ...entry, issuer: "http://id.example" }] }, /issuers\[0\]\.issuer/],
      [{ issuers: [{ ...entry, issuer: "http://id.example", allow_http: false }] }, /issuers\[0\]\.issuer/],
      [{ issuers: [{ ...entry, issuer: "ftp://id.example", allow_http: true }] }, /\.issuer/],
      [{ issuers: [{ ...entry, allow_http: "true" }] }, /issuers\[0\]\.allow_http/],
      [{ issuers: [{ ...entry, allow_htp: true }] }, /issuers\[0\] has no field allow_htp/],
      [{ issuers: [{ ...entry, ca_file: "" }] }, /issuers\[0\]\.ca_file/],
      [{ issuers: [entry, { ...entry, audience: "" }] }, /issuers\[1\]\.audience/],
      [{ issuers: [entry, { ...entry, ca_file: "x" }] }, /issuers\[1\] must have the allow_http/],
      [{ issuers: [{ ...entry, issuer: "https://u:p@id.example" }] }, /issuer/],
      [{ issuers: [entry], token_cache_size: 0 }, /token_cache_size/],
      [{ issuers: [entry], token_cache_ttl_secs: "5" }, /token_cache_ttl_secs/],
      [{ issuers: [entry], token_cache_ttl: 5 }, /no field token_cache_ttl$/],
    ];
    for (const [document, message] of wrong) {
      expect(checkOidcConfig(document)).toMatch(message);
    }
  });
});

function answer(
  body: string,
  status = 200,
  headers: Record<string, string> = {},
): (request: IncomingMessage, response: ServerResponse) => void {
  return (_request, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body);
  };
}

function endless(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" });
  const write = (): void => {
    let room = true;
    while (room && !response.destroyed) {
      room = response.write(" ".repeat(65_536));
    }
    if (!response.destroyed) {
      response.once("drain", write);
    }
  };
  write();
}
