/**
 * `pnpm bench merge [--objects 20] [--requests 27] [--threads 1] [--memory 512] [--save]`: CPU per row of merging
 * objects as ingestion writes them into sorted ZSTD objects by minute, those by hour, and joining these, by table:
 * all of it, from the catalogue through DuckDB, filters, footer and sync to the published partition. Beside it what
 * only reading and writing the same rows costs in the same DuckDB, without sorting. `--memory` is that of the merge in
 * MiB.
 *
 * An object is what a batch of some requests of 1000 records becomes; a request's rows are within a second, and
 * those of neighbouring batches overlap by half.
 */
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { DuckDBInstance } from "@duckdb/node-api";

import type { Sql } from "../src/db/sql.js";
import { SegmentBuilder } from "../src/ingest/segment.js";
import { mergePartitions } from "../src/lake/merge/merge.js";
import { stepLimitsFor } from "../src/lake/merge/merge-plan.js";
import type { ObjectStore } from "../src/lake/store/object-store.js";
import { openObjectStore } from "../src/lake/store/open-store.js";
import { encodeTable } from "../src/lake/parquet/write.js";
import { objectPath } from "../src/lake/store/paths.js";
import type { TableName } from "../src/lake/tables/tables.js";
import { systemClock } from "../src/runtime/clock.js";
import { createSilentLogger } from "../src/runtime/log/log.js";
import { buildPayload, type LoadSignal } from "./load/otlp-payloads.js";
import { type Figure, figure, notMeasured } from "./figures.js";
import { startBenchDatabase } from "./run/database.js";
import { describeEnvironment, treeCpuSeconds } from "./run/machine.js";
import { saveResults } from "./run/results.js";
import { count, flag, readOptions } from "./run/options.js";
import { printTable } from "./run/table.js";

const signals: readonly {
  readonly signal: LoadSignal;
  readonly number: 1 | 2 | 3;
  readonly table: TableName;
}[] = [
  { signal: "logs", number: 1, table: "log_entries" },
  { signal: "traces", number: 3, table: "spans" },
  { signal: "metrics", number: 2, table: "measures" },
];

const recordsPerRequest = 1000;
const startNs = 1_790_000_000_000_000_000n;
const second = 1_000_000_000n;

interface Lake {
  readonly sql: Sql;
  readonly store: ObjectStore;
  readonly root: string;
}

interface Written {
  readonly rows: number;
  readonly bytes: number;
  readonly files: readonly string[];
}

/** Writes and publishes objects of one table. */
async function fill(
  lake: Lake,
  { signal, number, table }: (typeof signals)[number],
  objects: number,
  requests: number,
): Promise<Written> {
  const builder = new SegmentBuilder({ maxInflatedBytes: 64 * 2 ** 20, maxDepth: 100 });
  const files: string[] = [];
  let rowCount = 0;
  let bytes = 0;
  for (let object = 0; object < objects; object++) {
    const receivedNs = startNs + BigInt(object * requests) * second;
    builder.begin(receivedNs, new Set());
    for (let request = 0; request < requests; request++) {
      // Half of the requests are late by a batch.
      const seed = 1 + Math.max(0, object - (request % 2)) * requests + request;
      const payload = buildPayload(signal, recordsPerRequest, seed);
      payload.body.writeBigUInt64LE(startNs + BigInt(seed) * second + BigInt(object), payload.patchOffset);
      const head = {
        signal: number,
        format: "protobuf",
        encoding: "identity",
        audience: "public",
      } as const;
      builder.add(payload.body, head);
    }
    const filled = builder.finish().groups[0]?.tables[table];
    if (filled === undefined) {
      throw new Error("a segment without rows");
    }
    const file = encodeTable(table, filled.columns as never, filled.rows, { compression: "none" });
    const id = randomUUID();
    const relative = objectPath(table, "public", Number(receivedNs / 1_000_000n), id);
    await lake.store.put(relative, file.chunks);
    await lake.sql`
      insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count, min_time_ns,
        max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order)
      values (${id}, ${table}, 'public', ${relative}, ${file.bytes}, ${file.rowCount}, ${file.minTimeNs},
        ${file.maxTimeNs}, now(), now(), 0, decode(${file.schemaHash}, 'hex'), '')`;
    files.push(path.join(lake.root, relative));
    rowCount += file.rowCount;
    bytes += file.bytes;
  }
  return { rows: rowCount, bytes, files };
}

interface Cost {
  readonly cpuUs: number;
  readonly wallMs: number;
}

async function measure(work: () => Promise<unknown>): Promise<Cost> {
  // DuckDB runs in a process of its own, which ends with the merge.
  const before = treeCpuSeconds(process.pid);
  const startMs = performance.now();
  await work();
  return { cpuUs: (treeCpuSeconds(process.pid) - before) * 1e6, wallMs: performance.now() - startMs };
}

