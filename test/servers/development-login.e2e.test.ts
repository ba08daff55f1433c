/** Logging in at the identity provider of development mode, as a browser and as the command line do it. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { OidcAuthProvider } from "telemetry-service-client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startIdentityProvider } from "../../src/login/identity-provider.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { flightInfo, grpcOk } from "../helpers/auth/auth-grpc.js";
import { runCommand } from "../helpers/cli/run-cli.js";
import {
  developmentVariables,
  freePorts,
  type MonolithProcess,
  runProgram,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { until } from "../helpers/until.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { TestBrowser } from "../helpers/web/web-browser.js";

let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let monolith: MonolithProcess;
let variables: Record<string, string>;
let web: string;
let issuer: string;

async function start(args: readonly string[] = []): Promise<void> {
  // The other driver cannot take a free port that it was given again right away.
  monolith = await startMonolithProcess(data.directory, ["--http-driver=node", ...args]);
  variables = await developmentVariables(data.directory);
  web = variables["SVC_WEB_URL"] ?? "";
  issuer = variables["SVC_OIDC_ISSUER"] ?? "";
}

beforeAll(async () => {
  data = await temporaryDirectory();
  await start();
});
afterAll(async () => {
  const code = await monolith.stop();
  await data.remove();
  if (code !== 0) {
    throw new Error(`it ended with ${code}:\n${monolith.output()}`);
  }
});

const json = { "content-type": "application/json" };

/** Logs in at the web server. */
async function logIn(email: string, browser = new TestBrowser()): Promise<TestBrowser> {
  const { url, response } = await browser.logIn(`${web}/auth/login?return_to=/auth/me`, email);
  expect(url).toBe(`${web}/auth/me`);
  expect(await response?.json()).toMatchObject({ email });
  return browser;
}

