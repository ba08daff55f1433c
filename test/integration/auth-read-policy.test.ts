import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { anonymousPrincipal, type Principal } from "../../src/auth/principal.js";
import { createReadPolicy, type ReadPolicy } from "../../src/auth/read-policy.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { metricValue } from "../helpers/auth-fixture.js";
import { startTcpProxy, type TcpProxy } from "../helpers/auth-tcp-proxy.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres.js";

const ann: Principal = {
  kind: "oidc",
  keyId: null,
  subject: "1",
  email: "ann@example.com",
  audience: null,
};
const key: Principal = { ...ann, kind: "analytics_key", keyId: "k", subject: null, email: null };

let db: TestDatabase;
let proxy: TcpProxy;
let sql: Sql;
let metrics: Metrics;
let nowMs: number;
let policy: ReadPolicy | undefined;

beforeEach(async () => {
  db = await createTestDatabase();
  proxy = await startTcpProxy(db.connectionString);
  metrics = createMetrics();
  nowMs = 0;
  sql = connect({
    connectionString: proxy.connectionString,
    maxConnections: 1,
    applicationName: "read policy",
    logger: createSilentLogger(),
  });
});
afterEach(async () => {
  await policy?.stop();
  await sql.end({ timeout: 1 });
  await proxy.stop();
  await db.drop();
});

function start(statementTimeoutMs = 20_000): ReadPolicy {
  policy = createReadPolicy({
    sql,
    ttlMs: 60_000,
    unstampedAudience: "public",
    logger: createSilentLogger(),
    metrics,
    clock: () => nowMs,
    statementTimeoutMs,
  });
  return policy;
}

async function readable(policy: ReadPolicy, principal: Principal): Promise<string[]> {
  const answer = await policy.readAudiences(principal);
  return answer.kind === "some" ? [...answer.audiences].toSorted() : ["ALL"];
}

const grant = async (audience: string, member: string): Promise<void> => {
  await db.sql`
    insert into audience_grants (audience, kind, member, created_by)
    values (${audience}, 'read', ${member}, 'me')`;
};

describe("the read policy over the database", () => {
  it("starts with what a fresh deployment holds: public for everyone, everyone admin", async () => {
    const policy = start();
    expect(await readable(policy, ann)).toEqual(["public"]);
    expect(await policy.readAudiences(key)).toMatchObject({ unstamped: true });
    expect(await policy.isAdmin(key)).toBe(true);
  });

  it("lets everything be read and done when authentication is disabled, without a grant", async () => {
    await proxy.refuse();
    const policy = start();
    expect(await policy.readAudiences(anonymousPrincipal)).toEqual({ kind: "all" });
    expect(await policy.isAdmin(anonymousPrincipal)).toBe(true);
  });

  it("sees changed grants and groups within the TTL, and mint grants never", async () => {
    const policy = start();
    expect(await readable(policy, ann)).toEqual(["public"]);
    await grant("secret", "user:ann@example.com");
    await db.sql`
      insert into audience_grants (audience, kind, member, created_by)
      values ('minted', 'mint', '*', 'me')`;
    await db.sql`delete from audience_grants where audience = 'public'`;
    await db.sql`update group_members set member = 'user:boss@example.com'`;
    nowMs = 59_999;
    expect(await readable(policy, ann)).toEqual(["public"]);
    expect(await policy.isAdmin(ann)).toBe(true);
    nowMs = 60_000;
    expect(await readable(policy, ann)).toEqual(["secret"]);
    expect(await policy.isAdmin(ann)).toBe(false);
    expect(await policy.isAdmin({ ...ann, email: "Boss@Example.com" })).toBe(true);
  });

  it("serves the last good snapshot through an outage, shows its age, and recovers", async () => {
    const policy = start();
    // The load of the start has to be over, or the next question joins it and its age.
    expect(await readable(policy, ann)).toEqual(["public"]);
    await grant("secret", "user:ann@example.com");
    nowMs = 60_000;
    expect(await readable(policy, ann)).toContain("secret");
    await proxy.refuse();
    nowMs = 600_000;
    expect(await readable(policy, ann)).toContain("secret");
    expect(await metricValue(metrics, "auth_snapshot_age_seconds")).toBe(540);
    expect(await metricValue(metrics, "db_api_key_error_count", { table: "audience_grants" })).toBe(
      1,
    );
    await db.sql`delete from audience_grants where audience = 'secret'`;
    await proxy.restore();
    let seen = await readable(policy, ann);
    while (seen.includes("secret")) {
      nowMs += 1000;
      await sleep(10);
      seen = await readable(policy, ann);
    }
    expect(seen).toEqual(["public"]);
    // The load went on beside the questions, while this test moved the clock by seconds.
    expect(await metricValue(metrics, "auth_snapshot_age_seconds")).toBeLessThan(60);
  });

  it.each(["refuse", "hang"] as const)(
    "fails closed while there never was a snapshot, and opens when there is (%s)",
    async (mode) => {
      await proxy[mode]();
      // Short only where something hangs: elsewhere it would be an assertion about this machine.
      const policy = start(mode === "hang" ? 1500 : 20_000);
      await expect(policy.readAudiences(ann)).rejects.toMatchObject({ code: "UNAVAILABLE" });
      await expect(policy.isAdmin(ann)).rejects.toMatchObject({ code: "UNAVAILABLE" });
      await proxy.restore();
      const attempt = async (): Promise<string[] | null> => {
        try {
          return await readable(policy, ann);
        } catch {
          nowMs += 1000;
          await sleep(10);
          return null;
        }
      };
      let seen = await attempt();
      while (seen === null) seen = await attempt();
      expect(seen).toEqual(["public"]);
    },
  );
});
