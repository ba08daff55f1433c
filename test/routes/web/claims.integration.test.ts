/** Who may mint into which audience: grants, claims of new audiences, and the bounds on both. */
import { createHash } from "node:crypto";

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { ofThisDatabase } from "../../helpers/postgres/locks.js";
import { until } from "../../helpers/until.js";
import { routes, useWeb } from "../../helpers/web/web-fixture.js";
import type { TestWeb, WebAnswer } from "../../helpers/web/web-server.js";

const t = useWeb({ SVC_SELF_SERVICE_MINT: "true" });
beforeEach(t.reset);

/** Over the same database, with self-service minting as it is by default: off. */
let closed: TestWeb;
beforeAll(async () => {
  closed = await t.beside();
});
afterAll(() => closed.stop());

const { mint } = t;

const outcome = ({ status, json }: WebAnswer): string =>
  status === 201 ? `201 ${json.claimed ? "claimed" : "minted"}` : `${status} ${json.code}`;

const grants = async (audience: string): Promise<string[]> => {
  const rows = await t.web.database.sql<{ kind: string; member: string; created_by: string }[]>`
    select kind, member, created_by from audience_grants where audience = ${audience}
    order by kind`;
  return rows.map((row) => `${row.kind} ${row.member} by ${row.created_by}`);
};

describe("a matching mint grant, or a brand-new audience", () => {
  it("a member of a mint grant mints: by email, by group, by wildcard", async () => {
    const { sql } = t.web.database;
    await t.grant("by-email", "mint", "user:Ann@Example.com");
    await t.grant("by-group", "mint", "group:team");
    await t.grant("by-open-group", "mint", "group:open");
    await t.grant("by-wildcard", "mint", "*");
    await sql`insert into groups (name, created_by) values ('team', 'test'), ('open', 'test')`;
    await sql`
      insert into group_members (group_name, member, created_by)
      values ('team', 'user:ann@example.com', 'test'), ('open', '*', 'test')`;
    const results: string[] = [];
    for (const audience of ["by-email", "by-group", "by-open-group", "by-wildcard"]) {
      for (const caller of [t.ann, t.bob, t.robot]) {
        results.push(outcome(await mint(caller, { audience })).slice(0, 3));
      }
    }
    await sql`delete from groups where name <> 'admins'`;
    // Ann, Bob and somebody without an email, who matches neither user: nor group: members.
    expect(results).toEqual(
      ["201 403 403", "201 403 403", "201 201 403", "201 201 201"].flatMap((row) => row.split(" ")),
    );
  });

  it("a read grant is no mint grant", async () => {
    await t.grant("readable", "read", "user:ann@example.com");
    expect(outcome(await mint(t.ann, { audience: "readable" }))).toBe("403 FORBIDDEN");
  });

  it.each([
    [
      "has a grant of somebody else",
      "insert into audience_grants values ('taken', 'mint', 'user:x@y.z', now(), 'test')",
    ],
    ["has a read grant only", "insert into audience_grants values ('taken', 'read', '*', now(), 'test')"],
    [
      "has a key",
      "insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience) values (gen_random_uuid(), sha256('1'), 'k', 'x', 'taken')",
    ],
    [
      "has a revoked key",
      "insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience, revoked_at) values (gen_random_uuid(), sha256('2'), 'k', 'x', 'taken', now())",
    ],
  ])("an audience that %s is 403 for everyone without a grant, admins included", async (_what, statement) => {
    await t.web.database.sql.unsafe(statement);
    for (const caller of [t.ann, t.admin, t.robot]) {
      const answer = await mint(caller, { audience: "taken" });
      expect(outcome(answer)).toBe("403 FORBIDDEN");
      expect(answer.json.message).toMatch(/audience taken is taken by somebody else, and you hold no mint grant/);
    }
  });

  it("audiences compare with their case", async () => {
    expect(outcome(await mint(t.ann, { audience: "Case" }))).toBe("201 claimed");
    expect(outcome(await mint(t.bob, { audience: "case" }))).toBe("201 claimed");
    expect(outcome(await mint(t.bob, { audience: "Case" }))).toBe("403 FORBIDDEN");
  });
});

