/**
 * `pnpm bench growth [--objects 10000] [--times 10] [--rounds 6] [--seconds 5] [--rate N] [--save]`: what a log record
 * costs to ingest and to merge in a lake of so many merged objects, and in one of ten times as many.
 *
 * Each lake has a database, an ingestion server and a maintenance server of its own; their rounds take turns, so that a
 * busy moment of the machine meets both. The lakes are filled with copies of one merged object, as links to its file,
 * and with blocks, as if they had been there for long; then a round that does not count. Merging goes by 64 objects at a
 * time, so its cost is that of all rounds, for each record that they merged. Postgres serves both; its CPU is given apart.
 * Without `--rate` (requests a second) the load is as high as it gets.
 */
import { randomUUID } from "node:crypto";
import { link, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { mergedObjectPath } from "../../src/lake/store/paths.js";
import { createLogger, type Logger } from "../../src/runtime/log/log.js";
import { atMost, type Figure, figure, median } from "../figures.js";
import { assertAccepted, generateLoad, prepareDatabase, startServer } from "../load/ingestion-process.js";
import { startMaintenance, untilMerged, waitingOf } from "../load/maintenance-process.js";
import { describeEnvironment, treeCpuSeconds } from "../run/machine.js";
import { count, flag, number, readOptions } from "../run/options.js";
import { saveResults } from "../run/results.js";
import { printTable } from "../run/table.js";

const recordsPerRequest = 1000;
const rowsPerStatement = 10_000;
const hourNs = 3_600_000_000_000n;

interface Load {
  readonly seconds: number;
  readonly connections: number;
  readonly rate?: number;
}

/** Records, and CPU microseconds of all of them together. */
interface Round {
  readonly records: number;
  /** Of this round and of earlier ones. */
  readonly mergedRecords: number;
  readonly ingestion: number;
  readonly merging: number;
  readonly postgres: number;
}

interface GrownLake {
  readonly objects: number;
  /** Sends a load, and waits until maintenance has nothing left to do. */
  round(load: Load): Promise<Round>;
  stop(): Promise<void>;
}

/** Runs the bench; see the head of this file. */
export async function benchGrowth(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    objects: count(10_000, "merged objects of the smaller lake"),
    times: count(10, "how many times as many the larger one has"),
    blocks: count(20, "blocks for each object"),
    rounds: count(6, "rounds of each lake, in turns"),
    seconds: number(5, "load of a round", 0.5),
    rate: number(0, "requests a second; 0: as many as there can be"),
    connections: count(16, "senders"),
    save: flag("keeps the result under bench/results/"),
  };
  const values = readOptions("growth", "ingestion and merging in lakes of two sizes", options, argv);
  const { seconds, connections, rate } = values;
  const load: Load = { seconds, connections, ...(rate === 0 ? {} : { rate }) };
  const directory = tmpdir();
  const logger = createLogger({ level: "warn", service: "bench" });
  const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger });
  const lakes: GrownLake[] = [];
  const measured: [Round[], Round[]] = [[], []];
  try {
    for (const objects of [values.objects, values.objects * values.times]) {
      lakes.push(await startGrownLake(postgres.connectionString, directory, objects, values.blocks, load, logger));
    }
    for (let round = 0; round < values.rounds; round++) {
      for (const which of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        const lake = lakes[which];
        if (lake !== undefined) {
          measured[which].push(await lake.round(load));
        }
      }
    }
  } finally {
    await Promise.all(lakes.map((lake) => lake.stop()));
    await postgres.stop();
  }
  const costs = measured.map(costsOf);
  const rows = costs.map(({ ingestion, merging, postgres }, which) => ({
    objects: lakes[which]?.objects ?? 0,
    "ingestion, CPU us/record": median(ingestion).toFixed(3),
    "merging, CPU us/merged record": merging.toFixed(3),
    "Postgres, CPU us/record": median(postgres).toFixed(3),
  }));
  printTable(`ingestion and merging in lakes of two sizes, ${values.rounds} rounds in turns`, rows);
  const [fewer, more] = costs;
  if (fewer === undefined || more === undefined) {
    throw new Error("there are two lakes");
  }
  const ratios = {
    ingestion: more.ingestion.map((cost, round) => cost / (fewer.ingestion[round] ?? Number.NaN)),
    merging: more.merging / fewer.merging,
    postgres: more.postgres.map((cost, round) => cost / (fewer.postgres[round] ?? Number.NaN)),
  };
  if (values.save) {
    saveResults("growth", { environment: describeEnvironment(), settings: values, rows, ratios });
  }
  const target = atMost(1.1, `at ${values.objects} objects`);
  return [
    ...costs.flatMap(({ ingestion, merging, postgres }, which) => {
      const lake = `${lakes[which]?.objects ?? 0} objects`;
      return [
        figure(`ingestion, ${lake}`, "us/record", ingestion),
        figure(`merging, ${lake}`, "us/record", merging),
        figure(`Postgres, ${lake}`, "us/record", postgres),
      ];
    }),
    figure("ingestion, growth", "times", ratios.ingestion, target),
    figure("merging, growth", "times", ratios.merging, target),
    figure("Postgres, growth", "times", ratios.postgres),
  ];
}

