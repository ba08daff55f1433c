/**
 * `pnpm bench peers --collector PATH`: the ingestion server and another receiver of OTLP under the same load, in turns, so
 * that a busy moment of the machine slows both: a Collector that drops what it gets, or whatever listens at `--url` as
 * process `--pid`. A credential of the latter is read from the variable BENCH_AUTHORIZATION.
 */
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename } from "node:path";

import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { createLogger } from "../../src/runtime/log/log.js";
import { atMost, CannotMeasure, type Figure, figure, type Limit, round } from "../figures.js";
import { holdAllBut, memoryLeft } from "../load/held-memory.js";
import {
  assertAccepted,
  generateLoad,
  type LoadOptions,
  loadUrl,
  prepareDatabase,
  startServer,
} from "../load/ingestion-process.js";
import { type LoadSignal, loadSignals } from "../load/otlp-payloads.js";
import { processCpuSeconds } from "../../src/engine/process-cpu.js";
import { describeEnvironment, treeCpuSeconds } from "../run/machine.js";
import { count, counts, number, readOptions, text, Usage, word, words } from "../run/options.js";
import { saveResults } from "../run/results.js";
import { printTable } from "../run/table.js";
import { type Peer, startCollector } from "./collector.js";

/** Who is sent to: `url` gives the address for a signal, `cpu` the processor seconds of each of its processes so far. */
interface Target {
  readonly name: string;
  readonly authorization: string;
  readonly url: (signal: LoadSignal) => string;
  readonly cpu: () => Readonly<Record<string, number>>;
}

/** One run. */
interface Taken {
  readonly target: string;
  readonly signal: LoadSignal;
  readonly records: number;
  readonly connections: number;
  readonly round: number;
  readonly recordsPerSecond: number;
  /** Of the process that takes requests. */
  readonly microsPerRecord: number;
  readonly cpuSeconds: Readonly<Record<string, number>>;
  readonly generatorCpuSeconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Runs the bench; see the head of this file. @throws Error when not every record was accepted */
export async function benchPeers(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    collector: text(null, "program of an OpenTelemetry Collector; docs/performance.md says how to build one"),
    url: text(null, "another receiver, without /v1/logs, such as http://127.0.0.1:4318"),
    pid: number(0, "the process of --url"),
    records: counts("1000,512,100,10", "records a request; each size is a run"),
    signals: words(loadSignals, "logs,traces,metrics", "what is sent"),
    protocol: word(["http", "grpc"], "http", "how requests travel"),
    connections: counts("16", "senders; each number is a run"),
    driver: word(["uws", "node"], "uws", "HTTP driver of the server"),
    rounds: count(3, "runs of each kind and receiver, in turns"),
    seconds: number(5, "length of a run", 0.1),
    "warm-up": number(8, "seconds of load of each kind, for each receiver, which let it compile its code"),
    "memory-left": memoryLeft,
    save: text(null, "name of the file under bench/results/ that keeps the result"),
  };
  const values = readOptions("peers", "the ingestion server beside another receiver of OTLP", options, argv);
  const { collector, url, pid, protocol } = values;
  if (collector === undefined && url === undefined) {
    throw new CannotMeasure(
      "there is no peer: --collector takes the program of a Collector, --url and --pid another one",
    );
  }
  if (collector !== undefined && url !== undefined) {
    throw new Usage("--collector and --url are two peers; a run has one", false);
  }
  if (url !== undefined && (!URL.canParse(url) || new URL(url).protocol !== "http:" || new URL(url).port === "")) {
    throw new Usage(`--url takes an address such as http://127.0.0.1:4318, not ${JSON.stringify(url)}`, false);
  }
  if (url !== undefined && !existsSync(`/proc/${pid}/stat`)) {
    throw new Usage(`--pid takes the process of --url; there is no process ${pid}`, false);
  }
  const directory = tmpdir();
  const stops: (() => Promise<void>)[] = [];
  try {
    const memory = await holdAllBut(values["memory-left"]);
    stops.push(async () => memory?.stop());
    const peer = collector === undefined ? givenPeer(url ?? "", pid) : await startCollector(collector, directory);
    stops.push(() => peer.stop());
    const logger = createLogger({ level: "warn", service: "bench" });
    const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger });
    stops.push(() => postgres.stop());
    const { connectionString } = postgres;
    const { authorization, postmasterPid } = await prepareDatabase(connectionString, logger);
    const server = await startServer({ connectionString, dataDirectory: directory, driver: values.driver });
    stops.push(() => server.stop());
    const targets: readonly [Target, Target] = [
      {
        name: "telemetry-service",
        authorization,
        url: (signal) => loadUrl(server, signal, protocol),
        cpu: () => ({ server: processCpuSeconds(server.pid), postgres: treeCpuSeconds(postmasterPid) }),
      },
      {
        name: peer.name,
        authorization: collector === undefined ? (process.env["BENCH_AUTHORIZATION"] ?? "") : "",
        url: (signal) => (protocol === "http" ? `${peer.url}/v1/${signal}` : loadUrl(peer, signal, protocol)),
        cpu: () => ({ server: processCpuSeconds(peer.pid) }),
      },
    ];
    const taken: Taken[] = [];
    for (const signal of values.signals) {
      const loads = values.records.flatMap((records) =>
        values.connections.map((connections) => ({ signal, protocol, records, connections, seconds: values.seconds })),
      );
      for (const load of values["warm-up"] > 0 ? loads : []) {
        for (const target of targets) {
          await measure(target, { ...load, seconds: values["warm-up"] }, 0);
        }
      }
      for (let i = 1; i <= values.rounds; i++) {
        for (const load of loads) {
          // Whoever comes second may find a machine that the first has warmed up: they change places.
          for (const target of i % 2 === 1 ? targets : targets.toReversed()) {
            taken.push(await measure(target, load, i));
          }
        }
      }
    }
    printTable("in turns", taken.map(rowOf));
    if (values.save !== undefined) {
      // Where it lies on this machine is nobody else's business.
      const settings = { ...values, collector: collector === undefined ? null : basename(collector) };
      saveResults(values.save, { environment: describeEnvironment(), settings, peer: peer.name, taken });
    }
    return figuresOf(taken, peer.name, collector !== undefined, values.connections.length > 1);
  } finally {
    for (const stop of stops.toReversed()) {
      await stop();
    }
  }
}

