/**
 * One trial: servers of every role over one embedded Postgres and one lake, under load, among faults; afterwards
 * everything has to be well again, and queries have to return every acknowledged record once.
 */
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { migrate } from "../../src/db/migrations.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { metricOf } from "../helpers/object-cache/cache-world.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { agePast, askTask, createErasures, type Erasures, persist } from "./chores.js";
import { type Cluster, type Place, startCluster } from "./cluster.js";
import type { TrialLake } from "./lakes.js";
import { runLanes } from "./lanes.js";
import { compare, createSender, type Found, type Ledger } from "./ledger.js";
import { query, read, type Reads } from "./readers.js";
import { createFaultRecord, type FaultRecord } from "./record.js";

const senders = 6;

interface TrialOptions {
  /** Stopped by whoever started it. */
  readonly lake: TrialLake;
  /** Empty; of the database, and of what servers keep. */
  readonly dataDirectory: string;
  /** Repeats the choice of faults, not their exact moments. */
  readonly seed: number;
  /** Faults go on for so long, and until there were so many kills, or for the longest time. */
  readonly minutes: number;
  readonly leastKills: number;
  readonly mostMinutes: number;
  readonly interrupted: AbortSignal;
  /** Told of the keys that it mints. */
  readonly minted: (...keys: readonly string[]) => void;
  /** Told how far it is. */
  readonly say: (what: string) => void;
}

/** What became of a trial. */
export interface Outcome {
  readonly record: FaultRecord;
  readonly reads: Reads;
  readonly ledger: Ledger;
  readonly erasures: number;
  loadSeconds: number;
  /** Records. */
  lost: number;
  doubled: number;
  /** Reads that object caches served at the analytics servers that run at the end. */
  throughCaches: number;
  /** What should not have been, a sentence each; empty when the promise was kept. */
  readonly problems: string[];
}

interface Trial extends TrialOptions {
  readonly cluster: Cluster;
  readonly sql: Sql;
  readonly keys: Keys;
}

/** Runs a trial; null when it was interrupted. It leaves no process. */
export async function runTrial(o: TrialOptions): Promise<Outcome | null> {
  const { lake, dataDirectory } = o;
  const logger = createSilentLogger();
  const postgres = await startEmbeddedPostgres({ dataDirectory, logger, maxConnections: 200 });
  const { connectionString } = postgres;
  const sql = connect({ connectionString, maxConnections: 4, applicationName: "faults", logger });
  try {
    await migrate(sql, logger);
    const keys = await mintKeys(sql);
    o.minted(...Object.values(keys));
    const cluster = await startCluster(
      (role, name) => ({
        ...lake.environmentOf(role),
        SVC_SQL_CONNECTION_STRING: connectionString,
        // What a server keeps on its disk is there again when it is.
        SVC_DATA_DIR: path.join(dataDirectory, name.replaceAll(" ", "-")),
      }),
      { ingestion: 3, analytics: 2, maintenance: 2, "object-cache": lake.objectCaches },
    );
    o.say("every server is ready");
    try {
      const outcome = await underLoad({ ...o, cluster, sql, keys });
      return o.interrupted.aborted ? null : outcome;
    } catch (error) {
      if (!o.interrupted.aborted) {
        throw error;
      }
      return null;
    } finally {
      await cluster.stop();
    }
  } finally {
    await sql.end({ timeout: 1 });
    await postgres.stop();
  }
}

/** Of two audiences, and of one who may read both. */
type Keys = Readonly<Record<"main" | "past" | "reader", string>>;

async function mintKeys(sql: Sql): Promise<Keys> {
  const reader = await mintAnalyticsKey(sql, { name: "reader", createdBy: "faults" });
  await sql`insert into audience_grants (audience, kind, member, created_by)
    select unnest(array['main', 'past']), 'read', ${`key:${reader.keyId}`}, 'faults'`;
  const mint = async (audience: string): Promise<string> =>
    (await mintIngestionKey(sql, { name: audience, audience, createdBy: "faults" })).key;
  return { main: await mint("main"), past: await mint("past"), reader: reader.key };
}

