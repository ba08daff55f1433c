/** Login and what follows from it, on the whole web server, at a real identity provider. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { makeSigningKey, startOidcProvider, type TestProvider } from "../../helpers/auth/auth-oidc-provider.js";
import { startTcpProxy, type TcpProxy } from "../../helpers/auth/auth-tcp-proxy.js";
import { startTestIngestion, type TestIngestion } from "../../helpers/servers/ingest-server.js";
import { protobufLogs } from "../../helpers/otlp/otlp-bodies.js";
import { until } from "../../helpers/until.js";
import { TestBrowser } from "../../helpers/web/web-browser.js";
import { startTestWeb, type TestWeb } from "../../helpers/web/web-server.js";

let provider: TestProvider;
let ingestion: TestIngestion;
let proxy: TcpProxy;
let web: TestWeb;

beforeAll(async () => {
  const key = await makeSigningKey("login");
  provider = await startOidcProvider({
    key,
    login: { claimsOf: (login) => ({ email: `${login}@example.com`, name: `The ${login}` }) },
  });
  ingestion = await startTestIngestion();
  proxy = await startTcpProxy(ingestion.database.connectionString);
  web = await startTestWeb({
    identities: {
      provider,
      key,
      cookie: () => Promise.reject(new Error("people log in here")),
      anonymousCookie: () => Promise.reject(new Error("people log in here")),
      config: JSON.stringify({
        issuers: [{ issuer: provider.issuer, audience: provider.clientId }],
      }),
      stop: () => provider.stop(),
    },
    database: ingestion.database,
    connectionString: () => proxy.connectionString,
    admins: ["admin@example.com"],
    environment: { SVC_BASE_PATH: "/telemetry/", SVC_OIDC_CLIENT_SECRET: "secret" },
  });
  provider.allowRedirect(`${web.url}/auth/callback`);
});
afterAll(async () => {
  await ingestion?.server.stop();
  await web?.server.stop();
  await proxy?.stop();
  await ingestion?.stop();
  await provider?.stop();
});

async function logIn(login: string): Promise<TestBrowser> {
  const browser = new TestBrowser();
  const end = await browser.logIn(`${web.url}/auth/login?return_to=/telemetry/admin`, login, (url) =>
    url.href.startsWith(`${web.url}/admin`),
  );
  expect(end.url).toBe(`${web.url}/admin`);
  return browser;
}

const json = { "content-type": "application/json" };

// Comes first: later the server knows its provider.
describe("a login that did not work", () => {
  const page = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
  const open = (path: string, headers: Record<string, string> = page): Promise<Response> =>
    fetch(`${web.url}${path}`, { headers, redirect: "manual" });

  it("is a page for a person, with the way back in, and JSON for a program", async () => {
    const path = "/auth/callback?error=access_denied&state=x";
    const answer = await open(path);
    expect(answer.status).toBe(400);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "content-security-policy": expect.stringMatching(/^default-src 'none'; style-src 'sha256-/) as string,
    });
    const text = await answer.text();
    expect(text).toContain("This login was not made by this server; start again");
    expect(text).toContain('<a href="/telemetry/auth/login">Log in again</a>');
    const forPrograms = await open(path, { accept: "*/*" });
    expect(await forPrograms.json()).toMatchObject({ code: "BAD_REQUEST" });
  });

  it("leads to the same address again when the provider was down, and not to what was wrong", async () => {
    const query = `return_to=${encodeURIComponent("/telemetry/admin")}&x="><script>`;
    provider.intercept(() => (_request, response) => response.writeHead(500).end());
    const down = await open(`/auth/login?${query}`);
    provider.intercept(null);
    expect(down.status).toBe(503);
    expect(await down.text()).toContain(
      '<a href="/telemetry/auth/login?return_to=%2Ftelemetry%2Fadmin&amp;x=%22%3E%3Cscript%3E">Log in again</a>',
    );
    const wrong = await open("/auth/login?return_to=//evil.example");
    expect(wrong.status).toBe(400);
    expect(await wrong.text()).toContain('<a href="/telemetry/auth/login">Log in again</a>');
    await until(async () => (await open("/auth/login")).status === 302);
  });
});

describe("somebody who logged in with a browser", () => {
  it("mints a key whose use the list shows, and logs out", async () => {
    const browser = await logIn("admin");
    const me = await browser.request(`${web.url}/auth/me`);
    expect(await me.json()).toMatchObject({ email: "admin@example.com", is_admin: true });
    const minted = await browser.request(`${web.url}/api/ingestion-api-keys`, {
      method: "POST",
      headers: { ...json, origin: new URL(web.url).origin },
      body: JSON.stringify({ name: "mine", audience: "brand-new" }),
    });
    expect(minted.status).toBe(201);
    const { key, key_id: keyId } = (await minted.json()) as { key: string; key_id: string };
    const body = protobufLogs("used", 5);
    const sent = await ingestion.post("logs", body, { authorization: `Bearer ${key}` });
    expect(sent.status).toBe(200);
    await ingestion.server.stop();
    const listed = await browser.request(`${web.url}/api/ingestion-api-keys?include_usage=true`);
    expect(await listed.json()).toContainEqual(
      expect.objectContaining({
        key_id: keyId,
        created_by: "admin@example.com",
        usage_24h: { requests: 1, bytes: body.length, records: 5 },
      }),
    );
    const out = await browser.request(`${web.url}/auth/logout`, { method: "POST", headers: json });
    expect(out.status).toBe(204);
    expect((await browser.request(`${web.url}/api/ingestion-api-keys`)).status).toBe(401);
  });

  it("is no admin without being in the group, and refreshes the session", async () => {
    const browser = await logIn("user");
    const before = browser.cookie("refresh_token");
    const refreshed = await browser.request(`${web.url}/auth/refresh`, {
      method: "POST",
      headers: json,
    });
    expect(refreshed.status).toBe(200);
    expect(browser.cookie("refresh_token")).not.toBe(before);
    const me = await browser.request(`${web.url}/auth/me`);
    expect(await me.json()).toMatchObject({ email: "user@example.com", is_admin: false });
    expect((await browser.request(`${web.url}/api/audit`)).status).toBe(403);
  });

  it("gets 503 and not 'no admin' while the database is out of reach", async () => {
    const browser = await logIn("admin");
    await proxy.refuse();
    try {
      const me = await browser.request(`${web.url}/auth/me`);
      expect(await me.json()).toMatchObject({ code: "UNAVAILABLE" });
      expect(me.status).toBe(503);
    } finally {
      await proxy.restore();
    }
  });
});

describe("another site", () => {
  it("cannot act through a browser that is logged in", async () => {
    const browser = await logIn("admin");
    const post = async (path: string, headers: Record<string, string>): Promise<number> => {
      const body = path.startsWith("/api") ? JSON.stringify({ name: "planted" }) : undefined;
      const request = { method: "POST", headers, ...(body === undefined ? {} : { body }) };
      return (await browser.request(`${web.url}${path}`, request)).status;
    };
    for (const path of ["/api/analytics-api-keys", "/api/groups", "/auth/logout", "/auth/refresh"]) {
      expect([path, await post(path, { ...json, origin: "https://evil.example" })]).toEqual([path, 403]);
      expect([path, await post(path, { "content-type": "text/plain" })]).toEqual([path, 415]);
    }
    expect(await web.count("select count(*)::int as n from analytics_api_keys")).toBe(0);
  });
});
