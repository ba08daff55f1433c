/**
 * `pnpm bench auth [--seconds 60] [--rate 50000] [--threads 2] [--save NAME]`
 *
 * auth.hit: a cached key check including its SHA-256, on one thread and on several at once. auth.miss:
 * distinct unknown well-formed keys at `--rate` a second for `--seconds`, against a real Postgres:
 * statements, memory, and what a live key costs in that time; then a flood of bad checksums.
 */
import { once } from "node:events";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { createKeyAuthenticator, type KeyAuthenticator } from "../../src/auth/keys/key-authenticator.js";
import { generateKeyString } from "../../src/auth/key-string.js";
import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import type { AuthThreadWork, HitReport } from "./auth-thread.js";
import { atMost, type Figure, figure, type Limit, median, notMeasured } from "../figures.js";
import { startBenchDatabase } from "../run/database.js";
import { describeEnvironment } from "../run/machine.js";
import { saveResults } from "../run/results.js";
import { count, number, readOptions, text } from "../run/options.js";
import { printTable } from "../run/table.js";

type Figures = Readonly<Record<string, string | number>>;

const liveKeys = 1000;
const checkCount = 1_000_000;
/** Of the rate that is asked for: with less than this it was no such flood. */
const leastOffered = 0.9;

const startThread = (work: AuthThreadWork): Worker =>
  new Worker(new URL("./auth-thread.js", import.meta.url), {
    workerData: work,
    transferList: work.kind === "hit" ? [work.handle.port] : [],
  });

async function counterValue(metrics: Metrics, name: string): Promise<number> {
  const metric = await metrics.registry.getSingleMetric(name)?.get();
  return (metric?.values ?? []).reduce((sum, { value }) => sum + value, 0);
}

async function benchHit(keys: KeyAuthenticator, authorizations: readonly string[], threads: number): Promise<Figures> {
  const reports = await Promise.all(
    Array.from({ length: threads }, async () => {
      const worker = startThread({
        kind: "hit",
        handle: keys.share(),
        authorizations,
        checks: checkCount,
      });
      const [report] = (await once(worker, "message")) as [HitReport];
      return report;
    }),
  );
  const misses = reports.reduce((sum, report) => sum + report.misses, 0);
  if (misses > 0) {
    throw new Error(`${misses} checks of cached keys did not find them: no hits were measured`);
  }
  const mean = (of: (report: HitReport) => number): number =>
    reports.reduce((sum, report) => sum + of(report), 0) / threads;
  return {
    threads,
    // The threads run at the same time, so each sees the CPU of all.
    "CPU us a check": (mean((r) => r.processCpuMicroseconds) / threads).toFixed(2),
    "wall us (median)": mean((r) => r.microseconds).toFixed(2),
    "wall us (best)": Math.min(...reports.map((r) => r.bestMicroseconds)).toFixed(2),
    "SHA-256 alone us": mean((r) => r.hashMicroseconds).toFixed(2),
    "checks/s (all)": Math.round(reports.reduce((sum, r) => sum + 1e6 / r.microseconds, 0)),
  };
}

/** Microseconds of one cached check on this thread now, over `authorizations` once. */
function hitMicroseconds(keys: KeyAuthenticator, authorizations: readonly string[]): number {
  const startMs = performance.now();
  for (const authorization of authorizations) {
    keys.authenticateNow(authorization);
  }
  return ((performance.now() - startMs) * 1000) / authorizations.length;
}

async function benchMiss(
  keys: KeyAuthenticator,
  metrics: Metrics,
  authorizations: readonly string[],
  o: { readonly seconds: number; readonly rate: number },
): Promise<{ readonly byTime: readonly Figures[]; readonly inAll: Figures }> {
  const before = Array.from({ length: 50 }, () => hitMicroseconds(keys, authorizations));
  const answers = { rejected: 0, forbidden: 0, unavailable: 0, ok: 0 };
  let offered = 0;
  let settled = 0;
  const taken = new Int32Array(new SharedArrayBuffer(4));
  const source = startThread({ kind: "source", keysPerSecond: o.rate, taken });
  source.on("message", (batch: readonly string[]) => {
    Atomics.add(taken, 0, batch.length);
    for (const authorization of batch) {
      offered++;
      void (async () => {
        const outcome = keys.authenticateNow(authorization) ?? (await keys.authenticate(authorization));
        answers[outcome.kind]++;
        settled++;
      })();
    }
  });
  const rows: Figures[] = [];
  const cpuBefore = process.cpuUsage();
  const startedMs = performance.now();
  let last = { atMs: startedMs, statements: 0, hashes: 0, offered: 0 };
  last.statements = await counterValue(metrics, "api_key_lookup_statement_count");
  last.hashes = await counterValue(metrics, "api_key_lookup_hash_count");
  const during: number[] = [];
  while (performance.now() - startedMs < o.seconds * 1000) {
    const samples: number[] = [];
    while (performance.now() - last.atMs < Math.min(5, o.seconds) * 1000) {
      await sleep(100);
      samples.push(hitMicroseconds(keys, authorizations));
    }
    const now = {
      atMs: performance.now(),
      statements: await counterValue(metrics, "api_key_lookup_statement_count"),
      hashes: await counterValue(metrics, "api_key_lookup_hash_count"),
      offered,
    };
    // By the time that passed, not the time that was meant to pass.
    const seconds = (now.atMs - last.atMs) / 1000;
    rows.push({
      "at s": ((now.atMs - startedMs) / 1000).toFixed(1),
      "offered/s": Math.round((now.offered - last.offered) / seconds),
      "statements/s": ((now.statements - last.statements) / seconds).toFixed(1),
      "hashes/s": Math.round((now.hashes - last.hashes) / seconds),
      waiting: offered - settled,
      "live key us": median(samples).toFixed(2),
      "heap MB": Math.round(process.memoryUsage().heapUsed / 1e6),
      "resident MB": Math.round(process.memoryUsage.rss() / 1e6),
    });
    during.push(...samples);
    last = now;
  }
  await source.terminate();
  const cpu = process.cpuUsage(cpuBefore);
  printTable(`auth.miss: ${o.rate} distinct unknown keys a second`, rows);
  const liveLost = authorizations.filter((a) => keys.authenticateNow(a)?.kind !== "ok").length;
  const inAll = {
    ...answers,
    "CPU us a key (its making included)": ((cpu.user + cpu.system) / offered).toFixed(1),
    "live key us before": median(before).toFixed(2),
    "live key us during": median(during).toFixed(2),
    "live keys lost": liveLost,
  };
  printTable("auth.miss, in all", [inAll]);
  return { byTime: rows, inAll };
}