async function underLoad(trial: Trial): Promise<Outcome> {
  const { cluster, sql, keys, seed, lake, dataDirectory, interrupted, say } = trial;
  const record = createFaultRecord();
  const reads: Reads = { answered: 0, wrong: 0, failed: new Map() };
  const problems: string[] = [];
  const urls = (): string[] => cluster.of("ingestion").flatMap(({ current }) => current?.url ?? []);
  const sender = createSender(urls, seededRandom(seed), interrupted);
  const { ledger } = sender;
  const erasures = createErasures(sql, sender, keys.main);
  const startMs = performance.now();
  const faultsOver = (): boolean => {
    const passed = (performance.now() - startMs) / 60_000;
    const enough = passed >= trial.minutes && record.kills >= trial.leastKills;
    return interrupted.aborted || enough || passed >= Math.max(trial.minutes, trial.mostMinutes);
  };
  let quiet = false;
  const stopped = (): boolean => quiet || interrupted.aborted;
  const reading: Promise<void>[] = [];
  const startReading = (place: Place): void => {
    const running = read(place, { key: keys.reader, ledger, record, reads, problems, stopped });
    running.catch(() => undefined); // looked at below
    reading.push(running);
  };
  cluster.of("analytics").forEach(startReading);
  const working = Promise.all([
    ...Array.from({ length: senders }, () => sender.load({ key: keys.main, stopped, pauseMs: 50 })),
    erasures.run(stopped),
    agePast(sql, sender, keys.past, stopped),
  ]);
  working.catch(() => undefined); // looked at below
  const joined = (place: Place): void => {
    if (place.role === "analytics") {
      startReading(place);
    }
  };
  const faults = runLanes({ cluster, sql, lake, dataDirectory, seed, stopped: faultsOver, record, joined });
  await Promise.race([faults, working]);
  // Whoever sends has to get through by now, without another fault.
  quiet = true;
  await working;
  await Promise.all(reading);
  const loadSeconds = (performance.now() - startMs) / 1000;
  say("the faults are over");
  await allWell(trial, erasures, problems);
  interrupted.throwIfAborted();
  say("tasks have ended, and the lake is checked");
  const outcome: Outcome = {
    record,
    reads,
    ledger,
    erasures: erasures.asked.length,
    loadSeconds,
    lost: 0,
    doubled: 0,
    throughCaches: 0,
    problems,
  };
  for (const place of cluster.of("analytics")) {
    await compareFinally(place, keys.reader, outcome);
  }
  judge(trial, outcome);
  return outcome;
}

async function allWell({ cluster, sql, interrupted }: Trial, erasures: Erasures, problems: string[]): Promise<void> {
  for (const place of cluster.places) {
    await place.ready(90_000).catch((error: unknown) => problems.push(String(error)));
  }
  for (const { taskId, records } of erasures.asked) {
    const { state, rows, error } = await taskEnd(sql, taskId, interrupted);
    if (state !== "done" || rows !== records) {
      problems.push(`an erasure of ${records} records is ${state} and counted ${rows}: ${error}`);
    }
  }
  const check = await taskEnd(sql, await askTask(sql, "check", { deep: true, repair: false }), interrupted);
  const counts = check.report?.counts ?? {};
  // Orphans are what a process leaves that is killed before it publishes.
  const bad = ["missing", "unreadable", "lost", "wrong_rows", "wrong_size", "wrong_checksum"].filter(
    (what) => counts[what] !== 0,
  );
  if (check.state !== "done" || bad.length > 0) {
    problems.push(`a check of the lake is ${check.state}: ${JSON.stringify(check.report)}`);
  }
}

interface TaskEnd {
  readonly state: string;
  readonly rows: number;
  readonly error: string | null;
  readonly report: { readonly counts?: Readonly<Record<string, number>> } | null;
}

/** Waits for a task; one that was cut off goes on a minute later. */
async function taskEnd(sql: Sql, taskId: string, interrupted: AbortSignal): Promise<TaskEnd> {
  const giveUpMs = performance.now() + 150_000;
  for (;;) {
    const [row] = await persist(
      () => sql<TaskEnd[]>`
        select state, error, rows_removed::int as rows, report from lake_tasks where task_id = ${taskId}`,
    );
    const over = row?.state === "done" || row?.state === "failed" || performance.now() > giveUpMs;
    if (over || interrupted.aborted) {
      return row ?? { state: "gone", error: null, rows: 0, report: null };
    }
    await sleep(100);
  }
}

/** Compares everything that a server returns with what was acknowledged. */
async function compareFinally(place: Place, key: string, outcome: Outcome): Promise<void> {
  const rows = await query(
    place,
    key,
    `select split_part(msg, ' ', 1) as mark, count(*)::int as n, count(distinct msg)::int as d
     from log_entries where service_name = 'keep' group by 1`,
  );
  const found = rows.map((row): Found => ({ mark: String(row["mark"]), n: Number(row["n"]), d: Number(row["d"]) }));
  const { lost, doubled } = compare(outcome.ledger, found);
  const [others] = await query(
    place,
    key,
    `select count(*) filter (where service_name like 'erase-%')::int as erased,
       (count(*) filter (where service_name = 'past'))::int as past,
       (count(distinct msg) filter (where service_name = 'past'))::int as different from log_entries`,
  );
  const doubledPast = Number(others?.["past"]) - Number(others?.["different"]);
  const erased = Number(others?.["erased"]);
  if (erased > 0) {
    outcome.problems.push(`${erased} erased records are found`);
  }
  outcome.lost = Math.max(outcome.lost, lost);
  outcome.doubled = Math.max(outcome.doubled, doubled + doubledPast);
  outcome.throughCaches += await metricOf(place.current?.url ?? "", 'object_cache_client_reads_total{result="whole"}');
}

function judge({ lake, leastKills }: Trial, outcome: Outcome): void {
  const { ledger, reads, record, lost, doubled, throughCaches, problems } = outcome;
  if (lost > 0 || doubled > 0) {
    problems.push("the promise is broken");
  }
  if (record.kills < leastKills) {
    problems.push(`only ${record.kills} kills`);
  }
  if (ledger.acknowledged.size === 0 || reads.answered === 0) {
    problems.push("nothing was acknowledged, or nothing read");
  }
  if (lake.objectCaches > 0 && throughCaches === 0) {
    problems.push("nothing was read through the object cache");
  }
}
