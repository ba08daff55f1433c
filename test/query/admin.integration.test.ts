import { access, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";

import { status } from "@grpc/grpc-js";
import { afterEach, beforeAll, describe, expect, it } from "vitest";

import { staticKey } from "telemetry-service-client";
import { connect } from "telemetry-service-client";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { sweepRetired } from "../../src/lake/retire.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { adminFunctions } from "../../src/query/sql/admin-functions.js";
import { quoteText } from "../../src/runtime/text/sql-text.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { connectRows } from "../helpers/flight/flight-rows.js";
import { addPartition } from "../helpers/lake/lake.js";
import { until } from "../helpers/until.js";
import { endless } from "../helpers/query/endless.js";
import { noon } from "../helpers/noon.js";

const processA = "01234567-89ab-cdef-0123-456789abcdef";
const hour = 3_600_000_000_000n;

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

/** While this runs nobody is admin: `admins` has lost its seeded `*`. */
async function withoutAdmins<T>(body: () => Promise<T>): Promise<T> {
  await t.sql`delete from group_members where group_name = 'admins'`;
  try {
    return await body();
  } finally {
    await t.sql`insert into group_members (group_name, member, created_by) values ('admins', '*', 'test')`;
  }
}

async function addLogs(audience: string | null, from: bigint, processIds?: readonly string[]) {
  return addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience,
    ...(processIds === undefined ? {} : { processIds }),
    rowsSql: `SELECT make_timestamp_ns(${from} + i) AS time, 'm' AS msg FROM range(10) t(i)`,
  });
}

