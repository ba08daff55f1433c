import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { runCommand } from "../helpers/cli/run-cli.js";
import { temporaryDirectory } from "../helpers/servers/monolith.js";

let home: Awaited<ReturnType<typeof temporaryDirectory>>;
const stops: (() => void)[] = [];

beforeEach(async () => {
  home = await temporaryDirectory();
  return () => home.remove();
});
afterEach(() => {
  stops.splice(0).forEach((stop) => stop());
});

/** A provider that forgets logins, and remembers who asked it to. */
async function startProvider(): Promise<{ readonly issuer: string; readonly asked: (string | undefined)[] }> {
  const asked: (string | undefined)[] = [];
  let issuer = "";
  const server = createServer((request, response) => {
    if (request.url === "/revoke") {
      asked.push(request.headers.authorization?.split(" ")[0]);
    }
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ issuer, revocation_endpoint: `${issuer}/revoke` }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => server.close());
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { issuer, asked };
}

async function saveLogin(file: string, issuer: string): Promise<void> {
  const directory = path.join(home.directory, ".telemetry");
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const token = { access_token: "a", refresh_token: "r", id_token: "i", expires_at: 1 };
  await writeFile(path.join(directory, file), JSON.stringify({ issuer, client_id: "app", token }), { mode: 0o600 });
}

const logOut = async (env: Record<string, string>, ...options: string[]): Promise<string> =>
  (await runCommand(["logout", ...options], { env, homeDirectory: home.directory, workingDirectory: home.directory }))
    .stderr;

it("shows the client secret to the provider that it is of, and to no other profile's", async () => {
  const [own, other] = [await startProvider(), await startProvider()];
  for (const env of [
    { SVC_OIDC_ISSUER: own.issuer, SVC_OIDC_CLIENT_SECRET: "secret" },
    { SVC_OIDC_CLIENT_SECRET: "s" },
  ]) {
    await saveLogin("tokens.json", own.issuer);
    await saveLogin("tokens-other.json", other.issuer);
    expect(await logOut(env)).toBe("");
  }
  // Neither when it is the only one that is asked for.
  await saveLogin("tokens.json", own.issuer);
  await saveLogin("tokens-other.json", other.issuer);
  expect(await logOut({ SVC_OIDC_CLIENT_SECRET: "s" }, "--profile", "other")).toBe("");
  expect([own.asked, other.asked]).toEqual([
    ["Basic", undefined],
    [undefined, undefined, undefined],
  ]);
});

it("shows the client secret to the provider of the only login", async () => {
  const own = await startProvider();
  await saveLogin("tokens.json", own.issuer);
  expect(await logOut({ SVC_OIDC_CLIENT_SECRET: "secret" })).toBe("");
  expect(own.asked).toEqual(["Basic"]);
});
