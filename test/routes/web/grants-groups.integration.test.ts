/** Grants and groups over HTTP. */
import { beforeEach, describe, expect, it } from "vitest";

import { routes, useWeb } from "../../helpers/web/web-fixture.js";
import { setAdmins, type TestWeb, type WebAnswer } from "../../helpers/web/web-server.js";

const { analytics, audit, grants, groups, ingestion, mine } = routes;

const t = useWeb();
beforeEach(t.reset);

const asAdmin = (method: string, path: string, body?: unknown): Promise<WebAnswer> => t.as(t.admin, method, path, body);
/** The key_id of a new analytics key. */
const mintKey = async (): Promise<string> => (await asAdmin("POST", analytics, { name: "k" })).json.key_id;

describe("a fresh deployment", () => {
  it("holds the one seeded grant and the one reserved group", async () => {
    const fresh = await t.start();
    const get = (path: string) => fresh.request("GET", path, { cookie: t.robot });
    expect((await get(grants)).json).toMatchObject([
      { audience: "public", kind: "read", member: "*", created_by: "migration" },
    ]);
    expect((await get(groups)).json).toMatchObject([{ name: "admins" }]);
    expect((await get(`${groups}/admins/members`)).json).toMatchObject([{ member: "*" }]);
    expect((await get(mine)).json).toEqual({
      email: null,
      is_admin: true,
      admins_open: true,
      read: ["public"],
      mint: [],
      self_service: false,
    });
    const path = `${grants}?audience=public&kind=read&member=*`;
    expect((await fresh.request("DELETE", path, { cookie: t.robot })).status).toBe(204);
    expect((await get(mine)).json.read).toEqual([]);
    await fresh.stop();
  });
});

describe("a server whose group admins holds *", () => {
  const warned = (server: TestWeb): number =>
    server.log.filter((line) => /"level":40.*EVERYBODY IS AN ADMINISTRATOR/.test(line)).length;

  it("says so in its log at every start, and in my-audiences until * is removed", async () => {
    const first = await t.start();
    await expect.poll(() => warned(first)).toBe(1);
    const second = await t.start({ beside: first });
    await expect.poll(() => warned(second)).toBe(1);
    const isOpen = async (): Promise<unknown> =>
      (await first.request("GET", mine, { cookie: t.robot })).json.admins_open;
    expect(await isOpen()).toBe(true);
    await setAdmins(first.database, ["admin@example.com"]);
    expect(await isOpen()).toBe(false);
    const third = await t.start({ beside: first });
    await third.request("GET", mine, { cookie: t.robot });
    expect(warned(third)).toBe(0);
    for (const server of [third, second, first]) {
      await server.stop();
    }
  });
});

describe("POST /api/audience-grants", () => {
  it.each([
    ["read", "*"],
    ["read", "user:x@example.com"],
    ["read", "group:team"],
    ["read", "key:<key_id>"],
    ["mint", "*"],
    ["mint", "user:x@example.com"],
    ["mint", "group:team"],
  ])("creates %s for %s: 201, then 200 with the same row", async (kind, form) => {
    await asAdmin("POST", groups, { name: "team" });
    const member = form.replace("<key_id>", await mintKey());
    const body = { audience: "team-a", kind, member };
    const first = await asAdmin("POST", grants, body);
    expect(first.status).toBe(201);
    expect(first.json).toMatchObject({ ...body, created_by: "admin@example.com" });
    const again = await asAdmin("POST", grants, body);
    expect(again.status).toBe(200);
    expect(again.json).toEqual(first.json);
  });

  it("stores emails and key ids in lower case, and takes them in any", async () => {
    const body = { audience: "a", kind: "read", member: "user:Ann@Example.COM" };
    expect((await asAdmin("POST", grants, body)).json.member).toBe("user:ann@example.com");
    expect((await asAdmin("POST", grants, { ...body, member: "user:ANN@example.com" })).status).toBe(200);
    const member = `key:${await mintKey()}`;
    const key = { ...body, member: `key:${member.slice(4).toUpperCase()}` };
    expect((await asAdmin("POST", grants, key)).json.member).toBe(member);
    const path = `${grants}?audience=a&kind=read&member=${encodeURIComponent("user:AnN@Example.com")}`;
    expect((await asAdmin("DELETE", path)).status).toBe(204);
  });

  it.each([
    [{ kind: "read", member: "*" }, /audience is missing/],
    [{ audience: "a", member: "*" }, /kind is missing: it must be read or mint/],
    [{ audience: "a", kind: "read" }, /member is missing/],
    [{ audience: "a b", kind: "read", member: "*" }, /audience must be letters/],
    [{ audience: "a", kind: "write", member: "*" }, /kind must be read or mint/],
    [{ audience: "a", kind: "mint", member: "key:0a1b2c3d-0000-4000-8000-000000000000" }, /keys do not mint/],
    [{ audience: "a", kind: "read", member: "key:7" }, /member must be user:/],
    [{ audience: "a", kind: "read", member: "ann@example.com" }, /member must be user:/],
    [{ audience: "a", kind: "read", member: "user:" }, /member must be user:/],
    [{ audience: "a", kind: "read", member: "user:ann" }, /member must be user:/],
    [{ audience: "a", kind: "read", member: "user:a@b c" }, /member must be user:/],
    [{ audience: "a", kind: "read", member: "group:" }, /member must be user:/],
    [{ audience: "a", kind: "read", member: "everyone" }, /member must be user:/],
    [{ audience: "a", kind: "read", member: `group:${"x".repeat(512)}` }, /at most 512 bytes/],
    [{ audience: "a", kind: "read", member: "*", created_by: "me" }, /unknown field "created_by"/],
  ])("refuses %j with 400 and what to change", async (body, message) => {
    const answer = await asAdmin("POST", grants, body);
    expect([answer.status, answer.json.code]).toEqual([400, "BAD_REQUEST"]);
    expect(answer.json.message).toMatch(message);
  });
});

