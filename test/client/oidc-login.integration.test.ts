import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, stat, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { decodeJwt } from "jose";
import { CredentialError, type OidcAuthOptions, OidcAuthProvider } from "telemetry-service-client";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { makeSigningKey, startOidcProvider, type TestProvider } from "../helpers/auth/auth-oidc-provider.js";
import { freePort } from "../helpers/free-port.js";
import { until } from "../helpers/until.js";
import { TestBrowser } from "../helpers/web/web-browser.js";

let provider: TestProvider;
let port: number;
let directory: string;
let tokenFile: string;
/** Requests to the token endpoint. */
let tokenRequests: number;
let lines: string[];

beforeAll(async () => {
  const claimsOf = (login: string): Record<string, unknown> => ({ email: `${login}@example.com` });
  provider = await startOidcProvider({
    key: await makeSigningKey("first"),
    login: { publicClient: true, claimsOf },
  });
  port = await freePort();
  provider.allowRedirect(`http://127.0.0.1:${port}/callback`);
});
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "oidc-login-"));
  tokenFile = path.join(directory, "deep", "tokens.json");
  tokenRequests = 0;
  lines = [];
  provider.intercept(counted);
});
afterEach(() => rm(directory, { recursive: true }));
afterAll(() => provider.stop());

function counted(asked: string): null {
  tokenRequests += asked === "/token" ? 1 : 0;
  return null;
}

/** The token endpoint answers with an error response. */
function refuseTokens(error: string): void {
  provider.intercept((asked) => {
    counted(asked);
    return asked !== "/token"
      ? null
      : (_, response) => {
          response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify({ error }));
        };
  });
}

const options = (): OidcAuthOptions => ({
  issuer: provider.issuer,
  clientId: provider.clientId,
  tokenFile,
  callbackPort: port,
  notify: (line) => lines.push(line),
});

/** A provider whose browser logs `ann` in. */
function withBrowser(o: Partial<OidcAuthOptions> = {}): OidcAuthProvider & { logins: () => number } {
  let logins = 0;
  const auth = new OidcAuthProvider({
    ...options(),
    openBrowser(url) {
      logins++;
      void new TestBrowser().logIn(url, "ann");
    },
    ...o,
  });
  return Object.assign(auth, { logins: () => logins });
}

const withoutLogin = (o: Partial<OidcAuthOptions> = {}): OidcAuthProvider =>
  new OidcAuthProvider({ ...options(), login: "never", ...o });

