import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { afterEach, beforeEach, expect, test } from "vitest";

import { assertSchemaVersion, migrate, schemaVersion } from "../../src/db/migrations.js";
import { connect, sqlState } from "../../src/db/sql.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { createLogger, createSilentLogger } from "../../src/runtime/log/log.js";
import { createRoleLogin } from "../helpers/auth/auth-roles.js";
import { failure } from "../helpers/failure.js";
import { ofThisDatabase } from "../helpers/postgres/locks.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { describeSchema } from "../helpers/postgres/schema.js";
import { until } from "../helpers/until.js";

const logger = createSilentLogger();
const dbChild = fileURLToPath(new URL("../helpers/postgres/db-child.js", import.meta.url));
const migrations = new URL("../../../migrations/", import.meta.url);

let db: TestDatabase;
let scratch: string;
beforeEach(async () => {
  db = await createTestDatabase({ migrate: false });
  scratch = await mkdtemp(path.join(tmpdir(), "tsvc-migrations-"));
});
afterEach(async () => {
  await db.drop();
  await rm(scratch, { recursive: true, force: true });
});

async function stateOf(promise: PromiseLike<unknown>): Promise<string | null> {
  return sqlState(await failure(promise));
}

function migrateInChild(connectionString: string): Promise<unknown> {
  const child = spawn(process.execPath, [dbChild, "migrate", connectionString], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", () => resolve(JSON.parse(output)));
  });
}

/** A folder of migrations that starts with the real ones. */
async function copyOfMigrations(extra: Readonly<Record<string, string>>): Promise<URL> {
  await cp(migrations, scratch, { recursive: true });
  for (const [name, text] of Object.entries(extra)) {
    await writeFile(path.join(scratch, name), text);
  }
  return pathToFileURL(`${scratch}/`);
}

test("the folder of migrations ends at the version that the code names", async () => {
  const numbers = (await readdir(migrations)).flatMap((name) => {
    const digits = /^(\d{4})_.*\.sql$/u.exec(name)?.[1];
    return digits === undefined ? [] : [Number(digits)];
  });
  expect(Math.max(...numbers)).toBe(schemaVersion);
});

test("the schema is the one in the snapshot", async () => {
  await migrate(db.sql, logger);
  const snapshot = new URL("../../../test/db/schema.snapshot.sql", import.meta.url);
  await expect(await describeSchema(db.sql)).toMatchFileSnapshot(fileURLToPath(snapshot));
});

test("an empty database is migrated once, and a second run finds nothing to do", async () => {
  expect(await migrate(db.sql, logger)).toEqual({ from: 0, to: schemaVersion });
  expect(await migrate(db.sql, logger)).toEqual({ from: schemaVersion, to: schemaVersion });
  expect(await assertSchemaVersion(db.sql)).toBe(schemaVersion);
});

test("a fresh database is one line of the log, an upgrade one more for each step", async () => {
  const lines: string[] = [];
  const told = createLogger({ level: "info", service: "test", destination: { write: (line) => lines.push(line) } });
  await migrate(db.sql, told);
  expect(lines).toEqual([expect.stringContaining("migrating the database schema")]);
  const directory = await copyOfMigrations({ [`${fileNumber(1)}_good.sql`]: "create table good (id integer);" });
  await migrate(db.sql, told, { directory });
  expect(lines.slice(1)).toEqual([
    expect.stringContaining("migrating the database schema"),
    expect.stringContaining(`"file":"${fileNumber(1)}_good.sql"`),
  ]);
});

test("a login that may not migrate says who has to", async () => {
  await migrate(db.sql, logger);
  const login = await createRoleLogin(db.sql, db.connectionString, "ingestion");
  const sql = connect({ connectionString: login.connectionString, maxConnections: 1, applicationName: "test", logger });
  try {
    const directory = await copyOfMigrations({
      [`${fileNumber(1)}_more.sql`]: "alter table blocks add column more integer;",
    });
    await expect(migrate(sql, logger, { directory })).rejects.toMatchObject({
      code: "NOT_CONFIGURED",
      message:
        "The schema public has to be migrated, which this login may not do (must be owner of table blocks): start an ingestion server of this release once as the owner of the database, then run migrations/roles/*.sql as the owner (docs/deploy.md#upgrade).",
    });
  } finally {
    await sql.end({ timeout: 5 });
    await login.drop();
  }
});

