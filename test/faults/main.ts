/**
 * `pnpm test:faults [--minutes M] [--seed N]`: does the promise hold while processes die?
 *
 * Three ingestion servers, two analytics servers and two of maintenance share an embedded Postgres and a lake of files.
 * Senders remember what was acknowledged; readers compare what they see with that; processes are killed, stopped and
 * started again (lanes.ts) while maintenance merges, erases and removes what is past (chores.ts). At the end everything
 * has to be well again, and queries have to return every acknowledged record once. Exit code 1 when not.
 * Without `--minutes` it ends after a minute, or after 50 kills where those take longer.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { connect as connectFlight, staticKey } from "telemetry-service-client";

import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { migrate } from "../../src/db/migrations.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { useRunDirectory } from "../helpers/run-directory.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { agePast, askTask, createErasures, type Erasures, persist } from "./chores.js";
import { type Cluster, type Place, startCluster } from "./cluster.js";
import { runLanes } from "./lanes.js";
import { compare, createSender, type Found, type Ledger, recordsPerRequest } from "./ledger.js";

const leastKills = 50;
/** Longest time that 50 kills may take. */
const mostMinutes = 10;
const senders = 6;

const { values } = parseArgs({ options: { minutes: { type: "string" }, seed: { type: "string" } } });
const minutes = Number(values.minutes ?? "1");
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e6));
if (!(minutes > 0) || !Number.isInteger(seed)) {
  throw new Error("--minutes takes a positive number, --seed a whole one");
}

useRunDirectory();
const interrupted = new AbortController();
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => interrupted.abort());
}
const problems: string[] = [];
const faults = new Map<string, number>();
let kills = 0;
const count = (kind: string): void => {
  faults.set(kind, (faults.get(kind) ?? 0) + 1);
  kills += kind.includes("killed") || kind.startsWith("Postgres") ? 1 : 0;
};
let reads = 0;
let failedReads = 0;
let statements = 0;

console.log(`seed ${seed}`);
const dataDirectory = await mkdtemp(path.join(tmpdir(), "faults-"));
try {
  await run();
} finally {
  await rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 });
}
if (interrupted.signal.aborted) {
  console.log("interrupted");
  process.exitCode = 130;
} else if (problems.length > 0) {
  console.log(`${problems.map((problem) => `PROBLEM: ${problem}`).join("\n")}\nagain: pnpm test:faults --seed ${seed}`);
  process.exitCode = 1;
}
// Timers of clients do not hold the process.
process.exit();

async function run(): Promise<void> {
  const logger = createSilentLogger();
  const postgres = await startEmbeddedPostgres({ dataDirectory, logger, maxConnections: 200 });
  const { connectionString } = postgres;
  const sql = connect({ connectionString, maxConnections: 4, applicationName: "faults", logger });
  try {
    await migrate(sql, logger);
    const keys = await mintKeys(sql);
    const environment = {
      SVC_SQL_CONNECTION_STRING: connectionString,
      SVC_OBJECT_STORE_URI: pathToFileURL(path.join(dataDirectory, "lake")).href,
      SVC_DATA_DIR: dataDirectory,
    };
    const cluster = await startCluster(environment, { ingestion: 3, analytics: 2, maintenance: 2 });
    try {
      await underLoad(cluster, sql, keys);
    } catch (error) {
      if (!interrupted.signal.aborted) {
        throw error;
      }
    } finally {
      await cluster.stop();
    }
  } finally {
    await sql.end({ timeout: 1 });
    await postgres.stop();
  }
}

interface Keys {
  readonly main: string;
  readonly past: string;
  readonly reader: string;
}

async function mintKeys(sql: Sql): Promise<Keys> {
  const reader = await mintAnalyticsKey(sql, { name: "reader", createdBy: "faults" });
  await sql`insert into audience_grants (audience, kind, member, created_by)
    select unnest(array['main', 'past']), 'read', ${`key:${reader.keyId}`}, 'faults'`;
  const mint = async (audience: string): Promise<string> =>
    (await mintIngestionKey(sql, { name: audience, audience, createdBy: "faults" })).key;
  return { main: await mint("main"), past: await mint("past"), reader: reader.key };
}

async function underLoad(cluster: Cluster, sql: Sql, keys: Keys): Promise<void> {
  const urls = (): string[] => cluster.of("ingestion").flatMap(({ current }) => current?.url ?? []);
  const aborted = interrupted.signal;
  const sender = createSender(urls, seededRandom(seed), aborted);
  const { ledger } = sender;
  const erasures = createErasures(sql, sender, keys.main);
  const startMs = performance.now();
  const faultsOver = (): boolean => {
    const passed = (performance.now() - startMs) / 60_000;
    return aborted.aborted || (passed >= minutes && (kills >= leastKills || passed >= mostMinutes));
  };
  let quiet = false;
  const stopped = (): boolean => quiet || aborted.aborted;
  const work = [
    ...Array.from({ length: senders }, () => sender.load({ key: keys.main, stopped, pauseMs: 50 })),
    erasures.run(stopped),
    agePast(sql, sender, keys.past, stopped),
    ...cluster.of("analytics").map((place) => read(place, keys.reader, ledger, stopped)),
  ];
  const working = Promise.all(work);
  working.catch(() => undefined); // looked at below
  await Promise.race([runLanes({ cluster, sql, dataDirectory, seed, stopped: faultsOver, count }), working]);
  // Whoever sends has to get through by now, without another fault.
  quiet = true;
  await working;
  const loadSeconds = (performance.now() - startMs) / 1000;
  await allWell(cluster, sql, erasures);
  const totals = { lost: 0, doubled: 0 };
  for (const place of cluster.of("analytics")) {
    const { lost, doubled } = await finalComparison(place, keys.reader, ledger);
    totals.lost = Math.max(totals.lost, lost);
    totals.doubled = Math.max(totals.doubled, doubled);
  }
  report(ledger, erasures, loadSeconds, totals);
}