describe("grants of groups and keys", () => {
  it("that do not exist, or are revoked, are refused with what to do, and leave nothing", async () => {
    const ingestionKey = (await asAdmin("POST", ingestion, { name: "k", audience: "of-admin" })).json.key_id;
    const revoked = await mintKey();
    await asAdmin("DELETE", `${analytics}/${revoked}`);
    const before = (await asAdmin("GET", grants)).json;
    for (const [member, message] of [
      ["group:nobody", /no group has this name; create it first/],
      ["group:Admins", /no group has this name/],
      ["key:0a1b2c3d-0000-4000-8000-000000000000", /no analytics key has this key_id/],
      [`key:${ingestionKey}`, /no analytics key has this key_id/],
      [`key:${revoked}`, /this analytics key is revoked/],
    ] as const) {
      const answer = await asAdmin("POST", grants, { audience: "team-a", kind: "read", member });
      expect([member, answer.status, answer.json.code]).toEqual([member, 400, "BAD_REQUEST"]);
      expect(answer.json.message).toMatch(message);
    }
    expect((await asAdmin("GET", grants)).json).toEqual(before);
  });

  it("of a key go with its revocation, each with its line in the audit, and no others", async () => {
    const [gone, left] = [await mintKey(), await mintKey()];
    for (const [audience, keyId] of [
      ["a", gone],
      ["b", gone],
      ["a", left],
    ]) {
      const body = { audience, kind: "read", member: `key:${keyId}` };
      expect((await asAdmin("POST", grants, body)).status).toBe(201);
    }
    const path = `${analytics}/${gone.toUpperCase()}`;
    expect((await asAdmin("DELETE", path)).status).toBe(200);
    const members = (await asAdmin("GET", grants)).json.map((row: { member: string }) => row.member);
    expect(members.toSorted()).toEqual(["*", `key:${left}`]);
    const entries = (await asAdmin("GET", `${audit}?limit=3`)).json;
    expect(entries.map((e: { action: string; target: string }) => `${e.action} ${e.target}`).toSorted()).toEqual([
      `grant.delete a/read/key:${gone}`,
      `grant.delete b/read/key:${gone}`,
      `key.revoke ${gone}`,
    ]);
    expect(entries[0].details).toMatchObject({ because: "its key was revoked" });
    expect((await asAdmin("DELETE", path)).status).toBe(200);
    expect((await asAdmin("GET", `${audit}?limit=3`)).json).toEqual(entries);
  });

  it("of a key that is being revoked come before it and go along, or are refused", async () => {
    for (let round = 0; round < 10; round++) {
      const keyId = await mintKey();
      const [granted, revoked] = await Promise.all([
        asAdmin("POST", grants, { audience: "racing", kind: "read", member: `key:${keyId}` }),
        asAdmin("DELETE", `${analytics}/${keyId}`),
      ]);
      expect(revoked.status).toBe(200);
      expect([201, 400]).toContain(granted.status);
      expect((await asAdmin("GET", `${grants}?member=key:${keyId}`)).json).toEqual([]);
    }
  });
});