async function pathsLeft(): Promise<string[]> {
  const rows = await t.sql<{ path: string }[]>`select path from lakehouse_partitions order by path`;
  return rows.map((row) => row.path);
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

describe("a caller who is not admin", () => {
  it("gets for every admin function and for query_log the answer for an unknown name", async () => {
    await withoutAdmins(async () => {
      const unknown = await t.caller.failure("SELECT * FROM no_such_function(1, now())");
      const unknownScalar = await t.caller.failure("SELECT no_such_function(1)");
      for (const name of Object.keys(adminFunctions)) {
        for (const call of [
          `SELECT * FROM ${name}(1, now())`,
          `SELECT * FROM ${name.toUpperCase()}(1, now())`,
          `DESCRIBE SELECT * FROM ${name}(1, now())`,
          `WITH a AS (SELECT * FROM main.${name}(1, now())) SELECT * FROM a`,
        ]) {
          const refused = await t.caller.failure(call);
          expect(refused.message.toLowerCase()).toBe(unknown.message.replace("no_such_function", name).toLowerCase());
          expect(refused.status).toBe(unknown.status);
        }
        expect(await t.caller.failure(`SELECT ${name}(1)`)).toEqual({
          status: unknownScalar.status,
          message: unknownScalar.message.replace("no_such_function", name),
        });
      }
      const table = await t.caller.failure("SELECT * FROM no_such_table");
      expect(table.message).not.toContain("query_log");
      for (const name of ["query_log", '"QUERY_LOG"']) {
        expect((await t.caller.failure(`SELECT * FROM ${name}`)).message.toLowerCase()).toBe(
          table.message.replace("no_such_table", "query_log").toLowerCase(),
        );
      }
      const names = await t.caller.rows(
        "SELECT view_set AS n FROM list_view_sets() UNION ALL SELECT name FROM (SHOW TABLES)",
      );
      expect(names.map((row) => row["n"])).not.toContain("query_log");
    });
  });

  it("gets it also for a text that an admin has just had inspected", async () => {
    const sql = "SELECT count(*) AS n FROM query_log WHERE sql = 'not there'";
    expect(await t.caller.rows(sql)).toEqual([{ n: 0n }]);
    await withoutAdmins(async () => {
      expect((await t.caller.failure(sql)).message).toContain("There is no table");
    });
  });
});

describe("partition functions", () => {
  afterEach(async () => {
    await t.sql`delete from lakehouse_partitions`;
    await t.sql`delete from retired_objects`;
  });

  it("retire what lies within the range, of readable audiences, and never more", async () => {
    const inside = await addLogs("public", noon);
    await addLogs("public", noon + 2n * hour);
    await addLogs("secret", noon);
    const unstamped = await addLogs(null, noon);
    const before = await pathsLeft();
    const gone = await t.caller.rows(
      "SELECT path, row_count FROM retire_partitions('log_entries', 'global', '2025-11-21T12:00:00Z', '2025-11-21T13:00:00Z')",
    );
    const expected = [inside, unstamped].map(({ path: file }) => path.relative(t.lake.directory, file));
    expect(gone.map((row) => row["path"])).toEqual(expected.toSorted());
    expect(await pathsLeft()).toEqual(before.filter((one) => !expected.includes(one)));
    expect(await t.caller.rows("SELECT count(*) AS n FROM log_entries")).toEqual([{ n: 10n }]);
  });

  it("leave in the audit who took how much away, and nothing where it was nothing", async () => {
    const { path: file } = await addLogs("public", noon);
    const relative = path.relative(t.lake.directory, file);
    const [before] = await t.sql<{ n: number }[]>`select count(*)::int as n from audit_log`;
    await t.caller.rows("SELECT * FROM apply_retention('log_entries', 36500)");
    await t.caller.rows(`SELECT * FROM retire_partition_by_file('${relative}')`);
    await addLogs("public", noon);
    await t.caller.rows("SELECT * FROM retire_partitions('log_entries', 'global', '2025-11-21', '2025-11-22')");
    const audited =
      await t.sql`select actor, action, target, details from audit_log order by audit_id offset ${before?.n ?? 0}`;
    const entry = { actor: `key:${t.keyId}`, action: "partitions.retire" };
    expect(audited).toEqual([
      {
        ...entry,
        target: relative,
        details: {
          function: "retire_partition_by_file",
          path: relative,
          partitions: "1",
          rows: "10",
          from: "127.0.0.1",
        },
      },
      {
        ...entry,
        target: "log_entries",
        details: {
          function: "retire_partitions",
          view: "log_entries",
          instance: "global",
          begin: "1763683200000000000",
          end: "1763769600000000000",
          partitions: "1",
          rows: "10",
          from: "127.0.0.1",
        },
      },
    ]);
  });

  it("leave a partition that reaches beyond the range", async () => {
    await addLogs("public", noon);
    for (const [begin, end] of [
      [noon + 1n, noon + hour],
      [noon, noon + 9n],
    ]) {
      expect(
        await t.caller.rows(
          `SELECT * FROM retire_partitions('log_entries', 'global', make_timestamp_ns(${begin}), make_timestamp_ns(${end}))`,
        ),
      ).toEqual([]);
    }
  });

  it("retire an instance only where a partition holds nothing else", async () => {
    const alone = await addLogs("public", noon, [processA]);
    await addLogs("public", noon, [processA, "11111111-89ab-cdef-0123-456789abcdef"]);
    const gone = await t.caller.rows(
      `SELECT path FROM retire_partitions('log_entries', '${processA}', '2025-01-01', '2026-01-01')`,
    );
    expect(gone).toEqual([{ path: path.relative(t.lake.directory, alone.path) }]);
  });

  it("retire by exact bounds, by file and by age", async () => {
    const first = await addLogs("public", noon);
    await addLogs("public", noon + hour);
    await addLogs("public", BigInt(Date.now()) * 1_000_000n);
    const bounds = (begin: bigint, end: bigint): string =>
      `SELECT path FROM retire_partition_by_metadata('log_entries', 'global', make_timestamp_ns(${begin}), make_timestamp_ns(${end}))`;
    expect(await t.caller.rows(bounds(noon, noon + 8n))).toEqual([]);
    expect(await t.caller.rows(bounds(noon + hour, noon + hour + 9n))).toHaveLength(1);
    const relative = path.relative(t.lake.directory, first.path);
    const listed = await t.caller.rows("SELECT path FROM list_partitions() ORDER BY begin_time");
    expect(listed[0]).toEqual({ path: relative });
    expect(await t.caller.rows(`SELECT view_set FROM retire_partition_by_file('${relative}')`)).toEqual([
      { view_set: "log_entries" },
    ]);
    await addLogs("other", noon);
    const [another] = await t.sql<{ path: string }[]>`select path from lakehouse_partitions where audience = 'other'`;
    for (const unknown of [relative, another?.path ?? "", ""]) {
      await expect(t.caller.rows(`SELECT * FROM retire_partition_by_file('${unknown}')`)).rejects.toMatchObject({
        code: "NOT_FOUND",
      });
    }
    await t.sql`delete from lakehouse_partitions where audience = 'other'`;
    const old = await addLogs("public", noon - 24n * hour);
    expect(await t.caller.rows("SELECT path FROM apply_retention('log_entries', 1)")).toEqual([
      { path: path.relative(t.lake.directory, old.path) },
    ]);
    expect(await pathsLeft()).toHaveLength(1);
  });

  it("keep the objects for the grace period, and the sweep removes them after it", async () => {
    const { path: file } = await addLogs("public", noon);
    await t.caller.rows("SELECT * FROM apply_retention('log_entries', 1)");
    const store = await openObjectStore(t.lake.uri);
    await sweepOrphans(t.sql, store, { nowMs: Date.now() + 7_200_000 });
    await sweepRetired(t.sql, store, 3_600_000);
    expect(await exists(file)).toBe(true);
    await t.sql`update retired_objects set retired_at = now() - interval '2 hours'`;
    expect(await sweepRetired(t.sql, store, 3_600_000)).toMatchObject({ removedObjects: 1 });
    expect(await exists(file)).toBe(false);
    expect(await t.sql`select 1 from retired_objects`).toHaveLength(0);
  });

  it("change nothing when they are described or explained, or combined with something else", async () => {
    await addLogs("public", noon);
    const call = "apply_retention('log_entries', 1)";
    for (const sql of [
      `EXPLAIN SELECT * FROM ${call}`,
      `EXPLAIN ANALYZE SELECT * FROM ${call}`,
      `DESCRIBE SELECT * FROM ${call}`,
      `SELECT * FROM ${call}, log_entries`,
      `SELECT * FROM (SELECT * FROM ${call})`,
      `SELECT * FROM ${call} UNION ALL SELECT * FROM ${call}`,
      `WITH a AS (SELECT * FROM ${call}) SELECT 1`,
      `SELECT apply_retention('log_entries', 1)`,
    ]) {
      expect((await t.caller.failure(sql)).status).toBe(status.INVALID_ARGUMENT);
    }
    expect(await pathsLeft()).toHaveLength(1);
  });

  it.each([
    "retire_partitions('log_entries', 'global', 'yesterday', now())",
    "retire_partitions('log_entries', 'everything', '2025-01-01', now())",
    "retire_partitions('processes', 'global', '2025-01-01', now())",
    "retire_partitions('log_entries', 'global', '2025-01-01')",
    "retire_partitions('log_entries', 'global', (SELECT max(time) FROM log_entries), now())",
    "apply_retention('log_entries', 0)",
    "apply_retention('log_entries', 1.5)",
    "apply_retention('log_entries', NULL)",
    "retire_partition_by_file(NULL)",
  ])("refuse %s", async (call) => {
    expect((await t.caller.failure(`SELECT * FROM ${call}`)).status).toBe(status.INVALID_ARGUMENT);
  });

  it("that merge answer with what they made and what that replaced", async () => {
    const sources = [await addLogs("public", noon), await addLogs("public", noon + 60_000_000_000n)];
    await addLogs("secret", noon);
    await addLogs("public", noon + 2n * hour);
    const call =
      "SELECT * FROM materialize_partitions('log_entries', '2025-11-21T12:00:00Z', '2025-11-21T13:00:00Z', 3600)";
    const rows = await t.caller.rows(call);
    expect(rows.map((row) => [row["action"], row["view_set"], row["row_count"]])).toEqual([
      ["created", "log_entries", 20n],
      ["replaced", "log_entries", 10n],
      ["replaced", "log_entries", 10n],
    ]);
    expect(rows.slice(1).map((row) => row["path"])).toEqual(
      sources.map(({ path: file }) => path.relative(t.lake.directory, file)),
    );
    expect(await t.caller.rows("SELECT level, row_count, sort_order FROM list_partitions() WHERE level > 0")).toEqual([
      { level: 2, row_count: 20n, sort_order: "time,insert_time" },
    ]);
    expect(await t.caller.rows("SELECT count(*) AS n FROM log_entries")).toEqual([{ n: 30n }]);
    expect(await t.caller.rows(call)).toEqual([]);
    const again = await t.caller.rows(call.replace("materialize", "regenerate"));
    expect(again.map((row) => [row["action"], row["row_count"]])).toEqual([
      ["created", 20n],
      ["replaced", 20n],
    ]);
    const left = await t.sql`select level from lakehouse_partitions where audience = 'secret'`;
    expect(left).toEqual([{ level: 0 }]);
  });

  it("that merge end when the caller gives up or the deadline has passed, and change nothing", async () => {
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience: "public",
      rowsSql: `SELECT make_timestamp_ns(${noon} + i) AS time, md5('m' || i) AS msg FROM range(1000000) t(i)`,
    });
    const before = await pathsLeft();
    const call = "SELECT action FROM materialize_partitions('log_entries', '2025-11-21', '2025-11-22', 86400)";
    const given = await t.caller.failure(call, { signal: AbortSignal.timeout(700) });
    expect(given.status).toBe(status.CANCELLED);
    expect(await pathsLeft()).toEqual(before);
    const hurried = await t.another({ SVC_QUERY_TIMEOUT_SECONDS: "0.7" });
    const late = connectRows(hurried.port, t.key, "test-client/1");
    expect((await late.failure(call)).status).toBe(status.DEADLINE_EXCEEDED);
    late.close();
    await hurried.stop();
    expect(await pathsLeft()).toEqual(before);
    await addLogs("public", noon + 48n * hour);
    // The thread is free again.
    const next = call.replace("2025-11-21", "2025-11-23").replace("2025-11-22", "2025-11-24");
    expect(await t.caller.rows(next)).toEqual([{ action: "created" }, { action: "replaced" }]);
    expect(await pathsLeft()).toContain(before[0]);
  });

  it.each([
    "materialize_partitions('processes', '2025-01-01', '2025-01-02', 60)",
    "materialize_partitions('log_entries', '2025-01-02', '2025-01-01', 60)",
    "materialize_partitions('log_entries', '2025-01-01', '2025-01-02', 0)",
    "regenerate_partitions('log_entries', '2025-01-01', '2025-01-02', 1000000000)",
    "regenerate_partitions('log_entries', '2025-01-01', '2025-01-02')",
    "retire_partitions('log_entries', 'global', '2025-01-02', '2025-01-01')",
    "apply_retention(older_than_days := 'log_entries', view := 36500)",
    "deny_queries(reason := 'false', match_expr := 'false')",
    "deny_queries('false', ' ')",
  ])("refuse %s", async (call) => {
    expect((await t.caller.failure(`SELECT * FROM ${call}`)).status).toBe(status.INVALID_ARGUMENT);
  });
});

