/**
 * `pnpm bench ingest`: the ingestion server under load, as a user runs it — its own process, real
 * Postgres, real Parquet objects, synced — and a load generator in another process.
 *
 * Prints ingest.cpu for logs, spans and metric points (closed loop, 1000 records a request),
 * ingest.latency (open loop at half of the highest rate), ingest.small (3 records a request) beside a
 * bare uWebSockets.js front end in the same run. `--soak SECONDS` adds a memory run at full load.
 * `--driver node` measures the other HTTP driver.
 * CPU counts the server process with its threads; Postgres and the generator are given apart.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  mkdirSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { mintIngestionKey } from "../src/auth/keys.js";
import { startEmbeddedPostgres } from "../src/db/embedded.js";
import { migrate } from "../src/db/migrations.js";
import { connect } from "../src/db/sql.js";
import { createLogger } from "../src/runtime/log.js";
import type { LoadReport } from "./load/load-generator.js";
import type { LoadSignal } from "./load/otlp-payloads.js";
import {
  describeEnvironment,
  processCpuSeconds,
  processMemory,
  threadCpuSeconds,
} from "./machine.js";
import { printTable } from "./table.js";

const compiled = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

interface Server {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly url: string;
}

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

async function startServer(
  entry: string,
  env: NodeJS.ProcessEnv,
  cpuProfileDirectory: string | undefined,
): Promise<Server> {
  const profile =
    cpuProfileDirectory === undefined
      ? []
      : ["--cpu-prof", `--cpu-prof-dir=${cpuProfileDirectory}`, "--cpu-prof-interval=500"];
  const child = spawn(process.execPath, [...profile, "--enable-source-maps", entry], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString();
      const address = /http:\/\/127\.0\.0\.1:[1-9]\d*/.exec(output);
      if (address !== null) resolve(address[0]);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (code) => {
      if (code !== 0) process.stderr.write(`server exited with ${code}:\n${output.slice(-4000)}\n`);
      reject(new Error(`server exited with ${code}`));
    });
  });
  for (let attempt = 0; ; attempt++) {
    const ready = await fetch(`${url}/ready`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) break;
    if (attempt === 100) throw new Error(`server is not ready:\n${output}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { process: child, pid: child.pid as number, url };
}

async function stopServer(server: Server): Promise<void> {
  server.process.kill("SIGTERM");
  await once(server.process, "exit");
}

/** CPU of every Postgres process below a data directory's postmaster, dead children included. */
function postgresCpuSeconds(postmasterPid: number): number {
  let total = 0;
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      if (Number(entry) === postmasterPid || parent === postmasterPid) {
        total += processCpuSeconds(Number(entry));
      }
    } catch (error) {
      // A process that ended between the listing and the read has no CPU to report.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  return total;
}

interface LoadOptions {
  readonly signal: LoadSignal;
  readonly records: number;
  readonly seconds: number;
  readonly connections: number;
  readonly rate?: number;
}

async function generateLoad(
  url: string,
  authorization: string,
  load: LoadOptions,
): Promise<LoadReport> {
  const args = [
    compiled("./load/load-generator.js"),
    `--url=${url}`,
    `--authorization=${authorization}`,
    `--signal=${load.signal}`,
    `--records=${load.records}`,
    `--seconds=${load.seconds}`,
    `--connections=${load.connections}`,
    ...(load.rate === undefined ? [] : [`--rate=${load.rate}`]),
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  if (code !== 0) throw new Error(`the load generator exited with ${code}`);
  return JSON.parse(output) as LoadReport;
}

async function bareFrontRate(
  seconds: number,
  records: number,
  connections: number,
): Promise<number> {
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

/** Keeps a long run from filling the disk: ten minutes at full load are tens of gigabytes. */
function removeOldObjects(lake: string, olderThanMs: number): void {
  for (const entry of readdirSync(lake, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.name.endsWith(".parquet") && Date.now() - statSync(path).mtimeMs > olderThanMs) {
      rmSync(path);
    }
  }
}

/** Every encode thread compiles its own code; what counts is what a server does all day. */
const warmUpSeconds = 8;

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
      soak: { type: "string" },
      only: { type: "string" },
      save: { type: "string" },
      "cpu-prof": { type: "string" },
    },
  });
  const seconds = Number(values.seconds);
  const connections = Number(values.connections);
  const directory = mkdtempSync(join(process.env["BENCH_DIR"] ?? tmpdir(), "telemetry-bench-"));
  const logger = createLogger({ level: "warn", service: "bench" });
  const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger });
  const measurements: Measurement[] = [];
  const extra: Record<string, unknown> = {};
  let server: Server | undefined;
  try {
    const sql = connect({
      connectionString: postgres.connectionString,
      maxConnections: 1,
      applicationName: "bench",
      logger,
    });
    await migrate(sql, logger);
    const { key } = await mintIngestionKey(sql, {
      name: "bench",
      audience: "public",
      createdBy: "bench",
    });
    const postmasterPid = Number(
      (await sql`select pg_read_file('postmaster.pid') as text`)[0]?.["text"].split("\n")[0],
    );
    await sql.end();
    const authorization = `Bearer ${key}`;
    const startedMs = performance.now();
    server = await startServer(
      compiled("../src/bin/telemetry-ingestion-srv.js"),
      {
        SVC_SQL_CONNECTION_STRING: postgres.connectionString,
        SVC_DATA_DIR: directory,
        SVC_INGESTION_LISTEN: "127.0.0.1:0",
        SVC_LOG_LEVEL: "info",
        SVC_HTTP_DRIVER: values.driver,
        ...Object.fromEntries(
          Object.entries(process.env).filter(([name]) => name.startsWith("SVC_")),
        ),
      },
      values["cpu-prof"],
    );
    extra["startMs"] = Math.round(performance.now() - startedMs);
    extra["idleBytes"] = processMemory(server.pid).residentBytes;

    const measure = async (name: string, load: LoadOptions): Promise<Measurement> => {
      const { pid, url } = server as Server;
      const path = `${url}/ingestion/otlp/v1/${load.signal}`;
      const threadsBefore = threadCpuSeconds(pid);
      const cpuBefore = processCpuSeconds(pid);
      const postgresBefore = postgresCpuSeconds(postmasterPid);
      const report = await generateLoad(path, authorization, load);
      const serverCpuSeconds = processCpuSeconds(pid) - cpuBefore;
      const threads: Record<string, number> = {};
      for (const [thread, total] of threadCpuSeconds(pid)) {
        const used = total - (threadsBefore.get(thread) ?? 0);
        if (used > 0.05) threads[thread] = round(used);
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

    const wanted = (name: string): boolean =>
      values.only === undefined || values.only.split(",").includes(name);
    let logsRate = 0;
    for (const signal of values.signals.split(",") as LoadSignal[]) {
      if (!wanted("cpu") && !(signal === "logs" && wanted("latency"))) continue;
      const load = { signal, records: Number(values.records), connections };
      await generateLoad(`${server.url}/ingestion/otlp/v1/${signal}`, authorization, {
        ...load,
        seconds: warmUpSeconds,
      });
      const result = await measure(`ingest.cpu ${signal}`, { ...load, seconds });
      if (signal === "logs") logsRate = result.requests / result.seconds;
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
    if (values.soak !== undefined) {
      const samples: number[] = [];
      const pid = server.pid;
      const timer = setInterval(() => {
        samples.push(processMemory(pid).residentBytes);
        removeOldObjects(join(directory, "lake"), 20_000);
      }, 5000);
      await measure("soak logs", {
        signal: "logs",
        records: Number(values.records),
        connections,
        seconds: Number(values.soak),
      });
      clearInterval(timer);
      extra["soakResidentMiB"] = samples.map(megabytes);
    }
  } finally {
    if (server !== undefined) await stopServer(server);
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
  for (const m of measurements) console.log(m.name, "CPU seconds by thread:", m.threads);
  console.log(extra);
  if (values.save !== undefined) {
    const results = fileURLToPath(new URL("../../bench/results/", import.meta.url));
    mkdirSync(results, { recursive: true });
    const file = join(results, `${values.save}.json`);
    const content = { environment: describeEnvironment(), settings: values, extra, measurements };
    writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`);
    console.log(`saved to bench/results/${values.save}.json`);
  }
}
