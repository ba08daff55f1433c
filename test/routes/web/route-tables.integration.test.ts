/**
 * States, errors and limits of the web server's key routes, and its routes of grants and groups: one
 * test for each row of their tables, named after it.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createKeyAuthenticator } from "../../../src/auth/keys/key-authenticator.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { createTappedLogger } from "../../helpers/cleartext/cleartext-tap.js";
import {
  type Identities,
  setAdmins,
  startIdentities,
  startTestWeb,
  type TestWeb,
  type WebAnswer,
} from "../../helpers/web/web-server.js";
import { until } from "../../helpers/until.js";

const ingestion = "/api/ingestion-api-keys";
const grants = "/api/audience-grants";
const groups = "/api/groups";
const unknownId = "00000000-0000-4000-8000-000000000000";

let identities: Identities;
let web: TestWeb;
let closed: TestWeb;
let admin: string;
let ann: string;
let bob: string;

beforeAll(async () => {
  identities = await startIdentities();
  const environment = {
    SVC_SELF_SERVICE_MINT: "true",
    SVC_SELF_SERVICE_MAX_CLAIMS_PER_CALLER: "2",
  };
  web = await startTestWeb({ identities, environment });
  closed = await startTestWeb({ identities, beside: web });
  admin = await identities.cookie("admin@example.com");
  ann = await identities.cookie("ann@example.com");
  bob = await identities.cookie("bob@example.com");
});
afterAll(async () => {
  await closed.stop();
  await web.stop();
  await identities.stop();
});
beforeEach(async () => {
  const { sql } = web.database;
  await sql`truncate ingestion_api_keys, analytics_api_keys`;
  await sql`delete from audience_grants where created_by <> 'migration'`;
  await sql`delete from groups where name <> 'admins'`;
  await setAdmins(web.database, ["admin@example.com"]);
});

const as =
  (cookie: string) =>
  (method: string, path: string, body?: unknown): Promise<WebAnswer> =>
    web.request(method, path, { cookie, ...(body === undefined ? {} : { body }) });
const asAdmin = (method: string, path: string, body?: unknown): Promise<WebAnswer> =>
  as(admin)(method, path, body);
const mint = (cookie: string, audience: string, server: TestWeb = web): Promise<WebAnswer> =>
  server.request("POST", ingestion, { cookie, body: { name: "k", audience } });
const brief = ({ status, json }: WebAnswer): string => `${status} ${json?.code ?? ""}`.trim();
const keyRow = async (keyId: string): Promise<Record<string, unknown>> => {
  const [row] = await web.database.sql<Record<string, unknown>[]>`
    select * from ingestion_api_keys where key_id = ${keyId}`;
  return row ?? {};
};

/** Runs `during` while another session holds the advisory lock of an audience or a caller. */
async function whileLocked(
  kind: "audience" | "caller",
  name: string,
  during: () => Promise<void>,
): Promise<void> {
  const holder = await web.database.sql.reserve();
  await holder`begin`;
  try {
    // As src/admin/locks.ts makes it.
    const [row] = await holder<{ key: bigint }[]>`
      select ('x' || substr(encode(sha256(convert_to(${`telemetry-service ${kind}`}, 'utf8')
        || '\\x00'::bytea || convert_to(${name}, 'utf8')), 'hex'), 1, 16))::bit(64)::bigint as key`;
    await holder`select pg_advisory_xact_lock(${row?.key ?? 0n}::bigint)`;
    await during();
  } finally {
    await holder`rollback`;
    holder.release();
  }
}

