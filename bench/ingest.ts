/**
 * `pnpm bench ingest`: the ingestion server under load, as a user runs it — its own process, real
 * Postgres, real Parquet objects, synced — and a load generator in another process.
 *
 * Prints ingest.cpu for logs, spans and metric points (closed loop, 1000 records a request), ingest.latency (open loop
 * at half of the highest rate), ingest.small (3 records a request) beside a bare uWebSockets.js front end in the same
 * run, ingest.overload (three times the highest rate). `pnpm bench soak` watches memory at full load. `--driver node` measures the other HTTP driver,
 * `--protocols http,grpc` OTLP/gRPC beside OTLP/HTTP. CPU counts the
 * server process with its threads; Postgres and the generator are given apart.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { startEmbeddedPostgres } from "../src/db/embedded/embedded.js";
import { createLogger } from "../src/runtime/log/log.js";
import { atLeast, atMost, type Figure, figure, mebibytes, median, notMeasured, round } from "./figures.js";
import {
  assertAccepted,
  generateLoad,
  type IngestionProcess,
  type LoadOptions,
  loadUrl,
  prepareDatabase,
  startServer,
} from "./load/ingestion-process.js";
import { type HeldMemory, holdAllBut, memoryLeft } from "./load/held-memory.js";
import type { LoadReport } from "./load/load-generator.js";
import { loadEncodings, loadFormats, loadSignals } from "./load/otlp-payloads.js";
import { measureOverload } from "./overload.js";
import { profiled } from "./profile/attach.js";
import { processCpuSeconds } from "../src/engine/process-cpu.js";
import { describeEnvironment, processMemory, threadCpuSeconds, treeCpuSeconds } from "./run/machine.js";
import { saveResults } from "./run/results.js";
import { count, counts, number, readOptions, text, word, words } from "./run/options.js";
import { printTable } from "./run/table.js";

const compiled = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** One measured run. CPU figures in microseconds per record. */
interface Measurement extends LoadReport {
  readonly name: string;
  readonly serverCpuSeconds: number;
  readonly postgresCpuSeconds: number;
  readonly cpuMicrosPerRecord: number;
  readonly cpuMicrosPerRequest: number;
  readonly serverPeakBytes: number;
  readonly threads: Record<string, number>;
}

