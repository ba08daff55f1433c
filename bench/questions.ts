/**
 * `pnpm bench questions [--scale 1] [--rounds 7] [--only 1,5] [--senders 2] [--directory DIR] [--save]`
 *
 * The everyday questions of docs/questions.md over 8 days of a shop of 20 services, asked of a monolith in a process of its
 * own by a Flight SQL client. The shop comes in over loopback as OTLP (bench/shop) and is merged before anything is
 * measured. At scale 1 it has 10 million spans, 10 million log records and 5 million metric points, and takes some
 * 6 GB of disk. With `--directory` it stays there and is found again by the next run; otherwise it is removed.
 *
 * Each question is asked as it is written, and with its earliest time moved to 8 days ago, for which the targets are.
 * On a busy machine look at the processor time of the server, its engines included: two cores have 2 s of it in a second.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { connect as connectClient, staticKey } from "telemetry-service-client";

import { mintAnalyticsKey, mintIngestionKey } from "../src/auth/keys/keys.js";
import type { Sql } from "../src/db/sql.js";
import { createSilentLogger } from "../src/runtime/log/log.js";
import {
  atMost,
  type Figure,
  figure,
  type FigureRow,
  median,
  noLimit,
  notMeasured,
  quantile,
  repeat,
  round,
} from "./figures.js";
import { connectReader } from "./load/flight-reader.js";
import { startBenchDatabase } from "./run/database.js";
import { describeEnvironment, treeCpuSeconds } from "./run/machine.js";
import { type Monolith, startMonolith } from "./monolith.js";
import { saveResults } from "./run/results.js";
import { count, flag, number, readOptions, text, Usage } from "./run/options.js";
import { loadShop, mergeAll } from "./shop/load.js";
import { overEightDays, type Question, readQuestions } from "./shop/questions.js";
import { shopOfScale } from "./shop/shop.js";
import { printTable } from "./run/table.js";

/** Milliseconds at the median. */
const targetMs = 1000;
/** Of a trace of 10,000 spans. */
const traceTreeTargetMs = 200;
const targetsAre = "targets are for scale 1";

interface Loaded {
  readonly scale: number;
  readonly records: Readonly<Record<string, number>>;
  readonly loadSeconds: number;
}

/** Loads the shop into a server, or finds it there, and merges what is not merged. */
async function openShop(
  directory: string,
  o: {
    readonly scale: number;
    readonly senders: number;
    readonly server: Monolith;
    readonly sql: Sql;
    readonly key: string;
    readonly sends: string;
  },
): Promise<Loaded> {
  const manifest = path.join(directory, `shop-${o.scale}.json`);
  if (!existsSync(manifest)) {
    const startMs = performance.now();
    // Ends at a full minute, just now.
    const shop = shopOfScale(o.scale, Math.floor(Date.now() / 60_000) * 60_000);
    const records = await loadShop(shop, { url: o.server.ingestionUrl, key: o.sends, senders: o.senders });
    await writeFile(manifest, JSON.stringify({ scale: o.scale, records, loadSeconds: secondsSince(startMs) }));
  }
  const loaded = JSON.parse(await readFile(manifest, "utf8")) as Loaded;
  console.log(`loaded in ${loaded.loadSeconds} s: ${JSON.stringify(loaded.records)}`);
  const startMs = performance.now();
  const reader = connectReader(o.server.analytics, o.key);
  await mergeAll(reader, o.sql);
  reader.close();
  console.log(`merged in ${secondsSince(startMs)} s`);
  return loaded;
}

const secondsSince = (startMs: number): number => round((performance.now() - startMs) / 1000, 0);

interface Answer {
  readonly ms: number;
  readonly rows: number;
}

/** Asks as a client does: results are decoded. */
async function ask(client: ReturnType<typeof connectClient>, sql: string): Promise<Answer> {
  const startMs = performance.now();
  let rows = 0;
  const { batches } = await client.query(sql);
  for await (const batch of batches) {
    rows += batch.numRows;
  }
  return { ms: performance.now() - startMs, rows };
}

async function measure(
  client: ReturnType<typeof connectClient>,
  pid: number,
  { number, words, sql }: Question,
  rounds: number,
): Promise<FigureRow> {
  const target = sql.includes("trace_tree(") ? traceTreeTargetMs : targetMs;
  const wide = overEightDays(sql);
  const row = { number, question: words };
  const written = await timesOf(client, sql, rounds);
  try {
    await ask(client, wide);
    const before = treeCpuSeconds(pid);
    const answers = await repeat(rounds, () => ask(client, wide));
    const cpuSeconds = (treeCpuSeconds(pid) - before) / rounds;
    const times = answers.map(({ ms }) => ms);
    const p50 = median(times);
    return {
      ...row,
      rows: answers[0]?.rows ?? 0,
      "p50 ms": round(p50, 0),
      "p95 ms": round(quantile(times, 0.95), 0),
      "CPU s": round(cpuSeconds),
      "target ms": target,
      met: p50 <= target && (answers[0]?.rows ?? 0) > 0 ? "yes" : "no",
      "as written: p50 ms": round(median(written), 0),
    };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return {
      ...row,
      rows: "failed",
      "p50 ms": "",
      "p95 ms": "",
      "CPU s": "",
      "target ms": target,
      met: "no",
      "as written: p50 ms": round(median(written), 0),
      error: message,
    };
  }
}

