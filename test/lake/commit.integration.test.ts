import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connect, type Sql } from "../../src/db/sql.js";
import type { ProcessColumns, ProcessRow, SegmentCommit } from "../../src/lake/catalogue-rows.js";
import { commitSegments, isCommitted } from "../../src/lake/commit.js";
import { processRow } from "../../src/lake/process-row.js";
import { PublishedStreams } from "../../src/lake/published-streams.js";
import { removeStreams } from "../../src/lake/retention/retire-blocks.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { startWire } from "../helpers/postgres/wire.js";
import { until } from "../helpers/until.js";

let database: TestDatabase;
let sql: Sql;
const pools: Sql[] = [];
beforeEach(async () => {
  database = await createTestDatabase();
  sql = database.sql;
});
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.end({ timeout: 1 })));
  await database.drop();
});

/** Another server's pool. */
function connectAgain(connectionString = database.connectionString): Sql {
  const pool = connect({
    connectionString,
    maxConnections: 2,
    applicationName: "another server",
    logger: createSilentLogger(),
  });
  pools.push(pool);
  return pool;
}

function rowOf(processId: string, overrides: Partial<ProcessColumns> = {}): ProcessRow {
  return processRow({
    processId,
    audience: "public",
    serviceNamespace: null,
    serviceName: "checkout",
    serviceInstanceId: null,
    serviceVersion: null,
    hostId: null,
    hostName: "h",
    processPid: 4_294_967_296,
    executable: null,
    username: null,
    sdkName: null,
    sdkLanguage: null,
    sdkVersion: null,
    startTimeMs: null,
    properties: '{"service.name":"checkout"}',
    ...overrides,
  });
}

interface SegmentShape {
  readonly blockIds?: readonly string[];
  readonly processIds?: readonly string[];
  readonly audience?: string | null;
}

/** A segment of one object whose blocks belong to the given processes in turn. */
function segment(shape: SegmentShape = {}): SegmentCommit {
  const { blockIds = [randomUUID()], processIds = [randomUUID()], audience = "public" } = shape;
  const streamIds = processIds.map((id) => id.replace(/^........-..../, "ffffffff-ffff"));
  const processOf = (i: number): string => processIds[i % processIds.length] ?? "";
  const streamOf = (i: number): string => streamIds[i % streamIds.length] ?? "";
  const partitionId = randomUUID();
  return {
    processes: processIds.map((id) => rowOf(id, { audience })),
    streams: processIds.map((processId, i) => ({
      streamId: streamOf(i),
      processId,
      audience,
      signal: 1,
    })),
    blocks: blockIds.map((blockId, i) => ({
      blockId,
      streamId: streamOf(i),
      processId: processOf(i),
      audience,
      signal: 1,
      beginTimeNs: -5n,
      endTimeNs: 2n ** 62n,
      rowCount: 10,
      payloadBytes: 1000,
    })),
    partitions: [
      {
        partitionId,
        viewSet: "log_entries",
        audience,
        path: `log_entries/${partitionId}`,
        fileBytes: 4_000_000_000,
        checksum: 0xffff_ffff,
        rowCount: 10,
        minTimeNs: -5n,
        maxTimeNs: 2n ** 62n,
        insertTimeMs: 1_790_000_000_123,
        level: 0,
        schemaHash: "00ff",
        sortOrder: "",
        processIds,
      },
    ],
  };
}

async function counts(): Promise<Record<string, number>> {
  const [row] = await sql<Record<string, number>[]>`
    select (select count(*)::int from processes) as processes,
      (select count(*)::int from streams) as streams,
      (select count(*)::int from blocks) as blocks,
      (select count(*)::int from lakehouse_partitions) as partitions`;
  return { ...row };
}