describe("the deny list", () => {
  afterEach(async () => {
    for (const rule of await t.caller.rows("SELECT rule_id FROM list_query_denials()")) {
      await t.caller.rows(`SELECT * FROM remove_query_denial('${String(rule["rule_id"])}')`);
    }
  });

  it("refuses what a rule matches, says why, counts it, and lets other queries pass", async () => {
    const [rule] = await t.caller.rows("SELECT * FROM deny_queries('contains(sql, ''forbidden'')', 'too slow')");
    expect(rule).toMatchObject({ reason: "too slow", created_by: `key:${t.keyId}` });
    expect(await t.caller.failure("SELECT 'forbidden'")).toEqual({
      status: status.PERMISSION_DENIED,
      message: expect.stringContaining("too slow") as unknown,
    });
    expect(await t.caller.rows("SELECT 'allowed' AS a")).toEqual([{ a: "allowed" }]);
    expect(await t.metrics.text()).toMatch(/^query_denied [1-9]/mu);
  });

  it.each([
    ["user", () => `"user" = 'key:${t.keyId}'`],
    ["user without quotes", () => `user = 'key:${t.keyId}'`],
    ["email", () => "email = ''"],
    ["client", () => "client LIKE 'test-client/1%'"],
    ["sql", () => "sql ILIKE 'select 4_'"],
    ["sql_hash", () => "sql_hash = sha256('SELECT 42')"],
  ])("matches by %s", async (_name, expression) => {
    expect(await t.caller.rows("SELECT 42 AS n")).toEqual([{ n: 42 }]);
    await t.caller.rows(`SELECT * FROM deny_queries(${quoteText(expression())}, 'no')`);
    expect((await t.caller.failure("SELECT 42")).status).toBe(status.PERMISSION_DENIED);
  });

  it("that matches everything still lets an admin at the list itself", async () => {
    const [rule] = await t.caller.rows("SELECT * FROM deny_queries('true', 'maintenance')");
    expect((await t.caller.failure("SELECT 1")).status).toBe(status.PERMISSION_DENIED);
    expect(await t.caller.rows("SELECT reason FROM list_query_denials()")).toEqual([{ reason: "maintenance" }]);
    await t.caller.rows(`SELECT * FROM remove_query_denial('${String(rule?.["rule_id"])}')`);
    expect(await t.caller.rows("SELECT 1 AS n")).toEqual([{ n: 1 }]);
  });

  it("exists once when many add the same rule at once", async () => {
    const add = "SELECT rule_id FROM deny_queries('sql = ''y'' ', 'r')";
    const added = await Promise.all(Array.from({ length: 8 }, () => t.caller.rows(add)));
    expect(new Set(added.map(([rule]) => rule?.["rule_id"])).size).toBe(1);
  });

  it("exists once when the same rule is added again, and is in the audit once", async () => {
    const add = "SELECT rule_id FROM deny_queries('sql = ''x''', 'r')";
    const [rule] = await t.caller.rows(add);
    expect(await t.caller.rows(add)).toEqual([rule]);
    expect(await t.caller.rows("SELECT * FROM list_query_denials()")).toHaveLength(1);
    const remove = `SELECT * FROM remove_query_denial('${String(rule?.["rule_id"])}')`;
    await t.caller.rows(remove);
    expect((await t.caller.failure(remove)).status).toBe(status.NOT_FOUND);
    const audited = await t.sql`
      select actor, action, details from audit_log where target = ${String(rule?.["rule_id"])} order by audit_id`;
    const actor = `key:${t.keyId}`;
    expect(audited).toEqual([
      { actor, action: "denial.add", details: { match_expr: "sql = 'x'", reason: "r", from: "127.0.0.1" } },
      { actor, action: "denial.remove", details: { match_expr: "sql = 'x'", from: "127.0.0.1" } },
    ]);
  });

  it.each([
    "no_such_column = 1",
    "getenv(''HOME'') = 1",
    "(SELECT true FROM log_entries)",
    "true FROM log_entries",
    "true; DROP TABLE x",
    "EXISTS (SELECT 1)",
    "sql = ",
    "sql",
  ])("refuses the expression %s", async (expression) => {
    expect(await t.caller.failure(`SELECT * FROM deny_queries('${expression}', 'r')`)).toMatchObject({
      status: status.INVALID_ARGUMENT,
      message: expect.stringContaining("match_expr") as unknown,
    });
    expect(await t.caller.rows("SELECT * FROM list_query_denials()")).toEqual([]);
  });

  it("denies nothing by a rule that fails at run time", async () => {
    await t.caller.rows(
      "SELECT * FROM deny_queries('CASE WHEN sql LIKE ''%41%'' THEN error(''x'') ELSE false END', 'r')",
    );
    expect(await t.caller.rows("SELECT 41 AS n")).toEqual([{ n: 41 }]);
    expect(await t.metrics.text()).toMatch(/^query_denial_rule_failures_total [1-9]/mu);
  });
});