/** Reads and writes the same rows in the same way, unsorted. */
async function copyOnly(files: readonly string[], target: string, threads: number): Promise<Cost> {
  const instance = await DuckDBInstance.create(":memory:", { threads: String(threads) });
  const connection = await instance.connect();
  try {
    const list = files.map((file) => `'${file}'`).join(", ");
    return await measure(() =>
      connection.run(
        `COPY (SELECT * FROM read_parquet([${list}], hive_partitioning = false)) TO '${target}'
         (FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 61440)`,
      ),
    );
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Runs the bench; see the head of this file. */
export async function benchMerge(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    objects: count(20, "objects of each table"),
    requests: count(27, "requests of 1000 records in an object"),
    threads: count(1, "threads of a merge"),
    memory: count(512, "MiB of a merge"),
    save: flag("keeps the result under bench/results/"),
  };
  const values = readOptions("merge", "merging objects", options, argv);
  const threads = values.threads;
  const directory = tmpdir();
  const logger = createSilentLogger();
  const root = path.join(directory, "lake");
  const database = await startBenchDatabase({ dataDirectory: path.join(directory, "db"), maxConnections: 4, logger });
  const { sql } = database;
  const rows: Record<string, string | number>[] = [];
  try {
    const store = await openObjectStore(pathToFileURL(root).href);
    const lake = { sql, store, root };
    for (const kind of signals) {
      const written = await fill(lake, kind, values.objects, values.requests);
      const copied = await copyOnly(written.files, path.join(directory, "copy.parquet"), threads);
      const memoryLimitBytes = values.memory * 2 ** 20;
      const context = {
        ...lake,
        limits: {
          tempDirectory: path.join(directory, "temp"),
          memoryLimitBytes,
          maxTempBytes: 16 * 2 ** 30,
          threads,
          step: stepLimitsFor(memoryLimitBytes),
          objects: 200,
        },
        clock: systemClock,
        cancelled: () => false,
      };
      let mergedBytes = 0;
      let made = 0;
      const mergeTo = (widthSeconds: number): Promise<Cost> =>
        measure(async () => {
          const result = await mergePartitions(context, {
            viewSet: kind.table,
            audiences: { kind: "all" },
            beginNs: 0n,
            endNs: 2n ** 62n,
            widthSeconds,
            regenerate: false,
          });
          const created = result.filter(({ action }) => action === "created");
          made = created.length;
          mergedBytes = created.reduce((sum, { fileBytes }) => sum + fileBytes, 0);
        });
      const minutes = await mergeTo(60);
      const madeOfMinutes = made;
      const merged = await mergeTo(3600);
      const sorted = await sql<{ id: string }[]>`
        select partition_id as id from lakehouse_partitions where view_set = ${kind.table}`;
      const joined = await measure(() =>
        mergePartitions(context, {
          viewSet: kind.table,
          audiences: { kind: "all" },
          partitionIds: sorted.map(({ id }) => id),
          widthSeconds: 32 * 86_400,
          level: 2,
        }),
      );
      rows.push({
        table: kind.table,
        rows: written.rows,
        "objects in": written.files.length,
        minutes: madeOfMinutes,
        hours: made,
        "bytes/row in": (written.bytes / written.rows).toFixed(1),
        "bytes/row out": (mergedBytes / written.rows).toFixed(1),
        "into minutes, CPU us/row": (minutes.cpuUs / written.rows).toFixed(2),
        "minutes into hours, CPU us/row": (merged.cpuUs / written.rows).toFixed(2),
        // One object is joined with nothing.
        "hours joined, CPU us/row": sorted.length < 2 ? "" : (joined.cpuUs / written.rows).toFixed(3),
        "unsorted copy, CPU us/row": (copied.cpuUs / written.rows).toFixed(2),
        "into minutes, rows/s": Math.round(written.rows / (minutes.wallMs / 1000)),
      });
    }
  } finally {
    await database.stop();
  }
  const environment = describeEnvironment();
  printTable(
    `merging; ${environment.cpu}, Node.js ${environment.node}, ${environment.commit}, ${threads} thread(s)`,
    rows,
  );
  if (values.save) {
    saveResults("merge", { environment, threads, rows });
  }
  const kinds = ["into minutes", "minutes into hours", "hours joined", "unsorted copy"] as const;
  return rows.flatMap((row) =>
    kinds.map((kind) => {
      const [id, unit, value] = [`${row["table"]}, ${kind}`, "CPU us/row", row[`${kind}, CPU us/row`]];
      return value === ""
        ? notMeasured(id, unit, "there was one object of hours: --objects and --requests make more")
        : figure(id, unit, Number(value));
    }),
  );
}