describe("a commit", () => {
  test("publishes every row of every segment as it was given", async () => {
    const first = segment();
    const second = segment({ audience: null, blockIds: [randomUUID(), randomUUID()] });
    expect(await commitSegments(sql, [first, second])).toEqual({ kind: "committed" });
    expect(await counts()).toEqual({ processes: 2, streams: 2, blocks: 3, partitions: 2 });
    const [block] = await sql`select * from blocks where block_id = ${first.blocks[0]?.blockId ?? ""}`;
    expect(block).toMatchObject({
      process_id: first.processes[0]?.processId,
      stream_id: first.streams[0]?.streamId,
      audience: "public",
      signal: 1,
      begin_time_ns: -5n,
      end_time_ns: 2n ** 62n,
      row_count: 10,
      payload_bytes: 1000,
    });
    const [partition] = await sql`
      select *, encode(schema_hash, 'hex') as hash from lakehouse_partitions where audience is null`;
    expect(partition).toMatchObject({
      partition_id: second.partitions[0]?.partitionId,
      view_set: "log_entries",
      path: second.partitions[0]?.path,
      file_bytes: 4_000_000_000n,
      row_count: 10n,
      min_time_ns: -5n,
      max_time_ns: 2n ** 62n,
      level: 0,
      hash: "00ff",
      process_ids: second.partitions[0]?.processIds,
    });
    // The clock of whoever received the rows may be behind: their age counts from the commit.
    const [age] =
      await sql`select max_insert_time = created_at as fresh, created_at - min_insert_time = interval '1 hour' as hour
        from lakehouse_partitions where audience is null`;
    expect(age).toEqual({ fresh: true, hour: true });
    const [process] = await sql`select * from processes where audience = 'public'`;
    expect(process).toMatchObject({
      service_name: "checkout",
      service_version: null,
      process_pid: 4_294_967_296n,
      properties: { "service.name": "checkout" },
    });
    expect(await isCommitted(sql, [first, second])).toBe(true);
  });

  test("with nothing in it touches nothing", async () => {
    const empty = { processes: [], streams: [], blocks: [], partitions: [] };
    expect(await commitSegments(sql, [empty, empty])).toEqual({ kind: "committed" });
    expect(await counts()).toEqual({ processes: 0, streams: 0, blocks: 0, partitions: 0 });
  });

  test("that holds a committed block names it and writes nothing", async () => {
    const standing = segment();
    await commitSegments(sql, [standing]);
    const blockId = standing.blocks[0]?.blockId ?? "";
    const again = segment({ blockIds: [randomUUID(), blockId, randomUUID()] });
    const other = segment();
    const before = await counts();
    expect(await commitSegments(sql, [other, again])).toEqual({
      kind: "duplicates",
      blockIds: new Set([blockId]),
    });
    expect(await counts()).toEqual(before);
    expect(await isCommitted(sql, [other])).toBe(false);
  });

  test("of two segments that share a block is refused", async () => {
    const blockIds = [randomUUID()];
    await expect(commitSegments(sql, [segment({ blockIds }), segment({ blockIds })])).rejects.toThrow(TypeError);
    expect((await counts())["blocks"]).toBe(0);
  });

  test("keeps the first row of a process and of a stream", async () => {
    const processId = randomUUID();
    const first = segment({ processIds: [processId] });
    const second = segment({ processIds: [processId] });
    await commitSegments(sql, [first]);
    await commitSegments(sql, [{ ...second, processes: [rowOf(processId, { serviceName: "renamed" })] }]);
    expect(await sql`select service_name from processes`).toMatchObject([{ service_name: "checkout" }]);
    expect(await counts()).toEqual({ processes: 1, streams: 1, blocks: 2, partitions: 2 });
  });

  test("accepts text, JSON and times that Postgres cannot hold", async () => {
    const processId = randomUUID();
    const row = rowOf(processId, {
      serviceName: "a\0b\ud800",
      executable: `quotes " ' \\ {}, NULL`,
      startTimeMs: 1e300,
      properties: String.raw`{"a\u0000":["\ud800",1,{"b":"\u0000"}],"ok":"\ud83d\ude00","c":"\\u0000"}`,
    });
    const good = segment({ processIds: [processId] });
    await commitSegments(sql, [{ ...good, processes: [row] }]);
    expect(await sql`select * from processes`).toMatchObject([
      {
        service_name: "a\ufffdb\ufffd",
        executable: `quotes " ' \\ {}, NULL`,
        start_time: null,
        properties: { "a\ufffd": ["\ufffd", 1, { b: "\ufffd" }], ok: "😀", c: String.raw`\u0000` },
      },
    ]);
  });

  test("of an audience called NULL is not unstamped", async () => {
    await commitSegments(sql, [segment({ audience: "NULL" })]);
    for (const table of ["processes", "streams", "blocks", "lakehouse_partitions"]) {
      expect(await sql`select audience from ${sql(table)}`).toMatchObject([{ audience: "NULL" }]);
    }
  });

  test("that the database refuses leaves nothing behind", async () => {
    const bad = segment({ audience: "not an audience" });
    await expect(commitSegments(sql, [segment(), bad])).rejects.toMatchObject({ code: "23514" });
    expect(await counts()).toEqual({ processes: 0, streams: 0, blocks: 0, partitions: 0 });
  });
});