async function refusalOf(work: Promise<unknown>): Promise<CredentialError> {
  const error: unknown = await work.then(
    (value) => new Error(`it did not fail, but gave ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CredentialError);
  return error as CredentialError;
}

interface TokenFile {
  issuer: string;
  client_id: string;
  token: { access_token: string; refresh_token: string; id_token: string; expires_at: number };
}
const stored = async (): Promise<TokenFile> => JSON.parse(await readFile(tokenFile, "utf8")) as TokenFile;

/** Writes the stored login anew, with these tokens. */
async function store(token: Partial<TokenFile["token"]>, over: Partial<TokenFile> = {}): Promise<void> {
  const login = await stored();
  await writeFile(tokenFile, JSON.stringify({ ...login, ...over, token: { ...login.token, ...token } }));
}

/** Identity tokens of one second are the same. */
async function untilNextSecond(authorization: string): Promise<void> {
  const { iat = 0 } = decodeJwt(authorization.slice("Bearer ".length));
  await until(() => Date.now() / 1000 > iat + 1);
}

const expired = { expires_at: 1 };

describe("the first use", () => {
  it("logs in with a browser, and keeps the tokens in a file of mode 0600", async () => {
    const auth = withBrowser();
    const authorization = await auth.authorization();
    const { issuer, client_id: clientId, token } = await stored();
    expect(authorization).toBe(`Bearer ${token.id_token}`);
    expect(decodeJwt(token.id_token)).toMatchObject({ email: "ann@example.com", aud: clientId });
    expect([issuer, clientId]).toEqual([provider.issuer, provider.clientId]);
    expect(Object.keys(token)).toEqual(["access_token", "refresh_token", "id_token", "expires_at"]);
    expect(token.expires_at - Date.now() / 1000).toBeGreaterThan(3500);
    expect((await stat(tokenFile)).mode & 0o777).toBe(0o600);
    expect((await stat(path.dirname(tokenFile))).mode & 0o777).toBe(0o700);
    expect(await readdir(path.dirname(tokenFile))).toEqual(["tokens.json"]);
    expect(lines).toEqual(["you are not logged in: log in", expect.stringContaining("log in at http")]);
    // Later uses, here and in other programs, ask nobody.
    expect(await auth.authorization()).toBe(authorization);
    expect(await withoutLogin().authorization()).toBe(authorization);
    expect(tokenRequests).toBe(1);
  });

  it("logs in once, however many ask", async () => {
    const auth = withBrowser();
    const given = await Promise.all(Array.from({ length: 10 }, () => auth.authorization()));
    expect(new Set(given).size).toBe(1);
    expect([auth.logins(), tokenRequests]).toEqual([1, 1]);
  });

  it("waits with the new tokens for who changes the file", async () => {
    const lock = `${tokenFile}.lock`;
    await mkdir(path.dirname(tokenFile));
    await writeFile(lock, "another");
    const login = withBrowser().logIn();
    await until(() => tokenRequests === 1);
    expect(await Promise.race([login, delay(100, "waits")])).toBe("waits");
    expect(await readdir(path.dirname(tokenFile))).toEqual([path.basename(lock)]);
    await rm(lock);
    const { idToken } = await login;
    expect((await stored()).token.id_token).toBe(idToken);
  });

  it("works with a browser on another machine", async () => {
    const auth = new OidcAuthProvider({
      ...options(),
      login: "device",
      notify(line) {
        lines.push(line);
        const url = /log in at (\S+)/u.exec(line)?.[1];
        if (url !== undefined) {
          void new TestBrowser().logIn(url, "bob");
        }
      },
    });
    expect(decodeJwt((await auth.authorization()).slice(7))).toMatchObject({ email: "bob@example.com" });
    expect(lines.at(-1)).toMatch(/^the code is [A-Z]{4}-[A-Z]{4}$/u);
  });

  it("shows the provider's words without what would steer a terminal", async () => {
    provider.intercept((asked) =>
      asked !== "/device/auth"
        ? null
        : (_, response) => {
            const words = { device_code: "d", user_code: "A\u001b[2J", verification_uri: "http://x/\u001b]0;t\u0007" };
            response
              .writeHead(200, { "content-type": "application/json" })
              .end(JSON.stringify({ ...words, expires_in: 60 }));
          },
    );
    const controller = new AbortController();
    const waiting = refusalOf(withoutLogin({ login: "device" }).authorization(controller.signal));
    await until(() => lines.length === 3);
    controller.abort();
    expect((await waiting).code).toBe("CANCELLED");
    expect(lines.slice(1)).toEqual([String.raw`log in at http://x/\x1b]0;t\x07`, String.raw`the code is A\x1b[2J`]);
  });

  it("says what to do where nobody may be asked", async () => {
    const { code, message } = await refusalOf(withoutLogin().authorization());
    expect([code, message]).toEqual(["LOGIN_REQUIRED", "you are not logged in; run: telemetry login"]);
  });

  it("gives up when nobody logs in", async () => {
    const { code, message } = await refusalOf(
      withBrowser({ openBrowser: () => undefined, loginTimeoutMs: 50 }).authorization(),
    );
    expect([code, message]).toEqual(["CANCELLED", "nobody logged in; try again"]);
  });

  it("ends with the caller's signal", async () => {
    const controller = new AbortController();
    const auth = withBrowser({ openBrowser: () => controller.abort() });
    expect((await refusalOf(auth.authorization(controller.signal))).code).toBe("CANCELLED");
    // Nobody waits any more, so the port is free for the next.
    expect(await withBrowser().authorization()).toMatch(/^Bearer /u);
  });
});

