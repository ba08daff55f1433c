/** What the programs say about authentication when they start, and when they refuse to. */
import { readdir } from "node:fs/promises";
import path from "node:path";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { generateKeyString } from "../../src/auth/key-string.js";
import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { flightInfo, grpcOk, grpcUnauthenticated } from "../helpers/auth/auth-grpc.js";
import { makeSigningKey, startOidcProvider, type TestProvider } from "../helpers/auth/auth-oidc-provider.js";
import { postLogs, providerToken } from "../helpers/auth/auth-service.js";
import { runProgram, temporaryDirectory } from "../helpers/servers/monolith.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";

const programs = [
  { program: "telemetry-ingestion-srv", table: "ingestion_api_keys" },
  { program: "flight-sql-srv", table: "analytics_api_keys" },
] as const;
const listening = /on ((?:http|grpc):\/\/127\.0\.0\.1:[1-9]\d*)"/u;

let database: TestDatabase;
let temporary: Awaited<ReturnType<typeof temporaryDirectory>>;
let environment: Record<string, string>;
const servers: ServerProcess[] = [];
const providers: TestProvider[] = [];

beforeEach(async () => {
  database = await createTestDatabase();
  temporary = await temporaryDirectory();
  environment = {
    SVC_DATA_DIR: temporary.directory,
    SVC_SQL_CONNECTION_STRING: database.connectionString,
    SVC_INGESTION_LISTEN: "127.0.0.1:0",
    SVC_INGESTION_WORKERS: "1",
    SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
    SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
  };
});
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.end("SIGTERM")));
  await Promise.all(providers.splice(0).map((provider) => provider.stop()));
  await database.drop();
  await temporary.remove();
});

async function start(
  program: string,
  more: Record<string, string> = {},
  args: readonly string[] = [],
): Promise<ServerProcess> {
  const server = await startServerProcess(program, { ...environment, ...more }, listening, args);
  servers.push(server);
  return server;
}

async function startProvider(): Promise<{
  readonly token: () => Promise<string>;
  readonly config: () => string;
}> {
  const key = await makeSigningKey("first");
  const provider = await startOidcProvider({ key });
  providers.push(provider);
  const { issuer, clientId } = provider;
  return {
    token: () => providerToken(provider, key),
    config: () => JSON.stringify({ issuers: [{ issuer, audience: clientId }] }),
  };
}

const mint = (table: (typeof programs)[number]["table"]): Promise<{ key: string; keyId: string }> =>
  table === "ingestion_api_keys"
    ? mintIngestionKey(database.sql, { name: "k", audience: "a", createdBy: "t" })
    : mintAnalyticsKey(database.sql, { name: "k", createdBy: "t" });

describe.each(programs)("$program", ({ program, table }) => {
  /** Status of a call with a credential, whichever server this is. */
  const call = async (server: ServerProcess, credential: string): Promise<number | null> =>
    program === "flight-sql-srv"
      ? (
          await flightInfo(Number(new URL(server.url).port), {
            authorization: `Bearer ${credential}`,
          })
        ).status
      : (await postLogs(server.url, credential)).status;
  const [accepted, refused] = program === "flight-sql-srv" ? [grpcOk, grpcUnauthenticated] : [200, 401];

  test("refuses to start with neither OIDC nor a key, and says which to provide", async () => {
    // A live key of the other table is of no use.
    await mint(table === "ingestion_api_keys" ? "analytics_api_keys" : "ingestion_api_keys");
    const keyring = JSON.stringify([{ name: "old", key: "the-old-secret" }]);
    const ended = await runProgram(`src/bin/${program}.js`, [], {
      env: { ...environment, SVC_API_KEYS: keyring },
    });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain("SVC_OIDC_CONFIG");
    expect(ended.stderr).toContain(table);
    expect(ended.stderr.trim().split("\n")).toHaveLength(1);
  });

  test("starts with revoked keys alone and takes none of them; a set keyring gets a warning with its name, and nothing else", async () => {
    const revoked = await mint(table);
    await database.sql`
      update ${database.sql(table)} set revoked_at = now() where key_id = ${revoked.keyId}`;
    const old = generateKeyString();
    const prefixed = program === "flight-sql-srv" ? "SVC_ANALYTICS_API_KEYS" : "SVC_INGESTION_API_KEYS";
    const keyring = JSON.stringify([{ name: "old", key: old }]);
    const server = await start(program, { SVC_API_KEYS: keyring, [prefixed]: keyring });
    for (const name of ["SVC_API_KEYS", prefixed]) {
      expect(server.output()).toMatch(new RegExp(`"level":"warn".*${name} is set but not read`));
    }
    expect(server.output()).not.toContain(old);
    expect(server.output()).not.toContain("AUTHENTICATION IS DISABLED");
    for (const credential of [revoked.key, old]) {
      expect(await call(server, credential)).toBe(refused);
    }
    expect(await call(server, (await mint(table)).key)).toBe(accepted);
  });

  test("starts with OIDC and no key", async () => {
    const { token, config } = await startProvider();
    const server = await start(program, { SVC_OIDC_CONFIG: config() });
    expect(await call(server, await token())).toBe(accepted);
    expect(await call(server, "x")).toBe(refused);
  });

  test("refuses an issuer whose keys would travel in the clear", async () => {
    const issuers = [{ issuer: "http://id.example", audience: "app" }];
    const ended = await runProgram(`src/bin/${program}.js`, [], {
      env: { ...environment, SVC_OIDC_CONFIG: JSON.stringify({ issuers }) },
    });
    expect(ended.code).not.toBe(0);
    expect(ended.stderr).toContain("issuers[0].issuer must be an https URL");
  });

  // One by the variable, the other by the flag.
  test("lets everybody in when authentication is disabled, and warns loudly", async () => {
    const server =
      program === "flight-sql-srv"
        ? await start(program, { SVC_DISABLE_AUTH: "true" })
        : await start(program, {}, ["--disable-auth"]);
    expect(server.output()).toMatch(/"level":"warn".*AUTHENTICATION IS DISABLED/);
    expect(await call(server, "anything")).toBe(accepted);
  });
});

