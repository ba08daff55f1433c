/**
 * The load generator process: sends prebuilt OTLP requests over keep-alive connections and prints one
 * JSON line. Two modes:
 * - closed loop (no --rate): every connection sends its next request when the last was answered: the
 *   most that the server takes.
 * - open loop (--rate R requests/s): requests are due at fixed times whatever the server does, and
 *   latency counts from the time a request was *due*, so a stall is not hidden by the requests that
 *   the stall held back (coordinated omission). All of them are sent, however late; with --drop, what waits
 *   for a connection when the time is over is not sent, and counted as `unsent`.
 */
import { compress, init } from "@bokuweb/zstd-wasm";
import { build, type Histogram } from "hdr-histogram-js";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { GrpcConnection } from "./grpc-connection.js";
import { type AnswerHandler, HttpConnection } from "./http-connection.js";
import {
  buildPayload,
  type LoadEncoding,
  type LoadFormat,
  type LoadSignal,
  patch,
  type Payload,
} from "./otlp-payloads.js";

/** What one run measured; latencies in milliseconds. */
export interface LoadReport {
  readonly seconds: number;
  readonly offeredRequestsPerSecond: number | null;
  readonly requests: number;
  /** Requests that were due and were dropped. */
  readonly unsent: number;
  readonly records: number;
  readonly acknowledgedRecords: number;
  readonly statuses: Record<string, number>;
  readonly latencyMs: { p50: number; p90: number; p99: number; p999: number; max: number };
  readonly cpuSeconds: number;
  readonly bodyBytes: number;
}

/** One connection with one request at a time; heads are of the same protocol. */
interface Connection {
  send(head: unknown, body: Buffer, onAnswer: AnswerHandler): void;
  close(): void;
}

/** Node.js 20 cannot compress with zstd. */
const compressed: Readonly<Record<LoadEncoding, (body: Buffer) => Buffer>> = {
  identity: (body) => body,
  gzip: (body) => gzipSync(body, { level: 1 }),
  zstd: (body) => Buffer.from(compress(body, 1)),
};

interface Settings {
  readonly grpc: boolean;
  readonly format: LoadFormat;
  /** Bodies are compressed, each when it is sent, because each differs. */
  readonly encoding: LoadEncoding;
  readonly drop: boolean;
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly authorization: string;
  readonly seconds: number;
  readonly rate: number | null;
  readonly connections: number;
}

class Run {
  readonly histogram: Histogram = build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: 120_000_000,
    numberOfSignificantValueDigits: 3,
  });
  readonly statuses = new Map<number, number>();
  requests = 0;
  records = 0;
  acknowledgedRecords = 0;
  #next = 0;
  #counter: bigint;
  readonly #heads: unknown[];
  readonly #payloads: readonly Payload[];
  readonly #settings: Settings;

  constructor(settings: Settings, payloads: readonly Payload[], firstCounter: bigint) {
    this.#settings = settings;
    this.#payloads = payloads;
    this.#counter = firstCounter;
    this.#heads = payloads.map(({ body }) => (settings.grpc ? grpcHead(settings) : httpHead(settings, body)));
  }

  /** Sends one request that is due at `dueMs` and calls back when it is answered. */
  send(connection: Connection, dueMs: number, done: () => void): void {
    const index = this.#next;
    this.#next = (this.#next + 1) % this.#payloads.length;
    const payload = this.#payloads[index] as Payload;
    // A fresh copy: the socket may still hold the last use of this template.
    const body = Buffer.from(payload.body);
    patch(payload, body, this.#counter++);
    const { encoding } = this.#settings;
    const sent = compressed[encoding](body);
    const head = encoding === "identity" ? this.#heads[index] : httpHead(this.#settings, sent);
    connection.send(head, sent, (status) => {
      this.requests++;
      this.records += payload.records;
      this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
      if (status === 200) {
        this.acknowledgedRecords += payload.records;
      }
      this.histogram.recordValue(Math.max(1, Math.round((performance.now() - dueMs) * 1000)));
      done();
    });
  }
}

function httpHead({ host, port, path, authorization, encoding, format }: Settings, body: Buffer): Buffer {
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: ${host}:${port}\r\n` +
      (authorization === "" ? "" : `Authorization: ${authorization}\r\n`) +
      (encoding === "identity" ? "" : `Content-Encoding: ${encoding}\r\n`) +
      `Content-Type: application/${format === "json" ? "json" : "x-protobuf"}\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
}

function grpcHead({ path, authorization }: Settings): Record<string, string> {
  return {
    ":method": "POST",
    ":path": path,
    te: "trailers",
    "content-type": "application/grpc",
    ...(authorization === "" ? {} : { authorization }),
  };
}