test("of several processes that migrate at once, one does it and the others find it done", async () => {
  const results = await Promise.all(Array.from({ length: 4 }, () => migrateInChild(db.connectionString)));
  const done = { from: schemaVersion, to: schemaVersion };
  expect(results.filter((r) => JSON.stringify(r) !== JSON.stringify(done))).toEqual([{ from: 0, to: schemaVersion }]);
  const versions = await db.sql<{ version: number }[]>`select version from schema_version`;
  expect(versions.map((row) => row.version)).toHaveLength(schemaVersion);
});

test("pools of one process that migrate at once do not get into each other's way", async () => {
  const results = await Promise.all([migrate(db.sql, logger), migrate(db.sql, logger)]);
  expect(results.map((r) => r.from).toSorted((a, b) => a - b)).toEqual([0, schemaVersion]);
});

test("a schema newer than the code is refused, by the runner and by servers that only check", async () => {
  await migrate(db.sql, logger);
  await db.sql`insert into schema_version (version, name) values (${schemaVersion + 1}, 'later.sql')`;
  for (const attempt of [() => migrate(db.sql, logger), () => assertSchemaVersion(db.sql)]) {
    const error = await failure(attempt());
    expect(error).toBeInstanceOf(ServiceError);
    expect(error.message).toContain(
      `schema version ${schemaVersion + 1}, and this program knows versions up to ${schemaVersion}: `,
    );
  }
});

test("a server that only checks refuses a missing and an older schema, and says what to start", async () => {
  expect((await failure(assertSchemaVersion(db.sql))).message).toContain(
    `has no schema yet, and this program needs version ${schemaVersion}: start the ingestion server`,
  );
  await migrate(db.sql, logger);
  await db.sql`delete from schema_version where version > 6`;
  expect((await failure(assertSchemaVersion(db.sql))).message).toMatch(/has schema version 6, /u);
});

/** Number of a file that many versions after the present one. */
function fileNumber(after: number): string {
  return String(schemaVersion + after).padStart(4, "0");
}

test("a migration that fails leaves nothing of itself, keeps those before it, and frees the lock", async () => {
  const directory = await copyOfMigrations({
    [`${fileNumber(1)}_good.sql`]: "create table good (id integer);",
    [`${fileNumber(2)}_bad.sql`]: "create table half (id integer); select no_such_function();",
  });
  expect(await stateOf(migrate(db.sql, logger, { directory }))).toBe("42883");
  const [row] = await db.sql`
    select max(version) as version, to_regclass('good')::text as good, to_regclass('half') as half
    from schema_version`;
  expect(row).toEqual({ version: schemaVersion + 1, good: "good", half: null });
  await rm(path.join(scratch, `${fileNumber(2)}_bad.sql`));
  expect(await migrate(db.sql, logger, { directory })).toEqual({
    from: schemaVersion + 1,
    to: schemaVersion + 1,
  });
  const locks = await db.sql`select from pg_locks where locktype = 'advisory' and ${ofThisDatabase(db.sql)}`;
  expect(locks).toHaveLength(0);
});

test("a process that is killed while it migrates leaves the database to the next one, whatever a session may take", async () => {
  const directory = await copyOfMigrations({ [`${fileNumber(1)}_long.sql`]: "select pg_sleep(600);" });
  const [{ name } = { name: "" }] = await db.sql<{ name: string }[]>`select current_database() as name`;
  for (const timeout of ["statement_timeout", "lock_timeout", "transaction_timeout"]) {
    await db.sql.unsafe(`alter database ${name} set ${timeout} = '1s'`);
  }
  const child = spawn(process.execPath, [dbChild, "migrate", db.connectionString, directory.href], { stdio: "ignore" });
  const closed = once(child, "close");
  await until(async () => {
    const sleeping = await db.sql`
      select from pg_stat_activity
      where datname = ${name} and wait_event = 'PgSleep' and query_start < clock_timestamp() - interval '2 seconds'`;
    return sleeping.length === 1;
  });
  child.kill("SIGKILL");
  await closed;
  await rm(path.join(scratch, `${fileNumber(1)}_long.sql`));
  expect(await migrate(db.sql, logger, { directory })).toEqual({ from: schemaVersion, to: schemaVersion });
});

