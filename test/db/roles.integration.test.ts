import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createKeyAuthenticator } from "../../src/auth/keys/key-authenticator.js";
import { type KeyTable, mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { createReadPolicy } from "../../src/auth/grants/read-policy.js";
import { anonymousPrincipal } from "../../src/auth/principal.js";
import { authStartRefusal } from "../../src/auth/keys/startup.js";
import { readUsage } from "../../src/query/usage.js";
import { connect, type Sql, sqlState } from "../../src/db/sql.js";
import { assertSchemaVersion, migrateWeb } from "../../src/db/migrations.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createRoleLogin, type DatabaseRole, type RoleLogin } from "../helpers/auth/auth-roles.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

type Role = DatabaseRole;
const roles: readonly Role[] = ["ingestion", "analytics", "web"];
const logger = createSilentLogger();

let db: TestDatabase;
const logins = new Map<Role, { sql: Sql; login: RoleLogin }>();

beforeAll(async () => {
  db = await createTestDatabase();
  for (const role of roles) {
    const login = await createRoleLogin(db.sql, db.connectionString, role);
    const sql = connect({
      connectionString: login.connectionString,
      maxConnections: 1,
      applicationName: role,
      logger,
    });
    logins.set(role, { sql, login });
  }
});

afterAll(async () => {
  for (const { sql, login } of logins.values()) {
    await sql.end({ timeout: 5 });
    await login.drop();
  }
  await db.drop();
});

function as(role: Role): Sql {
  const login = logins.get(role);
  if (login === undefined) {
    throw new Error(role);
  }
  return login.sql;
}

async function isRefused(sql: Sql, statement: string): Promise<boolean> {
  try {
    await sql.begin(async (tx) => {
      await tx.unsafe(statement);
      throw new Error("undo");
    });
  } catch (error) {
    return sqlState(error) === "42501";
  }
  return false;
}

const keyStore = (sql: Sql, table: KeyTable): ReturnType<typeof createKeyAuthenticator> =>
  createKeyAuthenticator({
    sql,
    table,
    cacheSize: 10,
    cacheTtlMs: 60_000,
    unknownCacheSize: 10,
    unknownCacheTtlMs: 10_000,
    logger,
    metrics: createMetrics(),
  });

/** What each role may do beyond reading the schema version; everything else is tried and refused. */
const allowed: Record<Role, readonly string[]> = {
  ingestion: [
    "ingestion_api_keys: select",
    "ingestion_api_keys: update last_used_at",
    ...["processes", "streams", "blocks", "lakehouse_partitions", "retired_objects"].flatMap((table) => [
      `${table}: select`,
      `${table}: insert`,
      `${table}: delete`,
    ]),
    "lakehouse_partitions: update rollup_path",
    "lakehouse_partitions: update rollup_bytes",
    "lakehouse_partitions: update min_insert_time",
    "api_key_usage: select",
    "api_key_usage: insert",
    "api_key_usage: update",
    "retention_overrides: select",
    "lake_tasks: select",
    ...[
      "state",
      "rows_removed",
      "objects_rewritten",
      "objects_removed",
      "report",
      "error",
      "started_at",
      "finished_at",
    ].map((column) => `lake_tasks: update ${column}`),
    "lost_partitions: select",
    "lost_partitions: insert",
    "lost_partitions: delete",
    "lake_state: select",
    ...["seen_at", "hold_until", "marked", "retention_days", "retention_seen_at"].map(
      (column) => `lake_state: update ${column}`,
    ),
  ],
  analytics: [
    "analytics_api_keys: select",
    "analytics_api_keys: update last_used_at",
    "api_key_usage: select",
    "ingestion_key_names: select",
    ...["audience_grants", "groups", "group_members", "processes", "streams", "blocks"].map(
      (table) => `${table}: select`,
    ),
    ...["lakehouse_partitions", "query_denials", "query_log"].flatMap((table) => [
      `${table}: select`,
      `${table}: insert`,
      `${table}: delete`,
    ]),
    "retired_objects: select",
    "retired_objects: insert",
    "audit_log: insert",
  ],
  web: [
    ...["ingestion_api_keys", "analytics_api_keys"].flatMap((table) => [
      `${table}: select`,
      `${table}: insert`,
      `${table}: update revoked_at`,
      `${table}: update revoked_by`,
    ]),
    ...["audience_grants", "groups", "group_members"].flatMap((table) => [
      `${table}: select`,
      `${table}: insert`,
      `${table}: delete`,
    ]),
    "api_key_usage: select",
    "audit_log: select",
    "audit_log: insert",
    "retention_overrides: select",
    "retention_overrides: insert",
    "retention_overrides: update",
    "retention_overrides: delete",
    "lake_tasks: select",
    "lake_tasks: insert",
    ...["retention_days", "retention_seen_at", "hold_until"].map((column) => `lake_state: select ${column}`),
  ],
};

describe("separate database roles", () => {
  it.each(roles)("give %s exactly the rights listed for it", async (role) => {
    const name = logins.get(role)?.login.name ?? "";
    const rows = await db.sql<{ right: string }[]>`
      with tables as (
        select c.oid, c.relname::text as name from pg_class c
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v')
      )
      select t.name || ': ' || lower(p) as right
      from tables t, unnest(array['SELECT','INSERT','UPDATE','DELETE','TRUNCATE','TRIGGER','REFERENCES']) p
      where has_table_privilege(${name}, t.oid, p)
      union all
      select t.name || ': ' || lower(p) || ' ' || a.attname
      from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped,
        unnest(array['SELECT','INSERT','UPDATE','REFERENCES']) p
      where has_column_privilege(${name}, t.oid, a.attnum, p) and not has_table_privilege(${name}, t.oid, p)`;
    expect(rows.map((row) => row.right).toSorted()).toEqual([...allowed[role], "schema_version: select"].toSorted());
  });

  it.each([
    ["ingestion", "ingestion_api_keys"],
    ["analytics", "analytics_api_keys"],
  ] as const)("let the %s server check keys and record their use", async (role, table) => {
    const sql = as(role);
    const minted =
      table === "ingestion_api_keys"
        ? await mintIngestionKey(db.sql, { name: "k", audience: "a", createdBy: "me" })
        : await mintAnalyticsKey(db.sql, { name: "k", createdBy: "me" });
    await assertSchemaVersion(sql);
    expect(await authStartRefusal({ sql, table, oidcConfigured: false })).toBeNull();
    const keys = keyStore(sql, table);
    expect(await keys.authenticate(`Bearer ${minted.key}`)).toMatchObject({ kind: "ok" });
    await keys.stop();
    const [row] = await db.sql<{ used: boolean }[]>`
      select last_used_at is not null as used from ${db.sql(table)} where key_id = ${minted.keyId}`;
    expect(row?.used).toBe(true);
  });

  it("let the analytics server read grants and groups", async () => {
    const policy = createReadPolicy({
      sql: as("analytics"),
      ttlMs: 60_000,
      unstampedAudience: "public",
      logger,
      metrics: createMetrics(),
    });
    const caller = { ...anonymousPrincipal, kind: "oidc", issuer: "i", subject: "s", name: "s" } as const;
    expect(await policy.readAudiences(caller)).toMatchObject({ audiences: new Set(["public"]) });
    expect(await policy.isAdmin(caller)).toBe(true);
    await policy.stop();
  });

  it("let the analytics server read what ingestion keys were used for, under their names", async () => {
    const { keyId } = await mintIngestionKey(db.sql, { name: "named", audience: "a", createdBy: "me" });
    await db.sql`insert into api_key_usage (key_id, hour, requests) values (${keyId}, '2026-01-01T10:00:00Z', 1)`;
    const rows: unknown[] = [];
    const audiences = { kind: "some", audiences: new Set(["a"]), unstamped: false } as const;
    const query = { audiences, minTimeNs: undefined, maxTimeNs: undefined };
    for await (const some of readUsage(as("analytics"), query)) {
      rows.push(...some);
    }
    expect(rows).toMatchObject([{ keyId, keyName: "named", audience: "a" }]);
  });

  it("take back what the role file of an earlier release gave", async () => {
    await db.sql`grant select (key_id, name, audience) on ingestion_api_keys to telemetry_analytics`;
    await db.sql`grant select on lost_partitions to telemetry_analytics`;
    const reads = ["select name from ingestion_api_keys", "select path from lost_partitions"];
    const refused = () => Promise.all(reads.map((sql) => isRefused(as("analytics"), sql)));
    expect(await refused()).toEqual([false, false]);
    await (await createRoleLogin(db.sql, db.connectionString, "analytics")).drop();
    expect(await refused()).toEqual([true, true]);
  });

  it("take back what a restore without the roles leaves to everybody", async () => {
    const statement = "select drop_key_usage('2000-01-01')";
    await db.sql`grant execute on function prepare_key_usage(), drop_key_usage(timestamptz) to public`;
    expect(await isRefused(as("web"), statement)).toBe(false);
    await (await createRoleLogin(db.sql, db.connectionString, "ingestion")).drop();
    expect(await isRefused(as("web"), statement)).toBe(true);
    expect(await isRefused(as("ingestion"), statement)).toBe(false);
  });

  it("let the web server mint, list and revoke keys and change grants", async () => {
    const sql = as("web");
    const key = await mintIngestionKey(sql, { name: "w", audience: "a", createdBy: "me" });
    await mintAnalyticsKey(sql, { name: "w", createdBy: "me" });
    const revoked = await sql`
      update ingestion_api_keys set revoked_at = now(), revoked_by = 'me'
      where key_id = ${key.keyId} and revoked_at is null returning revoked_at`;
    expect(revoked.length).toBe(1);
    await sql`
      insert into audience_grants (audience, kind, member, created_by)
      values ('a', 'read', 'user:x@y.z', 'me')`;
    await sql`delete from audience_grants where audience = 'a'`;
    await sql`insert into audit_log (actor, action, target) values ('me', 'key.mint', 'k')`;
  });

  describe("with an owner who is no superuser", () => {
    let other: TestDatabase;
    let owner = "";

    beforeEach(async () => {
      other = await createTestDatabase();
      owner = `test_owner_${randomBytes(4).toString("hex")}`;
      await other.sql.unsafe(`create role ${owner} login createrole password 'p'`);
      // What Postgres gives to whom has made the role.
      await other.sql.unsafe(`grant telemetry_web to ${owner} with admin true, set false, inherit false`);
      const [{ name } = { name: "" }] = await other.sql<{ name: string }[]>`select current_database() as name`;
      await other.sql.unsafe(`alter database ${name} owner to ${owner}`);
    });

    afterEach(async () => {
      await other.drop();
      await db.sql.unsafe(`drop role ${owner}`);
    });

    const runAsOwner = (...statements: string[]): Promise<unknown> =>
      other.sql.begin(async (tx) => {
        await tx.unsafe(`set local role ${owner}`);
        for (const statement of statements) {
          await tx.unsafe(statement);
        }
      });

    const fileOf = (name: string): Promise<string> =>
      readFile(new URL(`../../../migrations/${name}`, import.meta.url), "utf8");

    /** The end of the file, which is about these tables. */
    const ownTables = async (): Promise<string> =>
      /-- The owner of the database[^]*$/u.exec(await fileOf("roles/web.sql"))?.[0] ?? "";

    const asWebServer = async (work: (sql: Sql) => Promise<void>): Promise<void> => {
      const login = await createRoleLogin(other.sql, other.connectionString, "web");
      const sql = connect({
        connectionString: login.connectionString,
        maxConnections: 1,
        applicationName: "web",
        logger,
      });
      await migrateWeb(sql, logger);
      await work(sql);
      await sql.end({ timeout: 5 });
      await login.drop();
    };

    it("let that one read the tables of the web server, as a backup does", async () => {
      await runAsOwner(await ownTables());
      await asWebServer(async (sql) => {
        await sql`insert into web.folders (name, created_by) values ('f', 'me')`;
      });
      const reading = runAsOwner("lock table web.schema_version in access share mode", "select name from web.folders");
      await expect(reading).resolves.toBeUndefined();
    });

    it("make tables of the web server its own that another login has made", async () => {
      await runAsOwner(
        await fileOf("web/0001_web.sql"),
        "insert into web.schema_version values (1, '0001_web.sql')",
        await ownTables(),
        // Who gave them away has not lost them.
        "insert into web.folders (name, created_by) values ('f', 'me')",
      );
      await asWebServer(async (sql) => {
        expect(await sql`select name from web.folders`).toEqual([{ name: "f" }]);
        await sql`alter table web.folders add column later text`;
      });
    });
  });

  it("make Postgres refuse what would give a server away", async () => {
    const attempts: readonly [Role, string][] = [
      ["ingestion", "select from analytics_api_keys"],
      ["ingestion", "update ingestion_api_keys set revoked_at = null"],
      ["ingestion", "update ingestion_api_keys set audience = 'other'"],
      ["ingestion", "delete from ingestion_api_keys"],
      ["ingestion", "select from audience_grants"],
      ["ingestion", "create table stolen (x int)"],
      ["analytics", "select from ingestion_api_keys"],
      ["analytics", "insert into audience_grants values ('a', 'read', '*', now(), 'me')"],
      ["analytics", "insert into group_members values ('admins', '*', now(), 'me')"],
      ["analytics", "delete from processes"],
      ["web", "update ingestion_api_keys set key_hash = ''"],
      ["web", "update ingestion_api_keys set audience = 'other'"],
      ["web", "delete from analytics_api_keys"],
      ["web", "delete from audit_log"],
      ["web", "select from processes"],
    ];
    const letThrough: string[] = [];
    for (const [role, statement] of attempts) {
      if (!(await isRefused(as(role), statement))) {
        letThrough.push(`${role}: ${statement}`);
      }
    }
    expect(letThrough).toEqual([]);
  });
});