async function call(browser: TestBrowser, method: string, route: string, body?: unknown): Promise<Response> {
  return await browser.request(`${web}${route}`, {
    method,
    headers: json,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function me(browser: TestBrowser): Promise<Record<string, unknown>> {
  return (await (await call(browser, "GET", "/auth/me")).json()) as Record<string, unknown>;
}

describe("the web server of development mode", () => {
  it("is named when it is ready, with the way to log in, and not everybody is an administrator", () => {
    expect(monolith.output()).toContain(`  Web          ${web}/\n`);
    expect(monolith.output()).toContain("log in as dev@localhost, an administrator, or guest@localhost");
    expect(monolith.output()).not.toContain("EVERYBODY IS AN ADMINISTRATOR");
    expect(variables).toMatchObject({ SVC_OIDC_CLIENT_ID: "telemetry-cli" });
    expect(issuer).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });

  it("takes dev@localhost for its administrator", async () => {
    const browser = await logIn("dev@localhost");
    expect(await me(browser)).toMatchObject({ name: "Dev", is_admin: true });
    const minted = await call(browser, "POST", "/api/ingestion-api-keys", { name: "by default" });
    expect(minted.status).toBe(201);
    expect(await minted.json()).toMatchObject({ audience: "public", claimed: false });
    const claimed = await call(browser, "POST", "/api/ingestion-api-keys", { name: "mine", audience: "mine" });
    expect(await claimed.json()).toMatchObject({ claimed: true });
    const grant = { audience: "mine", kind: "read", member: "user:guest@localhost" };
    expect((await call(browser, "POST", "/api/audience-grants", grant)).status).toBe(201);
    expect((await call(browser, "POST", "/api/analytics-api-keys", { name: "reader" })).status).toBe(201);
    const members = await (await call(browser, "GET", "/api/groups/admins/members")).json();
    expect(members).toMatchObject([{ member: "user:dev@localhost" }]);
  });

  it("takes guest@localhost for nobody special, in the browser where somebody else was logged in as well", async () => {
    const browser = await logIn("guest@localhost", await logIn("dev@localhost"));
    expect(await me(browser)).toMatchObject({ name: "Guest", is_admin: false });
    for (const [method, route, body] of [
      ["GET", "/api/audience-grants", undefined],
      ["POST", "/api/analytics-api-keys", { name: "x" }],
      ["POST", "/api/ingestion-api-keys", { name: "x", audience: "x" }],
    ] as const) {
      const refused = await call(browser, method, route, body);
      expect([route, refused.status]).toEqual([route, 403]);
    }
  });

  it("refreshes a session with a refresh token that works once, and ends it on logout", async () => {
    const browser = await logIn("guest@localhost");
    const first = browser.cookie("refresh_token");
    expect((await call(browser, "POST", "/auth/refresh")).status).toBe(200);
    const second = browser.cookie("refresh_token");
    expect(second).not.toBe(first);
    expect((await call(browser, "POST", "/auth/refresh")).status).toBe(200);
    expect(browser.cookie("refresh_token")).not.toBe(second);
    expect((await call(browser, "POST", "/auth/logout")).status).toBe(204);
    expect((await call(browser, "GET", "/auth/me")).status).toBe(401);
    // And the provider asks again.
    const page = await browser.logIn(`${web}/auth/login`, "", ({ pathname }) => pathname.startsWith("/login/"));
    expect(await (await browser.request(page.url)).text()).toContain('value="dev@localhost"');
  });
});

interface Tokens {
  readonly id_token: string;
  readonly refresh_token: string;
  readonly error?: string;
}

const clientId = "telemetry-cli";

async function askForTokens(form: Record<string, string>): Promise<{ status: number; tokens: Tokens }> {
  const response = await fetch(`${issuer}/token`, {
    method: "POST",
    body: new URLSearchParams({ client_id: clientId, ...form }),
  });
  return { status: response.status, tokens: (await response.json()) as Tokens };
}

function authorizationUrl(over: Record<string, string | null> = {}): string {
  const parameters = {
    client_id: clientId,
    response_type: "code",
    redirect_uri: "http://127.0.0.1:48080/callback",
    scope: "openid email profile offline_access",
    prompt: "consent",
    state: "s",
    code_challenge_method: "S256",
    code_challenge: createHash("sha256").update("v".repeat(43)).digest("base64url"),
    ...over,
  };
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== null);
  return `${issuer}/auth?${new URLSearchParams(given).toString()}`;
}

/** Logs in as the command line does. */
async function commandLineTokens(email: string, redirectUri: string): Promise<Tokens> {
  const { url } = await new TestBrowser().logIn(authorizationUrl({ redirect_uri: redirectUri }), email, (at) =>
    at.href.startsWith(redirectUri),
  );
  const query = new URL(url).searchParams;
  expect(query.get("state")).toBe("s");
  const { tokens } = await askForTokens({
    grant_type: "authorization_code",
    code: query.get("code") ?? "",
    code_verifier: "v".repeat(43),
    redirect_uri: redirectUri,
  });
  return tokens;
}

const analyticsStatus = async (token: string): Promise<number | null> =>
  (await flightInfo(Number(new URL(variables["SVC_ANALYTICS_URI"] ?? "").port), { authorization: `Bearer ${token}` }))
    .status;

describe("the command line", () => {
  it.each(["http://127.0.0.1:48080/callback", "http://127.0.0.1:51234/callback", "http://localhost:6000/callback"])(
    "logs in without a secret, called back at %s",
    async (redirectUri) => {
      const { id_token: token } = await commandLineTokens("dev@localhost", redirectUri);
      expect(await analyticsStatus(token)).toBe(grpcOk);
      const browser = new TestBrowser();
      browser.plant("id_token", token, web);
      expect(await me(browser)).toMatchObject({ email: "dev@localhost", is_admin: true });
    },
  );

  it("gets a new refresh token with each refresh; the use of an old one ends them all", async () => {
    const first = await commandLineTokens("guest@localhost", "http://127.0.0.1:48080/callback");
    const refresh = (token: string): ReturnType<typeof askForTokens> =>
      askForTokens({ grant_type: "refresh_token", refresh_token: token });
    const second = await refresh(first.refresh_token);
    expect(await analyticsStatus(second.tokens.id_token)).toBe(grpcOk);
    expect(second.tokens.refresh_token).not.toBe(first.refresh_token);
    const third = await refresh(second.tokens.refresh_token);
    expect(third.status).toBe(200);
    for (const used of [first.refresh_token, third.tokens.refresh_token]) {
      expect(await refresh(used)).toMatchObject({ status: 400, tokens: { error: "invalid_grant" } });
    }
  });

  it("can give its tokens back", async () => {
    const { refresh_token: token } = await commandLineTokens("dev@localhost", "http://127.0.0.1:48080/callback");
    const revoked = await fetch(`${issuer}/token/revocation`, {
      method: "POST",
      body: new URLSearchParams({ client_id: clientId, token }),
    });
    expect(revoked.status).toBe(200);
    const refreshed = await askForTokens({ grant_type: "refresh_token", refresh_token: token });
    expect(refreshed.tokens.error).toBe("invalid_grant");
  });

  it.each([
    ["is called back on this machine only", { redirect_uri: "https://evil.example/callback" }],
    ["is called back at one path only", { redirect_uri: "http://127.0.0.1:48080/other" }],
    ["needs PKCE", { code_challenge: null, code_challenge_method: null }],
  ])("%s", async (_rule, over) => {
    const { url, response } = await new TestBrowser().logIn(authorizationUrl(over), "dev@localhost", (at) =>
      at.href.startsWith("http://127.0.0.1:48080"),
    );
    expect(new URL(url).searchParams.get("code")).toBe(null);
    expect(response === null ? new URL(url).searchParams.get("error") : response.status).toBeOneOf([
      400,
      "invalid_request",
    ]);
  });
});

describe("the service's own client", () => {
  const refreshTokenOf = (text: string): string =>
    (JSON.parse(text) as { readonly token: { readonly refresh_token: string } }).token.refresh_token;
  /** Keeps its cookies from one login to the next. */
  const browserElsewhere = new TestBrowser();
  const loginOf = (email: string): ((url: string) => void) => {
    return (url) => void new TestBrowser().logIn(url, email);
  };

  it("logs in by a browser, and refreshes", async () => {
    const tokenFile = path.join(data.directory, "browser.json");
    const options = { issuer, clientId, tokenFile, callbackPort: 0, notify: () => undefined };
    const provider = new OidcAuthProvider({ ...options, openBrowser: loginOf("dev@localhost") });
    expect(await analyticsStatus(await provider.identityToken())).toBe(grpcOk);
    const before = await readFile(tokenFile, "utf8");
    const later = new OidcAuthProvider({ ...options, login: "never", now: () => Date.now() + 58 * 60_000 });
    expect(await analyticsStatus(await later.identityToken())).toBe(grpcOk);
    expect(refreshTokenOf(await readFile(tokenFile, "utf8"))).not.toBe(refreshTokenOf(before));
  });

  it.each(["dev@localhost", "guest@localhost"])(
    "logs %s in by a browser elsewhere, which has a code",
    async (email) => {
      const notify = (line: string): void => {
        const url = /^log in at (http\S+)$/.exec(line)?.[1];
        if (url !== undefined) {
          void browserElsewhere.logIn(url, email);
        }
      };
      const tokenFile = path.join(data.directory, `${email}.json`);
      const provider = new OidcAuthProvider({ issuer, clientId, tokenFile, login: "device", notify });
      const browser = new TestBrowser();
      browser.plant("id_token", await provider.identityToken(), web);
      expect(await me(browser)).toMatchObject({ email });
    },
  );
});

describe("the identity provider", () => {
  it("shows a page without a script that nobody can frame, and takes no post of another site", async () => {
    const browser = new TestBrowser();
    const { url } = await browser.logIn(authorizationUrl(), "", ({ pathname }) => pathname.startsWith("/login/"));
    const page = await browser.request(url);
    expect(page.headers.get("content-security-policy")).toMatch(/^default-src 'none';.*frame-ancestors 'none'/);
    const text = await page.text();
    expect(text).toContain("The command line asks who you are.");
    expect(text).not.toContain("<script");
    const post = (headers: Record<string, string>, account: string): Promise<Response> =>
      browser.request(url, {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
        body: `account=${account}`,
      });
    expect((await post({ origin: "https://evil.example" }, "dev@localhost")).status).toBe(403);
    expect((await post({ origin: issuer }, "root@localhost")).status).toBe(400);
    expect((await new TestBrowser().request(url)).status).toBe(400);
    expect((await post({ origin: issuer }, "dev@localhost")).status).toBe(303);
  });

  it("answers under names of this machine only", async () => {
    const { host, port } = new URL(issuer);
    const statuses = [];
    for (const name of [host, `localhost:${port}`, `evil.example:${port}`, "127.0.0.1.evil.example"]) {
      const asked = request(`${issuer}/.well-known/openid-configuration`, { headers: { host: name } }).end();
      const [answer] = (await once(asked, "response")) as [IncomingMessage];
      statuses.push(answer.statusCode);
      answer.destroy();
    }
    expect(statuses).toEqual([200, 200, 421, 421]);
  });

  it("lets no page of another origin read its answers", async () => {
    const answer = await fetch(`${issuer}/token`, {
      method: "POST",
      headers: { origin: "https://evil.example" },
      body: new URLSearchParams({ client_id: clientId, grant_type: "refresh_token", refresh_token: "x" }),
    });
    expect(answer.status).toBe(400);
    expect(answer.headers.get("access-control-allow-origin")).toBe(null);
  });

  it("keeps its secrets in files that only their owner reads, and out of the log", async () => {
    for (const name of ["secrets.json", "tokens.json"]) {
      expect((await stat(path.join(data.directory, "development-login", name))).mode & 0o777).toBe(0o600);
    }
    const text = await readFile(path.join(data.directory, "development-login", "secrets.json"), "utf8");
    const { clientSecret, stateSecret } = JSON.parse(text) as Record<string, string>;
    expect(monolith.output()).not.toContain(clientSecret);
    expect(monolith.output()).not.toContain(stateSecret);
    // The library writes to the console where something is left to its defaults.
    expect(monolith.output()).not.toContain("oidc-provider");
  });

  it("listens on loopback only, and in development mode only", async () => {
    const run = async (...args: string[]): Promise<string> => {
      const ended = await runProgram("src/bin/telemetry-monolith.js", [...freePorts, ...args]);
      expect(ended).toMatchObject({ code: 2, stdout: "" });
      return ended.stderr;
    };
    expect(await run("--development", "--development-oidc-listen=0.0.0.0:0")).toContain("takes a loopback address");
    expect(await run("--development-oidc-listen=127.0.0.1:0")).toContain("is for development mode only");
    const listen = { host: "0.0.0.0", port: 0 };
    const provider = startIdentityProvider({ listen, directory: data.directory, logger: createSilentLogger() });
    await expect(provider).rejects.toThrow("listens on loopback only");
  });

  it("names the option to change when its port is taken", async () => {
    const busy = createServer();
    busy.listen(0, "127.0.0.1");
    await once(busy, "listening");
    const other = await temporaryDirectory();
    const ended = await runProgram("src/bin/telemetry-monolith.js", [
      "--development",
      "--log-level=error",
      `--data-dir=${other.directory}`,
      ...freePorts,
      `--development-oidc-listen=127.0.0.1:${(busy.address() as AddressInfo).port}`,
    ]);
    expect(ended).toMatchObject({ code: 1, stdout: "" });
    expect(ended.stderr).toMatch(/^telemetry-monolith: cannot listen on .*SVC_DEVELOPMENT_OIDC_LISTEN.*\n$/);
    busy.close();
    await other.remove();
  });
});

describe("a restart", () => {
  it("ends no session; with another default audience the key and the administrator read it at once", async () => {
    const browser = await logIn("dev@localhost");
    const tokens = await commandLineTokens("guest@localhost", "http://127.0.0.1:48080/callback");
    const before = { web, issuer };
    expect(await monolith.stop()).toBe(0);
    await start([
      `--web-listen=${new URL(web).host}`,
      `--development-oidc-listen=${new URL(issuer).host}`,
      "--default-audience=team-z",
      "--telemetry-interval-seconds=0.5",
    ]);
    expect({ web, issuer }).toEqual(before);
    expect(await me(browser)).toMatchObject({ email: "dev@localhost" });
    expect((await call(browser, "POST", "/auth/refresh")).status).toBe(200);
    expect(await analyticsStatus(tokens.id_token)).toBe(grpcOk);
    const refreshed = await askForTokens({ grant_type: "refresh_token", refresh_token: tokens.refresh_token });
    expect(refreshed.status).toBe(200);

    const mine = await (await call(browser, "GET", "/api/audience-grants/my-audiences")).json();
    expect(mine).toMatchObject({ read: expect.arrayContaining(["public", "team-z"]), admins_open: false });
    const rows = async (): Promise<string> => {
      const { stdout } = await runCommand(
        ["query", "--format=csv", "SELECT DISTINCT audience FROM measures ORDER BY 1"],
        { env: variables, homeDirectory: data.directory, workingDirectory: data.directory },
      );
      return stdout;
    };
    await until(async () => (await rows()) === "audience\npublic\nteam-z\n");
  });

  it("leaves the administrators of an existing database as they are", async () => {
    const db = await createTestDatabase();
    const other = await temporaryDirectory();
    const started = await startMonolithProcess(other.directory, [`--sql-connection-string=${db.connectionString}`]);
    const members = await db.sql`select member from group_members where group_name = 'admins'`;
    expect(members.map((row) => row["member"])).toEqual(["*"]);
    expect(started.output()).toContain("EVERYBODY IS AN ADMINISTRATOR");
    await started.stop();
    await other.remove();
    await db.drop();
  });
});