async function runClosed(run: Run, connections: Connection[], seconds: number): Promise<void> {
  const endMs = performance.now() + seconds * 1000;
  await Promise.all(
    connections.map(
      (connection) =>
        new Promise<void>((resolve) => {
          const next = (): void => {
            const nowMs = performance.now();
            if (nowMs >= endMs) {
              resolve();
            } else {
              run.send(connection, nowMs, next);
            }
          };
          next();
        }),
    ),
  );
}

/** @returns requests that were not sent */
async function runOpen(
  run: Run,
  connections: Connection[],
  { seconds, drop }: Settings,
  rate: number,
): Promise<number> {
  const idle = [...connections];
  const due: number[] = [];
  const total = Math.round(rate * seconds);
  const startMs = performance.now();
  let scheduled = 0;
  let answered = 0;
  let unsent = 0;
  await new Promise<void>((resolve) => {
    const dispatch = (): void => {
      while (due.length > 0 && idle.length > 0) {
        // In turn, because the server closes a connection that stays idle for ten seconds.
        const connection = idle.shift() as Connection;
        run.send(connection, due.shift() as number, () => {
          idle.push(connection);
          answered++;
          if (answered + unsent === total) {
            resolve();
          } else {
            dispatch();
          }
        });
      }
    };
    const tick = (): void => {
      const nowMs = performance.now();
      while (scheduled < total && startMs + (scheduled * 1000) / rate <= nowMs) {
        due.push(startMs + (scheduled * 1000) / rate);
        scheduled++;
      }
      dispatch();
      if (scheduled < total) {
        setTimeout(tick, 1);
      } else if (drop) {
        unsent = due.length;
        due.length = 0;
        if (answered + unsent === total) {
          resolve();
        }
      }
    };
    tick();
  });
  return unsent;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      url: { type: "string" },
      authorization: { type: "string", default: "" },
      signal: { type: "string", default: "logs" },
      records: { type: "string", default: "1000" },
      seconds: { type: "string", default: "10" },
      connections: { type: "string", default: "32" },
      rate: { type: "string" },
      templates: { type: "string", default: "64" },
      protocol: { type: "string", default: "http" },
      encoding: { type: "string", default: "identity" },
      format: { type: "string", default: "protobuf" },
      drop: { type: "boolean", default: false },
    },
  });
  const url = new URL(values.url ?? "");
  const signal = values.signal as LoadSignal;
  const settings: Settings = {
    grpc: values.protocol === "grpc",
    format: values.format as LoadFormat,
    encoding: values.encoding as LoadEncoding,
    drop: values.drop,
    host: url.hostname,
    port: Number(url.port),
    path: url.pathname,
    authorization: values.authorization,
    seconds: Number(values.seconds),
    rate: values.rate === undefined ? null : Number(values.rate),
    connections: Number(values.connections),
  };
  await init();
  // Sizes take turns.
  const sizes = values.records.split(",").map(Number);
  const payloads = Array.from({ length: Number(values.templates) }, (_, seed) =>
    buildPayload(signal, sizes[seed % sizes.length] ?? 0, seed, settings.format),
  );
  // Unique across runs against one server: the wall clock in nanoseconds, counted up by one.
  const run = new Run(settings, payloads, BigInt(Date.now()) * 1_000_000n);
  const lost = (error: Error): void => {
    process.stderr.write(`load generator: ${error.message}\n`);
    process.exit(1);
  };
  const protocol = settings.grpc ? GrpcConnection : HttpConnection;
  const connections = await Promise.all(
    Array.from({ length: settings.connections }, () => protocol.open(settings.host, settings.port, lost)),
  );
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  let unsent = 0;
  if (settings.rate === null) {
    await runClosed(run, connections, settings.seconds);
  } else {
    unsent = await runOpen(run, connections, settings, settings.rate);
  }
  const seconds = (performance.now() - startMs) / 1000;
  const used = process.cpuUsage(cpu);
  for (const connection of connections) {
    connection.close();
  }
  const ms = (percentile: number): number => run.histogram.getValueAtPercentile(percentile) / 1000;
  const report: LoadReport = {
    seconds,
    offeredRequestsPerSecond: settings.rate,
    requests: run.requests,
    unsent,
    records: run.records,
    acknowledgedRecords: run.acknowledgedRecords,
    statuses: Object.fromEntries(run.statuses),
    latencyMs: {
      p50: ms(50),
      p90: ms(90),
      p99: ms(99),
      p999: ms(99.9),
      max: run.histogram.maxValue / 1000,
    },
    cpuSeconds: (used.user + used.system) / 1e6,
    bodyBytes: payloads.reduce((sum, { body }) => sum + body.length, 0) / payloads.length,
  };
  process.stdout.write(`${JSON.stringify(report)}\n`);
}

try {
  await main();
} catch (error) {
  process.stderr.write(`load generator: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