test("a database that cannot hold every text, or has other tables of these names, is refused with what to do", async () => {
  await db.sql`create table groups (id integer)`;
  const shared = await failure(migrate(db.sql, logger));
  expect(shared).toBeInstanceOf(ServiceError);
  expect(shared.message).toBe(
    'The telemetry database has tables of something else (relation "groups" already exists): give the service a database of its own.',
  );
  const latin = await createTestDatabase({ encoding: "LATIN1" });
  try {
    expect((await failure(migrate(latin.sql, logger))).message).toContain("has the encoding LATIN1, ");
    const [row] = await latin.sql`select to_regclass('schema_version') as version`;
    expect(row).toEqual({ version: null });
  } finally {
    await latin.drop();
  }
});

test("migrations with a gap in their numbers are refused before anything is applied", async () => {
  const directory = await copyOfMigrations({ [`${fileNumber(2)}_after_a_gap.sql`]: "select 1" });
  expect((await failure(migrate(db.sql, logger, { directory }))).message).toContain(
    `version ${schemaVersion + 1} is missing`,
  );
  expect((await failure(assertSchemaVersion(db.sql))).message).toMatch(/no schema yet/u);
});

test("rows written under earlier versions survive the later ones with the documented meaning", async () => {
  const all = (await readdir(migrations)).filter((name) => name.endsWith(".sql")).toSorted();
  const upTo = async (version: number): Promise<void> => {
    for (const name of all.slice(0, version)) {
      await cp(new URL(name, migrations), path.join(scratch, name));
    }
    await migrate(db.sql, logger, { directory: pathToFileURL(`${scratch}/`) });
  };
  await upTo(2);
  await db.sql`
    insert into lakehouse_partitions
      (partition_id, view_set, path, file_bytes, min_insert_time, max_insert_time, level)
    values (gen_random_uuid(), 'log_entries', 'a.parquet', 1, now(), now(), 0)`;
  await db.sql`
    insert into streams (stream_id, process_id, signal)
    values (gen_random_uuid(), gen_random_uuid(), 1)`;
  await upTo(5);
  await db.sql`
    insert into ingestion_api_keys (key_id, key_hash, name, created_by)
    values (gen_random_uuid(), sha256('old'), 'old', 'me@example.com')`;
  await upTo(15);
  await db.sql`
    insert into api_key_usage (key_id, hour, requests)
    select gen_random_uuid(), h, 1 from unnest(array['2026-01-01T00:00:00Z', '2031-05-31T23:00:00Z']::timestamptz[]) as h`;
  await upTo(schemaVersion);
  // What comes later is added up with it, in whatever partition it is.
  await db.sql`
    insert into api_key_usage as u (key_id, hour, requests)
    select key_id, hour, 1 from api_key_usage union all select gen_random_uuid(), '2031-06-01T00:00:00Z', 1
    on conflict (key_id, hour) do update set requests = u.requests + excluded.requests`;
  const usage = await db.sql<{ at: string; requests: number; place: string }[]>`
    select to_char(hour at time zone 'UTC', 'YYYY-MM') as at, requests::int as requests, tableoid::regclass::text as place
    from api_key_usage order by hour`;
  expect(usage).toEqual([
    { at: "2026-01", requests: 2, place: "api_key_usage_past" },
    { at: "2031-05", requests: 2, place: "api_key_usage_past" },
    { at: "2031-06", requests: 1, place: "api_key_usage_rest" },
  ]);
  const [key] = await db.sql`select audience from ingestion_api_keys`;
  expect(key).toEqual({ audience: "public" });
  const [partition] = await db.sql`select row_count, sort_order from lakehouse_partitions`;
  expect(partition).toEqual({ row_count: 0n, sort_order: "" });
  const [stream] = await db.sql`select format from streams`;
  expect(stream).toEqual({ format: "otlp" });
});

test("a fresh schema lets everybody read the public audience and administer, until that is changed", async () => {
  await migrate(db.sql, logger);
  expect(await db.sql`select audience, kind, member from audience_grants`).toEqual([
    { audience: "public", kind: "read", member: "*" },
  ]);
  expect(await db.sql`select group_name, member from group_members`).toEqual([{ group_name: "admins", member: "*" }]);
});

