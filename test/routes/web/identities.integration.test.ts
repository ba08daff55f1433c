/** Whose name an identity token gives its bearer: emails and subjects that look like somebody else's. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { routes, useWeb } from "../../helpers/web/web-fixture.js";
import {
  type Identities,
  setAdmins,
  startIdentities,
  type TestWeb,
  type WebAnswer,
} from "../../helpers/web/web-server.js";

/** Reads like `kate@x.com`, and folds to it by the rules of Unicode. */
const kelvin = "\u212Aate@x.com";

const environment = { SVC_SELF_SERVICE_MINT: "true", SVC_SELF_SERVICE_MAX_KEYS_PER_CALLER: "1" };
const t = useWeb(environment);
beforeEach(t.reset);

const audiences = async (cookie: string): Promise<Record<string, unknown>> =>
  (await t.as(cookie, "GET", routes.mine)).json;

describe("emails", () => {
  it("that fold to somebody's by Unicode alone get none of her grants, groups and rights", async () => {
    await setAdmins(t.web.database, ["kate@x.com"]);
    await t.grant("hers", "read", "user:kate@x.com");
    await t.grant("hers", "mint", "user:kate@x.com");
    const stranger = await t.identities.cookie(kelvin);
    expect(await audiences(stranger)).toMatchObject({
      email: kelvin,
      is_admin: false,
      read: ["public"],
      mint: [],
    });
    expect((await t.mint(stranger, { audience: "hers" })).status).toBe(403);
  });

  it("of members written by hand are not folded into somebody else's by the database", async () => {
    await t.web.database.sql`update group_members set member = ${`user:${kelvin}`}`;
    await t.grant("theirs", "read", `user:${kelvin}`);
    await t.grant("theirs", "mint", `user:${kelvin}`);
    const kate = await t.identities.cookie("kate@x.com");
    expect(await audiences(kate)).toMatchObject({ is_admin: false, read: ["public"], mint: [] });
    expect((await t.mint(kate, { audience: "theirs" })).status).toBe(403);
  });

  it("compare without regard to the case of ASCII letters, in tokens and members alike", async () => {
    await t.web.database.sql`update group_members set member = 'user:KATE@x.com'`;
    await t.grant("hers", "read", "user:kAte@X.com");
    expect(await audiences(await t.identities.cookie("Kate@X.COM"))).toMatchObject({
      email: "kate@x.com",
      is_admin: true,
      read: ["hers", "public"],
    });
  });

  it.each([["ann"], ["ann@x.com "], ["ann@x@y.com"], ["ann\ud800@x.com"], ["@"]])(
    "of another form, such as %j, are no emails",
    async (email) => {
      const cookie = await t.identities.cookie("", { sub: "somebody", email });
      expect(await audiences(cookie)).toMatchObject({ email: null });
    },
  );

  it("count up to 255 bytes, so that what they are written into has room for them", async () => {
    const of = (n: number): Promise<string> => t.identities.cookie(`${"漢".repeat(n)}@x.io`, { sub: "han" });
    expect((await t.mint(await of(83), { audience: "han" })).json).toMatchObject({ claimed: true });
    const longer = await of(168);
    expect(await audiences(longer)).toMatchObject({ email: null });
    expect((await t.mint(longer, { audience: "longer" })).status).toBe(403);
  });

  it.each([[false], ["false"], ["False"], [0], [1], [null], [[]], [{}], [""], ["no"]])(
    "do not count with email_verified %j",
    async (email_verified) => {
      await t.grant("hers", "read", "user:kate@x.com");
      const cookie = await t.identities.cookie("kate@x.com", { email_verified });
      expect(await audiences(cookie)).toMatchObject({ email: null, read: ["public"] });
    },
  );

  it.each([[true], ["true"], ["True"], [undefined]])("count with email_verified %j", async (email_verified) => {
    const cookie = await t.identities.cookie("kate@x.com", { email_verified });
    expect(await audiences(cookie)).toMatchObject({ email: "kate@x.com" });
  });
});

describe("a subject that reads like somebody's email", () => {
  it("shares neither that person's name in the records nor the bound on keys", async () => {
    await t.grant("open", "mint", "*");
    const impostor = await t.identities.anonymousCookie("kate@x.com");
    const kate = await t.identities.cookie("kate@x.com");
    expect((await t.mint(impostor, { audience: "open" })).status).toBe(201);
    expect((await t.mint(impostor, { audience: "open" })).status).toBe(403);
    expect((await t.mint(kate, { audience: "open" })).status).toBe(201);
    const rows = await t.web.database.sql<{ created_by: string; actor: string }[]>`
      select k.created_by, a.actor from ingestion_api_keys k
      join audit_log a on a.target = k.key_id::text order by k.created_at`;
    expect(rows.map((row) => [row.created_by, row.actor])).toEqual([
      ["subject kate@x.com", "subject kate@x.com"],
      ["kate@x.com", "kate@x.com"],
    ]);
  });

  it("keeps a name of its own when it is as long as a name may be", async () => {
    await t.grant("open", "mint", "*");
    const long = (end: string): string => `${"x".repeat(254 - end.length)}@${end}`;
    for (const end of ["a", "b"]) {
      expect((await t.mint(await t.identities.anonymousCookie(long(end)), { audience: "open" })).status).toBe(201);
    }
  });
});