describe("a process that was published before", () => {
  const processIds = [randomUUID(), randomUUID()];

  /** A commit of a further block of the two processes, whose rows say something else than before. */
  async function commitAgain(published: PublishedStreams): Promise<void> {
    const again = segment({ processIds, blockIds: [randomUUID(), randomUUID()] });
    const processes = processIds.map((id) => rowOf(id, { serviceName: "again" }));
    expect(await commitSegments(sql, [{ ...again, processes }], published)).toEqual({ kind: "committed" });
  }

  async function serviceNames(): Promise<string[]> {
    const rows = await sql<{ name: string }[]>`select service_name as name from processes order by process_id`;
    return rows.map(({ name }) => name);
  }

  test("does not travel again", async () => {
    const published = new PublishedStreams();
    await commitSegments(sql, [segment({ processIds })], published);
    await sql`delete from processes`;
    await commitAgain(published);
    expect(await counts()).toEqual({ processes: 0, streams: 2, blocks: 3, partitions: 2 });
  });

  test("comes back when it was removed with its stream", async () => {
    const published = new PublishedStreams();
    await commitSegments(sql, [segment({ processIds, blockIds: [randomUUID(), randomUUID()] })], published);
    await sql`delete from streams where process_id = ${processIds[0] ?? ""}`;
    await sql`delete from processes where process_id = ${processIds[0] ?? ""}`;
    await commitAgain(published);
    expect(await counts()).toEqual({ processes: 2, streams: 2, blocks: 4, partitions: 2 });
    expect((await serviceNames()).toSorted()).toEqual(["again", "checkout"]);
    // It is known again.
    await sql`delete from processes`;
    await commitAgain(published);
    expect(await counts()).toMatchObject({ processes: 0, blocks: 6 });
  });

  test("travels with a further stream of it, and with what was not published after all", async () => {
    const published = new PublishedStreams();
    const first = segment({ processIds });
    const bad = { ...first, blocks: first.blocks.map((block) => ({ ...block, rowCount: -1 })) };
    await expect(commitSegments(sql, [bad], published)).rejects.toMatchObject({ code: "23514" });
    await commitSegments(sql, [first], published);
    expect(await counts()).toMatchObject({ processes: 2 });
    await sql`delete from processes`;
    const traces = segment({ processIds });
    const streams = traces.streams.map((stream) => ({ ...stream, streamId: randomUUID(), signal: 3 as const }));
    await commitSegments(sql, [{ ...traces, streams }], published);
    expect(await counts()).toMatchObject({ processes: 2, streams: 4 });
  });
});

test("streams that are removed all the time come back with their processes", async () => {
  const published = new PublishedStreams();
  const processIds = [randomUUID(), randomUUID(), randomUUID()];
  const { streams } = segment({ processIds });
  const ids = streams.map(({ streamId }) => streamId);
  const tomorrow = Date.now() / 1000 + 86_400;
  let removed = 0;
  const committed = new AbortController();
  const removing = (async () => {
    while (!committed.signal.aborted) {
      removed += (await removeStreams(sql, ids, tomorrow)).processes;
    }
  })();
  removing.catch(() => undefined); // awaited below
  for (let round = 0; round < 60; round++) {
    const again = segment({ processIds, blockIds: processIds.map(() => randomUUID()) });
    await commitSegments(sql, [again], published);
  }
  committed.abort();
  await removing;
  expect(removed).toBeGreaterThan(3);
  const [lost] = await sql`
    select count(*)::int as streams from streams s
    where not exists (select from processes p where p.process_id = s.process_id)`;
  expect(lost).toEqual({ streams: 0 });
  // Whatever was removed last is there again after one more.
  await commitSegments(sql, [segment({ processIds, blockIds: processIds.map(() => randomUUID()) })], published);
  expect(await counts()).toMatchObject({ processes: 3, streams: 3 });
});

