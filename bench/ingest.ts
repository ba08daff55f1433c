/**
 * `pnpm bench ingest`: the ingestion server under load, as a user runs it — its own process, real
 * Postgres, real Parquet objects, synced — and a load generator in another process.
 *
 * Prints ingest.cpu for logs, spans and metric points (closed loop, 1000 records a request), ingest.latency (open loop
 * at half of the highest rate), ingest.small (3 records a request) beside a bare uWebSockets.js front end in the same
 * run. `pnpm bench soak` watches memory at full load. `--driver node` measures the other HTTP driver,
 * `--protocols http,grpc` OTLP/gRPC beside OTLP/HTTP. CPU counts the
 * server process with its threads; Postgres and the generator are given apart.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startEmbeddedPostgres } from "../src/db/embedded/embedded.js";
import { createLogger } from "../src/runtime/log/log.js";
import {
  generateLoad,
  type IngestionProcess,
  type LoadOptions,
  type LoadProtocol,
  loadUrl,
  prepareDatabase,
  startServer,
  stopServer,
} from "./load/ingestion-process.js";
import type { LoadReport } from "./load/load-generator.js";
import type { LoadSignal } from "./load/otlp-payloads.js";
import { describeEnvironment, processCpuSeconds, processMemory, threadCpuSeconds } from "./machine.js";
import { saveResults } from "./results.js";
import { printTable } from "./table.js";

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

/** CPU of every Postgres process below a data directory's postmaster, dead children included. */
function postgresCpuSeconds(postmasterPid: number): number {
  let total = 0;
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) {
      continue;
    }
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      if (Number(entry) === postmasterPid || parent === postmasterPid) {
        total += processCpuSeconds(Number(entry));
      }
    } catch (error) {
      // A process that ended between the listing and the read has no CPU to report.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
        throw error;
      }
    }
  }
  return total;
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

const round = (value: number, digits = 2): number => Number(value.toFixed(digits));
const megabytes = (bytes: number): number => Math.round(bytes / 2 ** 20);

/** Small requests wait for the disk, not for the CPU: enough of them have to be under way at once. */
const smallConnections = 256;

/** Runs the bench; see the head of this file. */
export async function benchIngest(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      seconds: { type: "string", default: "10" },
      records: { type: "string", default: "1000" },
      connections: { type: "string", default: "16" },
      signals: { type: "string", default: "logs,traces,metrics" },
      driver: { type: "string", default: "uws" },
      protocols: { type: "string", default: "http" },
      // Every encode thread compiles its own code, and HTTP/2 has much of it; what counts is what a server does all day.
      "warm-up": { type: "string", default: "8" },
      only: { type: "string" },
      save: { type: "string" },
      "cpu-prof": { type: "string" },
    },
  });
  const seconds = Number(values.seconds);
  const connections = Number(values.connections);
  const warmUpSeconds = Number(values["warm-up"]);
  const directory = mkdtempSync(join(process.env["BENCH_DIR"] ?? tmpdir(), "telemetry-bench-"));
  const logger = createLogger({ level: "warn", service: "bench" });
  const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger });
  const measurements: Measurement[] = [];
  const extra: Record<string, unknown> = {};
  let server: IngestionProcess | undefined;
  try {
    const { postmasterPid, authorization } = await prepareDatabase(postgres.connectionString, logger);
    const startedMs = performance.now();
    server = await startServer({
      connectionString: postgres.connectionString,
      dataDirectory: directory,
      driver: values.driver,
      cpuProfileDirectory: values["cpu-prof"],
    });
    extra["startMs"] = Math.round(performance.now() - startedMs);
    extra["idleBytes"] = processMemory(server.pid).residentBytes;

    const measure = async (name: string, load: LoadOptions): Promise<Measurement> => {
      const running = server as IngestionProcess;
      const { pid } = running;
      const path = loadUrl(running, load.signal, load.protocol ?? "http");
      const threadsBefore = threadCpuSeconds(pid);
      const cpuBefore = processCpuSeconds(pid);
      const postgresBefore = postgresCpuSeconds(postmasterPid);
      const report = await generateLoad(path, authorization, load);
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
        postgresCpuSeconds: round(postgresCpuSeconds(postmasterPid) - postgresBefore),
        cpuMicrosPerRecord: round((serverCpuSeconds * 1e6) / report.acknowledgedRecords, 3),
        cpuMicrosPerRequest: round((serverCpuSeconds * 1e6) / report.requests, 1),
        serverPeakBytes: processMemory(pid).peakBytes,
        threads,
      };
      measurements.push(measurement);
      return measurement;
    };

    const wanted = (name: string): boolean => values.only === undefined || values.only.split(",").includes(name);
    let logsRate = 0;
    for (const signal of values.signals.split(",") as LoadSignal[]) {
      if (!wanted("cpu") && !(signal === "logs" && wanted("latency"))) {
        continue;
      }
      for (const protocol of values.protocols.split(",") as LoadProtocol[]) {
        const load = { signal, records: Number(values.records), connections, protocol };
        await generateLoad(loadUrl(server, signal, protocol), authorization, { ...load, seconds: warmUpSeconds });
        const result = await measure(`ingest.cpu ${signal}${protocol === "http" ? "" : ` ${protocol}`}`, {
          ...load,
          seconds,
        });
        if (signal === "logs" && protocol === "http") {
          logsRate = result.requests / result.seconds;
        }
      }
    }
    if (wanted("latency") && logsRate > 0) {
      await measure("ingest.latency logs", {
        signal: "logs",
        records: Number(values.records),
        connections: 64,
        seconds,
        rate: Math.max(1, Math.round(logsRate / 2)),
      });
    }
    if (wanted("small")) {
      const bare = await bareFrontRate(Math.min(5, seconds), 3, smallConnections);
      const small = await measure("ingest.small logs", {
        signal: "logs",
        records: 3,
        connections: smallConnections,
        seconds,
      });
      extra["bareFrontRequestsPerSecond"] = Math.round(bare);
      extra["ingestSmallRatio"] = round(small.requests / small.seconds / bare);
    }
  } finally {
    if (server !== undefined) {
      await stopServer(server);
    }
    await postgres.stop();
    rmSync(directory, { recursive: true, force: true });
  }
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
      "peak MiB": megabytes(m.serverPeakBytes),
      "not 200": m.requests - (m.statuses["200"] ?? 0),
    })),
  );
  for (const m of measurements) {
    console.log(m.name, "CPU seconds by thread:", m.threads);
  }
  console.log(extra);
  if (values.save !== undefined) {
    saveResults(values.save, {
      environment: describeEnvironment(),
      settings: values,
      extra,
      measurements,
    });
  }
}