async function benchBadChecksums(keys: KeyAuthenticator, metrics: Metrics): Promise<Figures> {
  const bad = Array.from({ length: 1000 }, () => {
    const key = generateKeyString();
    return `Bearer ${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`;
  });
  const before = await counterValue(metrics, "api_key_lookup_hash_count");
  const startMs = performance.now();
  for (let i = 0; i < checkCount; i++) {
    keys.authenticateNow(bad[i % bad.length] as string);
  }
  const elapsedMs = performance.now() - startMs;
  return {
    "us a check": ((elapsedMs * 1000) / checkCount).toFixed(2),
    "look-ups": (await counterValue(metrics, "api_key_lookup_hash_count")) - before,
  };
}

/** See the head of the file. */
export async function benchAuth(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    seconds: number(60, "length of the flood", 1),
    rate: count(50_000, "unknown keys a second"),
    threads: count(2, "threads that check at once"),
    save: text(null, "name of the file under bench/results/ that keeps the result"),
  };
  const values = readOptions("auth", "checking keys", options, argv);
  const environment = describeEnvironment();
  console.log(JSON.stringify(environment));
  const logger = createSilentLogger();
  const dataDirectory = tmpdir();
  const database = await startBenchDatabase({ dataDirectory, maxConnections: 2, logger });
  const { sql } = database;
  const metrics = createMetrics();
  const keys = createKeyAuthenticator({
    sql,
    table: "ingestion_api_keys",
    cacheSize: 10_000,
    cacheTtlMs: 60_000,
    unknownCacheSize: 10_000,
    unknownCacheTtlMs: 10_000,
    logger,
    metrics,
  });
  try {
    const authorizations: string[] = [];
    for (let i = 0; i < liveKeys; i++) {
      const audience = `team-${i % 20}`;
      const { key } = await mintIngestionKey(sql, { name: "bench", audience, createdBy: "bench" });
      authorizations.push(`Bearer ${key}`);
    }
    await Promise.all(authorizations.map((authorization) => keys.authenticate(authorization)));
    const hits: Figures[] = [];
    for (const threads of new Set([1, values.threads])) {
      hits.push(await benchHit(keys, authorizations, threads));
    }
    printTable(`auth.hit: ${liveKeys} keys in turn, SHA-256 included`, hits);
    const misses = await benchMiss(keys, metrics, authorizations, {
      seconds: values.seconds,
      rate: values.rate,
    });
    const badChecksums = await benchBadChecksums(keys, metrics);
    printTable("auth.miss: bad checksums", [badChecksums]);
    if (values.save !== undefined) {
      const figures = { "auth.hit": hits, "auth.miss": misses, badChecksums };
      saveResults(values.save, { environment, settings: values, ...figures });
    }
    const { byTime, inAll } = misses;
    const statements = byTime.map((row) => Number(row["statements/s"]));
    const offered = Math.min(...byTime.map((row) => Number(row["offered/s"])));
    const isFlood = offered >= leastOffered * values.rate;
    const missing = `${offered} keys a second were offered, not ${values.rate}`;
    // Few statements say nothing of a flood that did not come.
    const ofFlood = (id: string, unit: string, value: number, limit: Limit): Figure =>
      isFlood ? figure(id, unit, value, limit) : notMeasured(id, unit, missing, limit);
    return [
      ...hits.map((hit) =>
        figure(`auth.hit, threads: ${hit["threads"]}`, "us", Number(hit["wall us (median)"]), atMost(1.5)),
      ),
      ofFlood("auth.miss, database statements", "1/s", Math.max(...statements), atMost(200)),
      figure("auth.miss, live keys lost", "keys", Number(inAll["live keys lost"]), atMost(0)),
      ofFlood("auth.miss, a live key during the flood", "us", Number(inAll["live key us during"]), atMost(1.5)),
    ];
  } finally {
    await keys.stop();
    await database.stop();
  }
}