async function bareFrontRate(seconds: number, records: number, connections: number): Promise<number> {
  const child = spawn(process.execPath, [compiled("./load/bare-front.js")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const report = await generateLoad(line.toString().trim(), "", {
    signal: "logs",
    records,
    seconds,
    connections,
  });
  child.kill();
  return report.requests / report.seconds;
}

/** Small requests wait for the disk, not for the CPU: enough of them have to be under way at once. */
const smallConnections = 256;

const options = {
  seconds: number(10, "length of a run", 0.1),
  records: counts("1000", "records a request; each size is a run"),
  rounds: count(1, "runs of each kind, in turns"),
  connections: count(16, "senders"),
  signals: words(loadSignals, "logs,traces,metrics", "what is sent"),
  driver: word(["uws", "node"], "uws", "HTTP driver of the server"),
  protocols: words(["http", "grpc"], "http", "how requests travel"),
  encoding: word(loadEncodings, "identity", "Content-Encoding of bodies over HTTP"),
  format: word(loadFormats, "protobuf", "how bodies over HTTP are written"),
  "warm-up": number(8, "seconds of load before a kind of run, which let the server compile its code"),
  only: words(
    ["cpu", "latency", "small", "overload"],
    "cpu,latency,small,overload",
    "what is measured; overload needs no other part",
  ),
  "overload-seconds": number(60, "length of the run at three times the highest rate", 1),
  "memory-left": memoryLeft,
  save: text(null, "name of the file under bench/results/ that keeps the result"),
};

type Options = ReturnType<typeof readOptions<typeof options>>;
type Measure = (name: string, load: LoadOptions) => Promise<Measurement>;

/** Measures the server under a load, and keeps what it found among `measurements`. */
function measuring(
  server: IngestionProcess,
  postmasterPid: number,
  authorization: string,
  measurements: Measurement[],
): Measure {
  return async (name, load) => {
    const { pid } = server;
    const path = loadUrl(server, load.signal, load.protocol ?? "http");
    const threadsBefore = threadCpuSeconds(pid);
    const cpuBefore = processCpuSeconds(pid);
    const postgresBefore = treeCpuSeconds(postmasterPid);
    const report = await profiled(() => generateLoad(path, authorization, load));
    const serverCpuSeconds = processCpuSeconds(pid) - cpuBefore;
    const threads: Record<string, number> = {};
    for (const [thread, total] of threadCpuSeconds(pid)) {
      const used = total - (threadsBefore.get(thread) ?? 0);
      if (used > 0.05) {
        threads[thread] = round(used);
      }
    }
    const measurement: Measurement = {
      name,
      ...report,
      serverCpuSeconds: round(serverCpuSeconds),
      postgresCpuSeconds: round(treeCpuSeconds(postmasterPid) - postgresBefore),
      cpuMicrosPerRecord: round((serverCpuSeconds * 1e6) / report.acknowledgedRecords, 3),
      cpuMicrosPerRequest: round((serverCpuSeconds * 1e6) / report.requests, 1),
      serverPeakBytes: processMemory(pid).peakBytes,
      threads,
    };
    measurements.push(measurement);
    return measurement;
  };
}

/** For runs that count only when everything is accepted. */
function accepting(measure: Measure): Measure {
  return async (name, load) => {
    const measurement = await measure(name, load);
    assertAccepted(name, measurement);
    return measurement;
  };
}

/** CPU per record: of each signal, protocol and size. `logs`: the runs of logs over HTTP of the first size. */
async function measureCpu(
  values: Options,
  measure: Measure,
  warmUp: (load: Omit<LoadOptions, "seconds">) => Promise<void>,
): Promise<{ readonly figures: readonly Figure[]; readonly logs: readonly Measurement[] }> {
  const { seconds, connections } = values;
  const figures: Figure[] = [];
  const first = new Map<string, Measurement[]>();
  for (const signal of values.signals) {
    if (!values.only.includes("cpu") && !(signal === "logs" && values.only.includes("latency"))) {
      continue;
    }
    for (const protocol of values.protocols) {
      const load = {
        signal,
        connections,
        protocol,
        encoding: protocol === "http" ? values.encoding : "identity",
        format: protocol === "http" ? values.format : "protobuf",
      } as const;
      for (const records of values.records) {
        await warmUp({ ...load, records });
      }
      const coded = load.encoding !== "identity" || load.format !== "protobuf";
      const kind = `${signal}${protocol === "http" ? "" : ` ${protocol}`}`;
      const named = coded ? `${kind} ${load.format} ${load.encoding}` : kind;
      const taken = values.records.map((records): { records: number; runs: Measurement[] } => ({ records, runs: [] }));
      for (let i = 0; i < values.rounds; i++) {
        for (const { records, runs } of taken) {
          runs.push(await measure(`ingest.cpu ${kind} ${records}`, { ...load, records, seconds }));
        }
      }
      first.set(kind, taken[0]?.runs ?? []);
      for (const { records, runs } of taken) {
        figures.push(
          figure(
            `ingest.cpu ${named} ${records}`,
            "us/record",
            runs.map((run) => run.cpuMicrosPerRecord),
            records >= 1000 && !coded ? atMost(2) : undefined,
          ),
        );
      }
    }
  }
  const logs = first.get("logs") ?? [];
  for (const [kind, runs] of first) {
    if (kind !== "logs" && logs.length > 0) {
      const ratio =
        median(runs.map((run) => run.cpuMicrosPerRecord)) / median(logs.map((run) => run.cpuMicrosPerRecord));
      figures.push(
        figure(
          `${kind} to logs, ${values.records[0]} a request`,
          "times",
          ratio,
          atMost(kind.includes("grpc") ? 1.3 : 1.2),
        ),
      );
    }
  }
  if (logs.length > 0) {
    const id = "ingest.cpu logs, of a Collector's";
    figures.push(
      notMeasured(
        id,
        "times",
        "no Collector ran beside it: `pnpm bench peers` measures it",
        atMost(1, "Collector, same run"),
      ),
    );
  }
  return { figures, logs };
}

function printMeasurements(measurements: readonly Measurement[]): void {
  printTable(
    "ingestion",
    measurements.map((m) => ({
      run: m.name,
      "CPU us/record": m.cpuMicrosPerRecord,
      "records/s": Math.round(m.acknowledgedRecords / m.seconds),
      "requests/s": Math.round(m.requests / m.seconds),
      "p50 ms": round(m.latencyMs.p50, 1),
      "p90 ms": round(m.latencyMs.p90, 1),
      "p99 ms": round(m.latencyMs.p99, 1),
      "server CPU s": m.serverCpuSeconds,
      "postgres CPU s": m.postgresCpuSeconds,
      "generator CPU s": round(m.cpuSeconds),
      "peak MiB": mebibytes(m.serverPeakBytes),
      "not 200": m.requests - (m.statuses["200"] ?? 0),
    })),
  );
  for (const m of measurements) {
    console.log(m.name, "CPU seconds by thread:", m.threads);
  }
}

/** Runs the bench; see the head of this file. */
export async function benchIngest(argv: readonly string[]): Promise<readonly Figure[]> {
  const values = readOptions("ingest", "the ingestion server under load", options, argv);
  const {
    seconds,
    connections,
    records: [firstSize = 1000],
  } = values;
  const directory = tmpdir();
  const logger = createLogger({ level: "warn", service: "bench" });
  const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger });
  const measurements: Measurement[] = [];
  const figures: Figure[] = [];
  const extra: Record<string, unknown> = {};
  let server: IngestionProcess | undefined;
  let memory: HeldMemory | null = null;
  try {
    memory = await holdAllBut(values["memory-left"]);
    const { postmasterPid, authorization, bystanderAuthorization } = await prepareDatabase(
      postgres.connectionString,
      logger,
    );
    const startedMs = performance.now();
    server = await startServer({
      connectionString: postgres.connectionString,
      dataDirectory: directory,
      driver: values.driver,
    });
    extra["startMs"] = Math.round(performance.now() - startedMs);
    extra["idleBytes"] = processMemory(server.pid).residentBytes;

    const running = server;
    const warmUp = async (load: Omit<LoadOptions, "seconds">): Promise<void> => {
      const url = loadUrl(running, load.signal, load.protocol ?? "http");
      await generateLoad(url, authorization, { ...load, seconds: values["warm-up"] });
    };
    const measure = measuring(server, postmasterPid, authorization, measurements);
    const measureAccepted = accepting(measure);
    const { logs, figures: cpuFigures } = await measureCpu(values, measureAccepted, warmUp);
    figures.push(...cpuFigures);
    if (values.only.includes("latency") && logs.length > 0) {
      const rate = Math.max(1, Math.round(median(logs.map((run) => run.requests / run.seconds)) / 2));
      const latency = await measureAccepted("ingest.latency logs", {
        signal: "logs",
        records: firstSize,
        connections: 64,
        seconds,
        rate,
      });
      figures.push(
        figure("ingest.latency p50", "ms", latency.latencyMs.p50, atMost(10)),
        figure("ingest.latency p99", "ms", latency.latencyMs.p99, atMost(40)),
      );
    }
    if (values.only.includes("small")) {
      const bare = await bareFrontRate(Math.min(5, seconds), 3, smallConnections);
      const small = await measureAccepted("ingest.small logs", {
        signal: "logs",
        records: 3,
        connections: smallConnections,
        seconds,
      });
      const ratio = small.requests / small.seconds / bare;
      extra["bareFrontRequestsPerSecond"] = Math.round(bare);
      extra["ingestSmallRatio"] = round(ratio);
      figures.push(figure("ingest.small", "times", ratio, atLeast(0.5, "bare front end, same run")));
    }
    if (values.only.includes("overload")) {
      const load = { signal: "logs", records: firstSize, connections } as const;
      const url = loadUrl(server, "logs", "http");
      await warmUp(load);
      const overload = await measureOverload({
        pid: server.pid,
        highest: await measureAccepted("ingest.overload highest rate", { ...load, connections: 64, seconds }),
        records: firstSize,
        seconds: values["overload-seconds"],
        run: measure,
        bystander: (its) => generateLoad(url, bystanderAuthorization, its),
      });
      Object.assign(extra, overload.extra);
      figures.push(...overload.figures);
    }
  } finally {
    await memory?.stop();
    if (server !== undefined) {
      await server.stop();
    }
    await postgres.stop();
  }
  printMeasurements(measurements);
  console.dir(extra, { depth: null });
  if (values.save !== undefined) {
    saveResults(values.save, {
      environment: describeEnvironment(),
      settings: values,
      extra,
      measurements,
    });
  }
  return figures;
}