describe("the redirect", () => {
  /** Sends a callback, then logs in as a person does. */
  const after = (query: (state: string) => string, then = true): [OidcAuthProvider, Promise<Response>[]] => {
    const answers: Promise<Response>[] = [];
    const auth = withBrowser({
      openBrowser(url) {
        const state = new URL(url).searchParams.get("state") ?? "";
        const forged = fetch(`http://127.0.0.1:${port}/callback?${query(state)}`);
        answers.push(forged);
        void forged.then(() => (then ? new TestBrowser().logIn(url, "ann") : null));
      },
    });
    return [auth, answers];
  };

  it("with a wrong state is answered with a word about it and passed over", async () => {
    const [auth, answers] = after(() => "code=stolen&state=wrong");
    expect(decodeJwt((await auth.authorization()).slice(7))).toMatchObject({ email: "ann@example.com" });
    const [answer] = await Promise.all(answers);
    expect(answer?.status).toBe(400);
    expect(await answer?.text()).toContain("another login");
  });

  it("with an error ends the login with the provider's words", async () => {
    const [auth, answers] = after(
      (state) =>
        `error=access_denied&error_description=no%1b%5b31m&iss=${encodeURIComponent(provider.issuer)}&state=${state}`,
      false,
    );
    const { code, message } = await refusalOf(auth.authorization());
    expect(code).toBe("LOGIN_REFUSED");
    expect(message).toBe(`${provider.issuer} refused the login: access_denied (no?[31m)`);
    expect((await Promise.all(answers))[0]?.status).toBe(400);
  });

  it("with a code that the provider did not give ends the login", async () => {
    const [auth] = after((state) => `code=forged&iss=${encodeURIComponent(provider.issuer)}&state=${state}`, false);
    expect((await refusalOf(auth.authorization())).code).toBe("LOGIN_REFUSED");
  });

  it("cannot come when its port is taken, and the error says what to do", async () => {
    const other = createServer().listen(port, "127.0.0.1");
    await once(other, "listening");
    const { code, message } = await refusalOf(withBrowser().authorization());
    other.close();
    await once(other, "close");
    expect(code).toBe("PORT_TAKEN");
    expect(message).toContain(`port ${port}`);
    expect(message).toContain("--callback-port");
    expect(message).toContain("--device");
  });
});

