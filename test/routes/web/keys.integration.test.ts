/** The routes of keys: names, lists, revocation, and who may use them. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { isWellFormedKey } from "../../../src/auth/key-string.js";
import { createKeyAuthenticator } from "../../../src/auth/keys/key-authenticator.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { createTappedLogger } from "../../helpers/cleartext/cleartext-tap.js";
import { routes, unknownId, useWeb } from "../../helpers/web/web-fixture.js";
import type { TestWeb, WebAnswer } from "../../helpers/web/web-server.js";

const { analytics, ingestion } = routes;

const t = useWeb();
beforeEach(t.reset);

const mint = (body: unknown, cookie = t.admin): Promise<WebAnswer> => t.as(cookie, "POST", ingestion, body);

describe("minting an ingestion key", () => {
  it("answers 201 with exactly the documented fields and the cleartext, once", async () => {
    const { status, json, headers } = await mint({ name: "first", audience: "fields" });
    expect(status).toBe(201);
    expect(Object.keys(json).toSorted()).toEqual(
      ["audience", "claimed", "created_at", "key", "key_id", "name"].toSorted(),
    );
    expect(json).toMatchObject({ name: "first", audience: "fields" });
    expect(isWellFormedKey(json.key)).toBe(true);
    expect(headers.get("cache-control")).toBe("no-store");
    const [row] = await t.web.database.sql<{ key_hash: Uint8Array; created_by: string }[]>`
      select * from ingestion_api_keys where key_id = ${json.key_id}`;
    expect(Buffer.from(row?.key_hash ?? [])).toEqual(createHash("sha256").update(json.key).digest());
    expect(row).toMatchObject({
      name: "first",
      created_by: "admin@example.com",
      last_used_at: null,
      revoked_at: null,
      revoked_by: null,
      audience: "fields",
    });
  });

  it("records the subject where the caller has no email", async () => {
    await t.web.database.sql`
      insert into audience_grants (audience, kind, member, created_by)
      values ('open', 'mint', '*', 'test')`;
    await t.web.database.sql`
      insert into group_members (group_name, member, created_by) values ('admins', '*', 'test')`;
    const cookie = await t.identities.anonymousCookie("robot-7");
    const { status, json } = await mint({ name: "k", audience: "open" }, cookie);
    await t.web.database.sql`delete from group_members where member = '*'`;
    expect(status).toBe(201);
    expect(
      await t.web.count(
        `select count(*) n from ingestion_api_keys where created_by = 'robot-7' and key_id = '${json.key_id}'`,
      ),
    ).toBe(1);
  });

  it("lets two live keys share a name", async () => {
    const first = await mint({ name: "twin", audience: "fields" });
    const second = await mint({ name: "twin", audience: "fields" });
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(first.json.key).not.toBe(second.json.key);
  });

  it.each([
    ["x", 201],
    ["x".repeat(255), 201],
    ["ä".repeat(127), 201],
    ["", 400],
    ["x".repeat(256), 400],
    ["ä".repeat(128), 400],
    ["🔑".repeat(64), 400],
    ["🔑".repeat(63), 201],
  ])("takes a name by its bytes in UTF-8, 1 to 255 (case %#)", async (name, status) => {
    for (const path of [ingestion, analytics]) {
      const body = path === ingestion ? { name, audience: "fields" } : { name };
      const answer = await t.web.request("POST", path, { cookie: t.admin, body });
      expect(answer.status).toBe(status);
      const expected = status === 201 ? { name } : { code: "BAD_REQUEST" };
      expect(answer.json).toMatchObject(expected);
      expect(answer.json.message ?? "name must").toMatch(/name must/);
    }
  });

  it("resolves an omitted audience to SVC_DEFAULT_AUDIENCE, public if unset", async () => {
    for (const [environment, audience] of [
      [{}, "public"],
      [{ SVC_DEFAULT_AUDIENCE: "house" }, "house"],
    ] as const) {
      await t.web.database.sql`
        insert into audience_grants (audience, kind, member, created_by)
        values (${audience}, 'mint', 'user:admin@example.com', 'test')`;
      const beside = await t.beside(environment);
      const answer = await beside.request("POST", ingestion, {
        cookie: t.admin,
        body: { name: "default" },
      });
      await beside.stop();
      expect(answer.json).toMatchObject({ audience, claimed: false });
    }
  });
});

describe("analytics keys", () => {
  it("are minted without an audience, by admins", async () => {
    const { status, json } = await t.web.request("POST", analytics, {
      cookie: t.admin,
      body: { name: "reader" },
    });
    expect(status).toBe(201);
    expect(Object.keys(json).toSorted()).toEqual(["created_at", "key", "key_id", "name"]);
    expect(isWellFormedKey(json.key)).toBe(true);
  });
});

describe("admin-only routes", () => {
  it.each([
    ["POST", analytics],
    ["GET", ingestion],
    ["GET", analytics],
    ["DELETE", `${ingestion}/${unknownId}`],
    ["DELETE", `${analytics}/${unknownId}`],
  ])("%s %s is 403 FORBIDDEN for a caller who is no admin", async (method, path) => {
    const answer = await t.web.request(method, path, {
      cookie: t.ann,
      ...(method === "POST" ? { body: { name: "k" } } : {}),
    });
    expect(answer.status).toBe(403);
    expect(answer.json.code).toBe("FORBIDDEN");
  });

  it("show every row of every audience, of any minter", async () => {
    await t.web.database.sql`
      insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience)
      values (gen_random_uuid(), sha256('elsewhere'), 'elsewhere', 'somebody', 'other-team')`;
    const { json } = await t.web.request("GET", ingestion, { cookie: t.admin });
    expect(json.map((row: { name: string }) => row.name)).toContain("elsewhere");
  });

  it("admin-ness is membership of admins, its wildcard, and nothing else", async () => {
    const other = await t.identities.cookie("Admin@Example.COM");
    expect((await t.web.request("GET", ingestion, { cookie: other })).status).toBe(200);
    const unverified = await t.identities.cookie("admin@example.com", { email_verified: false });
    expect((await t.web.request("GET", ingestion, { cookie: unverified })).status).toBe(403);
    const claiming = await t.identities.cookie("ann@example.com", {
      groups: ["admins"],
      is_admin: true,
    });
    expect((await t.web.request("GET", ingestion, { cookie: claiming })).status).toBe(403);
  });
});

describe("lists", () => {
  let listed: TestWeb;

  beforeAll(async () => {
    listed = await t.start();
    for (const table of ["ingestion_api_keys", "analytics_api_keys"]) {
      const audience = table === "ingestion_api_keys" ? ", audience" : "";
      await listed.database.sql.unsafe(`
        insert into ${table} (key_id, key_hash, name, created_at, created_by, revoked_at, revoked_by ${audience})
        select gen_random_uuid(), sha256(('${table}' || i)::bytea), 'key-' || i,
          timestamptz '2026-01-01' + i * interval '1 second', 'seed',
          case when i % 2 = 0 then now() end, case when i % 2 = 0 then 'seed' end
          ${audience === "" ? "" : ", 'team-' || i % 3"}
        from generate_series(1, 700) i`);
    }
  });
  afterAll(() => listed.stop());

  const names = async (path: string): Promise<string[]> => {
    const answer = await listed.request("GET", path, { cookie: t.ann });
    expect(answer.status).toBe(200);
    return answer.json.map((row: { name: string }) => row.name);
  };
  const keys = (from: number, count: number, step = 1): string[] =>
    Array.from({ length: count }, (_, i) => `key-${from - i * step}`);

  it.each([ingestion, analytics])("%s: newest first, 100 rows by default", async (path) => {
    expect(await names(path)).toEqual(keys(700, 100));
  });

  it.each([ingestion, analytics])("%s: a limit above 500 counts as 500", async (path) => {
    expect(await names(`${path}?limit=500`)).toHaveLength(500);
    expect(await names(`${path}?limit=501`)).toEqual(keys(700, 500));
    expect(await names(`${path}?limit=1000000000`)).toHaveLength(500);
    expect(await names(`${path}?limit=99999999999999999999`)).toHaveLength(500);
    expect(await names(`${path}?limit=1`)).toEqual(["key-700"]);
  });

  it.each([ingestion, analytics])("%s: a limit of 0 or less is 400", async (path) => {
    for (const limit of ["0", "-1", "-9999999999999999999"]) {
      const answer = await listed.request("GET", `${path}?limit=${limit}`, { cookie: t.ann });
      expect([answer.status, answer.json.code]).toEqual([400, "BAD_REQUEST"]);
      expect(answer.json.message).toMatch(/limit must be a whole number of at least 1/);
    }
  });

  it.each([ingestion, analytics])("%s: offset pages without gap or repeat", async (path) => {
    expect(await names(`${path}?offset=0&limit=2`)).toEqual(["key-700", "key-699"]);
    expect(await names(`${path}?limit=500&offset=500`)).toEqual(keys(200, 200));
    expect(await names(`${path}?offset=700`)).toEqual([]);
    expect(await names(`${path}?offset=9007199254740991`)).toEqual([]);
  });

  it.each([ingestion, analytics])("%s: include_revoked is true by default", async (path) => {
    expect(await names(`${path}?limit=3&include_revoked=true`)).toEqual(keys(700, 3));
    expect(await names(`${path}?limit=3&include_revoked=1`)).toEqual(keys(700, 3));
    expect(await names(`${path}?limit=3&include_revoked=false`)).toEqual(keys(699, 3, 2));
    expect(await names(`${path}?limit=3&include_revoked=0`)).toEqual(keys(699, 3, 2));
    expect(await names(`${path}?limit=500&include_revoked=false`)).toHaveLength(350);
  });

  it("mine leaves those that the caller minted", async () => {
    await mint({ name: "own", audience: "fields" });
    await t.web.database.sql`
      insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience)
      values (${unknownId}, sha256('other'), 'theirs', 'ann@example.com', 'fields')`;
    const list = async (query: string): Promise<string[]> =>
      (await t.as(t.admin, "GET", `${ingestion}?${query}`)).json.map((row: { name: string }) => row.name);
    expect((await list("mine=false")).toSorted()).toEqual(["own", "theirs"]);
    expect(await list("mine=true")).toEqual(["own"]);
    expect(await list("mine=true&include_revoked=false&include_usage=true")).toEqual(["own"]);
    expect((await t.as(t.admin, "GET", `${analytics}?mine=true`)).status).toBe(400);
  });

  it("rows have exactly the documented fields, and never the hash", async () => {
    const [row] = (await listed.request("GET", `${ingestion}?limit=1`, { cookie: t.ann })).json;
    const common = ["key_id", "name", "created_at", "created_by", "last_used_at", "revoked_at", "revoked_by"];
    expect(Object.keys(row).toSorted()).toEqual([...common, "audience"].toSorted());
    const [other] = (await listed.request("GET", `${analytics}?limit=1`, { cookie: t.ann })).json;
    expect(Object.keys(other).toSorted()).toEqual(common.toSorted());
    const [used] = (await listed.request("GET", `${ingestion}?limit=1&include_usage=true`, { cookie: t.ann })).json;
    expect(Object.keys(used).toSorted()).toEqual([...common, "audience", "usage_24h"].toSorted());
    const refused = await listed.request("GET", `${analytics}?include_usage=true`, {
      cookie: t.ann,
    });
    expect(refused.status).toBe(400);
  });

  it("show when a key was last used", async () => {
    const { key, key_id: keyId } = (await mint({ name: "used", audience: "fields" })).json;
    const keys = createKeyAuthenticator({
      sql: t.web.database.sql,
      table: "ingestion_api_keys",
      cacheSize: 10,
      cacheTtlMs: 1000,
      unknownCacheSize: 10,
      unknownCacheTtlMs: 1000,
      logger: createTappedLogger(),
      metrics: createMetrics(),
    });
    expect((await keys.authenticate(`Bearer ${key}`)).kind).toBe("ok");
    await keys.stop();
    const [row] = (await t.as(t.admin, "GET", ingestion)).json;
    expect(row).toMatchObject({ key_id: keyId, last_used_at: expect.any(String) as unknown });
  });

  it("usage_24h adds up the hours of the last day, and no others", async () => {
    const [key] = (await listed.request("GET", `${ingestion}?limit=1`, { cookie: t.ann })).json;
    await listed.database.sql`
      insert into api_key_usage (key_id, hour, requests, bytes, records)
      select ${key.key_id}::uuid, date_trunc('hour', now(), 'UTC') - h * interval '1 hour', 1, 10, 100
      from unnest(array[0, 1, 23, 24, 48]) h`;
    const [used, unused] = (await listed.request("GET", `${ingestion}?limit=2&include_usage=1`, { cookie: t.ann }))
      .json;
    expect(used.usage_24h).toEqual({ requests: 3, bytes: 30, records: 300 });
    expect(unused.usage_24h).toEqual({ requests: 0, bytes: 0, records: 0 });
  });

  it("are read by the indexes on the time of creation", async () => {
    const { sql } = listed.database;
    for (const table of ["ingestion_api_keys", "analytics_api_keys"]) {
      await sql`analyze ${sql(table)}`;
      for (const where of ["", "where revoked_at is null"]) {
        const plan = await sql.unsafe<{ "QUERY PLAN": string }[]>(
          `explain select key_id, name, created_at from ${table} ${where} order by created_at desc, key_id limit 5`,
        );
        const text = plan.map((line) => line["QUERY PLAN"]).join("\n");
        expect(text).toMatch(where === "" ? `${table}_newest` : `${table}_live_newest`);
        expect(text).not.toMatch(/Sort/);
      }
    }
  });
});

describe("revoking", () => {
  it.each([
    ["ingestion", ingestion, { name: "r", audience: "fields" }],
    ["analytics", analytics, { name: "r" }],
  ])("an %s key sets revoked_at and revoked_by; again returns the same time", async (_name, path, body) => {
    const { json: key } = await t.web.request("POST", path, { cookie: t.admin, body });
    const first = await t.web.request("DELETE", `${path}/${key.key_id}`, { cookie: t.admin });
    expect(first.status).toBe(200);
    expect(Object.keys(first.json)).toEqual(["revoked_at"]);
    await t.web.database.sql`
        insert into group_members (group_name, member, created_by)
        values ('admins', 'user:second@example.com', 'test') on conflict do nothing`;
    const second = await t.identities.cookie("second@example.com");
    const again = await t.web.request("DELETE", `${path}/${key.key_id}`, { cookie: second });
    expect(again.json).toEqual(first.json);
    const { json: rows } = await t.web.request("GET", `${path}?limit=500`, { cookie: t.admin });
    const row = rows.find((candidate: { key_id: string }) => candidate.key_id === key.key_id);
    expect(row).toMatchObject({ ...first.json, revoked_by: "admin@example.com" });
  });

  it("at the same time from many callers gives one time and one line of the audit", async () => {
    const { json: key } = await mint({ name: "race", audience: "fields" });
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => t.web.request("DELETE", `${ingestion}/${key.key_id}`, { cookie: t.admin })),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(200);
    expect(
      await t.web.count(`select count(*) n from audit_log where action = 'key.revoke' and target = '${key.key_id}'`),
    ).toBe(1);
  });

  it("an unknown key_id is 404 NOT_FOUND, and so are a name and the other table's id", async () => {
    const { json: key } = await mint({ name: "by-name", audience: "fields" });
    for (const path of [
      `${ingestion}/${unknownId}`,
      `${ingestion}/by-name`,
      `${analytics}/${key.key_id}`,
      `${analytics}/${unknownId}`,
    ]) {
      const answer = await t.web.request("DELETE", path, { cookie: t.admin });
      expect([path, answer.status, answer.json.code]).toEqual([path, 404, "NOT_FOUND"]);
    }
    expect(
      await t.web.count(
        `select count(*) n from ingestion_api_keys where key_id = '${key.key_id}' and revoked_at is null`,
      ),
    ).toBe(1);
  });
});

it("there is no route to update, read back or import a key", async () => {
  const { json: key } = await mint({ name: "fixed", audience: "fields" });
  for (const [method, path] of [
    ["GET", `${ingestion}/${key.key_id}`],
    ["PUT", `${ingestion}/${key.key_id}`],
    ["PATCH", `${ingestion}/${key.key_id}`],
    ["POST", `${ingestion}/${key.key_id}`],
  ] as const) {
    const answer = await t.web.request(method, path, { cookie: t.admin });
    expect([method, answer.status]).toEqual([method, 405]);
    expect(answer.headers.get("allow")).toBe("DELETE");
  }
  const chosen = await mint({ name: "k", audience: "fields", key: "svk_mine" });
  expect(chosen.status).toBe(400);
});
