/** Screens and folders: optimistic locking, versions, and who may change what. */
import { randomBytes } from "node:crypto";

import { beforeEach, describe, expect, it } from "vitest";

import { useWeb } from "../../helpers/web/web-fixture.js";
import { setAdmins } from "../../helpers/web/web-server.js";

const t = useWeb();

beforeEach(async () => {
  await t.reset();
  // Makes the tables.
  await t.as(t.admin, "GET", "/api/screens");
  await t.web.database.sql`truncate web.screens, web.deleted_screens, web.folders cascade`;
});

const config = { cells: [{ kind: "markdown", text: "<script>alert(1)</script> \u0000 é" }], "2": 1, "1": 2.5 };
const put = (cookie: string, name: string, body: Record<string, unknown> = {}) =>
  t.as(cookie, "PUT", `/api/screens/${encodeURIComponent(name)}`, { config, ...body });

describe("a screen", () => {
  it("belongs to who made it, and everybody reads it as it was saved", async () => {
    const made = await put(t.ann, "errors of checkout");
    expect(made).toMatchObject({ status: 201, json: { version: 1, owner: "ann@example.com", folder: null, config } });
    const read = await t.as(t.bob, "GET", "/api/screens/errors%20of%20checkout");
    expect(read.json).toEqual(made.json);
    const list = await t.as(t.bob, "GET", "/api/screens");
    expect(list.json).toMatchObject([{ name: "errors of checkout", version: 1, updated_by: "ann@example.com" }]);
    expect(list.text).not.toContain("cells");
    expect((await t.as(t.bob, "GET", "/api/screens/other")).status).toBe(404);
  });

  it("is changed by its owner and administrators, and by nobody else", async () => {
    await put(t.ann, "s");
    expect(await put(t.bob, "s", { version: 1 })).toMatchObject({ status: 403, json: { code: "FORBIDDEN" } });
    expect((await t.as(t.bob, "DELETE", "/api/screens/s")).status).toBe(403);
    expect(await put(t.ann, "s", { version: 1 })).toMatchObject({ status: 200, json: { version: 2 } });
    expect(await put(t.admin, "s", { version: 2 })).toMatchObject({
      status: 200,
      json: { version: 3, owner: "ann@example.com", updated_by: "admin@example.com" },
    });
    expect((await t.as(t.admin, "DELETE", "/api/screens/s?version=3")).status).toBe(204);
    expect((await t.as(t.ann, "GET", "/api/screens/s")).status).toBe(404);
  });

  it("is not overwritten by who has not seen the last version: 409 shows it", async () => {
    await put(t.ann, "s");
    await put(t.admin, "s", { version: 1, config: { now: "changed" } });
    expect(await put(t.ann, "s", { version: 1 })).toMatchObject({
      status: 409,
      json: {
        code: "CONFLICT",
        message: expect.stringContaining("admin@example.com"),
        current: { version: 2, config: { now: "changed" } },
      },
    });
    expect((await put(t.ann, "s")).status).toBe(409);
    expect(await t.as(t.ann, "DELETE", "/api/screens/s?version=1")).toMatchObject({
      status: 409,
      json: { current: { version: 2 } },
    });
    expect(await put(t.ann, "gone", { version: 4 })).toMatchObject({ status: 409, json: { current: null } });
  });

  it("is not taken for the one of its name that was deleted", async () => {
    await put(t.ann, "s");
    await put(t.ann, "s", { version: 1 });
    expect((await t.as(t.ann, "DELETE", "/api/screens/s?version=2")).status).toBe(204);
    expect(await put(t.ann, "s", { config: { now: "another" } })).toMatchObject({ status: 201, json: { version: 3 } });
    // Who has the old one open.
    expect(await put(t.ann, "s", { version: 1 })).toMatchObject({ status: 409, json: { current: { version: 3 } } });
    expect((await t.as(t.ann, "DELETE", "/api/screens/s?version=2")).status).toBe(409);
    expect(await put(t.ann, "s", { version: 3 })).toMatchObject({ status: 200, json: { version: 4 } });
    expect((await t.as(t.ann, "DELETE", "/api/screens/s")).status).toBe(204);
    expect(await put(t.ann, "s")).toMatchObject({ status: 201, json: { version: 5 } });
  });

  it("is saved once by two who save it at once", async () => {
    await put(t.ann, "s");
    const all = await Promise.all(Array.from({ length: 8 }, (_, i) => put(t.ann, "s", { version: 1, config: { i } })));
    expect(countsOf(all)).toEqual({ 200: 1, 409: 7 });
    const fresh = await Promise.all(Array.from({ length: 4 }, () => put(t.bob, "new")));
    expect(countsOf(fresh)).toEqual({ 201: 1, 409: 3 });
  });

  it("keeps its versions, the last hundred", async () => {
    for (let version = 0; version < 103; version++) {
      await put(t.ann, "s", { version, config: { version } });
    }
    const versions = await t.as(t.bob, "GET", "/api/screens/s/versions?limit=500");
    expect(versions.json).toHaveLength(100);
    expect(versions.json[0]).toMatchObject({ version: 103, saved_by: "ann@example.com" });
    expect((await t.as(t.bob, "GET", "/api/screens/s/versions/50")).json).toMatchObject({ config: { version: 49 } });
    expect((await t.as(t.bob, "GET", "/api/screens/s/versions/3")).status).toBe(404);
    expect((await t.as(t.bob, "GET", "/api/screens/none/versions")).status).toBe(404);
    expect((await t.as(t.bob, "GET", "/api/screens/s/versions/x")).status).toBe(400);
  });

  it("is the last of its owner's two hundred, however many are made at once", async () => {
    await t.web.database.sql`
      insert into web.screens (name, folder, config, version, owner, created_at, updated_at, updated_by)
      select 'old ' || n, null, '{}', 1, 'ann@example.com', now(), now(), 'ann@example.com' from generate_series(1, 199) n`;
    const made = await Promise.all(Array.from({ length: 8 }, (_, i) => put(t.ann, `new ${i}`)));
    expect(countsOf(made)).toEqual({ 201: 1, 403: 7 });
    expect((await put(t.bob, "another's")).status).toBe(201);
  });

  it.each([
    ["a list", []],
    ["text", "x"],
    ["nothing", null],
    ["more levels than 32", nested(33)],
    ["more values than 20,000", { a: Array(20_000).fill(0) }],
    ["more bytes than 512 KiB", { a: "x".repeat(512 * 1024) }],
  ])("takes an object within bounds, and not %s", async (_what, bad) => {
    expect(await put(t.ann, "s", { config: bad })).toMatchObject({ status: 400, json: { code: "BAD_REQUEST" } });
  });

  it("keeps fewer versions of a large one", async () => {
    const large = { text: randomBytes(300_000).toString("base64") };
    for (let version = 0; version < 13; version++) {
      expect((await put(t.ann, "large", { config: large, version })).status).toBeLessThan(300);
    }
    const kept = await t.as(t.ann, "GET", "/api/screens/large/versions");
    expect(kept.json).toHaveLength(10);
    expect(kept.json).toMatchObject([{ version: 13 }, { version: 12 }, {}, {}, {}, {}, {}, {}, {}, { version: 4 }]);
  });

  it.each([
    [{ cells: {} }, "config.cells must be a list of cells"],
    [{ format: "1", cells: [] }, "config.format must be 1, or that of a newer release"],
    [{ cells: ["x"] }, "config.cells[0] must be a JSON object"],
    [
      { cells: [{ kind: "table" }, { kind: "pie" }] },
      "config.cells[1].kind must be one of markdown, chart, table, log, trace, map, variable, group",
    ],
    [
      { cells: [{ kind: "toString" }] },
      "config.cells[0].kind must be one of markdown, chart, table, log, trace, map, variable, group",
    ],
    [{ cells: [{ kind: "table", sql: { a: 1 } }] }, "config.cells[0].sql must be a string"],
    [{ cells: [{ kind: "group" }] }, "config.cells[0].cells must be a list of cells"],
    [
      { cells: [{ kind: "group", cells: [{ kind: "group", cells: [] }] }] },
      "config.cells[0].cells[0].kind must be one of markdown, chart, table, log, trace, map, variable",
    ],
  ])("is refused as %j, which is none, with the field that is wrong", async (none, message) => {
    const { status, json } = await put(t.ann, "none", { config: none });
    expect({ status, json }).toEqual({ status: 400, json: { code: "BAD_REQUEST", message } });
    expect((await t.as(t.ann, "GET", "/api/screens/none")).status).toBe(404);
  });

  it.each([
    {},
    {
      cells: [
        { kind: "chart", look: "pie", own: 1 },
        { kind: "group", cells: [{ kind: "log" }] },
      ],
      more: [],
    },
    { format: 2, cells: { of: "a newer release" } },
  ])("is taken as %j, which another release may have written", async (other) => {
    expect((await put(t.ann, "other", { config: other })).status).toBe(201);
  });

  it("takes 32 levels", async () => {
    expect((await put(t.ann, "s", { config: nested(32) })).status).toBe(201);
  });

  it.each(["..", ".", " a", "a\u0001b", "\u001ba", "a\u007f", "a/b", "a\\b", "x".repeat(256)])(
    "has no name like %j",
    async (name) => {
      // A client's URL parser takes dots away before they are sent.
      const path = name.startsWith(".") ? "/api/screens/%2E%2e".slice(0, 13 + name.length * 3) : null;
      const answer = path === null ? await put(t.ann, name) : await t.as(t.ann, "PUT", "/api/screens/%20", { config });
      expect(answer.status).toBe(400);
    },
  );

  it("is nobody's without a login", async () => {
    expect((await t.as("", "GET", "/api/screens")).status).toBe(401);
    expect((await t.as("", "PUT", "/api/screens/s", { config })).status).toBe(401);
  });
});

