/** Retention over a lake of objects whose rows were received when we say. */
import { randomUUID } from "node:crypto";

import { afterEach, beforeEach, describe, expect, it, test } from "vitest";

import { connect } from "../../src/db/sql.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";
import { commitSegments } from "../../src/lake/commit.js";
import { processRow } from "../../src/lake/process-row.js";
import { applyRetention, type RetentionPoint, type RetentionResult } from "../../src/lake/retention/retention.js";
import { type RetentionOverride, selectOverrides } from "../../src/lake/retention/retention-policy.js";
import { sweepRetired } from "../../src/lake/retire.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { trim } from "../../src/lake/rewrite/trim.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createRoleLogin } from "../helpers/auth/auth-roles.js";
import { commitLogs } from "../helpers/lake/lake-commit.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, dieAt, publishedValues, taskContext } from "../helpers/lake/lake-tasks.js";
import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { ofThisDatabase } from "../helpers/postgres/locks.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

const none: RetentionResult = { objects: 0, rows: 0, blocks: 0, streams: 0, processes: 0, months: 0 };

function retain(defaultDays: number | null, overrides: readonly RetentionOverride[] = []): Promise<RetentionResult> {
  const policy = { defaultDays, unstampedAudience: "public", overrides };
  return applyRetention({ sql: lab.sql, policy, cancelled: () => false });
}

/** A row that says where it is, received so many days ago. */
async function addOld(
  table: "log_entries" | "spans",
  audience: string | null,
  first: number,
  last = first,
): Promise<string> {
  const nowMs = Date.now();
  const received = [first, last].map((days) => Math.round((nowMs / 1000 - days * 86_400) * 1e6) * 1000);
  const { path } = await addAged(lab, {
    table,
    audience,
    daysAgo: [first, last],
    nowMs,
    rowsSql: `SELECT make_timestamp_ns(1) AS time, '${audience}-' || n AS ${table === "spans" ? "name" : "msg"},
      make_timestamp_ns(r) AS insert_time FROM (VALUES (${first}, ${received[0]}), (${last}, ${received[1]})) AS t (n, r)`,
  });
  return path;
}

const logs = (): Promise<string[]> => publishedValues(lab, "log_entries", "msg");

it("removes nothing unless it is told to", async () => {
  await addOld("log_entries", "a", 4000);
  expect(await retain(null)).toEqual(none);
  expect(await logs()).toHaveLength(2);
});

it("drops objects whose last row is past, by table and audience; their files stay for the grace period", async () => {
  const old = await addOld("log_entries", "a", 40, 31);
  await addOld("log_entries", "a", 40, 29);
  await addOld("log_entries", "b", 40, 31);
  await addOld("log_entries", null, 40, 31);
  await addOld("spans", "a", 8);
  await addOld("spans", "b", 8);
  await lab.sql`insert into retention_overrides (view_set, audience, days, updated_by) values
    ('log_entries', 'b', 0, 'x'), ('spans', null, 7, 'x'), ('spans', 'b', 10, 'x'), ('log_entries', 'public', 90, 'x')`;
  const result = await retain(30, await selectOverrides(lab.sql));
  expect(result).toEqual({ ...none, objects: 2, rows: 4 });
  expect(await logs()).toEqual(["a-29", "a-40", "b-31", "b-40", "null-31", "null-40"]);
  expect(await publishedValues(lab, "spans", "name")).toEqual(["b-8", "b-8"]);
  // As a query that has it open.
  expect(await lab.duck(`SELECT count(*)::INT AS n FROM '${lab.lake.directory}/${old}'`)).toEqual([{ n: 2 }]);
  await lab.sql`update retired_objects set retired_at = now() - interval '2 hours'`;
  expect(await sweepRetired(lab.sql, lab.context.store, 3_600_000)).toMatchObject({ removedObjects: 2 });
});

it("drops more objects than one statement takes", async () => {
  await lab.sql`insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
      min_insert_time, max_insert_time, level, schema_hash, sort_order)
    select gen_random_uuid(), 'log_entries', 'a', 'x/' || n, 1, 1, now() - interval '40 days', now() - interval '40 days',
      0, '', '' from generate_series(1, 2500) as n`;
  expect(await retain(30)).toMatchObject({ objects: 2500, rows: 2500 });
});