describe("with several issuers", () => {
  let others: Identities;
  let both: TestWeb;
  beforeAll(async () => {
    others = await startIdentities();
    const issuers = [t.identities, others].flatMap(
      ({ config }) => (JSON.parse(config) as { issuers: unknown[] }).issuers,
    );
    both = await t.beside({ ...environment, SVC_OIDC_CONFIG: JSON.stringify({ issuers }) });
  });
  afterAll(async () => {
    await both.stop();
    await others.stop();
  });

  const nameOf = (identities: Identities): string => `issuer ${identities.provider.issuer} subject twin`;

  it("a subject of one is nobody of another: screens, keys, their usage and the audit tell them apart", async () => {
    await t.grant("open", "mint", "*");
    const twins = [t.identities, others];
    const [hers = "", his = ""] = await Promise.all(twins.map((identities) => identities.anonymousCookie("twin")));
    const put = async (cookie: string, version: number): Promise<WebAnswer> =>
      both.request("PUT", "/api/screens/hers", { cookie, body: { config: {}, version } });
    expect(await put(hers, 0)).toMatchObject({ status: 201, json: { owner: nameOf(t.identities) } });
    expect((await put(his, 1)).status).toBe(403);
    // One key each is the bound.
    const { key_id } = (await t.mint(hers, { audience: "open" }, both)).json as { key_id: string };
    expect((await t.mint(his, { audience: "open" }, both)).status).toBe(201);
    const { sql } = t.web.database;
    await sql`insert into api_key_usage (key_id, hour, requests, bytes, records)
      values (${key_id}, '2026-01-01T10:00:00Z', 1, 1, 1)`;
    const usage = async (cookie: string): Promise<unknown> =>
      (await both.request("GET", "/api/usage?begin=2026-01-01T00:00:00Z&end=2026-01-02T00:00:00Z", { cookie })).json;
    expect(await usage(hers)).toMatchObject([{ key_id }]);
    expect(await usage(his)).toEqual([]);
    const rows = await sql`
      select actor, details ->> 'issuer' as issuer, details ->> 'subject' as subject
      from audit_log where action = 'key.mint' order by audit_id desc limit 2`;
    expect(rows).toEqual(
      twins
        .map((identities) => ({ actor: nameOf(identities), issuer: identities.provider.issuer, subject: "twin" }))
        .toReversed(),
    );
  });

  it("an email that counts is one person, whichever vouches for it", async () => {
    for (const identities of [t.identities, others]) {
      const cookie = await identities.cookie("kate@x.com", { sub: "kate" });
      const answer = await both.request("GET", "/auth/me", { cookie });
      expect(answer.json).toMatchObject({ email: "kate@x.com", name: "kate@x.com" });
    }
  });
});

describe("an identity token", () => {
  const me = async (claims: Record<string, unknown>): Promise<WebAnswer> =>
    t.web.request("GET", "/auth/me", { cookie: await t.identities.cookie("kate@x.com", claims) });

  it.each([[1e308], [8.64e12], [253_402_300_800]])(
    "that expires beyond the last date there is (%d) is refused with 401",
    async (exp) => {
      const answer = await me({ exp });
      expect([answer.status, answer.json.code]).toEqual([401, "UNAUTHENTICATED"]);
    },
  );

  it("that expires at the end of the year 9999 is taken, and says so", async () => {
    const answer = await me({ exp: 253_402_300_799 });
    expect([answer.status, answer.json.expires_at]).toEqual([200, "9999-12-31T23:59:59.000Z"]);
  });

  it("may name its audience in a list of one", async () => {
    const { clientId } = t.identities.provider;
    expect((await me({ aud: [clientId] })).status).toBe(200);
    expect((await me({ aud: [clientId, "other"] })).status).toBe(401);
    expect((await me({ aud: [["other"]] })).status).toBe(401);
    expect((await me({ aud: [] })).status).toBe(401);
  });

  it("that was issued to another client is refused", async () => {
    const { clientId } = t.identities.provider;
    expect((await me({ azp: clientId })).status).toBe(200);
    expect((await me({ azp: "other" })).status).toBe(401);
    expect((await me({ azp: [clientId] })).status).toBe(401);
  });
});