describe("the lazy claim", () => {
  it("writes the key, both grants of the caller and its audit in one transaction, and says claimed", async () => {
    expect(outcome(await mint(t.ann, { audience: "whole" }))).toBe("201 claimed");
    expect(await grants("whole")).toEqual([
      "mint user:ann@example.com by ann@example.com",
      "read user:ann@example.com by ann@example.com",
    ]);
    const [written] = await t.web.database.sql`
      select count(*)::int as rows, count(distinct x)::int as transactions from (
        select xmin::text as x from ingestion_api_keys where audience = 'whole'
        union all select xmin::text from audience_grants where audience = 'whole'
        union all select xmin::text from audit_log
          where target = 'whole' or details ->> 'audience' = 'whole') t`;
    expect(written).toEqual({ rows: 5, transactions: 1 });
  });

  it("is claimed once: the owner's next mint is not, others are 403, admins too", async () => {
    expect(outcome(await mint(t.ann, { audience: "fresh" }))).toBe("201 claimed");
    expect(outcome(await mint(t.ann, { audience: "fresh" }))).toBe("201 minted");
    expect(outcome(await mint(t.bob, { audience: "fresh" }))).toBe("403 FORBIDDEN");
    expect(outcome(await mint(t.admin, { audience: "fresh" }))).toBe("403 FORBIDDEN");
    expect(await grants("fresh")).toHaveLength(2);
  });

  it("works for admins, with no bypass where a grant is needed", async () => {
    expect(outcome(await mint(t.admin, { audience: "of-admin" }))).toBe("201 claimed");
    expect(outcome(await mint(t.admin, { audience: "of-admin" }))).toBe("201 minted");
  });

  it("does not come again when the grants are gone but a key was minted", async () => {
    await mint(t.ann, { audience: "fresh" });
    await t.web.database.sql`delete from audience_grants where audience = 'fresh'`;
    expect(outcome(await mint(t.ann, { audience: "fresh" }))).toBe("403 FORBIDDEN");
  });

  it("is 403 without an email, but minting under a grant goes", async () => {
    const answer = await mint(t.robot, { audience: "fresh" });
    expect(outcome(answer)).toBe("403 FORBIDDEN");
    expect(answer.json.message).toMatch(/email/);
    const unverified = await t.identities.cookie("ann@example.com", { email_verified: false });
    expect(outcome(await mint(unverified, { audience: "fresh" }))).toBe("403 FORBIDDEN");
    await t.grant("fresh", "mint", "*");
    expect(outcome(await mint(t.robot, { audience: "fresh" }))).toBe("201 minted");
  });

  it("is never of public, the default audience, or the one unstamped rows are read as", async () => {
    const house = await t.beside({
      SVC_SELF_SERVICE_MINT: "true",
      SVC_DEFAULT_AUDIENCE: "house",
      SVC_UNSTAMPED_AUDIENCE: "legacy",
    });
    await t.web.database.sql`delete from audience_grants where audience = 'public'`;
    for (const body of [{ audience: "public" }, { audience: "house" }, { audience: "legacy" }, {}]) {
      for (const caller of [t.ann, t.admin]) {
        const answer = await mint(caller, body, house);
        expect(outcome(answer)).toBe("403 FORBIDDEN");
        expect(answer.json.message).toMatch(/cannot be claimed/);
      }
    }
    await house.stop();
    await t.web.database.sql`
      insert into audience_grants values ('public', 'read', '*', now(), 'migration')`;
  });
});

describe("the self-service switch", () => {
  it("is off by default: 403 for non-admins, with a grant and without", async () => {
    await t.grant("granted", "mint", "user:ann@example.com");
    for (const audience of ["granted", "fresh"]) {
      const answer = await mint(t.ann, { audience }, closed);
      expect(outcome(answer)).toBe("403 FORBIDDEN");
      expect(answer.json.message).toMatch(/self-service/);
    }
    expect(await grants("fresh")).toEqual([]);
  });

  it("exempts admins, from the switch only", async () => {
    await t.grant("others", "mint", "user:ann@example.com");
    expect(outcome(await mint(t.admin, { audience: "fresh" }, closed))).toBe("201 claimed");
    expect(outcome(await mint(t.admin, { audience: "others" }, closed))).toBe("403 FORBIDDEN");
  });

  it("counts everybody as admin while admins holds its seeded wildcard", async () => {
    await t.web.database.sql`
      insert into group_members (group_name, member, created_by) values ('admins', '*', 'test')`;
    expect(outcome(await mint(t.ann, { audience: "fresh" }, closed))).toBe("201 claimed");
    expect(outcome(await mint(t.robot, { audience: "fresh-2" }, closed))).toBe("403 FORBIDDEN");
  });
});