it("takes rows that have overstayed out of objects that younger ones keep alive", async () => {
  await addOld("log_entries", "a", 60, 1);
  await addOld("log_entries", "a", 32, 1);
  const policy = { defaultDays: 30, unstampedAudience: "public", overrides: [] };
  expect(await trim(lab.context, policy)).toEqual({ objects: 1, rows: 1, bad: [] });
  // Two days too long is less than a quarter.
  expect(await logs()).toEqual(["a-1", "a-1", "a-32"]);
  expect(await trim(lab.context, policy)).toEqual({ objects: 0, rows: 0, bad: [] });
  expect(await retain(30)).toMatchObject({ objects: 0 });
});

it("keeps rows that were stamped by a clock years behind, until the object that they are in is past", async () => {
  const body = protobufLogs("stamped", 2).toString("base64");
  await commitLogs(lab.sql, lab.context.store, [{ audience: "a", body }], undefined, 1_000_000_000n);
  const policy = { defaultDays: 30, unstampedAudience: "public", overrides: [] };
  expect(await trim(lab.context, policy)).toEqual({ objects: 0, rows: 0, bad: [] });
  await addOld("log_entries", "a", 60, 1);
  await mergePartitions(lab.context, { ...mergeAll, endNs: 2n ** 63n - 1n, widthSeconds: 2 ** 31 - 1 });
  expect(await lab.sql`select from lakehouse_partitions`).toHaveLength(1);
  expect(await trim(lab.context, policy)).toEqual({ objects: 1, rows: 1, bad: [] });
  expect(await trim(lab.context, policy)).toEqual({ objects: 0, rows: 0, bad: [] });
  expect(await logs()).toEqual(["a-1", "stamped 0", "stamped 1"]);
});

it.each(["as ingested", "after an erasure"])(
  "counts the age of rows that were stamped by a clock behind from their commit, merged with older ones (%s)",
  async (how) => {
    const bodies = [protobufLogs("stamped", 2), protobufLogs("erased", 1, "other")];
    const sent = bodies.map((body) => ({ audience: "a", body: body.toString("base64") }));
    const stampedNs = BigInt(Date.now() - 40 * 86_400_000) * 1_000_000n;
    await commitLogs(lab.sql, lab.context.store, how === "as ingested" ? sent.slice(0, 1) : sent, undefined, stampedNs);
    if (how !== "as ingested") {
      await runTask(taskContext(lab), await askErasure(lab, { audience: "a", where: { service: "other" } }));
    }
    await addOld("log_entries", "a", 60, 1);
    await mergePartitions(lab.context, { ...mergeAll, endNs: 2n ** 63n - 1n, widthSeconds: 2 ** 31 - 1 });
    const policy = { defaultDays: 30, unstampedAudience: "public", overrides: [] };
    expect(await trim(lab.context, policy)).toEqual({ objects: 1, rows: 1, bad: [] });
    expect(await logs()).toEqual(["a-1", "stamped 0", "stamped 1"]);
    const isLate = "epoch(now()) - epoch(insert_time) < 7200";
    expect(await publishedValues(lab, "log_entries", isLate)).toEqual(["false", "true", "true"]);
  },
);

it("counts the age of rows that were stamped by a clock years ahead from their commit", async () => {
  const body = protobufLogs("stamped", 2).toString("base64");
  await commitLogs(lab.sql, lab.context.store, [{ audience: "a", body }], undefined, 4_000_000_000_000_000_000n);
  await lab.sql`update lakehouse_partitions set min_insert_time = min_insert_time - interval '31 days',
    max_insert_time = max_insert_time - interval '31 days'`;
  expect(await retain(30)).toEqual({ ...none, objects: 1, rows: 2 });
  expect(await logs()).toEqual([]);
});