test("a first migration that is told an administrator makes that one the only one, and a later one changes nothing", async () => {
  await migrate(db.sql, logger, { bootstrapAdmin: "user:Ann@Example.com" });
  const members = () => db.sql`select group_name, member, created_by from group_members`;
  const seeded = [{ group_name: "admins", member: "user:ann@example.com", created_by: "migration" }];
  expect(await members()).toEqual(seeded);
  await migrate(db.sql, logger, { bootstrapAdmin: "user:bob@example.com" });
  expect(await members()).toEqual(seeded);
});

test("the audit log takes rows and gives none up", async () => {
  await migrate(db.sql, logger);
  await db.sql`insert into audit_log (actor, action, target) values ('a@b', 'key.mint', 'x')`;
  for (const statement of [
    "update audit_log set actor = 'somebody else'",
    "delete from audit_log",
    "delete from audit_log where false",
    "truncate audit_log",
  ]) {
    expect([statement, await stateOf(db.sql.unsafe(statement))]).toEqual([statement, "42501"]);
  }
  expect(await db.sql`select actor from audit_log`).toEqual([{ actor: "a@b" }]);
});

test("the schema itself refuses names, audiences, grants and hashes out of bounds", async () => {
  await migrate(db.sql, logger);
  const key = (o: { name?: string; hashBytes?: number; audience?: string | null }) => db.sql`
    insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience)
    values (gen_random_uuid(), ${Buffer.alloc(o.hashBytes ?? 32)}, ${o.name ?? "n"}, 'me',
      ${o.audience === undefined ? "public" : o.audience})`;
  const grant = (kind: string, member: string) => db.sql`
    insert into audience_grants (audience, kind, member, created_by)
    values ('team', ${kind}, ${member}, 'me')`;
  const check = "23514";
  expect(await stateOf(key({ name: "" }))).toBe(check);
  // 128 characters of two bytes: within 255 characters, beyond 255 bytes.
  expect(await stateOf(key({ name: "é".repeat(128) }))).toBe(check);
  expect(await stateOf(key({ hashBytes: 31 }))).toBe(check);
  expect(await stateOf(key({ audience: "a b" }))).toBe(check);
  expect(await stateOf(key({ audience: "a\n" }))).toBe(check);
  expect(await stateOf(key({ audience: "" }))).toBe(check);
  expect(await stateOf(key({ audience: "a".repeat(256) }))).toBe("22001");
  expect(await stateOf(key({ audience: null }))).toBe("23502");
  expect(await stateOf(grant("write", "*"))).toBe(check);
  expect(await stateOf(grant("read", "alice"))).toBe(check);
  expect(await stateOf(grant("read", "user:"))).toBe(check);
  const member = "key:00000000-0000-4000-8000-000000000000";
  expect(await stateOf(grant("mint", member))).toBe(check);
  await grant("read", member);
  await key({});
  expect(await stateOf(key({}))).toBe("23505");
});

test("pruning among ten thousand partitions reads the index and only the minute that was asked for", async () => {
  await migrate(db.sql, logger);
  await db.sql`
    insert into lakehouse_partitions
      (partition_id, view_set, audience, path, file_bytes, row_count, min_time_ns, max_time_ns,
       min_insert_time, max_insert_time, level, schema_hash, sort_order)
    select gen_random_uuid(), 'log_entries', 'public', 'p' || n, 1, 1,
      n * 60000000000, (n + 1) * 60000000000 - 1, now(), now(), 1, '', 'time'
    from generate_series(1, 10000) as n`;
  await db.sql`analyze lakehouse_partitions`;
  const begin = 9_000n * 60_000_000_000n;
  const [row] = await db.sql<{ "QUERY PLAN": { Plan: PlanNode }[] }[]>`
    explain (format json, analyze, timing off)
    select path from lakehouse_partitions
    where view_set = 'log_entries' and (audience = any(${["public", "team"]}))
      and max_time_ns >= ${begin} and min_time_ns < ${begin + 60_000_000_000n}`;
  const plan = row?.["QUERY PLAN"][0]?.Plan;
  expect(plan?.["Actual Rows"]).toBe(1);
  expect(JSON.stringify(plan)).toContain("lakehouse_partitions_pruning");
  expect(JSON.stringify(plan)).not.toContain("Seq Scan");
});

interface PlanNode {
  readonly "Actual Rows": number;
}
