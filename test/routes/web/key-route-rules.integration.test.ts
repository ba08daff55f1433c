/**
 * The rules of the key routes: one test for each, named after it. The other files of this folder test
 * what follows from a rule.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { hashKey, isWellFormedKey } from "../../../src/auth/key-string.js";
import { runProgram } from "../../helpers/servers/monolith.js";
import {
  type Identities,
  setAdmins,
  startIdentities,
  startTestWeb,
  type TestWeb,
  type WebAnswer,
} from "../../helpers/web/web-server.js";

const ingestion = "/api/ingestion-api-keys";
const analytics = "/api/analytics-api-keys";
const grants = "/api/audience-grants";
const unknownId = "00000000-0000-4000-8000-000000000000";

let identities: Identities;
/** Self-service mint on. */
let web: TestWeb;
/** As it is by default: off. */
let closed: TestWeb;
/** `--disable-auth`. */
let open: TestWeb;
let admin: string;
let ann: string;
let bob: string;
let robot: string;

beforeAll(async () => {
  identities = await startIdentities();
  const environment = { SVC_SELF_SERVICE_MINT: "true" };
  web = await startTestWeb({ identities, environment });
  closed = await startTestWeb({ identities, beside: web });
  open = await startTestWeb({
    identities,
    beside: web,
    environment: { SVC_DISABLE_AUTH: "true" },
  });
  admin = await identities.cookie("admin@example.com");
  ann = await identities.cookie("ann@example.com");
  bob = await identities.cookie("bob@example.com");
  robot = await identities.anonymousCookie("robot");
});
afterAll(async () => {
  await open.stop();
  await closed.stop();
  await web.stop();
  await identities.stop();
});
beforeEach(async () => {
  const { sql } = web.database;
  await sql`truncate ingestion_api_keys, analytics_api_keys`;
  await sql`delete from audience_grants where created_by <> 'migration'`;
  await setAdmins(web.database, ["admin@example.com"]);
});

const mint = (
  cookie: string,
  body: Record<string, unknown>,
  server: TestWeb = web,
): Promise<WebAnswer> =>
  server.request("POST", ingestion, { cookie, body: { name: "k", ...body } });
const get = (path: string, cookie = admin): Promise<WebAnswer> =>
  web.request("GET", path, { cookie });
const remove = (path: string, cookie = admin): Promise<WebAnswer> =>
  web.request("DELETE", path, { cookie });
const grant = (audience: string, kind: string, member: string): Promise<WebAnswer> =>
  web.request("POST", grants, { cookie: admin, body: { audience, kind, member } });
const brief = ({ status, json }: WebAnswer): string => `${status} ${json?.code ?? ""}`.trim();
const fields = (row: object): string[] => Object.keys(row).toSorted();

const rowFields = [
  "created_at",
  "created_by",
  "key_id",
  "last_used_at",
  "name",
  "revoked_at",
  "revoked_by",
];

describe("Endpoints", () => {
  it("POST /api/ingestion-api-keys: {name, audience?} gives 201 {key_id, name, created_at, key, audience, claimed}", async () => {
    const answer = await mint(ann, { name: "n", audience: "fresh" });
    expect(answer.status).toBe(201);
    expect(fields(answer.json)).toEqual(
      ["key_id", "name", "created_at", "key", "audience", "claimed"].toSorted(),
    );
    expect(answer.json).toMatchObject({ name: "n", audience: "fresh", claimed: true });
    expect(isWellFormedKey(answer.json.key)).toBe(true);
  });

  it("GET /api/ingestion-api-keys: limit, offset, include_revoked give 200 and an array of rows", async () => {
    await mint(ann, { audience: "fresh" });
    const { status, json } = await get(`${ingestion}?limit=5&offset=0&include_revoked=false`);
    expect([status, json.length]).toEqual([200, 1]);
    expect(fields(json[0])).toEqual(["audience", ...rowFields]);
  });

  it("DELETE /api/ingestion-api-keys/{key_id} gives 200 {revoked_at}", async () => {
    const { key_id: keyId } = (await mint(ann, { audience: "fresh" })).json;
    const { status, json } = await remove(`${ingestion}/${keyId}`);
    expect([status, fields(json)]).toEqual([200, ["revoked_at"]]);
  });

  it("POST /api/analytics-api-keys: {name} gives 201 {key_id, name, created_at, key}", async () => {
    const { status, json } = await web.request("POST", analytics, {
      cookie: admin,
      body: { name: "n" },
    });
    expect([status, fields(json)]).toEqual([201, ["created_at", "key", "key_id", "name"]]);
  });

  it("GET /api/analytics-api-keys gives 200 and an array of rows, without an audience", async () => {
    await web.request("POST", analytics, { cookie: admin, body: { name: "n" } });
    const { status, json } = await get(`${analytics}?limit=5&offset=0&include_revoked=true`);
    expect([status, fields(json[0])]).toEqual([200, rowFields]);
  });

  it("DELETE /api/analytics-api-keys/{key_id} gives 200 {revoked_at}", async () => {
    const body = { name: "n" };
    const minted = await web.request("POST", analytics, { cookie: admin, body });
    const { status, json } = await remove(`${analytics}/${minted.json.key_id}`);
    expect([status, fields(json)]).toEqual([200, ["revoked_at"]]);
  });

  it("POST, GET, DELETE /api/audience-grants: 201, 200 and 204, with the triple and who made it when", async () => {
    const made = await grant("a", "read", "user:ann@example.com");
    expect([made.status, fields(made.json)]).toEqual([
      201,
      ["audience", "created_at", "created_by", "kind", "member"],
    ]);
    expect((await get(`${grants}?audience=a`)).json).toEqual([made.json]);
    expect(
      (await remove(`${grants}?audience=a&kind=read&member=user:ann@example.com`)).status,
    ).toBe(204);
  });

  it("GET /health is public: without credentials, with authentication on", async () => {
    expect((await web.request("GET", "/health")).status).toBe(200);
  });
});