describe("States: API key", () => {
  it("(none), POST mint route: live, 201 with the cleartext once, created_by the caller's identity", async () => {
    const { status, json } = await mint(ann, "fresh");
    expect([status, json.key]).toEqual([201, expect.stringMatching(/^svk_/)]);
    expect(await keyRow(json.key_id)).toMatchObject({
      revoked_at: null,
      created_by: "ann@example.com",
    });
  });

  it("live, DELETE of a key_id that exists: revoked, revoked_at and revoked_by set", async () => {
    const { key_id: keyId } = (await mint(ann, "fresh")).json;
    const { json } = await asAdmin("DELETE", `${ingestion}/${keyId}`);
    expect(await keyRow(keyId)).toMatchObject({
      revoked_at: new Date(json.revoked_at),
      revoked_by: "admin@example.com",
    });
  });

  it("revoked, DELETE again: unchanged, the same revoked_at", async () => {
    const { key_id: keyId } = (await mint(ann, "fresh")).json;
    const first = await asAdmin("DELETE", `${ingestion}/${keyId}`);
    const before = await keyRow(keyId);
    expect((await asAdmin("DELETE", `${ingestion}/${keyId}`)).json).toEqual(first.json);
    expect(await keyRow(keyId)).toEqual(before);
  });

  it("any, DELETE of an unknown key_id: 404, nothing changes", async () => {
    const { key_id: keyId } = (await mint(ann, "fresh")).json;
    expect(brief(await asAdmin("DELETE", `${ingestion}/${unknownId}`))).toBe("404 NOT_FOUND");
    expect(await keyRow(keyId)).toMatchObject({ revoked_at: null });
  });

  it("live, successful validation: live, last_used_at touched", async () => {
    const { key, key_id: keyId } = (await mint(ann, "fresh")).json;
    const keys = createKeyAuthenticator({
      sql: web.database.sql,
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
    const listed = (await asAdmin("GET", ingestion)).json;
    expect(listed[0]).toMatchObject({ key_id: keyId, revoked_at: null });
    expect(listed[0].last_used_at).not.toBeNull();
  });
});

describe("States: audience claim", () => {
  it("no grants and no keys, named explicitly: claimed, key row and both user: grants in one transaction", async () => {
    const { json } = await mint(ann, "whole");
    expect(json.claimed).toBe(true);
    const rows = await web.database.sql<{ row: string }[]>`
      select kind || ' ' || member as row from audience_grants where audience = 'whole' order by 1`;
    expect(rows.map(({ row }) => row)).toEqual([
      "mint user:ann@example.com",
      "read user:ann@example.com",
    ]);
    const [same] = await web.database.sql<{ transactions: number }[]>`
      select count(distinct x)::int as transactions from (
        select xmin::text as x from ingestion_api_keys where audience = 'whole'
        union all select xmin::text from audience_grants where audience = 'whole'
        union all select xmin::text from audit_log where details ->> 'audience' = 'whole') t`;
    expect(same?.transactions).toBe(1);
  });

  it("another caller's row landed first: unchanged, 403", async () => {
    const [a, b] = await Promise.all([mint(ann, "raced"), mint(bob, "raced")]);
    expect([brief(a), brief(b)].toSorted()).toEqual(["201", "403 FORBIDDEN"]);
    expect((await asAdmin("GET", `${grants}?audience=raced`)).json).toHaveLength(2);
  });

  it("advisory lock lost to a concurrent claim: unchanged, 409 CLAIM_CONTENDED; a retry succeeds", async () => {
    await whileLocked("audience", "contended", async () => {
      expect(brief(await mint(ann, "contended"))).toBe("409 CLAIM_CONTENDED");
    });
    expect((await asAdmin("GET", `${grants}?audience=contended`)).json).toEqual([]);
    expect((await mint(ann, "contended")).json.claimed).toBe(true);
  });
});

describe("Errors", () => {
  it("400 BAD_REQUEST: empty or over-255-byte name; invalid explicit audience; limit <= 0", async () => {
    for (const body of [
      { name: "", audience: "a" },
      { name: "x".repeat(256), audience: "a" },
      { name: "k", audience: "a b" },
    ]) {
      expect(brief(await asAdmin("POST", ingestion, body))).toBe("400 BAD_REQUEST");
    }
    expect(brief(await asAdmin("GET", `${ingestion}?limit=0`))).toBe("400 BAD_REQUEST");
    expect(brief(await asAdmin("GET", `${ingestion}?limit=-1`))).toBe("400 BAD_REQUEST");
  });

  it("401 UNAUTHENTICATED: no authentication context on the mint route", async () => {
    const answer = await web.request("POST", ingestion, { body: { name: "k", audience: "a" } });
    expect(brief(answer)).toBe("401 UNAUTHENTICATED");
  });

  it("403 FORBIDDEN: self-service off for a non-admin", async () => {
    expect(brief(await mint(ann, "fresh", closed))).toBe("403 FORBIDDEN");
  });

  it("403 FORBIDDEN: no matching mint grant", async () => {
    await mint(bob, "of-bob");
    expect(brief(await mint(ann, "of-bob"))).toBe("403 FORBIDDEN");
  });

  it("403 FORBIDDEN: a per-caller bound reached", async () => {
    expect((await mint(ann, "one")).status).toBe(201);
    expect((await mint(ann, "two")).status).toBe(201);
    expect(brief(await mint(ann, "three"))).toBe("403 FORBIDDEN");
  });

  it("403 FORBIDDEN: lost the in-lock existence recheck", async () => {
    const { sql } = web.database;
    let claim: Promise<WebAnswer> | null = null;
    // The claim has looked, found the audience new, and waits for its caller's lock.
    await whileLocked("caller", "ann@example.com", async () => {
      claim = mint(ann, "overtaken");
      await until(async () => {
        const waiting = await sql`
          select from pg_stat_activity
          where datname = current_database() and wait_event = 'advisory'`;
        return waiting.length > 0;
      });
      await sql`
        insert into audience_grants (audience, kind, member, created_by)
        values ('overtaken', 'mint', 'user:bob@example.com', 'test')`;
    });
    expect(brief(await (claim ?? Promise.reject(new Error("no claim"))))).toBe("403 FORBIDDEN");
    expect(await web.count("select count(*) n from ingestion_api_keys")).toBe(0);
  });

  it("404: revoke of an unknown key_id", async () => {
    expect(brief(await asAdmin("DELETE", `${ingestion}/${unknownId}`))).toBe("404 NOT_FOUND");
  });

  it("409 CLAIM_CONTENDED: two concurrent lazy claims for one audience name", async () => {
    await whileLocked("audience", "twice", async () => {
      expect(brief(await mint(ann, "twice"))).toBe("409 CLAIM_CONTENDED");
    });
  });

  it("503 NOT_CONFIGURED: no database pool configured for the route", async () => {
    const bare = await startTestWeb({
      identities,
      beside: web,
      environment: { SVC_DISABLE_AUTH: "true" },
      connectionString: () => null,
    });
    expect(brief(await bare.request("GET", "/api/audit"))).toBe("503 NOT_CONFIGURED");
    await bare.stop();
  });

  it("503 UNAVAILABLE: the audience-grant query itself failed", async () => {
    const { sql } = web.database;
    await sql`alter table audience_grants rename to audience_grants_away`;
    try {
      expect(brief(await mint(ann, "fresh"))).toBe("503 UNAVAILABLE");
    } finally {
      await sql`alter table audience_grants_away rename to audience_grants`;
    }
  });

  it("503 AUTH_DISABLED: key or grant route group while --disable-auth is on", async () => {
    const open = await startTestWeb({
      identities,
      beside: web,
      environment: { SVC_DISABLE_AUTH: "true" },
    });
    for (const path of [ingestion, "/api/analytics-api-keys", grants]) {
      expect(brief(await open.request("GET", path))).toBe("503 AUTH_DISABLED");
    }
    await open.stop();
  });

  it("500, opaque: the database lacks the column audience of schema version 6", async () => {
    const { sql } = web.database;
    await sql`alter table ingestion_api_keys rename column audience to audience_away`;
    try {
      const answer = await mint(ann, "fresh");
      expect([answer.status, answer.text]).toEqual([
        500,
        expect.stringMatching(
          /^\{"code":"INTERNAL","message":"internal error; request id [\w-]+"\}$/,
        ),
      ]);
    } finally {
      await sql`alter table ingestion_api_keys rename column audience_away to audience`;
    }
  });

  it("500, opaque: audience NOT NULL violation, as of an outdated web server that omits it", async () => {
    const { sql } = web.database;
    await sql.unsafe(`
      create function omit_audience() returns trigger language plpgsql as
        $$ begin new.audience := null; return new; end $$;
      create trigger outdated before insert on ingestion_api_keys
        for each row execute function omit_audience()`);
    try {
      const answer = await mint(ann, "fresh");
      expect([answer.status, answer.json.code]).toEqual([500, "INTERNAL"]);
      expect(answer.text).not.toMatch(/null|audience|column/);
    } finally {
      await sql`drop function omit_audience() cascade`;
    }
  });

  it("error bodies carry a code, and a message", async () => {
    const { json } = await asAdmin("GET", `${ingestion}?limit=0`);
    expect(Object.keys(json)).toEqual(["code", "message"]);
  });

  it("a non-admin on an admin-only route gets 403 FORBIDDEN", async () => {
    expect(brief(await as(ann)("GET", ingestion))).toBe("403 FORBIDDEN");
  });
});

describe("Limits", () => {
  it("name: at most 255 bytes", async () => {
    const send = (name: string): Promise<WebAnswer> =>
      asAdmin("POST", "/api/analytics-api-keys", { name });
    expect((await send("x".repeat(255))).status).toBe(201);
    expect(brief(await send("x".repeat(256)))).toBe("400 BAD_REQUEST");
  });

  it("audience: at most 255 characters of ^[A-Za-z0-9_-]+$", async () => {
    expect((await mint(admin, "a".repeat(255))).status).toBe(201);
    expect(brief(await mint(admin, "a".repeat(256)))).toBe("400 BAD_REQUEST");
    expect(brief(await mint(admin, "a\n"))).toBe("400 BAD_REQUEST");
  });

  it("list limit: default 100, maximum 500 (clamped), above 0; offset: default 0", async () => {
    await web.database.sql`
      insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience)
      select gen_random_uuid(), sha256(i::text::bytea), 'k', 't', 'a' from generate_series(1, 501) i`;
    const count = async (query: string): Promise<number> =>
      (await asAdmin("GET", `${ingestion}${query}`)).json.length;
    expect(await count("")).toBe(100);
    expect(await count("?limit=1000000000")).toBe(500);
    expect(await count("?limit=500&offset=0")).toBe(500);
    expect(await count("?offset=500")).toBe(1);
    expect(brief(await asAdmin("GET", `${ingestion}?limit=0`))).toBe("400 BAD_REQUEST");
  });

  it("web server database pool: at most 2 connections", async () => {
    await Promise.all(Array.from({ length: 40 }, () => asAdmin("GET", ingestion)));
    const own = await startTestWeb({ identities });
    const counts: number[] = [];
    const load = Promise.all(
      Array.from({ length: 60 }, () => own.request("GET", ingestion, { cookie: admin })),
    );
    for (let done = false; !done;) {
      done = await Promise.race([load.then(() => true), own.count("select 0 n").then(() => false)]);
      counts.push(
        await own.count(`
          select count(*) n from pg_stat_activity
          where datname = current_database() and application_name <> 'test'`),
      );
    }
    expect(Math.max(...counts)).toBe(2);
    await own.stop();
  });
});

describe("Grants and groups", () => {
  const body = { audience: "a", kind: "read", member: "user:ann@example.com" };
  const query = "audience=a&kind=read&member=user:ann@example.com";

  it("POST /api/audience-grants: admin; 201, or 200 when it existed already", async () => {
    expect(brief(await as(ann)("POST", grants, body))).toBe("403 FORBIDDEN");
    const first = await asAdmin("POST", grants, body);
    const again = await asAdmin("POST", grants, body);
    expect([first.status, again.status, again.json]).toEqual([201, 200, first.json]);
  });

  it("GET /api/audience-grants: admin; newest first, by audience, kind and member, limits as for keys", async () => {
    expect(brief(await as(ann)("GET", grants))).toBe("403 FORBIDDEN");
    await asAdmin("POST", grants, body);
    await asAdmin("POST", grants, { ...body, audience: "b" });
    const listed = (await asAdmin("GET", `${grants}?limit=2`)).json;
    expect(listed.map((row: { audience: string }) => row.audience)).toEqual(["b", "a"]);
    expect((await asAdmin("GET", `${grants}?${query}`)).json).toHaveLength(1);
    expect(brief(await asAdmin("GET", `${grants}?limit=0`))).toBe("400 BAD_REQUEST");
  });

  it("DELETE /api/audience-grants: admin; 204, or 404", async () => {
    expect(brief(await as(ann)("DELETE", `${grants}?${query}`))).toBe("403 FORBIDDEN");
    await asAdmin("POST", grants, body);
    expect((await asAdmin("DELETE", `${grants}?${query}`)).status).toBe(204);
    expect(brief(await asAdmin("DELETE", `${grants}?${query}`))).toBe("404 NOT_FOUND");
  });

  it("GET /api/audience-grants/my-audiences: any caller; {email, is_admin, read, mint, self_service}", async () => {
    await asAdmin("POST", grants, body);
    const { json } = await as(ann)("GET", `${grants}/my-audiences`);
    expect(json).toEqual({
      email: "ann@example.com",
      is_admin: false,
      read: ["a", "public"],
      mint: [],
      // An added field: true while admins holds *.
      admins_open: false,
      self_service: true,
    });
  });

  it("GET/POST /api/groups and DELETE /api/groups/{name}: admin; as for grants", async () => {
    for (const [method, path] of [
      ["GET", groups],
      ["POST", groups],
      ["DELETE", `${groups}/g`],
    ] as const) {
      const fields = method === "POST" ? { name: "g" } : undefined;
      expect(brief(await as(ann)(method, path, fields))).toBe("403 FORBIDDEN");
    }
    expect((await asAdmin("POST", groups, { name: "g" })).status).toBe(201);
    expect((await asAdmin("POST", groups, { name: "g" })).status).toBe(200);
    expect((await asAdmin("GET", groups)).json[0].name).toBe("g");
    expect((await asAdmin("DELETE", `${groups}/g`)).status).toBe(204);
    expect(brief(await asAdmin("DELETE", `${groups}/g`))).toBe("404 NOT_FOUND");
  });

  it("GET/POST/DELETE /api/groups/{name}/members: admin; as for grants", async () => {
    await asAdmin("POST", groups, { name: "g" });
    const members = `${groups}/g/members`;
    const member = "user:ann@example.com";
    expect(brief(await as(ann)("POST", members, { member }))).toBe("403 FORBIDDEN");
    expect((await asAdmin("POST", members, { member })).status).toBe(201);
    expect((await asAdmin("POST", members, { member })).status).toBe(200);
    expect((await asAdmin("GET", members)).json).toMatchObject([{ member }]);
    expect((await asAdmin("DELETE", `${members}?member=${member}`)).status).toBe(204);
    expect(brief(await asAdmin("DELETE", `${members}?member=${member}`))).toBe("404 NOT_FOUND");
  });

  it("admins cannot be deleted, and its last member cannot be removed", async () => {
    expect(brief(await asAdmin("DELETE", `${groups}/admins`))).toBe("409 CONFLICT");
    const last = `${groups}/admins/members?member=user:admin@example.com`;
    expect(brief(await asAdmin("DELETE", last))).toBe("409 CONFLICT");
  });

  it("members: user:, group:, * and, for read only, key:; of a group user: and *", async () => {
    await asAdmin("POST", groups, { name: "g" });
    const minted = await asAdmin("POST", "/api/analytics-api-keys", { name: "k" });
    const key = `key:${minted.json.key_id}`;
    for (const [kind, member, status] of [
      ["read", "user:x@example.com", 201],
      ["read", "group:g", 201],
      ["mint", "*", 201],
      ["read", key, 201],
      ["mint", key, 400],
      ["read", "role:x", 400],
    ] as const) {
      const answer = await asAdmin("POST", grants, { audience: "m", kind, member });
      expect([kind, member, answer.status]).toEqual([kind, member, status]);
    }
    for (const [member, status] of [
      ["user:x@example.com", 201],
      ["*", 201],
      ["group:admins", 400],
      [key, 400],
    ] as const) {
      const answer = await asAdmin("POST", `${groups}/g/members`, { member });
      expect([member, answer.status]).toEqual([member, status]);
    }
  });

  it("emails compare without case, and count only when email_verified is not false", async () => {
    await asAdmin("POST", grants, { ...body, member: "user:Ann@Example.com" });
    const mine = async (cookie: string): Promise<{ email: string | null; read: string[] }> =>
      (await as(cookie)("GET", `${grants}/my-audiences`)).json;
    const shouting = await identities.cookie("ANN@EXAMPLE.COM");
    expect((await mine(shouting)).read).toEqual(["a", "public"]);
    const unverified = await identities.cookie("ann@example.com", { email_verified: false });
    expect(await mine(unverified)).toMatchObject({ email: null, read: ["public"] });
  });

  it("under --disable-auth /api/groups answers 503 AUTH_DISABLED, too", async () => {
    const open = await startTestWeb({
      identities,
      beside: web,
      environment: { SVC_DISABLE_AUTH: "true" },
    });
    expect(brief(await open.request("GET", groups))).toBe("503 AUTH_DISABLED");
    await open.stop();
  });
});