describe("a folder", () => {
  it("is the last of ten thousand, however many are made at once", async () => {
    await t.web.database.sql`
      insert into web.folders (name, created_by) select 'old ' || n, 'admin@example.com' from generate_series(1, 9999) n`;
    const made = await Promise.all(
      Array.from({ length: 8 }, (_, i) => t.as(t.admin, "POST", "/api/folders", { name: `new ${i}` })),
    );
    expect(countsOf(made)).toEqual({ 201: 1, 409: 7 });
  });

  it("is changed by administrators and seen by everybody", async () => {
    expect((await t.as(t.ann, "POST", "/api/folders", { name: "team" })).status).toBe(403);
    expect((await t.as(t.admin, "POST", "/api/folders", { name: "team" })).status).toBe(201);
    expect((await t.as(t.admin, "POST", "/api/folders", { name: "team" })).status).toBe(200);
    expect((await put(t.ann, "s", { folder: "nowhere" })).status).toBe(404);
    expect((await put(t.ann, "s", { folder: "team" })).json).toMatchObject({ folder: "team" });
    expect((await t.as(t.bob, "GET", "/api/folders")).json).toMatchObject([{ name: "team", screens: 1 }]);
    expect((await t.as(t.bob, "GET", "/api/screens?folder=team")).json).toHaveLength(1);
    expect((await t.as(t.bob, "GET", "/api/screens?folder=other")).json).toHaveLength(0);
  });

  it("takes its screens along when it is renamed, and goes only without any", async () => {
    await t.as(t.admin, "POST", "/api/folders", { name: "old" });
    await t.as(t.admin, "POST", "/api/folders", { name: "taken" });
    await put(t.ann, "s", { folder: "old" });
    const rename = (name: string, new_name: string) => t.as(t.admin, "PATCH", "/api/folders", { name, new_name });
    expect((await t.as(t.ann, "PATCH", "/api/folders", { name: "old", new_name: "new" })).status).toBe(403);
    expect((await rename("old", "taken")).status).toBe(409);
    expect((await rename("none", "new")).status).toBe(404);
    expect(await rename("old", "new")).toMatchObject({ status: 200, json: { name: "new", screens: 1 } });
    expect((await t.as(t.bob, "GET", "/api/screens/s")).json).toMatchObject({ folder: "new" });
    expect((await t.as(t.admin, "DELETE", "/api/folders?name=new")).status).toBe(409);
    await t.as(t.ann, "DELETE", "/api/screens/s");
    expect((await t.as(t.ann, "DELETE", "/api/folders?name=new")).status).toBe(403);
    expect((await t.as(t.admin, "DELETE", "/api/folders?name=new")).status).toBe(204);
    expect((await t.as(t.admin, "DELETE", "/api/folders?name=new")).status).toBe(404);
  });
});

