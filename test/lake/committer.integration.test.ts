/** Group commit on a real database: one answer per segment, whatever its neighbours are. */
import { randomUUID } from "node:crypto";

import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";

import { DeadlineSql } from "../../src/db/deadline-sql.js";
import { connect, type Sql } from "../../src/db/sql.js";
import type { BlockRow, SegmentCommit } from "../../src/lake/catalogue-rows.js";
import { type Committer, createCommitter } from "../../src/lake/committer.js";
import { publishDeadline } from "../../src/lake/publish-deadline.js";
import { systemClock } from "../../src/runtime/clock.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

let database: TestDatabase;
let metrics: Metrics;
let committer: Committer;

beforeAll(async () => {
  database = await createTestDatabase();
  metrics = createMetrics();
  committer = start(database.sql, metrics);
});

afterAll(async () => {
  await committer.stop();
  await database.drop();
});

function start(
  sql: Sql,
  ownMetrics: Metrics,
  timeoutMs = 60_000,
  clock = systemClock,
  logger = createSilentLogger(),
): Committer {
  return createCommitter({
    sql: new DeadlineSql({ sql, timeoutMs }),
    logger,
    metrics: ownMetrics,
    clock,
  });
}

function block(blockId = randomUUID(), rowCount = 1): BlockRow {
  return {
    blockId,
    streamId: randomUUID(),
    processId: randomUUID(),
    audience: "a",
    signal: 1,
    beginTimeNs: 1n,
    endTimeNs: 2n,
    rowCount,
    payloadBytes: 1,
  };
}

function segment(blocks: readonly BlockRow[]): SegmentCommit {
  const partitionId = randomUUID();
  return {
    processes: [],
    streams: [],
    blocks,
    partitions: [
      {
        partitionId,
        viewSet: "log_entries",
        audience: "a",
        path: `log_entries/audience=a/${partitionId}.parquet`,
        fileBytes: 1,
        checksum: 0,
        rowCount: 1,
        minTimeNs: 1n,
        maxTimeNs: 2n,
        insertTimeMs: Date.now(),
        level: 0,
        schemaHash: "00",
        sortOrder: "",
        processIds: null,
      },
    ],
  };
}

async function isPublished({ partitions }: SegmentCommit): Promise<boolean> {
  const rows = await database.sql`
    select from lakehouse_partitions where partition_id = ${partitions[0]?.partitionId ?? ""}`;
  return rows.length === 1;
}

test("segments that wait are published by few transactions", async () => {
  const segments = Array.from({ length: 40 }, () => segment([block(), block()]));
  const outcomes = await Promise.all(segments.map((s) => committer.commit(s)));
  expect(outcomes).toEqual(segments.map(() => ({ kind: "committed" })));
  expect(await Promise.all(segments.map(isPublished))).not.toContain(false);
  const text = await metrics.text();
  const transactions = /ingestion_commit_segments_count (\d+)/u.exec(text)?.[1];
  expect(Number(transactions)).toBeLessThanOrEqual(2);
  expect(committer.depth).toBe(0);
});

test("a large segment that takes long keeps no other waiting", async () => {
  const held = block();
  const large = segment([held, block()]);
  const small = segment([block()]);
  let outcome: Promise<unknown> = Promise.resolve();
  await database.sql.begin(async (transaction) => {
    // Another server is about to commit one of its blocks.
    await transaction`
      insert into blocks (block_id, stream_id, process_id, signal, row_count, payload_bytes)
      values (${held.blockId}, ${held.streamId}, ${held.processId}, 1, 1, 1)`;
    outcome = committer.commit(large, { large: true });
    expect(await committer.commit(small)).toEqual({ kind: "committed" });
    expect(committer.depth).toBe(1);
  });
  expect(await outcome).toEqual({ kind: "duplicates", blockIds: new Set([held.blockId]) });
});

test("a committed block is reported to its segment alone", async () => {
  const standing = block();
  await committer.commit(segment([standing]));
  const again = segment([block(), standing]);
  const other = segment([block()]);
  expect(await Promise.all([again, other].map((s) => committer.commit(s)))).toEqual([
    { kind: "duplicates", blockIds: new Set([standing.blockId]) },
    { kind: "committed" },
  ]);
  expect(await isPublished(again)).toBe(false);
  expect(await isPublished(other)).toBe(true);
});

test("of two segments with one block, the first goes in and the second is told", async () => {
  const shared = block();
  const first = segment([shared, block()]);
  const second = segment([block(), shared]);
  expect(await Promise.all([first, second].map((s) => committer.commit(s)))).toEqual([
    { kind: "committed" },
    { kind: "duplicates", blockIds: new Set([shared.blockId]) },
  ]);
  expect(await isPublished(first)).toBe(true);
  expect(await isPublished(second)).toBe(false);
});

test("rows that the database refuses fail their own segment and no other", async () => {
  const good = [segment([block()]), segment([block()])];
  const bad = segment([block(randomUUID(), 2 ** 40)]);
  const outcomes = await Promise.all([good[0], bad, good[1]].map((s) => committer.commit(s as SegmentCommit)));
  expect(outcomes.map((o) => o.kind)).toEqual(["committed", "failed", "committed"]);
  expect(await isPublished(bad)).toBe(false);
  expect(await Promise.all(good.map(isPublished))).toEqual([true, true]);
});