describe("GET /api/audience-grants", () => {
  it("lists newest first, narrowed by audience, kind and member, in pages", async () => {
    await t.web.database.sql`
      insert into audience_grants (audience, kind, member, created_at, created_by)
      select 'aud-' || i % 3, case when i % 2 = 0 then 'read' else 'mint' end, 'user:u' || i || '@x.y',
        timestamptz '2026-01-01' + i * interval '1 minute', 'seed'
      from generate_series(1, 120) i`;
    const list = async (query: string): Promise<string[]> => {
      const answer = await asAdmin("GET", `${grants}?${query}`);
      expect(answer.status).toBe(200);
      return answer.json.map((row: { member: string }) => row.member);
    };
    expect(await list("")).toHaveLength(100);
    expect(await list("limit=3&audience=aud-0")).toEqual(["user:u120@x.y", "user:u117@x.y", "user:u114@x.y"]);
    expect(await list("limit=2&kind=mint")).toEqual(["user:u119@x.y", "user:u117@x.y"]);
    expect(await list("member=user:U7@x.y")).toEqual(["user:u7@x.y"]);
    expect(await list("audience=aud-0&kind=mint&limit=1&offset=1")).toEqual(["user:u111@x.y"]);
    expect(await list("limit=501")).toHaveLength(121);
    for (const query of ["limit=0", "limit=-1", "limit=abc", "offset=-1", "kind=x", "audience=a%20b"]) {
      expect((await asAdmin("GET", `${grants}?${query}`)).json.code).toBe("BAD_REQUEST");
    }
  });
});

describe("DELETE /api/audience-grants", () => {
  it("deletes the row: 204 with no body, then 404", async () => {
    await asAdmin("POST", grants, { audience: "gone", kind: "mint", member: "*" });
    const path = `${grants}?audience=gone&kind=mint&member=*`;
    const deleted = await asAdmin("DELETE", path);
    expect([deleted.status, deleted.text]).toEqual([204, ""]);
    expect((await asAdmin("DELETE", path)).json.code).toBe("NOT_FOUND");
    expect(await t.web.count("select count(*) n from audience_grants where audience = 'gone'")).toBe(0);
  });

  it("takes all three of audience, kind and member", async () => {
    for (const query of ["kind=read&member=*", "audience=public&member=*", "audience=public&kind=read"]) {
      expect((await asAdmin("DELETE", `${grants}?${query}`)).status).toBe(400);
    }
    expect(await t.web.count("select count(*) n from audience_grants where audience = 'public'")).toBe(1);
  });
});

describe("GET /api/audience-grants/my-audiences", () => {
  it("tells any caller what they may read and mint, sorted, each once", async () => {
    await asAdmin("POST", groups, { name: "team" });
    await asAdmin("POST", groups, { name: "Team" });
    await asAdmin("POST", `${groups}/team/members`, { member: "user:Ann@example.com" });
    for (const [audience, kind, member] of [
      ["b", "read", "user:ann@example.com"],
      ["a", "read", "group:team"],
      ["b", "read", "group:team"],
      ["c", "mint", "*"],
      ["d", "mint", "user:bob@example.com"],
      ["e", "read", `key:${await mintKey()}`],
      ["f", "mint", "group:Team"],
    ] as const) {
      await asAdmin("POST", grants, { audience, kind, member });
    }
    expect((await t.as(t.ann, "GET", mine)).json).toEqual({
      email: "ann@example.com",
      is_admin: false,
      admins_open: false,
      read: ["a", "b", "public"],
      mint: ["c"],
      self_service: false,
    });
    expect((await t.as(t.robot, "GET", mine)).json).toMatchObject({
      email: null,
      is_admin: false,
      read: ["public"],
      mint: ["c"],
    });
    expect((await asAdmin("GET", mine)).json).toMatchObject({
      is_admin: true,
      read: ["public"],
    });
  });
});