async function query(place: Place, key: string, statement: string): Promise<Record<string, unknown>[]> {
  const client = connectFlight({ uri: `grpc://127.0.0.1:${place.flightPort}`, auth: staticKey(key) });
  try {
    const { batches } = await client.query(statement);
    const rows: Record<string, unknown>[] = [];
    for await (const batch of batches) {
      for (const row of batch) {
        rows.push(row.toJSON());
      }
    }
    return rows;
  } finally {
    client.close();
  }
}

/** Asks one server again and again: what was acknowledged before has to be there, once. */
async function read(place: Place, key: string, ledger: Ledger, stopped: () => boolean): Promise<void> {
  for (; !stopped(); await sleep(100)) {
    const before = ledger.acknowledged.size * recordsPerRequest;
    let row: Record<string, unknown> | undefined;
    try {
      // A number of its own: the text of a statement that ended two engines is refused.
      [row] = await query(
        place,
        key,
        `select count(*)::int as n, count(distinct msg)::int as d, ${(statements += 1)} as nth
         from log_entries where service_name = 'keep'`,
      );
    } catch {
      failedReads += 1; // its server or its engine was killed
      continue;
    }
    reads += 1;
    const [n, d] = [Number(row?.["n"]), Number(row?.["d"])];
    if (!(d >= before) || n !== d) {
      problems.push(`a query under load saw ${n} records, ${d} different ones; ${before} were acknowledged before it`);
    }
  }
}

async function allWell(cluster: Cluster, sql: Sql, erasures: Erasures): Promise<void> {
  for (const place of cluster.places) {
    await place.ready(90_000).catch((error: unknown) => problems.push(String(error)));
  }
  for (const { taskId, records } of erasures.asked) {
    const { state, rows, error } = await taskEnd(sql, taskId);
    if (state !== "done" || rows !== records) {
      problems.push(`an erasure of ${records} records is ${state} and counted ${rows}: ${error}`);
    }
  }
  const check = await taskEnd(sql, await askTask(sql, "check", { deep: true, repair: false }));
  const counts = check.report?.counts ?? {};
  // Orphans are what a process leaves that is killed before it publishes.
  const bad = ["missing", "unreadable", "lost", "wrong_rows", "wrong_size"].filter((what) => counts[what] !== 0);
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
async function taskEnd(sql: Sql, taskId: string): Promise<TaskEnd> {
  const giveUpMs = performance.now() + 150_000;
  for (;;) {
    const [row] = await persist(
      () => sql<TaskEnd[]>`
        select state, error, rows_removed::int as rows, report from lake_tasks where task_id = ${taskId}`,
    );
    const over = row?.state === "done" || row?.state === "failed" || performance.now() > giveUpMs;
    if (over || interrupted.signal.aborted) {
      return row ?? { state: "gone", error: null, rows: 0, report: null };
    }
    await sleep(100);
  }
}

async function finalComparison(place: Place, key: string, ledger: Ledger): Promise<{ lost: number; doubled: number }> {
  const rows = await query(
    place,
    key,
    `select split_part(msg, ' ', 1) as mark, count(*)::int as n, count(distinct msg)::int as d
     from log_entries where service_name = 'keep' group by 1`,
  );
  const found = rows.map((row): Found => ({ mark: String(row["mark"]), n: Number(row["n"]), d: Number(row["d"]) }));
  const { lost, doubled } = compare(ledger, found);
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
    problems.push(`${erased} erased records are found`);
  }
  return { lost, doubled: doubled + doubledPast };
}

function report(
  ledger: Ledger,
  erasures: Erasures,
  loadSeconds: number,
  { lost, doubled }: { lost: number; doubled: number },
): void {
  for (const [kind, n] of [...faults].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    console.log(`${String(n).padStart(6)}  ${kind}`);
  }
  const acknowledged = ledger.acknowledged.size * recordsPerRequest;
  console.log(
    `kills ${kills} in ${loadSeconds.toFixed(0)} s; requests sent again ${ledger.retries}; queries ${reads}, cut off ${failedReads}; erasures ${erasures.asked.length}`,
  );
  console.log(`records acknowledged ${acknowledged}, lost ${lost}, doubled ${doubled}`);
  if (lost > 0 || doubled > 0) {
    problems.push("the promise is broken");
  }
  if (kills < leastKills) {
    problems.push(`only ${kills} kills`);
  }
  if (acknowledged === 0 || reads === 0) {
    problems.push("nothing was acknowledged, or nothing read");
  }
}