/** CPU microseconds a record: of each round, and of all merging. */
function costsOf(rounds: readonly Round[]): { ingestion: number[]; merging: number; postgres: number[] } {
  const sum = (part: (round: Round) => number): number => rounds.reduce((all, round) => all + part(round), 0);
  return {
    ingestion: rounds.map(({ ingestion, records }) => ingestion / records),
    merging: sum(({ merging }) => merging) / sum(({ mergedRecords }) => mergedRecords),
    postgres: rounds.map(({ postgres, records }) => postgres / records),
  };
}

async function startGrownLake(
  clusterUrl: string,
  directory: string,
  objects: number,
  blocks: number,
  load: Load,
  logger: Logger,
): Promise<GrownLake> {
  const database = `growth_${objects}`;
  const admin = connect({ connectionString: clusterUrl, maxConnections: 1, applicationName: "bench", logger });
  await admin`create database ${admin(database)}`;
  await admin.end();
  const url = new URL(clusterUrl);
  url.pathname = `/${database}`;
  const connectionString = url.href;
  const { authorization, postmasterPid } = await prepareDatabase(connectionString, logger);
  const dataDirectory = path.join(directory, database);
  const sql = connect({ connectionString, maxConnections: 1, applicationName: "bench", logger });
  const server = await startServer({ connectionString, dataDirectory, driver: "uws" });
  let maintenance = await startMaintenance(connectionString, dataDirectory, "100");
  const stop = async (): Promise<void> => {
    await Promise.all([server.stop(), maintenance.stop()]);
    await sql.end({ timeout: 5 });
  };
  const round = async (wanted: Load): Promise<Round> => {
    const pids = [server.pid, maintenance.pid, postmasterPid];
    const waited = await waitingOf(sql);
    const before = pids.map(treeCpuSeconds);
    const report = await generateLoad(`${server.url}/ingestion/otlp/v1/logs`, authorization, {
      signal: "logs",
      records: recordsPerRequest,
      ...wanted,
    });
    const { records } = report;
    assertAccepted(`${objects} objects`, report);
    await untilMerged(maintenance.url);
    const [ingestion = 0, merging = 0, postgres = 0] = pids.map(
      (pid, i) => (treeCpuSeconds(pid) - (before[i] ?? 0)) * 1e6,
    );
    const mergedRecords = waited.rows + records - (await waitingOf(sql)).rows;
    return { records, mergedRecords, ingestion, merging, postgres };
  };
  try {
    await round(load);
    // Nobody looks while it is filled.
    await maintenance.stop();
    await fill(sql, path.join(dataDirectory, "lake"), objects, blocks);
    maintenance = await startMaintenance(connectionString, dataDirectory, "100");
    await round(load);
  } catch (error) {
    await stop();
    throw error;
  }
  return { objects, round, stop };
}

/** Makes the lake as large as it is to be: copies of its largest object, one an hour back in time, and blocks. */
async function fill(sql: Sql, root: string, objects: number, blocks: number): Promise<void> {
  const [model] = await sql<{ id: string; path: string }[]>`
    select partition_id as id, path from lakehouse_partitions
    where view_set = 'log_entries' order by level desc, row_count desc limit 1`;
  if (model === undefined) {
    throw new Error("nothing was stored");
  }
  for (let done = 0; done < objects; done += rowsPerStatement) {
    const some = Array.from({ length: Math.min(rowsPerStatement, objects - done) }, (_, i) => {
      const id = randomUUID();
      const hours = done + i + 1;
      const object = mergedObjectPath("log_entries", "public", 3, Date.now() - hours * 3_600_000, id);
      return { id, object, hours };
    });
    for (const directory of new Set(some.map(({ object }) => path.dirname(object)))) {
      await mkdir(path.join(root, directory), { recursive: true });
    }
    for (const { object } of some) {
      await link(path.join(root, model.path), path.join(root, object));
    }
    await sql`
      insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count, min_time_ns,
        max_time_ns, min_insert_time, max_insert_time, level, process_ids, schema_hash, sort_order, bucket_seconds,
        attribute_columns, attribute_names)
      select made.id, view_set, audience, made.object, file_bytes, row_count, min_time_ns - made.hours * ${hourNs}::int8,
        max_time_ns - made.hours * ${hourNs}::int8, min_insert_time - made.hours * interval '1 hour',
        max_insert_time - made.hours * interval '1 hour', 3, process_ids, schema_hash, sort_order, 3600,
        attribute_columns, attribute_names
      from lakehouse_partitions,
        unnest(${some.map(({ id }) => id)}::uuid[], ${some.map(({ object }) => object)}::text[],
          ${some.map(({ hours }) => hours)}::int8[]) as made (id, object, hours)
      where partition_id = ${model.id}`;
    await sql`
      insert into blocks (block_id, stream_id, process_id, audience, signal, begin_time_ns, end_time_ns, row_count,
        payload_bytes, insert_time)
      select gen_random_uuid(), stream_id, process_id, audience, signal, begin_time_ns, end_time_ns, row_count,
        payload_bytes, insert_time - (${done} + n / ${blocks}) * interval '1 hour'
      from (select * from blocks limit 1) as one, generate_series(1, ${some.length * blocks}::int) as n`;
  }
  await sql`vacuum analyze`;
}
