/** Identity providers inside a cluster, at all servers: certificates of a private authority, and plain http. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

import { flightInfo, grpcOk, grpcUnavailable } from "../helpers/auth/auth-grpc.js";
import {
  makeSigningKey,
  type SigningKey,
  startOidcProvider,
  type TestProvider,
} from "../helpers/auth/auth-oidc-provider.js";
import { providerToken, startTestService, type TestService } from "../helpers/auth/auth-service.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { type Identities, startIdentities, startTestWeb } from "../helpers/web/web-server.js";

// Up to six servers in one test, one after another.
vi.setConfig({ testTimeout: 180_000 });

let directory: string;
let caFile: string;
let key: SigningKey;
let identities: Identities;
let t: TestService;
const providers: TestProvider[] = [];

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "auth-private-issuer-"));
  caFile = path.join(directory, "ca.pem");
  const made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
  const subject = ["-subj", "/CN=provider", "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-keyout", path.join(directory, "key.pem"), "-out", caFile];
  await promisify(execFile)("openssl", ["req", "-x509", ...made, ...subject, ...files]);
  key = await makeSigningKey("first", "ES256");
  identities = await startIdentities();
  t = await startTestService();
});
afterAll(async () => {
  await t.stop();
  await identities.stop();
  await Promise.all(providers.map((provider) => provider.stop()));
  await rm(directory, { recursive: true, force: true });
});

async function startProvider(o: { tls?: boolean; host?: string }): Promise<TestProvider> {
  const pem = async (name: string): Promise<string> => await readFile(path.join(directory, name), "utf8");
  const provider = await startOidcProvider({
    key,
    ...(o.host === undefined ? {} : { host: o.host }),
    ...(o.tls === true ? { tls: { key: await pem("key.pem"), cert: await pem("ca.pem") } } : {}),
  });
  providers.push(provider);
  return provider;
}

/** What a token of `provider` gets from each server: statuses, of the web server for me, login and callback. */
async function answers(provider: TestProvider, more: object) {
  const { issuer, clientId } = provider;
  const environment = {
    SVC_OIDC_CONFIG: JSON.stringify({ issuers: [{ issuer, audience: clientId, ...more }] }),
  };
  const token = await providerToken(provider, key);
  const ingestion = await t.startIngestion(environment);
  const analytics = await t.startAnalytics(environment);
  const web = await startTestWeb({ identities, environment });
  const me = await web.request("GET", "/auth/me", { cookie: `id_token=${token}` });
  const login = await fetch(`${web.url}/auth/login`, { redirect: "manual" });
  const state = new URL(login.headers.get("location") ?? "http://none").searchParams.get("state");
  const cookie = login.headers.getSetCookie()[0]?.split(";", 1)[0] ?? "";
  const callback = await web.request("GET", `/auth/callback?code=wrong&state=${state}`, { cookie });
  const seen = {
    ingestion: (await ingestion.post(token)).status,
    analytics: (await flightInfo(analytics.port, { authorization: `Bearer ${token}` })).status,
    me: me.status,
    login: login.status,
    callback: [callback.status, callback.json?.code],
  };
  await Promise.all([ingestion.stop(), analytics.stop(), web.stop()]);
  return { seen, log: web.log };
}

// The provider was asked about the code, and refused it.
const reached = {
  ingestion: 200,
  analytics: grpcOk,
  me: 200,
  login: 302,
  callback: [401, "UNAUTHENTICATED"],
};

describe("an issuer with a certificate of a private authority", () => {
  test("is reached by every server through its ca_file", async () => {
    const { seen } = await answers(await startProvider({ tls: true }), { ca_file: caFile });
    expect(seen).toEqual(reached);
  });

  test("is unavailable without one, and so is another authority's issuer with one", async () => {
    const provider = await startProvider({ tls: true });
    const unreached = { ingestion: 503, analytics: grpcUnavailable, me: 503, login: 503 };
    expect((await answers(provider, {})).seen).toMatchObject(unreached);
    const otherFile = path.join(directory, "other.pem");
    const args = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=provider"];
    const unused = path.join(directory, "unused.pem");
    await promisify(execFile)("openssl", [...args, "-keyout", unused, "-out", otherFile]);
    expect((await answers(provider, { ca_file: otherFile })).seen).toMatchObject(unreached);
  });

  test.each([
    ["is not there", null, /ca_file .*missing\.pem cannot be used: ENOENT/],
    ["holds no certificate", "hello", /it holds no certificate/],
    ["is damaged", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", /cannot be used: /],
  ])("keeps servers from starting when its ca_file %s", async (_what, text, message) => {
    const file = path.join(directory, text === null ? "missing.pem" : "wrong.pem");
    if (text !== null) {
      await writeFile(file, text);
    }
    const entry = { issuer: "https://id.example", audience: "app", ca_file: file };
    const environment = { SVC_OIDC_CONFIG: JSON.stringify({ issuers: [entry] }) };
    await expect(t.startIngestion(environment)).rejects.toThrow(message);
    await expect(t.startAnalytics(environment)).rejects.toThrow(message);
    const database = await createTestDatabase();
    await expect(startTestWeb({ identities, environment, database })).rejects.toThrow(message);
    await database.drop();
  });
});

describe("an issuer with plain http off loopback", () => {
  test("is reached by every server with allow_http, which is warned about, and refused without", async () => {
    // Every address of this machine; not one that counts as loopback.
    const provider = await startProvider({ host: "0.0.0.0" });
    const { seen, log } = await answers(provider, { allow_http: true });
    expect(seen).toEqual(reached);
    expect(log.filter((line) => /"level":40.*is reached over plain http/.test(line))).toHaveLength(1);
    await expect(answers(provider, {})).rejects.toThrow(
      /issuers\[0\]\.issuer must be an https URL \(http on loopback, or with "allow_http": true\)/,
    );
  });
});