describe("groups", () => {
  it("are created (201, then 200), listed newest first, and deleted with their members (204, 404)", async () => {
    const first = await asAdmin("POST", groups, { name: "on call" });
    expect(first.status).toBe(201);
    expect(first.json).toMatchObject({ name: "on call", created_by: "admin@example.com" });
    const again = await asAdmin("POST", groups, { name: "on call" });
    expect([again.status, again.json]).toEqual([200, first.json]);
    await asAdmin("POST", `${groups}/on%20call/members`, { member: "*" });
    const listed = (await asAdmin("GET", groups)).json.map((row: { name: string }) => row.name);
    expect(listed).toEqual(["on call", "admins"]);
    expect((await asAdmin("DELETE", `${groups}/on%20call`)).status).toBe(204);
    expect((await asAdmin("DELETE", `${groups}/on%20call`)).json.code).toBe("NOT_FOUND");
    expect(await t.web.count("select count(*) n from group_members where group_name = 'on call'")).toBe(0);
  });

  it("have members that are added (201, then 200), listed and removed (204, then 404)", async () => {
    await asAdmin("POST", groups, { name: "team" });
    const path = `${groups}/team/members`;
    const first = await asAdmin("POST", path, { member: "user:Ann@Example.com" });
    expect(first.status).toBe(201);
    expect(first.json).toMatchObject({
      member: "user:ann@example.com",
      created_by: "admin@example.com",
    });
    const again = await asAdmin("POST", path, { member: "user:ANN@example.com" });
    expect([again.status, again.json]).toEqual([200, first.json]);
    await asAdmin("POST", path, { member: "*" });
    const members = (await asAdmin("GET", path)).json.map((row: { member: string }) => row.member);
    expect(members).toEqual(["*", "user:ann@example.com"]);
    expect((await asAdmin("GET", `${path}?limit=1&offset=1`)).json).toHaveLength(1);
    expect((await asAdmin("DELETE", `${path}?member=user:ann@EXAMPLE.com`)).status).toBe(204);
    expect((await asAdmin("DELETE", `${path}?member=user:ann@example.com`)).json.code).toBe("NOT_FOUND");
  });

  it("take their grants along, so that a new group of the name inherits none of them", async () => {
    await asAdmin("POST", groups, { name: "crew" });
    await asAdmin("POST", groups, { name: "crew-2" });
    for (const [audience, kind, member] of [
      ["deck", "read", "group:crew"],
      ["deck", "mint", "group:crew"],
      ["hull", "read", "group:crew"],
      ["deck", "read", "group:crew-2"],
      ["deck", "read", "user:crew@example.com"],
    ]) {
      expect((await asAdmin("POST", grants, { audience, kind, member })).status).toBe(201);
    }
    expect((await asAdmin("DELETE", `${groups}/crew`)).status).toBe(204);
    const left = (await asAdmin("GET", grants)).json.map((row: { member: string }) => row.member);
    expect(left.toSorted()).toEqual(["*", "group:crew-2", "user:crew@example.com"]);
    const entries = (await asAdmin("GET", `${audit}?limit=4`)).json;
    expect(entries.map((entry: { action: string }) => entry.action)).toEqual([
      "group.delete",
      "grant.delete",
      "grant.delete",
      "grant.delete",
    ]);
    expect(entries.map((entry: { target: string }) => entry.target).toSorted()).toEqual([
      "crew",
      "deck/mint/group:crew",
      "deck/read/group:crew",
      "hull/read/group:crew",
    ]);
    expect(entries[1]).toMatchObject({
      actor: "admin@example.com",
      details: { because: "its group was deleted", from: "127.0.0.1" },
    });
    await asAdmin("POST", groups, { name: "crew" });
    await asAdmin("POST", `${groups}/crew/members`, { member: "user:ann@example.com" });
    expect((await t.as(t.ann, "GET", mine)).json).toMatchObject({
      read: ["public"],
      mint: [],
    });
  });

  it("that are being deleted take a new grant along, or it is refused", async () => {
    for (let round = 0; round < 10; round++) {
      await asAdmin("POST", groups, { name: "brief" });
      const [granted, deleted] = await Promise.all([
        asAdmin("POST", grants, { audience: "racing", kind: "read", member: "group:brief" }),
        asAdmin("DELETE", `${groups}/brief`),
      ]);
      expect(deleted.status).toBe(204);
      expect([201, 400]).toContain(granted.status);
      const actions = (await asAdmin("GET", `${audit}?limit=3`)).json
        .map((entry: { action: string }) => entry.action)
        .toReversed();
      expect(actions.slice(granted.status === 201 ? 0 : 1)).toEqual(
        granted.status === 201 ? ["grant.create", "grant.delete", "group.delete"] : ["group.create", "group.delete"],
      );
      expect((await asAdmin("GET", `${grants}?member=group:brief`)).json).toEqual([]);
    }
  });

  it("leave in the audit whom they had when they were deleted", async () => {
    await asAdmin("POST", groups, { name: "night" });
    for (const member of ["user:ann@example.com", "*"]) {
      await asAdmin("POST", `${groups}/night/members`, { member });
    }
    expect((await asAdmin("DELETE", `${groups}/night`)).status).toBe(204);
    const [last, ...before] = (await asAdmin("GET", `${audit}?limit=3`)).json;
    expect(last).toMatchObject({ action: "group.delete", target: "night" });
    const gone = { action: "group.remove_member", target: "night" };
    expect(before).toHaveLength(2);
    for (const member of ["user:ann@example.com", "*"]) {
      expect(before).toContainEqual(
        expect.objectContaining({
          ...gone,
          details: expect.objectContaining({ member, because: "its group was deleted" }),
        }),
      );
    }
  });

  it("that do not exist are 404 for every use of their members", async () => {
    const path = `${groups}/nobody/members`;
    for (const answer of [
      await asAdmin("GET", path),
      await asAdmin("POST", path, { member: "*" }),
      await asAdmin("DELETE", `${path}?member=*`),
    ]) {
      expect([answer.status, answer.json.code]).toEqual([404, "NOT_FOUND"]);
    }
  });

  it.each(["", ".", "..", "a/b", " a", "a ", "a\n", "a\u0000", "\u001ba", "a\u007f", "x".repeat(256)])(
    "refuse the name %j",
    async (name) => {
      expect((await asAdmin("POST", groups, { name })).json.code).toBe("BAD_REQUEST");
    },
  );

  it.each(["group:team", "key:0a1b2c3d-0000-4000-8000-000000000000", "ann@example.com", "user:ann"])(
    "refuse the member %j",
    async (member) => {
      const answer = await asAdmin("POST", `${groups}/admins/members`, { member });
      expect(answer.json.message).toMatch(/member must be user:<email> or \*/);
    },
  );

  it("named admins cannot be deleted", async () => {
    expect((await asAdmin("DELETE", `${groups}/admins`)).json.code).toBe("CONFLICT");
    expect((await asAdmin("DELETE", `${groups}/%61dmins`)).json.code).toBe("CONFLICT");
    expect(await t.web.count("select count(*) n from group_members where group_name = 'admins'")).toBe(1);
  });

  it("named admins keep their last member, also when the last two are removed at once", async () => {
    const path = `${groups}/admins/members`;
    expect((await asAdmin("DELETE", `${path}?member=user:admin@example.com`)).json.code).toBe("CONFLICT");
    for (let round = 0; round < 10; round++) {
      await setAdmins(t.web.database, ["admin@example.com", "other@example.com"]);
      const answers = await Promise.all(
        ["admin", "other"].map((name) => asAdmin("DELETE", `${path}?member=user:${name}@example.com`)),
      );
      const left = await t.web.count("select count(*) n from group_members where group_name = 'admins'");
      expect([left, answers.filter(({ status }) => status === 204).length]).toEqual([1, 1]);
    }
  });

  it("change who is admin at once", async () => {
    expect((await t.as(t.ann, "GET", groups)).status).toBe(403);
    await asAdmin("POST", `${groups}/admins/members`, { member: "user:ann@example.com" });
    expect((await t.as(t.ann, "GET", groups)).status).toBe(200);
    await t.as(t.ann, "DELETE", `${groups}/admins/members?member=user:admin@example.com`);
    expect((await asAdmin("GET", groups)).status).toBe(403);
  });
});

it.each([
  ["POST", grants],
  ["GET", grants],
  ["DELETE", `${grants}?audience=public&kind=read&member=*`],
  ["POST", groups],
  ["GET", groups],
  ["DELETE", `${groups}/admins`],
  ["POST", `${groups}/admins/members`],
  ["GET", `${groups}/admins/members`],
  ["DELETE", `${groups}/admins/members?member=*`],
  ["GET", audit],
])("%s %s is for admins only, whatever the request says", async (method, path) => {
  const body = method === "POST" ? { nonsense: true } : undefined;
  const answer = await t.as(t.ann, method, path, body);
  expect([answer.status, answer.json.code]).toEqual([403, "FORBIDDEN"]);
});