test("an ingestion server that refuses to start takes its own database down with it", async () => {
  const { SVC_SQL_CONNECTION_STRING: _ignored, ...own } = environment;
  const ended = await runProgram("src/bin/telemetry-ingestion-srv.js", [], { env: own });
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain("SVC_OIDC_CONFIG");
  const files = await readdir(temporary.directory, { recursive: true });
  expect(files.some((file) => path.basename(file) === "PG_VERSION")).toBe(true);
  expect(files.filter((file) => path.basename(file) === "postmaster.pid")).toEqual([]);
});

test.each([
  ["cannot be reached", "postgres://telemetry@127.0.0.1:1/telemetry"],
  ["refuses the connection", "a database that is not there"],
])("a database that %s ends a start with a sentence that names its option", async (what, uri) => {
  const there = new URL(database.connectionString);
  there.pathname = "/nowhere";
  const url = uri.startsWith("postgres") ? uri : there.href;
  const ended = await runProgram("src/bin/telemetry-ingestion-srv.js", [], {
    env: { ...environment, SVC_SQL_CONNECTION_STRING: url },
  });
  expect(ended.code).toBe(1);
  expect(ended.stderr.trim().split("\n").at(-1)).toMatch(
    new RegExp(`^telemetry-ingestion-srv: the database ${what} \\(.*\\): check SVC_SQL_CONNECTION_STRING$`, "u"),
  );
});

test("the monolith refuses to start for a role that could accept nobody", async () => {
  await mint("analytics_api_keys");
  const ended = await runProgram("src/bin/telemetry-monolith.js", ["--roles=ingestion,analytics"], {
    env: environment,
  });
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain("SVC_OIDC_CONFIG");
  expect(ended.stderr).toContain("ingestion_api_keys");
});

test("the monolith takes OIDC by role, prefixed before unprefixed", async () => {
  const first = await startProvider();
  const second = await startProvider();
  const server = await startServerProcess(
    "telemetry-monolith",
    {
      ...environment,
      SVC_ROLES: "ingestion,analytics",
      SVC_OIDC_CONFIG: first.config(),
      SVC_ANALYTICS_OIDC_CONFIG: second.config(),
    },
    /"msg":"(ready)"/u,
  );
  servers.push(server);
  const ingestionUrl = /OTLP\/HTTP on (http:\/\/[\d.:]+)/u.exec(server.output())?.[1] ?? "";
  const analyticsPort = Number(/Flight SQL on grpc:\/\/[\d.]+:(\d+)/u.exec(server.output())?.[1]);
  const read = async (token: string): Promise<number | null> =>
    (await flightInfo(analyticsPort, { authorization: `Bearer ${token}` })).status;
  expect((await postLogs(ingestionUrl, await first.token())).status).toBe(200);
  expect((await postLogs(ingestionUrl, await second.token())).status).toBe(401);
  expect(await read(await second.token())).toBe(grpcOk);
  expect(await read(await first.token())).toBe(grpcUnauthenticated);
});
