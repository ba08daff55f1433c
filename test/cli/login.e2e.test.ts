/** The commands that act as a person, against a whole service with its own identity provider. */
import { execFileSync } from "node:child_process";
import { readFile, readdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { type CliFinished, type CliOptions, runCommand } from "../helpers/cli/run-cli.js";
import {
  type MonolithProcess,
  commandLine,
  developmentVariables,
  runProgram,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { freePort } from "../helpers/free-port.js";
import { until } from "../helpers/until.js";
import { TestBrowser } from "../helpers/web/web-browser.js";

let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let home: Awaited<ReturnType<typeof temporaryDirectory>>;
let monolith: MonolithProcess;
let variables: Record<string, string>;
/** Without any key. */
let env: Record<string, string>;
let callbackPort: number;

beforeAll(async () => {
  callbackPort = await freePort();
  data = await temporaryDirectory();
  monolith = await startMonolithProcess(data.directory);
  variables = await developmentVariables(data.directory);
  env = Object.fromEntries(Object.entries(variables).filter(([name]) => name !== "SVC_ANALYTICS_API_KEY"));
});
beforeEach(async () => {
  home = await temporaryDirectory();
  return () => home.remove();
});
afterAll(async () => {
  await monolith?.stop();
  await data.remove();
});

const tokens = (name = "tokens.json"): string => path.join(home.directory, ".telemetry", name);

function telemetry(args: readonly string[], o: Partial<CliOptions> = {}): Promise<CliFinished> {
  return runCommand(args, { env, homeDirectory: home.directory, workingDirectory: home.directory, ...o });
}

/** Runs a command at a terminal; whoever reads the address of the login page logs in as `email`. */
async function atTerminal(
  args: readonly string[],
  email = "dev@localhost",
): Promise<CliFinished & { readonly logins: number }> {
  let logins = 0;
  const finished = await telemetry([...args, "--no-browser", "--callback-port", String(callbackPort)], {
    onStderr(text) {
      const url = /log in at (\S+)/u.exec(text)?.[1];
      if (url !== undefined) {
        logins++;
        void new TestBrowser().logIn(url, email);
      }
    },
  });
  return { ...finished, logins };
}

describe("telemetry login", () => {
  it("keeps tokens that later commands use, until telemetry logout", async () => {
    const login = await atTerminal(["login"]);
    expect([login.code, login.logins]).toEqual([0, 1]);
    expect(login.stdout).toMatch(/^email +dev@localhost$/mu);
    expect((await stat(tokens())).mode & 0o777).toBe(0o600);
    const who = await telemetry(["whoami", "--json"]);
    expect(who).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(who.stdout)).toMatchObject({ email: "dev@localhost", is_admin: true, token_file: tokens() });
    expect(await telemetry(["query", "--format=csv", "SELECT 1 AS one"])).toEqual({
      code: 0,
      stdout: "one\n1\n",
      stderr: "",
    });
    // The file says where the login is from.
    const { SVC_OIDC_ISSUER: _, SVC_OIDC_CLIENT_ID: __, ...unnamed } = env;
    expect(await telemetry(["query", "--format=csv", "SELECT 1 AS one"], { env: unnamed })).toMatchObject({ code: 0 });
    const { token } = JSON.parse(await readFile(tokens(), "utf8")) as { token: { refresh_token: string } };
    expect(await telemetry(["logout"])).toEqual({ code: 0, stdout: `removed ${tokens()}\n`, stderr: "" });
    expect(await telemetry(["whoami"])).toMatchObject({
      code: 1,
      stdout: "",
      stderr: "telemetry: you are not logged in; run: telemetry login\n",
    });
    expect(await telemetry(["logout"])).toMatchObject({ code: 0, stdout: "there was no login\n" });
    expect(JSON.parse((await telemetry(["logout", "--json"])).stdout)).toEqual({ removed: [] });
    // The provider has forgotten it, too.
    const refresh = await fetch(`${env["SVC_OIDC_ISSUER"] ?? ""}/token`, {
      method: "POST",
      body: new URLSearchParams({
        grant_type: "refresh_token",
        refresh_token: token.refresh_token,
        client_id: env["SVC_OIDC_CLIENT_ID"] ?? "",
      }),
    });
    expect(await refresh.json()).toMatchObject({ error: "invalid_grant" });
  });

  it("says where to log in has to be set", async () => {
    const finished = await telemetry(["login"], { env: {} });
    expect(finished.code).toBe(2);
    expect(finished.stderr).toContain("SVC_OIDC_ISSUER");
    const half = await telemetry(["login"], { env: { SVC_OIDC_ISSUER: "https://id.example.com" } });
    expect([half.code, half.stderr]).toEqual([
      2,
      "telemetry: SVC_OIDC_ISSUER and SVC_OIDC_CLIENT_ID belong together\n",
    ]);
  });

  it("keeps each profile's tokens apart, and logout narrows to one", async () => {
    await atTerminal(["login"]);
    await writeFile(path.join(home.directory, ".telemetry", "config.json"), '{"profiles": {"guest": {}}}');
    const guest = { ...env, SVC_PROFILE: "guest" };
    expect((await atTerminal(["login", "--profile", "guest"], "guest@localhost")).code).toBe(0);
    expect(JSON.parse((await telemetry(["whoami", "--json"], { env: guest })).stdout)).toMatchObject({
      email: "guest@localhost",
      is_admin: false,
    });
    await telemetry(["logout", "--profile", "guest"]);
    expect(await readdir(path.join(home.directory, ".telemetry"))).toEqual(["config.json", "tokens.json"]);
    await atTerminal(["login", "--profile", "guest"], "guest@localhost");
    expect((await telemetry(["logout"], { env: guest })).stdout).toBe(
      `removed ${tokens("tokens-guest.json")}\nremoved ${tokens()}\n`,
    );
  });
});

describe("the first use of a command", () => {
  it("logs in at a terminal, and elsewhere says what to do", async () => {
    const piped = await telemetry(["query", "SELECT 1"]);
    expect([piped.code, piped.stderr]).toEqual([1, "telemetry: you are not logged in; run: telemetry login\n"]);
    const first = await atTerminal(["query", "--format=csv", "SELECT 1 AS one"], "guest@localhost");
    expect([first.code, first.stdout, first.logins]).toEqual([0, "one\n1\n", 1]);
    const second = await atTerminal(["query", "--format=csv", "SELECT 1 AS one"]);
    expect([second.code, second.logins]).toEqual([0, 0]);
  });

  it("ends with Ctrl-C while it waits", async () => {
    const interrupted = new AbortController();
    const finished = await telemetry(["login", "--no-browser", "--callback-port", String(callbackPort)], {
      interrupted: interrupted.signal,
      onStderr: () => interrupted.abort(),
    });
    expect(finished.code).toBe(130);
  });
});

describe("telemetry setup", () => {
  const send = (headers: string): Promise<Response> =>
    fetch(`${monolith.ingestionUrl}/ingestion/otlp/v1/logs`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: decodeURIComponent(headers.slice("Authorization=".length)),
      },
      body: "{}",
    });

  it("mints a key of one's own, whose variables a shell evaluates", async () => {
    await atTerminal(["login"]);
    const script = '. "$1"; printf "%s\\n" "$OTEL_EXPORTER_OTLP_ENDPOINT" "$OTEL_EXPORTER_OTLP_HEADERS"';
    const finished = await telemetry(["setup", "--user-audience", "laptop"]);
    expect([finished.code, finished.stderr]).toEqual([
      0,
      "telemetry: a key for audience dev-laptop, which is yours from now on; it is shown only once\n" +
        "telemetry: your queries show its records within SVC_AUTH_CACHE_TTL_SECONDS of the servers, a minute by default\n",
    ]);
    await writeFile(path.join(home.directory, "env.sh"), finished.stdout);
    const lines = execFileSync("sh", ["-c", script, "sh", path.join(home.directory, "env.sh")])
      .toString()
      .split("\n");
    expect(lines[0]).toBe(`${monolith.ingestionUrl}/ingestion/otlp`);
    expect((await send(lines[1] ?? "")).status).toBe(200);
  });

  it("writes them to a file of mode 0600 and shows no key", async () => {
    await atTerminal(["login"]);
    const finished = await telemetry(["setup", "--audience", "team-x", "--shell", "dotenv", "--out", "otlp.env"]);
    expect([finished.code, finished.stdout]).toEqual([0, ""]);
    expect(finished.stderr).not.toContain("svk_");
    const file = path.join(home.directory, "otlp.env");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const text = await readFile(file, "utf8");
    expect(text).toMatch(/^OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20svk_\w+"$/mu);
    expect((await send(/HEADERS="(.*)"/u.exec(text)?.[1] ?? "")).status).toBe(200);
  });

  it("takes one audience", async () => {
    const both = await telemetry(["setup", "--audience", "a", "--user-audience", "b"]);
    expect([both.code, both.stderr]).toEqual([2, "telemetry: give --audience or --user-audience, not both\n"]);
  });
});