it("looks through an object without such rows once, with the rights of ingestion alone", async () => {
  const body = protobufLogs("stamped", 2).toString("base64");
  await commitLogs(lab.sql, lab.context.store, [{ audience: "a", body }], undefined, 1_000_000_000n);
  await lab.sql`update lakehouse_partitions set min_insert_time = now() - interval '60 days'`;
  const policy = { defaultDays: 30, unstampedAudience: "public", overrides: [] };
  const login = await createRoleLogin(lab.sql, lab.connectionString, "ingestion");
  const sql = connect({
    connectionString: login.connectionString,
    maxConnections: 1,
    applicationName: "least rights",
    logger: createSilentLogger(),
  });
  try {
    expect(await trim({ ...lab.context, sql }, policy)).toEqual({ objects: 0, rows: 0, bad: [] });
  } finally {
    await sql.end({ timeout: 5 });
    await login.drop();
  }
  expect(
    await lab.sql`select min_insert_time > now() - interval '31 days' as looked_through
    from lakehouse_partitions`,
  ).toEqual([{ looked_through: true }]);
  expect(await logs()).toEqual(["stamped 0", "stamped 1"]);
});

describe("what others have locked is waited for for 30 seconds", () => {
  /** Fails as Postgres does when that is over. */
  const keep = async (what: string): Promise<void> => {
    await lab.sql`
      create function keep() returns trigger language plpgsql as $$ begin
        raise exception 'after %', current_setting('lock_timeout') using errcode = '55P03'; end $$`.simple();
    await lab.sql`create trigger keep before ${lab.sql.unsafe(what)} for each row execute function keep()`;
  };
  const policy = { defaultDays: 30, unstampedAudience: "public", overrides: [] };

  it("by retention of objects", async () => {
    await addOld("log_entries", "a", 40);
    await keep("delete on lakehouse_partitions");
    await expect(retain(30)).rejects.toThrow("after 30s");
  });

  it("by retention of blocks", async () => {
    await lab.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, row_count, payload_bytes, insert_time)
      values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'a', 1, 1, 1, now() - interval '40 days')`;
    await keep("delete on blocks");
    await expect(retain(30)).rejects.toThrow("after 30s");
  });

  it("by the removal of objects that were retired", async () => {
    await lab.sql`insert into retired_objects (path, file_bytes) values ('log_entries/audience=a/x.parquet', 1)`;
    await keep("delete on retired_objects");
    await expect(sweepRetired(lab.sql, lab.context.store, 0)).rejects.toThrow("after 30s");
  });

  it("by trimming, which says so", async () => {
    const body = protobufLogs("stamped", 2).toString("base64");
    await commitLogs(lab.sql, lab.context.store, [{ audience: "a", body }], undefined, 1_000_000_000n);
    await lab.sql`update lakehouse_partitions set min_insert_time = now() - interval '60 days'`;
    await keep("update on lakehouse_partitions");
    const failure: unknown = await trim(lab.context, policy).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "UNAVAILABLE", cause: { message: "after 30s" } });
  });
});

interface SentBlock {
  readonly processId: string;
  readonly streamId: string;
  readonly blockId: string;
  readonly audience: string;
}

/** What a commit leaves in the catalogue, so many days ago. */
async function addBlock(signal: 1 | 2 | 3, daysAgo: number, of?: SentBlock): Promise<SentBlock> {
  const blockId = randomUUID();
  const { processId, streamId, audience } = of ?? { processId: randomUUID(), streamId: randomUUID(), audience: "a" };
  const process = processRow({
    processId,
    audience,
    serviceNamespace: null,
    serviceName: "s",
    serviceInstanceId: null,
    serviceVersion: null,
    hostId: null,
    hostName: null,
    processPid: null,
    executable: null,
    username: null,
    sdkName: null,
    sdkLanguage: null,
    sdkVersion: null,
    startTimeMs: null,
    properties: "{}",
  });
  const block = {
    blockId,
    streamId,
    processId,
    audience,
    signal,
    beginTimeNs: 1n,
    endTimeNs: 1n,
    rowCount: 1,
    payloadBytes: 1,
  };
  const commit = {
    processes: [process],
    streams: [{ streamId, processId, audience, signal }],
    blocks: [block],
    partitions: [],
  };
  const result = await commitSegments(lab.sql, [commit]);
  if (result.kind === "duplicates") {
    throw new Error("a fresh block is a duplicate");
  }
  const age = lab.sql`now() - ${daysAgo}::float8 * interval '1 day'`;
  await lab.sql`update blocks set insert_time = ${age} where block_id = ${blockId}`;
  await lab.sql`update streams set insert_time = ${age} where stream_id = ${streamId}`;
  await lab.sql`update processes set insert_time = ${age} where process_id = ${processId}`;
  return { processId, streamId, blockId, audience };
}

const blockIds = async (): Promise<string[]> =>
  (await lab.sql<{ id: string }[]>`select block_id as id from blocks`).map(({ id }) => id).toSorted();

describe("blocks", () => {
  it("go a day after their rows, with streams and processes that have no others", async () => {
    const old = await addBlock(1, 32);
    const both = await addBlock(1, 32);
    const younger = await addBlock(1, 5, both);
    const almost = await addBlock(3, 30.5);
    expect(await retain(30)).toEqual({ ...none, blocks: 2, streams: 1, processes: 1 });
    expect(await blockIds()).toEqual([younger.blockId, almost.blockId].toSorted());
    const [gone] = await lab.sql`select from processes where process_id = ${old.processId}`;
    expect(gone).toBeUndefined();
    expect(await retain(30)).toEqual(none);
  });

  it("stay as long as an object may hold their rows, and those of any table of their signal", async () => {
    const logged = await addBlock(1, 50);
    const measured = await addBlock(2, 50);
    await addOld("log_entries", "a", 60, 1);
    expect(await retain(30, [{ viewSet: "histograms", audience: null, days: 0 }])).toEqual(none);
    expect(await blockIds()).toEqual([logged.blockId, measured.blockId].toSorted());
  });

  it("of other audiences stay", async () => {
    await addBlock(1, 50);
    expect(await retain(null, [{ viewSet: "log_entries", audience: "b", days: 1 }])).toEqual(none);
  });

  it("are deleted for more streams than one step takes", async () => {
    await lab.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, row_count, payload_bytes, insert_time)
      select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'a', 1, 1, 1, now() - (n - 0.5) * interval '1 hour'
      from generate_series(1, 2600) as n`;
    expect((await retain(30)).blocks).toBe(2600 - 31 * 24);
  });

  it("count the same bytes once as long as they are there", async () => {
    const sent = await addBlock(1, 20);
    await retain(30);
    const again = { ...sent, signal: 1 as const, beginTimeNs: 1n, endTimeNs: 1n, rowCount: 1, payloadBytes: 1 };
    const commit = { processes: [], streams: [], blocks: [again], partitions: [] };
    expect(await commitSegments(lab.sql, [commit])).toEqual({ kind: "duplicates", blockIds: new Set([sent.blockId]) });
  });
});