async function timesOf(client: ReturnType<typeof connectClient>, sql: string, rounds: number): Promise<number[]> {
  return (await repeat(rounds, () => ask(client, sql))).map(({ ms }) => ms);
}

/** Runs the bench; see the head of this file. */
export async function benchQuestions(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    scale: number(1, "size of the shop; 1 is 25 million records", 0.001),
    rounds: count(7, "times that each is asked"),
    only: text("", "numbers of questions, with commas between them"),
    senders: count(2, "processes that load the shop"),
    directory: text(null, "where the shop is kept for the next run"),
    save: flag("keeps the result under bench/results/"),
  };
  const values = readOptions("questions", "the everyday questions over 8 days of a shop", options, argv);
  const only = values.only.split(",").filter(Boolean).map(Number);
  const all = await readQuestions();
  if (only.some((wanted) => all.every(({ number }) => number !== wanted))) {
    throw new Usage(`--only takes numbers from 1 to ${all.length}, not ${JSON.stringify(values.only)}`, false);
  }
  const directory = values.directory ?? tmpdir();
  await mkdir(directory, { recursive: true });
  const logger = createSilentLogger();
  const database = await startBenchDatabase({ dataDirectory: path.join(directory, "db"), maxConnections: 1, logger });
  const { connectionString, sql } = database;
  let server: Monolith | null = null;
  try {
    const { key } = await mintAnalyticsKey(sql, { name: "bench", createdBy: "bench" });
    const { key: sends } = await mintIngestionKey(sql, { name: "shop", audience: "public", createdBy: "bench" });
    server = await startMonolith({
      SVC_ROLES: "ingestion,analytics",
      SVC_SQL_CONNECTION_STRING: connectionString,
      SVC_DATA_DIR: directory,
      SVC_QUERY_TIMEOUT_SECONDS: "60",
      // As for few people on a machine with some memory; by default a query has a 32nd of the machine's.
      SVC_QUERY_MEMORY_BYTES: "2GiB",
      // So that a day is few objects, as it is after maintenance had its time.
      SVC_MERGE_MEMORY_BYTES: "4GiB",
    });
    const environment = describeEnvironment();
    const loaded = await openShop(directory, {
      scale: values.scale,
      senders: values.senders,
      server,
      sql,
      key,
      sends,
    });
    const isWhole = loaded.scale >= 1;
    const lake = await sql<
      FigureRow[]
    >`select view_set as table, count(*)::int as objects, sum(row_count)::float8 as rows,
      sum(file_bytes)::float8 as bytes from lakehouse_partitions group by 1 order by 1`;
    printTable("lake", lake);
    const questions = all.filter(({ number }) => only.length === 0 || only.includes(number));
    const client = connectClient({ uri: `grpc://${server.analytics}`, auth: staticKey(key) });
    const rows: FigureRow[] = [];
    try {
      for (const question of questions) {
        const row = await measure(client, server.pid, question, values.rounds);
        rows.push(isWhole ? row : { ...row, met: "" });
        console.log(`${question.number}: ${row["error"] ?? `${row["p50 ms"]} ms`}`);
      }
    } finally {
      client.close();
    }
    printTable(
      `questions over 8 days at scale ${loaded.scale}; ${environment.cpu}, ${environment.cores} cores, Node.js ${environment.node}, ${environment.commit}`,
      rows,
    );
    const met = rows.filter((row) => row["met"] === "yes").length;
    console.log(isWhole ? `${met} of ${rows.length} met` : targetsAre);
    if (values.save) {
      saveResults("questions", {
        environment,
        settings: { scale: loaded.scale, rounds: values.rounds },
        loaded,
        lake,
        rows,
      });
    }
    return rows.map((row) => {
      const id = `question ${row["number"]}`;
      const limit = isWhole ? atMost(Number(row["target ms"])) : noLimit(targetsAre);
      const error = row["error"] ?? (row["rows"] === 0 ? "it has no rows" : undefined);
      return error === undefined
        ? figure(id, "ms", Number(row["p50 ms"]), limit)
        : notMeasured(id, "ms", String(error), limit);
    });
  } finally {
    await server?.stop();
    await database.stop();
  }
}
