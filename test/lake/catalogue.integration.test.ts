import { randomUUID } from "node:crypto";
import { mkdtemp, rm, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Sql } from "../../src/db/sql.js";
import type { AudienceFilter } from "../../src/db/audience-filter.js";
import { findPartitions, listPartitions, readBlocks, readProcesses, readStreams } from "../../src/lake/catalogue.js";
import type { SegmentCommit } from "../../src/lake/catalogue-rows.js";
import { commitSegments } from "../../src/lake/commit.js";
import { processRow } from "../../src/lake/process-row.js";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { retirePartitions } from "../../src/lake/retire.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import type { TableName } from "../../src/lake/tables/tables.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

let database: TestDatabase;
let sql: Sql;
const insertTimeMs = Date.now();

interface Shape {
  readonly name: string;
  readonly audience: string | null;
  readonly times: readonly [bigint, bigint];
  readonly viewSet?: TableName;
  readonly processId?: string;
  readonly listed?: boolean;
}

function segmentOf(shape: Shape): SegmentCommit {
  const { name, audience, times, viewSet = "log_entries", processId = randomUUID() } = shape;
  const streamId = randomUUID();
  const ids = { processId, streamId, audience, signal: 1 } as const;
  const [beginTimeNs, endTimeNs] = times;
  return {
    processes: [
      processRow({
        processId,
        audience,
        serviceNamespace: "shop",
        serviceName: name,
        serviceInstanceId: null,
        serviceVersion: null,
        hostId: null,
        hostName: null,
        processPid: 7,
        executable: null,
        username: null,
        sdkName: null,
        sdkLanguage: null,
        sdkVersion: null,
        startTimeMs: 1000,
        properties: '{"a":[1]}',
      }),
    ],
    streams: [ids],
    blocks: [{ ...ids, blockId: randomUUID(), beginTimeNs, endTimeNs, rowCount: 1, payloadBytes: 2 }],
    partitions: [
      {
        partitionId: randomUUID(),
        viewSet,
        audience,
        path: name,
        fileBytes: 10,
        checksum: 0,
        rowCount: 1,
        minTimeNs: beginTimeNs,
        maxTimeNs: endTimeNs,
        insertTimeMs,
        level: 0,
        schemaHash: "aa",
        sortOrder: "",
        processIds: (shape.listed ?? true) ? [processId] : null,
      },
    ],
  };
}

const some = (audiences: string[], unstamped = false): AudienceFilter => ({
  kind: "some",
  audiences: new Set(audiences),
  unstamped,
});
const processA = randomUUID();
const processB = randomUUID();

beforeAll(async () => {
  database = await createTestDatabase();
  sql = database.sql;
  const shapes: Shape[] = [
    { name: "a-early", audience: "a", times: [0n, 10n], processId: processA },
    { name: "a-late", audience: "a", times: [100n, 110n], processId: processB },
    { name: "a-many", audience: "a", times: [50n, 60n], listed: false },
    { name: "b", audience: "b", times: [5n, 105n] },
    { name: "none", audience: null, times: [5n, 105n] },
    { name: "spans", audience: "a", times: [0n, 10n], viewSet: "spans" },
  ];
  await commitSegments(sql, shapes.map(segmentOf));
});
afterAll(() => database.drop());

describe("partitions", () => {
  const find = async (
    audiences: AudienceFilter,
    rest: { minTimeNs?: bigint; maxTimeNs?: bigint; processId?: string } = {},
  ): Promise<string[]> =>
    (await findPartitions(sql, { viewSet: "log_entries", audiences, ...rest })).map((p) => p.path);

  test("are those of the audiences asked for, and the unstamped ones only when told", async () => {
    expect(await find(some(["a"]))).toEqual(["a-early", "a-many", "a-late"]);
    expect((await find(some(["a", "b"]))).sort()).toEqual(["a-early", "a-late", "a-many", "b"]);
    expect(await find(some(["b"], true))).toHaveLength(2);
    expect(await find(some([], true))).toEqual(["none"]);
    expect(await find(some([]))).toEqual([]);
    expect(await find(some(["'; drop table blocks; --", "%"]))).toEqual([]);
    expect(await find({ kind: "all" })).toHaveLength(5);
  });

  test("are those whose times meet the bounds, both ends included", async () => {
    expect(await find(some(["a"]), { minTimeNs: 11n })).toEqual(["a-many", "a-late"]);
    expect(await find(some(["a"]), { minTimeNs: 10n, maxTimeNs: 50n })).toEqual(["a-early", "a-many"]);
    expect(await find({ kind: "all" }, { minTimeNs: 11n, maxTimeNs: 49n })).toHaveLength(2);
    expect(await find(some(["a"]), { maxTimeNs: -1n })).toEqual([]);
  });

  test("leave out those known not to hold the process", async () => {
    expect(await find(some(["a"]), { processId: processA })).toEqual(["a-early", "a-many"]);
    expect(await find(some(["a"]), { processId: processB })).toEqual(["a-many", "a-late"]);
  });

  test("come with everything a reader can know before opening them", async () => {
    const [first] = await listPartitions(sql, { viewSet: "spans", audiences: { kind: "all" } });
    expect(first).toMatchObject({
      viewSet: "spans",
      audience: "a",
      path: "spans",
      fileBytes: 10,
      rowCount: 1,
      minTimeNs: 0n,
      maxTimeNs: 10n,
      minInsertTime: new Date(insertTimeMs),
      level: 0,
      schemaHash: "aa",
      sortOrder: "",
    });
  });

  test("are found through the pruning index among many", async () => {
    await sql`
      insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
        min_time_ns, max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order)
      select gen_random_uuid(), 'measures', 'a', 'm' || i, 1, 1, i * 100, i * 100 + 99, now(), now(),
        0, '', ''
      from generate_series(1, 10000) as i`;
    await sql`analyze lakehouse_partitions`;
    const found = await findPartitions(sql, {
      viewSet: "measures",
      audiences: some(["a", "b"], true),
      minTimeNs: 500_000n,
      maxTimeNs: 500_250n,
    });
    expect(found.map(({ path }) => path)).toEqual(["m5000", "m5001", "m5002"]);
  });
});