it("makes its tables once, however many servers begin at once", async () => {
  const first = await t.start({ admins: ["admin@example.com"] });
  const beside = await Promise.all(Array.from({ length: 3 }, () => startBeside(first)));
  const all = [first, ...beside];
  const answers = await Promise.all(all.map((web) => web.request("GET", "/api/screens", { cookie: t.ann })));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(await first.count("select count(*)::int as n from web.schema_version")).toBe(2);
  for (const web of all.toReversed()) {
    await web.stop();
  }
});

it("says so when another release has newer tables", async () => {
  const web = await t.start({ admins: ["admin@example.com"] });
  await web.request("GET", "/api/screens", { cookie: t.ann });
  await web.database.sql`insert into web.schema_version (version, name) values (99, 'later')`;
  const other = await t.start({ beside: web });
  const answer = await other.request("GET", "/api/screens", { cookie: t.ann });
  expect(answer).toMatchObject({ status: 503, json: { code: "UNAVAILABLE" } });
  expect(answer.text).toContain("version 99");
  await other.stop();
  await web.stop();
});

it("counts whoever is in admins now", async () => {
  await put(t.ann, "s");
  await setAdmins(t.web.database, ["bob@example.com"]);
  expect((await put(t.bob, "s", { version: 1 })).status).toBe(200);
});

function countsOf(answers: readonly { readonly status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) {
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

function nested(levels: number): Record<string, unknown> {
  let value: Record<string, unknown> = {};
  for (let level = 1; level < levels; level++) {
    value = { a: value };
  }
  return value;
}

async function startBeside(web: Awaited<ReturnType<typeof t.start>>): ReturnType<typeof t.start> {
  return await t.start({ beside: web });
}