describe("the query log", () => {
  interface Logged {
    readonly caller: string;
    readonly client: string;
    readonly outcome: string;
    readonly fingerprint: string | null;
    readonly rows: number;
    readonly bytes: number;
    readonly partitions: number;
    readonly ms: number;
  }

  /** Waits until the row is there. */
  async function logged(sql: string): Promise<Logged> {
    let found: Logged | undefined;
    await until(async () => {
      [found] = await t.sql<Logged[]>`
        select caller, client, outcome, fingerprint, row_count::int as rows, bytes::int as bytes,
          partitions, duration_ms as ms from query_log where sql = ${sql}`;
      return found !== undefined;
    });
    return found as unknown as Logged;
  }

  it("holds a row for each query, whatever became of it", async () => {
    await addLogs("public", noon);
    const good = "SELECT msg, 'logged' AS a FROM log_entries";
    await t.caller.rows(good);
    expect(await logged(good)).toMatchObject({
      caller: `key:${t.keyId}`,
      client: expect.stringContaining("test-client/1") as unknown,
      outcome: "OK",
      fingerprint: expect.stringMatching(/^[0-9a-f]{16}$/u) as unknown,
      rows: 10,
      partitions: 1,
    });
    expect((await logged(good)).bytes).toBeGreaterThan(50);
    const refused = "SELECT * FROM nowhere_to_be_found";
    await t.caller.failure(refused);
    expect(await logged(refused)).toMatchObject({ outcome: "BAD_REQUEST", fingerprint: null });
    const broken = "SELECT CAST(msg AS INTEGER) FROM log_entries";
    await t.caller.failure(broken);
    expect(await logged(broken)).toMatchObject({ outcome: "BAD_REQUEST", rows: 0, partitions: 1 });
    const controller = new AbortController();
    const given = t.caller.failure(endless, { signal: controller.signal });
    await t.untilGauge("query_running", 1);
    controller.abort();
    await given;
    expect(await logged(endless)).toMatchObject({ outcome: "CANCELLED" });
    await t.sql`delete from lakehouse_partitions`;
  });

  it("tells what was sent of a query that its reader gave up", async () => {
    const sql = "SELECT range AS given_up FROM range(100000000)";
    const client = connect({ uri: `grpc://127.0.0.1:${t.port}`, auth: staticKey(t.key) });
    try {
      const { batches } = await client.query(sql);
      let read = 0;
      for await (const batch of batches) {
        read += batch.numRows;
        if (read > 1_000_000) {
          break;
        }
      }
      const row = await logged(sql);
      expect(row.outcome).toBe("CANCELLED");
      expect(row.rows).toBeGreaterThanOrEqual(read);
      expect(row.rows).toBeLessThan(100_000_000);
      expect(row.bytes).toBeGreaterThan(8_000_000);
    } finally {
      client.close();
    }
  });

  it("tells the time and the fingerprint of what never ran", async () => {
    const tables = Array.from({ length: 60 }, (_, i) => `(SELECT ${i} AS c) AS t${i}`);
    const refused = `SELECT nothing FROM ${tables.join(", ")}`;
    const startMs = performance.now();
    await t.caller.failure(refused);
    const passedMs = performance.now() - startMs;
    const row = await logged(refused);
    expect(row.ms).toBeGreaterThan(0.5);
    expect(row.ms).toBeLessThan(passedMs);
    const denied = "SELECT 'denied by its text'";
    const [rule] = await t.caller.rows(
      `SELECT rule_id FROM deny_queries('sql LIKE ''SELECT %denied by its text%'' ', 'r')`,
    );
    await t.caller.failure(denied);
    expect(await logged(denied)).toMatchObject({
      outcome: "FORBIDDEN",
      fingerprint: expect.stringMatching(/^[0-9a-f]{16}$/u) as unknown,
    });
    await t.caller.rows(`SELECT * FROM remove_query_denial('${String(rule?.["rule_id"])}')`);
  });

  it("gives queries that differ in constants one fingerprint", async () => {
    const prints: (string | null)[] = [];
    for (const sql of ["SELECT 1 WHERE 'a' = 'b'", "select  1000000 where 'xyz' = ''", "SELECT 1 WHERE 'a' <> 'b'"]) {
      await t.caller.rows(sql);
      prints.push((await logged(sql)).fingerprint);
    }
    expect(prints[0]).toBe(prints[1]);
    expect(prints[0]).not.toBe(prints[2]);
  });

  it("is read by admins in SQL, and by time", async () => {
    const sql = "SELECT 'find me'";
    await t.caller.rows(sql);
    await logged(sql);
    const found = "SELECT outcome, sql FROM query_log WHERE sql = 'SELECT ''find me'''";
    expect(await t.caller.rows(found)).toEqual([{ outcome: "OK", sql }]);
    expect(await t.caller.rows(`${found} AND time > now() - INTERVAL 1 HOUR`)).toHaveLength(1);
    expect(await t.caller.rows(`${found} AND time < '2020-01-01'`)).toHaveLength(0);
  });
});

describe("a partition whose object is gone", () => {
  it("does not stop the sweep", async () => {
    await t.sql`insert into retired_objects (path, file_bytes, retired_at)
      values ('log_entries/audience=public/none.parquet', 1, now() - interval '1 day'),
             ('log_entries/audience=public/there.parquet', 1, now() - interval '1 day')`;
    const directory = path.join(t.lake.directory, "log_entries", "audience=public");
    await mkdir(directory, { recursive: true });
    await writeFile(path.join(directory, "there.parquet"), "x");
    const store = await openObjectStore(t.lake.uri);
    expect(await sweepRetired(t.sql, store, 3_600_000)).toMatchObject({ removedObjects: 2 });
    expect(await exists(path.join(directory, "there.parquet"))).toBe(false);
  });
});