describe("tokens that are about to expire", () => {
  beforeEach(async () => {
    await withBrowser().authorization();
    tokenRequests = 0;
  });

  it("are refreshed five minutes before, without a browser", async () => {
    const before = await stored();
    const later = (minutes: number) => ({ now: () => Date.now() + minutes * 60_000 });
    await withoutLogin(later(54)).authorization();
    expect(tokenRequests).toBe(0);
    const authorization = await withoutLogin(later(56)).authorization();
    const after = await stored();
    expect(authorization).toBe(`Bearer ${after.token.id_token}`);
    expect(after.token.access_token).not.toBe(before.token.access_token);
    expect(after.token.refresh_token).not.toBe(before.token.refresh_token);
    expect(tokenRequests).toBe(1);
  });

  it("are refreshed once by many callers in two programs' worth of providers", async () => {
    await store(expired);
    const [one, two] = [withoutLogin(), withoutLogin()];
    const given = await Promise.all([one, two].flatMap((auth) => [1, 2, 3].map(() => auth.authorization())));
    expect(new Set(given).size).toBe(1);
    expect(tokenRequests).toBe(1);
  });

  it("are refreshed once by processes at the same time", async () => {
    await store(expired);
    const children = [0, 1, 2].map(() => startChild());
    const given = await Promise.all(children.map(({ output }) => output));
    expect(new Set(given)).toEqual(new Set([`Bearer ${(await stored()).token.id_token}\n`]));
    expect(tokenRequests).toBe(1);
  });

  it("are refreshed although a process that was killed left its lock", async () => {
    await store(expired);
    const lock = `${tokenFile}.lock`;
    await writeFile(lock, "1");
    await utimes(lock, 1, 1);
    await withoutLogin().authorization();
    expect(await readdir(path.dirname(tokenFile))).toEqual(["tokens.json"]);
  });

  it("lead to one new login when the provider no longer takes them", async () => {
    await store({ ...expired, refresh_token: "revoked" });
    const { code, message } = await refusalOf(withoutLogin().authorization());
    expect([code, message]).toEqual([
      "LOGIN_REQUIRED",
      `${provider.issuer} no longer accepts the login; run: telemetry login`,
    ]);
    const auth = withBrowser();
    await Promise.all([auth.authorization(), auth.authorization()]);
    expect(auth.logins()).toBe(1);
  });

  it("last as long as they do while the provider is down, and then the error says so", async () => {
    const { token } = await stored();
    const soon = Math.floor(Date.now() / 1000) + 60;
    await store({ expires_at: soon });
    await provider.goDown();
    try {
      expect(await withoutLogin().authorization()).toBe(`Bearer ${token.id_token}`);
      await store(expired);
      const { code, message } = await refusalOf(withoutLogin().authorization());
      expect([code, message]).toEqual([
        "PROVIDER",
        `${provider.issuer} cannot be reached (ECONNREFUSED); try again, or check the address`,
      ]);
    } finally {
      await provider.comeUp();
    }
  });

  it("last as long as they do while the provider refuses for now", async () => {
    const { token } = await stored();
    await store({ expires_at: Math.floor(Date.now() / 1000) + 60 });
    refuseTokens("temporarily_unavailable");
    let offsetMs = 0;
    const auth = withoutLogin({ now: () => Date.now() + offsetMs });
    expect(await auth.authorization()).toBe(`Bearer ${token.id_token}`);
    expect(await auth.authorization()).toBe(`Bearer ${token.id_token}`);
    expect(tokenRequests).toBe(1);
    offsetMs = 31_000;
    expect(await auth.authorization()).toBe(`Bearer ${token.id_token}`);
    expect(tokenRequests).toBe(2);
    await store(expired);
    expect((await refusalOf(withoutLogin().authorization())).code).toBe("LOGIN_REFUSED");
  });

  it("are kept when the refresh fails for another reason", async () => {
    await store(expired);
    const before = await stored();
    refuseTokens("invalid_client");
    expect((await refusalOf(withBrowser().authorization())).code).toBe("LOGIN_REFUSED");
    expect(await stored()).toEqual(before);
  });
});

describe("a token that a server refuses", () => {
  it("is replaced once, and the new one as little as the old when that is refused, too", async () => {
    const auth = withBrowser();
    const first = await auth.authorization();
    await untilNextSecond(first);
    const second = await auth.replace(first);
    expect(second).not.toBe(first);
    expect(second).toBe(`Bearer ${(await stored()).token.id_token}`);
    expect(await auth.replace(second ?? "")).toBeNull();
    expect([auth.logins(), tokenRequests]).toEqual([1, 2]);
  });

  it("is replaced although others get it from the file at the same time", async () => {
    const first = await withBrowser().authorization();
    await untilNextSecond(first);
    const auth = withoutLogin();
    const [found, second] = await Promise.all([auth.authorization(), auth.replace(first)]);
    expect(found).toBe(first);
    expect(second).toBe(`Bearer ${(await stored()).token.id_token}`);
    expect(second).not.toBe(first);
  });

  it("leads to one new login when its refresh token was revoked with it", async () => {
    const auth = withBrowser();
    const first = await auth.authorization();
    await untilNextSecond(first);
    await store({ refresh_token: "revoked" });
    const second = await auth.replace(first);
    expect(second).not.toBe(first);
    expect(auth.logins()).toBe(2);
    expect(await auth.replace(second ?? "")).toBeNull();
  });
});

