/** Each server at work under its separate database role, whose rights test/db/roles.integration.test.ts counts. */
import { afterAll, beforeAll, expect, test } from "vitest";

import { createRoleLogin, type DatabaseRole, type RoleLogin } from "../helpers/auth/auth-roles.js";
import { startTestService, type TestService } from "../helpers/auth/auth-service.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { startIdentities, startTestWeb } from "../helpers/web/web-server.js";

let t: TestService;
const logins: RoleLogin[] = [];

beforeAll(async () => {
  t = await startTestService();
});
afterAll(async () => {
  for (const login of logins) {
    await login.drop();
  }
  await t.stop();
});

async function loginAs(role: DatabaseRole): Promise<string> {
  const login = await createRoleLogin(t.sql, t.connectionString, role);
  logins.push(login);
  return login.connectionString;
}

test("ingestion stores data, and the use of the key that sent it", async () => {
  const server = await t.startIngestion({}, await loginAs("ingestion"));
  const { key, keyId } = await t.mintIngestion("red");
  expect(await server.post(key)).toMatchObject({ status: 200 });
  expect(await server.post(await t.token())).toMatchObject({ status: 200 });
  await server.stop();
  const [row] = await t.sql<{ used: boolean; requests: number; blocks: number }[]>`
    select last_used_at is not null as used,
      (select sum(requests)::int from api_key_usage where key_id = ${keyId}) as requests,
      (select count(*)::int from blocks) as blocks
    from ingestion_api_keys where key_id = ${keyId}`;
  expect(row).toEqual({ used: true, requests: 1, blocks: 2 });
});

test("analytics answers queries and runs admin functions, and records the use of keys", async () => {
  const { key, keyId } = await t.mintAnalytics(["red"]);
  const server = await t.startAnalytics({}, await loginAs("analytics"));
  expect(await server.query(key, "select count(*) as n from log_entries")).toEqual([{ n: 2 }]);
  expect(await server.query(key, "select count(*) as n from blocks")).toEqual([{ n: 2 }]);
  await server.query(key, "select * from deny_queries('contains(sql, ''forbidden'')', 'a test')");
  expect(await server.query(key, "select reason from list_query_denials()")).toEqual([{ reason: "a test" }]);
  const [partition] = await t.sql<{ path: string }[]>`select path from lakehouse_partitions`;
  await server.query(key, `select * from retire_partition_by_file('${partition?.path}')`);
  expect(await server.query(key, "select count(*) as n from list_partitions()")).toEqual([{ n: 1 }]);
  await server.stop();
  const [row] = await t.sql<{ used: boolean }[]>`
    select last_used_at is not null as used from analytics_api_keys where key_id = ${keyId}`;
  expect(row).toEqual({ used: true });
});

test("analytics says what to run when an upgrade left its role without a right", async () => {
  const { key } = await t.mintAnalytics(["red"]);
  const server = await t.startAnalytics({}, await loginAs("analytics"));
  await t.sql`revoke insert on audit_log from telemetry_analytics`;
  await expect(server.query(key, "select * from deny_queries('false', 'a test')")).rejects.toThrow(
    /permission denied for table audit_log.*run migrations\/roles\/\*\.sql as the owner/,
  );
  await server.stop();
});

test("web mints, claims, lists and revokes keys, and changes grants and groups", async () => {
  const identities = await startIdentities();
  const database = await createTestDatabase();
  const login = await createRoleLogin(database.sql, database.connectionString, "web");
  const web = await startTestWeb({
    identities,
    database,
    connectionString: () => login.connectionString,
  });
  const cookie = await identities.cookie("ann@example.com");
  const ask = async (method: string, path: string, body?: unknown): Promise<number> =>
    (await web.request(method, path, { cookie, ...(body === undefined ? {} : { body }) })).status;
  const minted = await web.request("POST", "/api/ingestion-api-keys", {
    cookie,
    body: { name: "k", audience: "fresh" },
  });
  expect(minted.json).toMatchObject({ claimed: true });
  const { key_id: keyId } = minted.json as { key_id: string };
  // It makes its own tables.
  expect(await ask("PUT", "/api/screens/s", { config: {} })).toBe(201);
  const [owner] = await database.sql<{ owner: string }[]>`
    select nspowner::regrole::text as owner from pg_namespace where nspname = 'web'`;
  expect(owner).toEqual({ owner: "telemetry_web" });
  const statuses = [
    await ask("POST", "/api/analytics-api-keys", { name: "k" }),
    await ask("GET", "/api/ingestion-api-keys"),
    await ask("GET", "/api/analytics-api-keys"),
    await ask("DELETE", `/api/ingestion-api-keys/${keyId}`),
    await ask("POST", "/api/audience-grants", { audience: "fresh", kind: "read", member: "*" }),
    await ask("DELETE", "/api/audience-grants?audience=fresh&kind=read&member=*"),
    await ask("POST", "/api/groups", { name: "ops" }),
    await ask("POST", "/api/groups/ops/members", { member: "user:bob@example.com" }),
    await ask("DELETE", "/api/groups/ops"),
  ];
  expect(statuses).toEqual([201, 200, 200, 200, 201, 204, 201, 201, 204]);
  await database.sql`revoke insert on groups from telemetry_web`;
  expect(await web.request("POST", "/api/groups", { cookie, body: { name: "late" } })).toMatchObject({
    status: 503,
    json: { code: "NOT_CONFIGURED", message: expect.stringContaining("run migrations/roles/*.sql") },
  });
  expect(web.log.filter((line) => line.includes("permission denied for table groups"))).toHaveLength(1);
  await web.server.stop();
  await login.drop();
  await web.stop();
  await identities.stop();
});
