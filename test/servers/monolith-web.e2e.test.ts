/** The web role of the monolith: over its own database, and only where somebody can log in. */
import { ask } from "../helpers/web/query-world.js";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { parseEnv } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";

import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import {
  type MonolithProcess,
  freePorts,
  runProgram,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { startServerProcess } from "../helpers/servers/server-process.js";
import { createRecorder, type Identities, startIdentities } from "../helpers/web/web-server.js";

let identities: Identities;
let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let monolith: MonolithProcess;
let webUrl: string;

beforeAll(async () => {
  identities = await startIdentities();
  data = await temporaryDirectory();
  monolith = await startMonolithProcess(data.directory, [
    `--oidc-config=${identities.config}`,
    "--base-path=/admin-api",
  ]);
  webUrl = /Web +(http:\/\/\S+?)\/?$/m.exec(monolith.output())?.[1] ?? "";
});
afterAll(async () => {
  const code = await monolith.stop();
  await data.remove();
  await identities.stop();
  if (code !== 0) {
    throw new Error(monolith.output());
  }
});

it("plays the web role with its own database, and a key minted there ingests", async () => {
  expect(webUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/admin-api$/);
  const recorder = createRecorder();
  const cookie = await identities.cookie("admin@example.com");
  const minted = await recorder.request(webUrl, "POST", "/api/ingestion-api-keys", {
    cookie,
    body: { name: "from the web", audience: "fresh" },
  });
  expect(minted.json).toMatchObject({ claimed: true });
  const send = (): Promise<Response> =>
    fetch(`${monolith.ingestionUrl}/ingestion/otlp/v1/logs`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${minted.json.key}`,
        "content-type": "application/json",
      },
      body: "{}",
    });
  expect((await send()).status).toBe(200);
  const listed = await recorder.request(webUrl, "GET", "/api/ingestion-api-keys", { cookie });
  expect(listed.json[0]).toMatchObject({ name: "from the web" });
  recorder.assertNoLeak({ log: monolith.output() });
});

it("asks its own analytics server, as the person who is logged in", async () => {
  const cookie = await identities.cookie("admin@example.com");
  const { kinds, last } = await ask(webUrl, cookie, { sql: "SELECT count(*) AS n FROM log_entries" });
  expect([kinds, last]).toEqual(["SBD", expect.objectContaining({ rows: 1, cut: false })]);
});

it("refuses the web role by name where nobody could log in, and leaves it out of `all`: outside of development mode", async () => {
  const other = await temporaryDirectory();
  const busy = createServer();
  busy.listen(0, "127.0.0.1");
  await once(busy, "listening");
  const { port } = busy.address() as AddressInfo;
  const asked = await runProgram("src/bin/telemetry-monolith.js", [
    "--roles=web",
    `--data-dir=${other.directory}`,
    "--web-listen=127.0.0.1:0",
  ]);
  expect(asked.code).toBe(1);
  expect(asked.stderr).toMatch(/SVC_OIDC_CONFIG/);
  const db = await createTestDatabase();
  await mintIngestionKey(db.sql, { name: "k", audience: "a", createdBy: "t" });
  await mintAnalyticsKey(db.sql, { name: "k", createdBy: "t" });
  // With the web role this would fail: its port is taken.
  const all = await startServerProcess("telemetry-monolith", {}, /"msg":"(ready)"/u, [
    ...freePorts,
    `--web-listen=127.0.0.1:${port}`,
    `--sql-connection-string=${db.connectionString}`,
    `--data-dir=${other.directory}`,
  ]);
  expect(all.output()).toContain("the role web is left out: nobody can log in without SVC_OIDC_CONFIG");
  expect(all.output()).not.toContain("identity provider");
  expect(await readdir(other.directory)).not.toContain("development-login");
  expect(await all.end("SIGTERM")).toBe(0);
  busy.close();
  await other.remove();
  await db.drop();
});

it("plays every role with the environment that docs/deploy.md writes for systemd", async () => {
  const [, text = ""] = /<<EOF\n([^]*?)^EOF$/mu.exec(await readFile("docs/deploy.md", "utf8")) ?? [];
  const written = text.replace("<issuer>", identities.provider.issuer).replaceAll(/<[^>]*>/gu, "x");
  const db = await createTestDatabase({ migrate: false });
  const other = await temporaryDirectory();
  const all = await startServerProcess(
    "telemetry-monolith",
    {
      ...(parseEnv(written) as Record<string, string>),
      SVC_SQL_CONNECTION_STRING: db.connectionString,
      SVC_DATA_DIR: other.directory,
      NODE_ENV: "production",
    },
    /"msg":"(ready)"/u,
    ["--roles=all", ...freePorts],
  );
  expect(all.output()).toMatch(/web server on http/u);
  expect(all.output()).not.toMatch(/left out|EVERYBODY/iu);
  expect(await all.end("SIGTERM")).toBe(0);
  await other.remove();
  await db.drop();
});

it("leaves the web role out of `all` where authentication is off, also in development mode", async () => {
  const other = await temporaryDirectory();
  const all = await startMonolithProcess(other.directory, ["--disable-auth"]);
  expect(all.output()).toContain("the role web is left out: authentication is off");
  expect(all.output()).not.toMatch(/Web +http/);
  expect(all.output()).not.toContain("identity provider");
  expect(await all.stop()).toBe(0);
  await other.remove();
});

it("refuses a role that was named and cannot run beside others that can", async () => {
  const other = await temporaryDirectory();
  const asked = await runProgram("src/bin/telemetry-monolith.js", [
    "--roles=ingestion,analytics,maintenance,web",
    `--data-dir=${other.directory}`,
  ]);
  expect(asked.code).toBe(1);
  expect(asked.stderr).toContain("the role web cannot run");
  await other.remove();
});

it("leaves the schema alone while it plays the web role only", async () => {
  const db = await createTestDatabase({ migrate: false });
  const other = await temporaryDirectory();
  const web = await startServerProcess("telemetry-monolith", {}, /web server on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u, [
    "--roles=web",
    "--web-listen=127.0.0.1:0",
    `--sql-connection-string=${db.connectionString}`,
    `--oidc-config=${identities.config}`,
    `--data-dir=${other.directory}`,
  ]);
  const [row] = await db.sql`select to_regclass('public.schema_version') as found`;
  expect(row?.["found"]).toBe(null);
  expect(await web.end("SIGTERM")).toBe(0);
  await other.remove();
  await db.drop();
});

it("wants a database for each role once one of them has one of its own", async () => {
  const other = await temporaryDirectory();
  const asked = await runProgram(
    "src/bin/telemetry-monolith.js",
    ["--roles=ingestion,analytics", `--data-dir=${other.directory}`],
    { env: { SVC_ANALYTICS_SQL_CONNECTION_STRING: "postgres://reader@127.0.0.1:1/telemetry" } },
  );
  expect(asked.code).toBe(1);
  expect(asked.stderr).toContain(
    "SVC_SQL_CONNECTION_STRING has to name the database of ingestion, because another role has one",
  );
  await other.remove();
});