describe("concurrent commits", () => {
  test("of the same block store it once, and every other one is told", async () => {
    const servers = [sql, connectAgain(), connectAgain(), connectAgain()];
    const processIds = [randomUUID()];
    for (let round = 0; round < 20; round++) {
      const blockId = randomUUID();
      const segments = servers.map(() => segment({ blockIds: [blockId, randomUUID()], processIds }));
      const results = await Promise.all(segments.map((one, i) => commitSegments(servers[i] ?? sql, [one])));
      expect(results.filter(({ kind }) => kind === "committed")).toHaveLength(1);
      expect(results.flatMap((result) => (result.kind === "duplicates" ? [...result.blockIds] : []))).toEqual(
        Array.from({ length: servers.length - 1 }, () => blockId),
      );
      const published = await Promise.all(segments.map((one) => isCommitted(sql, [one])));
      expect(published).toEqual(results.map(({ kind }) => kind === "committed"));
    }
    expect(await counts()).toEqual({ processes: 1, streams: 1, blocks: 40, partitions: 20 });
  });

  test("over the same rows in opposite orders end without deadlock, each block once", async () => {
    const servers = [connectAgain(), connectAgain(), connectAgain()];
    await Promise.all(servers.map((server) => server`select 1`));
    for (let round = 0; round < 3; round++) {
      const processIds = Array.from({ length: 500 }, () => randomUUID());
      const blockIds = Array.from({ length: 3000 }, () => randomUUID());
      const results = await Promise.all(
        servers.map((server, i) => {
          const backwards = i % 2 === 1;
          const given = segment({
            blockIds: backwards ? blockIds.toReversed() : blockIds,
            processIds: backwards ? processIds.toReversed() : processIds,
          });
          return commitSegments(server, [given]);
        }),
      );
      expect(results.map(({ kind }) => kind).sort()).toEqual(["committed", "duplicates", "duplicates"]);
    }
    expect(await counts()).toEqual({ processes: 1500, streams: 1500, blocks: 9000, partitions: 3 });
    // A backend reports its deadlocks when it ends.
    await Promise.all(pools.splice(0).map((pool) => pool.end({ timeout: 1 })));
    for (let open = 1; open > 0;) {
      const rows = await sql`select 1 from pg_stat_activity
        where application_name = 'another server' and datname = current_database()`;
      open = rows.length;
    }
    const [stats] = await sql`
      select deadlocks::int from pg_stat_database where datname = current_database()`;
    expect(stats).toMatchObject({ deadlocks: 0 });
  });
});

describe("a connection lost before the answer", () => {
  /** Ends the connections of a pool from the outside, as a crash or a failover would. */
  async function cutConnections(): Promise<void> {
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'another server' and datname = current_database()`;
  }

  /** Waits until a commit of the other server hangs on a lock. */
  function untilBlocked(): Promise<void> {
    return until(async () => {
      const rows = await sql`select 1 from pg_stat_activity
        where application_name = 'another server' and wait_event_type = 'Lock'
          and datname = current_database()`;
      return rows.length > 0;
    });
  }

  test("leaves the segment published once when the first run died", async () => {
    const server = connectAgain();
    const mine = segment();
    const blockId = mine.blocks[0]?.blockId ?? "";
    const locker = await sql.reserve();
    await locker`begin`;
    await locker`insert into blocks values (${blockId}, ${blockId}, ${blockId}, null, 1, null, null, 0, 0)`;
    const result = commitSegments(server, [mine]);
    await untilBlocked();
    await cutConnections();
    await locker`rollback`;
    locker.release();
    expect(await result).toEqual({ kind: "committed" });
    expect(await counts()).toEqual({ processes: 1, streams: 1, blocks: 1, partitions: 1 });
  });

  test("leaves it published once when the first run had committed", async () => {
    const mine = segment();
    // The first answer to the statement gets lost.
    const wire = await startWire(database.connectionString, "database", "SELECT 1");
    try {
      const server = connectAgain(wire.connectionString);
      expect(await commitSegments(server, [mine])).toEqual({ kind: "committed" });
      expect(wire.broken()).toBe(true);
      expect(await counts()).toEqual({ processes: 1, streams: 1, blocks: 1, partitions: 1 });
      // The same bytes in another segment are duplicates all the same.
      const again = segment({ blockIds: mine.blocks.map(({ blockId }) => blockId) });
      expect(await commitSegments(server, [again])).toMatchObject({ kind: "duplicates" });
    } finally {
      await Promise.all(pools.splice(0).map((pool) => pool.end({ timeout: 1 })));
      await wire.stop();
    }
  });

  test("is UNAVAILABLE when the database stays away", async () => {
    const nowhere = connect({
      connectionString: "postgres://nobody@127.0.0.1:1/none",
      maxConnections: 1,
      applicationName: "nowhere",
      logger: createSilentLogger(),
    });
    pools.push(nowhere);
    await expect(commitSegments(nowhere, [segment()])).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
  });
});