describe("Rules for the key routes", () => {
  it("a name is not empty and at most 255 bytes, else 400", async () => {
    for (const name of ["", "x".repeat(256), "é".repeat(128)]) {
      expect(brief(await mint(ann, { name, audience: "a" }))).toBe("400 BAD_REQUEST");
    }
    expect((await mint(ann, { name: "é".repeat(127), audience: "a" })).status).toBe(201);
    expect((await mint(ann, { name: "x".repeat(255), audience: "a" })).status).toBe(201);
  });

  it("an omitted audience is the deployment default, a malformed one is 400", async () => {
    await grant("public", "mint", "user:ann@example.com");
    expect((await mint(ann, {})).json).toMatchObject({ audience: "public", claimed: false });
    expect(brief(await mint(ann, { audience: "no spaces" }))).toBe("400 BAD_REQUEST");
  });

  it("minting takes a matching mint grant or a brand-new audience, from admins as well", async () => {
    await grant("theirs", "mint", "user:bob@example.com");
    expect(brief(await mint(ann, { audience: "theirs" }))).toBe("403 FORBIDDEN");
    expect(brief(await mint(admin, { audience: "theirs" }))).toBe("403 FORBIDDEN");
    expect((await mint(bob, { audience: "theirs" })).json).toMatchObject({ claimed: false });
    expect((await mint(ann, { audience: "brand-new" })).json).toMatchObject({ claimed: true });
  });

  it("SVC_SELF_SERVICE_MINT is off by default, and admins are exempt from that switch only", async () => {
    await grant("granted", "mint", "user:ann@example.com");
    expect(brief(await mint(ann, { audience: "granted" }, closed))).toBe("403 FORBIDDEN");
    expect((await mint(ann, { audience: "granted" })).status).toBe(201);
    expect(brief(await mint(admin, { audience: "granted" }, closed))).toBe("403 FORBIDDEN");
    expect((await mint(admin, { audience: "of-admin" }, closed)).status).toBe(201);
  });

  it("a caller with no email claims nothing, and mints under an existing grant", async () => {
    expect(brief(await mint(robot, { audience: "fresh" }))).toBe("403 FORBIDDEN");
    await grant("shared", "mint", "*");
    expect((await mint(robot, { audience: "shared" })).json).toMatchObject({ claimed: false });
  });

  it("claimed is true only for the call that made the audience's first grants", async () => {
    expect((await mint(ann, { audience: "fresh" })).json.claimed).toBe(true);
    expect((await mint(ann, { audience: "fresh" })).json.claimed).toBe(false);
  });

  it("analytics mint, and list and revoke of both tables, are for admins, and show every row", async () => {
    await mint(ann, { audience: "of-ann" });
    await mint(bob, { audience: "of-bob" });
    const [first] = (await get(ingestion)).json;
    for (const [method, path] of [
      ["POST", analytics],
      ["GET", ingestion],
      ["GET", analytics],
      ["DELETE", `${ingestion}/${first.key_id}`],
      ["DELETE", `${analytics}/${first.key_id}`],
    ] as const) {
      const body = method === "POST" ? { body: { name: "n" } } : {};
      expect(brief(await web.request(method, path, { cookie: ann, ...body }))).toBe(
        "403 FORBIDDEN",
      );
    }
    const audiences = (await get(ingestion)).json.map((row: { audience: string }) => row.audience);
    expect(audiences.toSorted()).toEqual(["of-ann", "of-bob"]);
  });

  it("lists are newest first, 100 rows by default and 500 at most, and never show the key or its hash", async () => {
    await web.database.sql`
      insert into ingestion_api_keys (key_id, key_hash, name, created_at, created_by, revoked_at, audience)
      select gen_random_uuid(), sha256(i::text::bytea), i::text, now() + i * interval '1 s', 't',
        case when i % 2 = 0 then now() end, 'a'
      from generate_series(1, 600) i`;
    const names = async (query: string): Promise<string[]> =>
      (await get(`${ingestion}${query}`)).json.map((row: { name: string }) => row.name);
    const all = Array.from({ length: 600 }, (_, i) => String(600 - i));
    expect(await names("")).toEqual(all.slice(0, 100));
    expect(await names("?limit=501")).toEqual(all.slice(0, 500));
    expect(await names("?offset=590")).toEqual(all.slice(590));
    expect(await names("?limit=2&include_revoked=false")).toEqual(["599", "597"]);
    expect(brief(await get(`${ingestion}?limit=0`))).toBe("400 BAD_REQUEST");
    const { key } = (await mint(ann, { audience: "fresh" })).json;
    const { text } = await get(`${ingestion}?limit=500`);
    expect(text).not.toContain(key);
    expect(text).not.toContain(hashKey(key).toString("hex"));
  });

  it("revoking goes by key_id alone, gives the same revoked_at again, and 404 for an unknown one", async () => {
    const { key_id: keyId } = (await mint(ann, { name: "named", audience: "fresh" })).json;
    const first = await remove(`${ingestion}/${keyId}`);
    const again = await remove(`${ingestion}/${keyId}`);
    expect([again.status, again.json]).toEqual([200, first.json]);
    for (const id of ["named", unknownId]) {
      expect(brief(await remove(`${ingestion}/${id}`))).toBe("404 NOT_FOUND");
    }
  });

  it.each([ingestion, analytics, grants])(
    "under --disable-auth everything that begins with %s is 503 AUTH_DISABLED",
    async (prefix) => {
      for (const path of [prefix, `${prefix}/x`, `${prefix}-x`]) {
        const answer = await open.request("GET", path, { cookie: admin });
        expect(brief(answer)).toBe("503 AUTH_DISABLED");
      }
    },
  );

  it("the server refuses to start with authentication on and SVC_SQL_CONNECTION_STRING unset", async () => {
    const env = { SVC_WEB_LISTEN: "127.0.0.1:0", SVC_OIDC_CONFIG: identities.config };
    const { code, stderr } = await runProgram("src/bin/analytics-web-srv.js", [], { env });
    expect([code, stderr]).toEqual([1, expect.stringContaining("SVC_SQL_CONNECTION_STRING")]);
  });

  it("the mint answers over plain HTTP, which is all the server speaks, and no cache may keep it", async () => {
    expect(web.url).toMatch(/^http:/);
    const answer = await mint(ann, { audience: "fresh" });
    expect(answer.json.key).toMatch(/^svk_/);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    await expect(fetch(web.url.replace("http:", "https:"))).rejects.toThrow("fetch failed");
  });
});

describe("Versioning", () => {
  it("1: paths carry no version segment", async () => {
    const paths = Object.keys((await web.request("GET", "/api/openapi.json")).json.paths);
    expect(paths.filter((path) => /\/v\d/.test(path))).toEqual([]);
    expect(brief(await get("/api/v1/ingestion-api-keys"))).toBe("404 NOT_FOUND");
  });
});

describe("Key string", () => {
  it("is made by the server alone: no route takes one", async () => {
    const key = "svk_0000000000000000000000000000000000000000000000000";
    expect(brief(await mint(ann, { audience: "fresh", key }))).toBe("400 BAD_REQUEST");
  });

  it("begins with svk_, and SHA-256 of the whole of it is what is stored", async () => {
    const { key, key_id: keyId } = (await mint(ann, { audience: "fresh" })).json;
    expect(key).toMatch(/^svk_/);
    const [row] = await web.database.sql<{ key_hash: Uint8Array }[]>`
      select key_hash from ingestion_api_keys where key_id = ${keyId}`;
    expect(Buffer.from(row?.key_hash ?? [])).toEqual(hashKey(key));
  });
});