test("without a database every segment is told so, and the log once", async () => {
  const sql = connect({
    connectionString: "postgres://nobody@127.0.0.1:1/none",
    maxConnections: 1,
    applicationName: "test",
    logger: createSilentLogger(),
  });
  const lines: unknown[] = [];
  const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const lost = start(sql, createMetrics(), undefined, undefined, logger);
  const outcomes = await Promise.all([1, 2].map(() => lost.commit(segment([block()]))));
  outcomes.push(await lost.commit(segment([block()])));
  expect(outcomes).toEqual(outcomes.map(() => ({ kind: "unavailable", reason: "the database cannot be reached" })));
  expect(lines).toMatchObject([{ msg: "a commit was given up" }]);
  await lost.stop();
  expect(await lost.commit(segment([block()]))).toMatchObject({ kind: "unavailable" });
  await sql.end({ timeout: 5 });
});

test("a segment that the database has no room for on its disk is told so", async () => {
  await database.sql`create function refuse_room() returns trigger language plpgsql as $$
    begin raise exception 'no space left' using errcode = '53100'; end $$`.simple();
  await database.sql`create trigger full_disk before insert on blocks execute function refuse_room()`.simple();
  const one = segment([block()]);
  expect(await committer.commit(one)).toEqual({ kind: "unavailable", reason: "the disk of the database is full" });
  await database.sql`drop trigger full_disk on blocks`;
  expect(await committer.commit(one)).toEqual({ kind: "committed" });
});

test("a segment that the database says nothing about is given up, and is there once when it is sent again", async () => {
  const one = segment([block()]);
  const impatient = start(database.sql, createMetrics(), 200);
  const holder = await database.sql.reserve();
  await holder`begin`;
  await holder`lock table blocks in access exclusive mode`;
  expect(await impatient.commit(one)).toEqual({ kind: "unavailable", reason: "the database cannot be reached" });
  await holder`commit`;
  holder.release();
  expect(["committed", "duplicates"]).toContain((await committer.commit(one)).kind);
  await impatient.stop();
  expect(await isPublished(one)).toBe(true);
});

test("a segment behind one that hangs is given up in its own time, and not published later", async () => {
  const behind = segment([block()]);
  const patient = start(database.sql, createMetrics());
  const holder = await database.sql.reserve();
  await holder`begin`;
  await holder`lock table blocks in access exclusive mode`;
  const hanging = patient.commit(segment([block()]));
  await expect.poll(() => database.sql`select from pg_locks where not granted`).not.toHaveLength(0);
  const startMs = performance.now();
  const outcome = await patient.commit(behind, { withinMs: 300 });
  const waitedMs = performance.now() - startMs;
  await holder`commit`;
  holder.release();
  expect(outcome).toEqual({ kind: "unavailable", reason: "the database does not answer" });
  expect(waitedMs).toBeLessThan(5000);
  expect(await hanging).toEqual({ kind: "committed" });
  await patient.stop();
  expect(await isPublished(behind)).toBe(false);
});

test("a segment whose time ends in its transaction is there once when it is sent again", async () => {
  const one = segment([block()]);
  const holder = await database.sql.reserve();
  await holder`begin`;
  await holder`lock table blocks in access exclusive mode`;
  expect(await committer.commit(one, { withinMs: 200 })).toMatchObject({ kind: "unavailable" });
  const again = committer.commit({ ...segment([]), blocks: one.blocks });
  await holder`commit`;
  holder.release();
  expect(await again).toEqual({ kind: "duplicates", blockIds: new Set(one.blocks.map(({ blockId }) => blockId)) });
  expect(await isPublished(one)).toBe(true);
});

test("a segment whose process was stopped for long is not published: its object may be gone", async () => {
  const clock = createManualClock();
  const stopped = start(database.sql, createMetrics(), 60_000, clock);
  const one = segment([block()]);
  const assertInTime = publishDeadline(clock);
  clock.advance(31 * 60_000);
  expect(await stopped.commit(one, { assertInTime })).toEqual({
    kind: "unavailable",
    reason: expect.stringContaining("may be gone"),
  });
  expect(await isPublished(one)).toBe(false);
  expect(await stopped.commit(one)).toEqual({ kind: "committed" });
  await stopped.stop();
});

test("a process travels once", async () => {
  const [processId, streamId] = [randomUUID(), randomUUID()];
  const commit = async (): Promise<void> => {
    const shape = { processId, streamId, audience: "a", signal: 1 } as const;
    const one = segment([{ ...block(), ...shape }]);
    const processes = [
      { processId, columns: JSON.stringify({ process_id: processId, audience: "a", properties: "{}" }) },
    ];
    expect(await committer.commit({ ...one, processes, streams: [shape] })).toEqual({ kind: "committed" });
  };
  const standing = () => database.sql`select from processes where process_id = ${processId}`;
  await commit();
  expect(await standing()).toHaveLength(1);
  await database.sql`delete from processes where process_id = ${processId}`;
  await commit();
  expect(await standing()).toHaveLength(0);
});
