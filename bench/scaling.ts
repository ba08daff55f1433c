/**
 * `pnpm bench scaling`: the constants behind docs/scaling.md that no other bench has. What requests at several rates make
 * of objects, rows of the catalogue, transactions and WAL; and what planning costs over catalogues of several sizes.
 * The ingestion server is a process of its own over a real Postgres; the machine may be busy, because it counts.
 */
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import type { Sql } from "../src/db/sql.js";
import { findPartitions } from "../src/lake/catalogue.js";
import { createLogger } from "../src/runtime/log/log.js";
import { assertAccepted, generateLoad, loadUrl, prepareDatabase, startServer } from "./load/ingestion-process.js";
import { processCpuSeconds } from "../src/engine/process-cpu.js";
import { median, round } from "./figures.js";
import { startBenchDatabase } from "./run/database.js";
import { describeEnvironment } from "./run/machine.js";
import { count, counts, flag, number, readOptions } from "./run/options.js";
import { saveResults } from "./run/results.js";
import { printTable } from "./run/table.js";

type Figures = Record<string, string | number>;

/** How often a session of Postgres that idles tells of its transactions, and some. */
const statisticsDelayMs = 11_000;

interface Counts {
  readonly objects: number;
  readonly blocks: number;
  readonly transactions: number;
  readonly walBytes: number;
  readonly objectBytes: number;
}

async function countAll(sql: Sql): Promise<Counts> {
  await sleep(statisticsDelayMs);
  const [row] = await sql<Counts[]>`
    select (select count(*)::float8 from lakehouse_partitions) as "objects",
      (select coalesce(sum(file_bytes), 0)::float8 from lakehouse_partitions) as "objectBytes",
      (select count(*)::float8 from blocks) as "blocks",
      (select xact_commit::float8 from pg_stat_database where datname = current_database()) as "transactions",
      pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as "walBytes"`;
  if (row === undefined) {
    throw new Error("Postgres counted nothing");
  }
  return row;
}

async function ingestAt(
  sql: Sql,
  server: Awaited<ReturnType<typeof startServer>>,
  authorization: string,
  load: { readonly rate: number; readonly records: number; readonly seconds: number },
): Promise<Figures> {
  const before = await countAll(sql);
  const cpuBefore = processCpuSeconds(server.pid);
  const report = await generateLoad(loadUrl(server, "logs", "http"), authorization, {
    signal: "logs",
    connections: Math.min(256, Math.max(4, load.rate)),
    ...load,
  });
  const cpu = processCpuSeconds(server.pid) - cpuBefore;
  assertAccepted(`${load.rate} requests a second`, report);
  const after = await countAll(sql);
  const objects = after.objects - before.objects;
  return {
    "requests/s offered": load.rate,
    "records/request": load.records,
    requests: report.requests,
    answered: report.statuses["200"] ?? 0,
    objects,
    "requests/object": Number((report.requests / objects).toFixed(2)),
    blocks: after.blocks - before.blocks,
    transactions: after.transactions - before.transactions,
    "WAL bytes/request": Math.round((after.walBytes - before.walBytes) / report.requests),
    "object bytes/record": Math.round((after.objectBytes - before.objectBytes) / report.records),
    "server CPU us/record": Number(((cpu * 1e6) / report.records).toFixed(2)),
    "p50 ms": report.latencyMs.p50,
  };
}

const minute = 60_000_000_000n;

/** Fills the catalogue with objects of a minute each, and asks for the newest, the oldest and a middle minute. */
async function planOver(sql: Sql, objects: number): Promise<Figures> {
  await sql`truncate lakehouse_partitions`;
  await sql`
    insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
      min_time_ns, max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order, bucket_seconds)
    select gen_random_uuid(), 'log_entries', 'public',
      'log_entries/audience=public/2026-01-01/' || gen_random_uuid() || '.l3.parquet', 1000000, 1000000,
      i * ${minute}::bigint, (i + 1) * ${minute}::bigint - 1, now(), now(), 3, sha256('x'), 'time,insert_time', 60
    from generate_series(0, ${objects - 1}::bigint) as i`;
  await sql`vacuum analyze lakehouse_partitions`;
  const [size] = await sql<{ bytes: number }[]>`
    select pg_total_relation_size('lakehouse_partitions')::float8 as bytes`;
  const ask = async (at: number, wanted: number): Promise<number> => {
    const begin = BigInt(at) * minute;
    const times: number[] = [];
    for (let i = 0; i < 21; i++) {
      const started = performance.now();
      const found = await findPartitions(sql, {
        viewSet: "log_entries",
        audiences: { kind: "some", audiences: new Set(["public"]), unstamped: false },
        minTimeNs: begin,
        maxTimeNs: begin + BigInt(wanted) * minute - 1n,
      });
      times.push(performance.now() - started);
      if (found.length !== wanted) {
        throw new Error(`found ${found.length} objects instead of ${wanted}`);
      }
    }
    return round(median(times));
  };
  return {
    "catalogue rows": objects,
    "bytes/row with indexes": Math.round((size?.bytes ?? 0) / objects),
    "newest object, ms": await ask(objects - 1, 1),
    "middle object, ms": await ask(Math.floor(objects / 2), 1),
    "oldest object, ms": await ask(0, 1),
    "newest 1000 objects, ms": await ask(objects - 1000, 1000),
  };
}

/** Runs the bench; see the head of this file. */
export async function benchScaling(argv: readonly string[]): Promise<readonly []> {
  const options = {
    seconds: number(15, "length of the load at each rate", 1),
    rates: counts("1,10,100,1000", "requests a second; each rate is a run"),
    records: count(100, "records a request"),
    catalogues: counts("10000,100000,1000000", "objects that plans are made among"),
    save: flag("keeps the result under bench/results/"),
  };
  const values = readOptions("scaling", "the constants of docs/scaling.md", options, argv);
  const directory = tmpdir();
  const logger = createLogger({ level: "warn", service: "bench" });
  const database = await startBenchDatabase({ dataDirectory: directory, maxConnections: 1, logger });
  const { connectionString, sql } = database;
  const { authorization } = await prepareDatabase(connectionString, logger);
  try {
    const server = await startServer({ connectionString, dataDirectory: directory, driver: "uws" });
    const ingestion: Figures[] = [];
    let idlePerSecond: number;
    try {
      const idle = await countAll(sql);
      idlePerSecond = ((await countAll(sql)).transactions - idle.transactions) / (statisticsDelayMs / 1000);
      const { records, seconds } = values;
      for (const rate of values.rates) {
        ingestion.push(await ingestAt(sql, server, authorization, { rate, records, seconds }));
      }
    } finally {
      await server.stop();
    }
    console.log(`without requests: ${idlePerSecond.toFixed(2)} transactions a second`);
    printTable("ingestion", ingestion);
    const planning: Figures[] = [];
    for (const objects of values.catalogues) {
      planning.push(await planOver(sql, objects));
    }
    printTable("planning", planning);
    if (values.save) {
      saveResults("scaling", {
        environment: describeEnvironment(),
        settings: values,
        idlePerSecond,
        ingestion,
        planning,
      });
    }
  } finally {
    await database.stop();
  }
  return [];
}