it("keeps a process that a commit finds while it would go", async () => {
  const idle = await addBlock(1, 40);
  // The commit has met the process and added no row for it; its blocks cannot be seen yet.
  const committing = await lab.sql.reserve();
  await committing`begin`;
  await committing`lock table processes in row exclusive mode`;
  await committing`insert into blocks (block_id, stream_id, process_id, audience, signal, row_count, payload_bytes)
    values (${randomUUID()}, ${idle.streamId}, ${idle.processId}, 'a', 1, 1, 1)`;
  const running = retain(30);
  await expect
    .poll(
      async () =>
        (
          await lab.sql`select from pg_locks where mode = 'ShareRowExclusiveLock' and not granted and ${ofThisDatabase(lab.sql)}`
        ).length,
    )
    .toBe(1);
  await committing`commit`;
  committing.release();
  expect(await running).toMatchObject({ blocks: 1, streams: 0, processes: 0 });
  expect(await lab.sql`select from processes`).toHaveLength(1);
});

describe("usage of keys", () => {
  const hour = (daysAgo: number) => lab.sql`date_trunc('hour', now() - ${daysAgo}::float8 * interval '1 day')`;
  const use = (daysAgo: number) => lab.sql`
    insert into api_key_usage as u (key_id, hour, requests) values ('00000000-0000-0000-0000-000000000001', ${hour(daysAgo)}, 1)
    on conflict (key_id, hour) do update set requests = u.requests + 1`;
  const months = async (): Promise<string[]> =>
    (
      await lab.sql<{ name: string }[]>`
        select inhrelid::regclass::text as name from pg_inherits where inhparent = 'api_key_usage'::regclass order by 1`
    ).map(({ name }) => name);

  it("is added up in partitions of a month, which are made ahead", async () => {
    await use(0);
    await use(0);
    // A clock far ahead finds a place, too.
    await use(-400);
    await retain(null);
    expect(await lab.sql`select requests from api_key_usage order by hour`).toEqual([
      { requests: 2n },
      { requests: 1n },
    ]);
    expect(await months()).toHaveLength(4);
  });

  it("goes by whole months", async () => {
    await lab.sql`alter table api_key_usage detach partition api_key_usage_past`;
    await lab.sql`create table api_key_usage_old partition of api_key_usage
      for values from (minvalue) to ('2020-02-01T00:00:00Z')`;
    await lab.sql`insert into api_key_usage (key_id, hour) values (gen_random_uuid(), '2020-01-05T00:00:00Z')`;
    expect(await retain(null, [{ viewSet: "api_key_usage", audience: null, days: 30 }])).toEqual({
      ...none,
      months: 1,
    });
    expect(await months()).not.toContain("api_key_usage_old");
    expect(await lab.sql`select from api_key_usage`).toHaveLength(0);
  });
});

