/** Data sources and the deny list, through real servers. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { ask, type QueryWorld, startQueryWorld } from "../../helpers/web/query-world.js";

let world: QueryWorld;
let admin: string;
let ann: string;

beforeAll(async () => {
  world = await startQueryWorld();
  admin = await world.cookie("admin@example.com");
  ann = await world.cookie("ann@example.com");
});

afterAll(async () => {
  await world.stop();
});

const request = (cookie: string, method: string, path: string, body?: unknown) =>
  world.web.request(method, path, { cookie, ...(body === undefined ? {} : { body }) });
const sql = "SELECT count(*) AS n FROM log_entries";

describe("data sources", () => {
  it("begin with the built-in one, which is the default and stays", async () => {
    const builtIn = { name: "built-in", is_default: true, built_in: true };
    expect((await request(ann, "GET", "/api/data-sources")).json).toEqual([builtIn]);
    expect((await request(admin, "PUT", "/api/data-sources/built-in", { uri: "grpc://127.0.0.1:1" })).status).toBe(409);
    expect((await request(admin, "DELETE", "/api/data-sources/built-in")).status).toBe(409);
    expect((await request(admin, "GET", "/api/data-sources/built-in")).json).toMatchObject({ uri: null });
    expect((await ask(world.web.url, ann, { sql, data_source: "built-in" })).kinds).toMatch(/^SB+D$/);
  });

  it("are used by name and as the default, their addresses shown to administrators only", async () => {
    const uri = `grpc://127.0.0.1:${world.analytics.port}`;
    const lost = { uri: "grpc://127.0.0.1:1", is_default: true };
    expect((await request(ann, "PUT", "/api/data-sources/other", { uri })).status).toBe(403);
    expect((await request(admin, "PUT", "/api/data-sources/other", { uri })).status).toBe(201);
    expect((await request(admin, "PUT", "/api/data-sources/lost", lost)).status).toBe(201);
    const list = await request(ann, "GET", "/api/data-sources");
    expect(list.json).toEqual([
      { name: "built-in", is_default: false, built_in: true },
      { name: "lost", is_default: true, built_in: false },
      { name: "other", is_default: false, built_in: false },
    ]);
    expect((await request(ann, "GET", "/api/data-sources/other")).status).toBe(403);
    expect((await request(admin, "GET", "/api/data-sources/other")).json).toMatchObject({ uri });
    expect((await ask(world.web.url, ann, { sql, data_source: "other" })).kinds).toMatch(/^SB+D$/);
    const failed = await ask(world.web.url, ann, { sql });
    expect(failed.last).toMatchObject({ code: "UNAVAILABLE", message: expect.stringContaining("lost") });
    expect(failed.last["message"]).not.toContain("127.0.0.1");
    // Another default takes its place.
    expect((await request(admin, "PUT", "/api/data-sources/other", { uri, is_default: true })).status).toBe(200);
    expect((await ask(world.web.url, ann, { sql })).kinds).toMatch(/^SB+D$/);
    expect((await request(ann, "DELETE", "/api/data-sources/lost")).status).toBe(403);
    for (const name of ["lost", "other"]) {
      expect((await request(admin, "DELETE", `/api/data-sources/${name}`)).status).toBe(204);
    }
    expect((await request(admin, "DELETE", "/api/data-sources/lost")).status).toBe(404);
    expect((await ask(world.web.url, ann, { sql })).kinds).toMatch(/^SB+D$/);
    const audit = await request(admin, "GET", "/api/audit?limit=5");
    expect(audit.json.map((row: { action: string }) => row.action)).toEqual([
      "data_source.delete",
      "data_source.delete",
      "data_source.save",
      "data_source.save",
      "data_source.save",
    ]);
  });

  it.each([
    "http://127.0.0.1:80",
    "grpc+tcp://127.0.0.1:80",
    "grpc://user:secret@127.0.0.1:80",
    "grpc://127.0.0.1:80/path",
    "grpc://127.0.0.1:80?token=x",
    "grpc://127.0.0.1:99999",
    "grpc:// 127.0.0.1",
    "grpc://",
    "file:///etc/passwd",
    "unix:/var/run/docker.sock",
  ])("have no address like %s", async (uri) => {
    const answer = await request(admin, "PUT", "/api/data-sources/bad", { uri });
    expect(answer).toMatchObject({ status: 400, json: { code: "BAD_REQUEST" } });
    expect(answer.text).not.toContain("secret");
  });

  it.each(["a%20b", "..", "-a", "x".repeat(64), "%00"])("have no name like %s", async (name) => {
    const { status } = await request(admin, "PUT", `/api/data-sources/${name}`, { uri: "grpc://127.0.0.1:1" });
    expect([400, 404]).toContain(status);
  });
});

describe("the deny list", () => {
  const rule = { match_expr: "sql ILIKE '%forbidden%' -- all of them", reason: "it's too expensive" };

  it("is for administrators", async () => {
    for (const [method, path, body] of [
      ["GET", "/api/query-denials", undefined],
      ["POST", "/api/query-denials", rule],
      ["DELETE", "/api/query-denials?rule_id=x", undefined],
      ["POST", "/api/query-denials/test", { match_expr: "true", sql: "x" }],
    ] as const) {
      expect([path, (await request(ann, method, path, body)).status]).toEqual([path, 403]);
    }
  });

  it("tells whether an expression is true of a text, without a rule", async () => {
    const matches = async (match_expr: string, text: string, more = {}) =>
      (await request(admin, "POST", "/api/query-denials/test", { match_expr, sql: text, ...more })).json as unknown;
    expect(await matches(rule.match_expr, "select 'Forbidden'")).toEqual({ matches: true });
    expect(await matches(rule.match_expr, "select 1")).toEqual({ matches: false });
    expect(await matches("email = 'eve@example.com'", "x", { email: "eve@example.com" })).toEqual({ matches: true });
    expect(await matches("\"user\" = 'admin@example.com'", "x")).toEqual({ matches: true });
    expect(await matches("length(sql_hash) = 64", "x")).toEqual({ matches: true });
    expect(await matches("NULL", "x")).toEqual({ matches: false });
    expect(await matches("nonsense(", "x")).toMatchObject({ code: "BAD_REQUEST" });
    expect(await matches("read_text('/etc/passwd') IS NOT NULL", "x")).toMatchObject({ code: "BAD_REQUEST" });
    expect((await request(admin, "GET", "/api/query-denials")).json).toEqual([]);
  });

  it("refuses queries from the rule that was added until it is removed", async () => {
    const added = await request(admin, "POST", "/api/query-denials", {
      ...rule,
      match_expr: "contains(sql, 'forbidden')",
    });
    expect(added).toMatchObject({
      status: 201,
      json: { reason: "it's too expensive", created_by: "admin@example.com" },
    });
    const { rule_id: id } = added.json as { rule_id: string };
    expect((await request(admin, "GET", "/api/query-denials")).json).toEqual([added.json]);
    const denied = await ask(world.web.url, ann, { sql: "SELECT 'forbidden'" });
    expect(denied).toMatchObject({ kinds: "E", last: { code: "FORBIDDEN" } });
    expect(denied.last["message"]).toContain("too expensive");
    expect((await request(admin, "DELETE", `/api/query-denials?rule_id=${id}`)).status).toBe(204);
    expect((await request(admin, "DELETE", `/api/query-denials?rule_id=${id}`)).status).toBe(404);
    expect((await request(admin, "DELETE", "/api/query-denials?rule_id=x")).status).toBe(400);
    expect((await ask(world.web.url, ann, { sql: "SELECT 'forbidden'" })).kinds).toMatch(/^SB+D$/);
    const audit = await request(admin, "GET", "/api/audit?limit=2");
    // The analytics server writes it, and the web server is in front of that.
    const details = { from: "127.0.0.1", forwarded_for: "127.0.0.1", subject: "sub-admin@example.com" };
    expect(audit.json).toMatchObject([
      { action: "denial.remove", target: id, actor: "admin@example.com", details },
      { action: "denial.add", target: id, actor: "admin@example.com", details },
    ]);
    expect((await request(admin, "POST", "/api/query-denials", { match_expr: "(", reason: "r" })).status).toBe(400);
    // A query of the application is SQL all the same.
    const bySql = await ask(world.web.url, admin, { sql: "SELECT * FROM deny_queries('false', 'r')" });
    expect(bySql.kinds).toMatch(/^SB+D$/);
    expect((await request(admin, "GET", "/api/audit?limit=1")).json).toMatchObject([{ action: "denial.add", details }]);
  });
});