describe("telemetry login as a program", () => {
  it("opens the browser that BROWSER names", async () => {
    const browser = path.join(home.directory, "browser");
    const seen = path.join(home.directory, "seen");
    await writeFile(browser, `#!/bin/sh\necho "$1" > ${seen}\n`, { mode: 0o700 });
    // Nobody goes on from the page, so the redirect that ends the login is made up, with the state of the page.
    const running = runProgram(commandLine, ["login", "--callback-port", String(callbackPort)], {
      env: { ...env, HOME: home.directory, BROWSER: browser },
    });
    let url = "";
    await until(async () => {
      url = await readFile(seen, "utf8").catch(() => "");
      return url.endsWith("\n");
    });
    const state = new URL(url).searchParams.get("state") ?? "";
    const iss = encodeURIComponent(env["SVC_OIDC_ISSUER"] ?? "");
    await fetch(`http://127.0.0.1:${callbackPort}/callback?error=access_denied&iss=${iss}&state=${state}`);
    const finished = await running;
    expect(finished.code).toBe(1);
    expect(finished.stderr).toContain("refused the login: access_denied");
  });
});

it("the token that is sent is the identity token of this client", async () => {
  await atTerminal(["login"]);
  const { token } = JSON.parse(await readFile(tokens(), "utf8")) as { token: { id_token: string } };
  expect(decodeJwt(token.id_token).aud).toBe(env["SVC_OIDC_CLIENT_ID"]);
});

describe("telemetry completion", () => {
  it("knows commands, their flags and what these take", async () => {
    const words = async (...line: string[]): Promise<string[]> =>
      (await telemetry(["completion", "words", "--", ...line])).stdout.trim().split("\n");
    expect(await words()).toEqual(expect.arrayContaining(["query", "login", "keys", "completion"]));
    expect(await words("keys")).toEqual(expect.arrayContaining(["list", "mint", "revoke"]));
    expect(await words("keys", "list")).toEqual(expect.arrayContaining(["ingestion", "analytics", "--all"]));
    expect(await words("query", "--format")).toEqual(["table", "expanded", "json", "csv", "arrow"]);
    expect(await words("completion")).not.toContain("words");
  });

  it("works in bash", async () => {
    const script = `telemetry() { "${process.execPath}" "${commandLine}" "$@"; }
      eval "$(telemetry completion bash)"
      COMP_WORDS=(telemetry keys mi); COMP_CWORD=2; _telemetry; echo "\${COMPREPLY[@]}"`;
    expect(execFileSync("bash", ["-c", script]).toString()).toBe("mint\n");
  });
});