describe("user_audience", () => {
  it("composes the audience from the caller's email prefix and the suffix", async () => {
    const dotted = await t.identities.cookie("Ann.B+Test@example.com");
    const answer = await mint(dotted, { user_audience: "laptop" });
    expect(outcome(answer)).toBe("201 claimed");
    expect(answer.json.audience).toBe("ann-b-test-laptop");
  });

  it("is 400 beside audience, malformed, or too long together", async () => {
    const long = await t.identities.cookie(`${"a".repeat(60)}@example.com`);
    for (const [cookie, body] of [
      [t.ann, { user_audience: "x", audience: "y" }],
      [t.ann, { user_audience: "" }],
      [t.ann, { user_audience: "a b" }],
      [t.ann, { user_audience: "x\n" }],
      [long, { user_audience: "x".repeat(195) }],
    ] as const) {
      expect(outcome(await mint(cookie, body))).toBe("400 BAD_REQUEST");
    }
    expect(outcome(await mint(long, { user_audience: "x".repeat(194) }))).toBe("201 claimed");
  });

  it("is 403 for a caller without an email, and where another owns the name", async () => {
    expect(outcome(await mint(t.robot, { user_audience: "x" }))).toBe("403 FORBIDDEN");
    const namesake = await t.identities.cookie("ann@elsewhere.example");
    expect(outcome(await mint(t.ann, { user_audience: "x" }))).toBe("201 claimed");
    expect(outcome(await mint(namesake, { user_audience: "x" }))).toBe("403 FORBIDDEN");
  });

  it("lets nobody into the audience of somebody whose email composes the same name", async () => {
    const dot = await t.identities.cookie("a.b@x.example");
    const dash = await t.identities.cookie("a-b@y.example");
    expect(outcome(await mint(dot, { user_audience: "ci" }))).toBe("201 claimed");
    const refused = await mint(dash, { user_audience: "ci" });
    expect(outcome(refused)).toBe("403 FORBIDDEN");
    expect(refused.json.message).toMatch(/audience a-b-ci is taken by somebody else/);
    expect(outcome(await mint(dash, { audience: "a-b-ci" }))).toBe("403 FORBIDDEN");
    const mine = async (cookie: string): Promise<Record<string, unknown>> =>
      (await t.web.request("GET", routes.mine, { cookie })).json;
    expect(await mine(dash)).toMatchObject({ read: ["public"], mint: [] });
    expect(await mine(dot)).toMatchObject({ read: ["a-b-ci", "public"], mint: ["a-b-ci"] });
  });

  it("takes null for an audience that is left out", async () => {
    await t.grant("public", "mint", "user:ann@example.com");
    for (const body of [{ audience: null }, { audience: null, user_audience: null }]) {
      const answer = await mint(t.ann, body);
      expect([answer.status, answer.json.audience]).toEqual([201, "public"]);
    }
    const answer = await mint(t.ann, { audience: null, user_audience: "x" });
    expect([answer.status, answer.json.audience]).toEqual([201, "ann-x"]);
  });
});