describe("a login that is asked for", () => {
  it("takes place although there are tokens, which others get at the same time", async () => {
    const first = await withBrowser().authorization();
    const auth = withBrowser();
    const [found] = await Promise.all([auth.authorization(), auth.logIn()]);
    expect(found).toBe(first);
    expect(auth.logins()).toBe(1);
  });

  it("is the one that others wait for, too", async () => {
    const auth = withBrowser();
    const [authorization, login] = await Promise.all([auth.authorization(), auth.logIn()]);
    expect(authorization).toBe(`Bearer ${login.idToken}`);
    expect(auth.logins()).toBe(1);
  });
});

describe("a token file", () => {
  it("that others can read is refused", async () => {
    await withBrowser().authorization();
    await chmod(tokenFile, 0o644);
    const { code, message } = await refusalOf(withBrowser().authorization());
    expect([code, message]).toEqual([
      "FILE_MODE",
      `the token file ${tokenFile} can be read by others; run: chmod 600 ${tokenFile}`,
    ]);
  });

  it("that is half written counts as none, and a login replaces it", async () => {
    await withBrowser().authorization();
    await writeFile(tokenFile, (await readFile(tokenFile, "utf8")).slice(0, 100));
    const { code, message } = await refusalOf(withoutLogin().authorization());
    expect([code, message]).toEqual(["LOGIN_REQUIRED", `the token file ${tokenFile} is damaged; run: telemetry login`]);
    await withBrowser().authorization();
    expect((await stored()).issuer).toBe(provider.issuer);
  });

  it("of another issuer or client is not used", async () => {
    await withBrowser().authorization();
    await store({}, { issuer: "https://other.example" });
    expect((await refusalOf(withoutLogin().authorization())).message).toContain("are from https://other.example");
    expect(
      (await refusalOf(withoutLogin({ issuer: "https://other.example", clientId: "x" }).authorization())).code,
    ).toBe("LOGIN_REQUIRED");
  });
});

describe("a provider", () => {
  it("that cannot be reached, or is none, is an error before anybody logs in", async () => {
    const unreachable = withBrowser({ issuer: "http://127.0.0.1:1" });
    expect(await refusalOf(unreachable.authorization())).toMatchObject({ code: "PROVIDER" });
    const insecure = withBrowser({ issuer: "http://id.example.com" });
    expect(await refusalOf(insecure.authorization())).toMatchObject({ code: "PROVIDER" });
    expect([unreachable.logins(), insecure.logins()]).toEqual([0, 0]);
    provider.intercept(() => (_, response) => void response.end("hello"));
    expect((await refusalOf(withBrowser().authorization())).message).toContain(
      "did not answer as an OpenID Connect provider",
    );
  });
});

describe("a clock that is off", () => {
  it.each([-7_200_000, 7_200_000])("by %d ms does no harm", async (skewMs) => {
    const child = startChild({ skewMs, login: "browser" });
    const url = await child.loginUrl;
    await new TestBrowser().logIn(url, "ann");
    expect(await child.output).toBe(`Bearer ${(await stored()).token.id_token}\n`);
    expect(tokenRequests).toBe(1);
  });
});

function startChild(o: { readonly skewMs?: number; readonly login?: "browser" } = {}): {
  readonly output: Promise<string>;
  readonly loginUrl: Promise<string>;
} {
  const { issuer, clientId } = provider;
  const job = { issuer, clientId, tokenFile, callbackPort: port, login: "never", skewMs: 0, ...o };
  const program = fileURLToPath(new URL("../helpers/cli/login-child.js", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [program, JSON.stringify(job)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout?.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  const loginUrl = new Promise<string>((resolve) => {
    child.stderr?.on("data", (chunk: Buffer) => {
      stderr += chunk.toString();
      const url = /log in at (\S+)/u.exec(stderr)?.[1];
      if (url !== undefined) {
        resolve(url);
      }
    });
  });
  const output = once(child, "close").then(([code]) => (code === 0 ? stdout : `${String(code)}: ${stderr}`));
  return { output, loginUrl };
}