const givenPeer = (url: string, pid: number): Peer => ({
  name: url,
  pid,
  url: url.replace(/\/$/u, ""),
  grpcUrl: url.replace(/\/$/u, ""),
  stop: () => Promise.resolve(),
});

async function measure(
  target: Target,
  load: LoadOptions & { readonly records: number },
  inRound: number,
): Promise<Taken> {
  const before = target.cpu();
  const report = await generateLoad(target.url(load.signal), target.authorization, load);
  const cpuSeconds = Object.fromEntries(
    Object.entries(target.cpu()).map(([name, seconds]) => [name, seconds - (before[name] ?? 0)]),
  );
  assertAccepted(target.name, report);
  return {
    target: target.name,
    signal: load.signal,
    records: load.records,
    connections: load.connections,
    round: inRound,
    recordsPerSecond: report.records / report.seconds,
    microsPerRecord: ((cpuSeconds["server"] ?? Number.NaN) * 1e6) / report.records,
    cpuSeconds,
    generatorCpuSeconds: report.cpuSeconds,
    p50Ms: report.latencyMs.p50,
    p99Ms: report.latencyMs.p99,
  };
}

const rowOf = (run: Taken): Record<string, string | number> => ({
  signal: run.signal,
  "a request": run.records,
  senders: run.connections,
  round: run.round,
  receiver: run.target,
  "CPU us/record": round(run.microsPerRecord, 3),
  "records/s": Math.round(run.recordsPerSecond),
  "p50 ms": round(run.p50Ms, 1),
  "p99 ms": round(run.p99Ms, 1),
  "CPU s": round(run.cpuSeconds["server"] ?? Number.NaN),
  "postgres CPU s": round(run.cpuSeconds["postgres"] ?? 0),
  "generator CPU s": round(run.generatorCpuSeconds),
});

/** Of each kind of load: both receivers, and the ratio of each round. */
function figuresOf(taken: readonly Taken[], peer: string, isCollector: boolean, tellSenders: boolean): Figure[] {
  const kindOf = ({ signal, records, connections }: Taken): string =>
    `${signal} ${records}${tellSenders ? ` from ${connections}` : ""}`;
  return [...new Set(taken.map(kindOf))].flatMap((kind) => {
    const runs = taken.filter((run) => kindOf(run) === kind);
    const micros = (isPeer: boolean): number[] =>
      runs.filter(({ target }) => (target === peer) === isPeer).map(({ microsPerRecord }) => microsPerRecord);
    const [ours, theirs] = [micros(false), micros(true)];
    const ratios = ours.map((value, index) => value / (theirs[index] ?? Number.NaN));
    return [
      figure(`${kind}, server`, "us/record", ours),
      figure(`${kind}, peer`, "us/record", theirs),
      figure(`${kind}, server to peer`, "times", ratios, isCollector ? limitOf(runs[0]) : undefined),
    ];
  });
}

/** The targets are for logs beside a Collector. */
function limitOf(run: Taken | undefined): Limit | undefined {
  return run?.signal === "logs" ? atMost(run.records < 100 ? 1 : 0.8, "Collector, same minute") : undefined;
}