describe("bounds of a caller", () => {
  let bounded: TestWeb;

  beforeAll(async () => {
    bounded = await t.beside({
      SVC_SELF_SERVICE_MINT: "true",
      SVC_SELF_SERVICE_MAX_CLAIMS_PER_CALLER: "3",
      SVC_SELF_SERVICE_MAX_KEYS_PER_CALLER: "5",
    });
  });
  afterAll(() => bounded.stop());

  it("claims: 403 beyond the bound, exactly, however many come at once; admins have none", async () => {
    const results = await Promise.all(
      Array.from({ length: 5 }, (_, i) => mint(t.ann, { audience: `claim-${i}` }, bounded)),
    );
    expect(results.map(outcome).toSorted()).toEqual([
      ...Array<string>(3).fill("201 claimed"),
      ...Array<string>(2).fill("403 FORBIDDEN"),
    ]);
    expect(outcome(await mint(t.bob, { audience: "of-bob" }, bounded))).toBe("201 claimed");
    for (let i = 0; i < 4; i++) {
      const answer = await mint(t.admin, { audience: `admin-${i}` }, bounded);
      expect(outcome(answer)).toBe("201 claimed");
    }
  });

  it("live keys: 403 beyond the bound, exactly, and a revoked key makes room", async () => {
    await t.grant("shared", "mint", "*");
    const results = await Promise.all(Array.from({ length: 12 }, () => mint(t.ann, { audience: "shared" }, bounded)));
    expect(results.filter(({ status }) => status === 201)).toHaveLength(5);
    const refused = results.find(({ status }) => status !== 201);
    expect(refused?.json).toMatchObject({ code: "FORBIDDEN" });
    const keyId = results.find(({ status }) => status === 201)?.json.key_id;
    await bounded.request("DELETE", `${routes.ingestion}/${keyId}`, { cookie: t.admin });
    expect(outcome(await mint(t.ann, { audience: "shared" }, bounded))).toBe("201 minted");
    expect(outcome(await mint(t.ann, { audience: "shared" }, bounded))).toBe("403 FORBIDDEN");
  });

  it("are 25 claims and 100 live keys by default", async () => {
    await t.web.database.sql`
      insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience)
      select gen_random_uuid(), sha256(i::text::bytea), 'k', 'bob@example.com', 'other'
      from generate_series(1, 99) i`;
    await t.grant("shared", "mint", "*");
    expect(outcome(await mint(t.bob, { audience: "shared" }))).toBe("201 minted");
    expect(outcome(await mint(t.bob, { audience: "shared" }))).toBe("403 FORBIDDEN");
    await t.web.database.sql`
      insert into audience_grants (audience, kind, member, created_by)
      select 'c-' || i, 'mint', 'user:ann@example.com', 'ann@example.com'
      from generate_series(1, 24) i`;
    expect(outcome(await mint(t.ann, { audience: "claim-25" }))).toBe("201 claimed");
    expect(outcome(await mint(t.ann, { audience: "claim-26" }))).toBe("403 FORBIDDEN");
  });
});

describe("contention", () => {
  /** As src/admin/locks.ts makes it. */
  const lockOf = (kind: string, name: string): bigint =>
    createHash("sha256").update(`telemetry-service ${kind}\0${name}`).digest().readBigInt64BE(0);

  it("is 409 CLAIM_CONTENDED while another process holds the audience's lock; a retry succeeds", async () => {
    const key = lockOf("audience", "contended");
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let locked = (): void => undefined;
    const ready = new Promise<void>((resolve) => {
      locked = resolve;
    });
    const holding = t.web.database.sql.begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(${key}::bigint)`;
      locked();
      await held;
    });
    await ready;
    const answer = await mint(t.ann, { audience: "contended" });
    release();
    await holding;
    expect(outcome(answer)).toBe("409 CLAIM_CONTENDED");
    expect(await grants("contended")).toEqual([]);
    expect(await t.web.count("select count(*) n from ingestion_api_keys")).toBe(0);
    expect(outcome(await mint(t.ann, { audience: "contended" }))).toBe("201 claimed");
  });

  it("a grant that lands while the claim waits for its caller's lock is a lost recheck: 403", async () => {
    const callerKey = lockOf("caller", "ann@example.com");
    let claim: Promise<WebAnswer> | null = null;
    await t.web.database.sql.begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(${callerKey}::bigint)`;
      claim = mint(t.ann, { audience: "lost" });
      // The claim has passed its first check once it waits for the lock.
      await until(async () => {
        const [waiting] = await t.web.database.sql<{ n: number }[]>`
          select count(*)::int as n from pg_locks
          where locktype = 'advisory' and not granted and ${ofThisDatabase(t.web.database.sql)}`;
        return (waiting?.n ?? 0) > 0;
      });
      await t.grant("lost", "mint", "user:bob@example.com");
    });
    expect(outcome(await (claim as unknown as Promise<WebAnswer>))).toBe("403 FORBIDDEN");
    expect(await grants("lost")).toEqual(["mint user:bob@example.com by test"]);
    expect(await t.web.count("select count(*) n from ingestion_api_keys")).toBe(0);
  });

  it("of many callers of one process who claim one name exactly one gets it", async () => {
    const cookies = await Promise.all(Array.from({ length: 40 }, (_, i) => t.identities.cookie(`c${i}@example.com`)));
    const answers = await Promise.all(cookies.map((cookie) => mint(cookie, { audience: "one" })));
    const outcomes = answers.map(outcome);
    expect(outcomes.filter((text) => text === "201 claimed")).toHaveLength(1);
    expect(new Set(outcomes)).toEqual(new Set(["201 claimed", "403 FORBIDDEN"]));
    expect(await grants("one")).toHaveLength(2);
  });
});