describe("a process killed", () => {
  const points: readonly (readonly [RetentionPoint, number])[] = [
    ["partitions", 1],
    ["partitions", 2],
    ["blocks", 1],
    ["streams", 1],
    ["usage", 1],
  ];
  test.each(points)("after %s (%i.) leaves what another one goes on with", async (point, nth) => {
    await addOld("log_entries", "a", 40);
    await addOld("log_entries", "b", 40);
    await addOld("log_entries", "b", 3);
    await addBlock(1, 40);
    const kept = await addBlock(1, 3);
    await dieAt(lab, { retentionDays: 30 }, point, nth);
    await retain(30);
    expect(await logs()).toEqual(["b-3", "b-3"]);
    expect(await blockIds()).toEqual([kept.blockId]);
    expect(await lab.sql`select from processes`).toHaveLength(1);
    expect(await lab.sql`select from retired_objects`).toHaveLength(2);
  });
});

test.each(["counted", "written", "replacing", "replaced"] as const)(
  "a process killed at %s while it trims leaves what another one goes on with",
  async (point) => {
    await addOld("log_entries", "a", 60, 1);
    await addOld("log_entries", "a", 61, 2);
    await dieAt(lab, { trimDays: 30 }, point);
    expect((await logs()).filter((name) => /-[12]$/u.test(name))).toEqual(["a-1", "a-2"]);
    await trim(lab.context, { defaultDays: 30, unstampedAudience: "public", overrides: [] });
    expect(await logs()).toEqual(["a-1", "a-2"]);
  },
);

it("is done once when two processes are at it", async () => {
  for (let i = 0; i < 5; i++) {
    await addOld("log_entries", "a", 40);
    await addBlock(1, 40);
  }
  const results = await Promise.all([retain(30), retain(30)]);
  const sum = (what: keyof RetentionResult): number => results.reduce((total, result) => total + result[what], 0);
  expect([sum("objects"), sum("rows"), sum("blocks"), sum("streams"), sum("processes")]).toEqual([5, 10, 5, 5, 5]);
});

it("needs no more than the database role of maintenance", async () => {
  await addOld("log_entries", "a", 40);
  await addBlock(1, 40);
  const login = await createRoleLogin(lab.sql, lab.connectionString, "ingestion");
  const { connectionString } = login;
  const sql = connect({ connectionString, maxConnections: 1, applicationName: "test", logger: createSilentLogger() });
  try {
    const policy = { defaultDays: 30, unstampedAudience: "public", overrides: await selectOverrides(sql) };
    const result = await applyRetention({ sql, policy, cancelled: () => false });
    expect(result).toMatchObject({ objects: 1, blocks: 1, processes: 1 });
  } finally {
    await sql.end({ timeout: 5 });
    await login.drop();
  }
});