describe("rows of the catalogue", () => {
  async function collect<T>(chunks: AsyncIterable<T[]>): Promise<T[]> {
    const rows: T[] = [];
    for await (const chunk of chunks) {
      rows.push(...chunk);
    }
    return rows;
  }

  test("are read for the audiences asked for only", async () => {
    for (const read of [readProcesses, readStreams, readBlocks] as const) {
      const audiencesOf = async (audiences: AudienceFilter): Promise<(string | null)[]> =>
        (await collect<{ audience: string | null }>(read(sql, { audiences }))).map((row) => row.audience);
      expect(new Set(await audiencesOf(some(["b"])))).toEqual(new Set(["b"]));
      expect(new Set(await audiencesOf(some(["b"], true)))).toEqual(new Set(["b", null]));
      expect(await audiencesOf(some([]))).toEqual([]);
      expect(await audiencesOf({ kind: "all" })).toHaveLength(6);
    }
  });

  test("hold what was committed", async () => {
    const [process] = await collect(readProcesses(sql, { audiences: { kind: "all" }, processId: processA }));
    expect(process).toMatchObject({
      processId: processA,
      audience: "a",
      serviceNamespace: "shop",
      serviceName: "a-early",
      processPid: 7n,
      startTime: new Date(1000),
      properties: '{"a": [1]}',
    });
    const [stream] = await collect(readStreams(sql, { audiences: { kind: "all" }, processId: processA }));
    expect(stream).toMatchObject({ processId: processA, signal: 1, format: "otlp" });
    const blocks = await collect(readBlocks(sql, { audiences: some(["a"]), minTimeNs: 60n, maxTimeNs: 100n }));
    expect(new Set(blocks.map(({ beginTimeNs }) => beginTimeNs))).toEqual(new Set([50n, 100n]));
  });

  test("come in chunks, and leaving early frees the connection", async () => {
    await sql`
      insert into processes (process_id, audience, properties)
      select gen_random_uuid(), 'crowd', '{}' from generate_series(1, 5000)`;
    const sizes: number[] = [];
    for await (const chunk of readProcesses(sql, { audiences: some(["crowd"]) })) {
      sizes.push(chunk.length);
    }
    expect(sizes).toEqual([2000, 2000, 1000]);
    for (let i = 0; i < 10; i++) {
      for await (const chunk of readProcesses(sql, { audiences: some(["crowd"]) })) {
        expect(chunk).toHaveLength(2000);
        break;
      }
    }
    expect(await sql`select 1 as one`).toMatchObject([{ one: 1 }]);
  });
});

test("a sweep removes old unpublished objects and leaves published and young ones", async () => {
  const root = await mkdtemp(join(tmpdir(), "lake-sweep-"));
  try {
    const store = await openObjectStore(pathToFileURL(root).href);
    const nowMs = Date.now();
    const put = async (path: string, ageMs: number): Promise<void> => {
      await store.put(path, [Buffer.from("12345")]);
      const seconds = (nowMs - ageMs) / 1000;
      await utimes(join(root, path), seconds, seconds);
    };
    await put("x/published.parquet", 7_200_000);
    await put("x/orphan.parquet", 7_200_000);
    await put("x/.half.parquet.00.tmp", 7_200_000);
    await put("x/young.parquet", 3_000_000);
    await commitSegments(sql, [
      segmentOf({ name: "x/published.parquet", audience: "a", times: [0n, 1n], viewSet: "spans" }),
    ]);
    expect(await sweepOrphans(sql, store, { nowMs })).toEqual({
      removedObjects: 2,
      removedBytes: 10,
      failure: null,
    });
    const left: string[] = [];
    for await (const { path } of store.list("")) {
      left.push(path);
    }
    expect(left.sort()).toEqual(["x/published.parquet", "x/young.parquet"]);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});

describe("retiring", () => {
  const only = (path: string): { readonly kind: "path"; readonly path: string } => ({
    kind: "path",
    path,
  });

  test.each([
    ["an object of a hidden audience", "hidden", { kind: "some", audiences: new Set(["open"]), unstamped: true }],
    ["an unstamped object when those are hidden", null, { kind: "all", unstamped: false }],
    [
      "an unstamped object without a right to them",
      null,
      { kind: "some", audiences: new Set(["open"]), unstamped: false },
    ],
  ] as const)("leaves %s where it is", async (name, audience, audiences) => {
    const path = `retire ${name}`;
    await commitSegments(sql, [segmentOf({ name: path, audience, times: [1n, 2n] })]);
    expect(await retirePartitions(sql, audiences, only(path))).toEqual([]);
    const everybody: AudienceFilter = { kind: "all" };
    expect(await retirePartitions(sql, everybody, only(path))).toMatchObject([{ path }]);
  });
});
