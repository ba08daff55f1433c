/**
 * CPU of decoding alone: OTLP protobuf and JSON into columns, no Parquet, no I/O. Requests vary in
 * every record (messages, attribute values, ids), come from shared memory as in the service, and each
 * is new (its time differs), so that every block is stored.
 */
import { hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { gzipSync } from "node:zlib";

import type { BodyHead } from "../../src/ingest/body-head.js";
import { SegmentBuilder } from "../../src/ingest/segment.js";
import { ProtobufWriter } from "../../src/wire/protobuf-writer.js";
import { type Figure, figure } from "../figures.js";
import { number, readOptions, text, Usage } from "../run/options.js";

/** One line of the result. */
interface DecodeResult {
  readonly name: string;
  /** Records (log records, spans, number points, histogram points) in a request. */
  readonly records: number;
  readonly bytesPerRecord: number;
  /** CPU microseconds per record, SHA-1 of the block included: the mean of all rounds. */
  readonly microsPerRecord: number;
  /** The same of the cheapest of many short rounds: what it costs on a machine that nobody else uses. */
  readonly bestMicrosPerRecord: number;
  /** Of that, what SHA-1 of the blocks costs when it runs alone. */
  readonly sha1MicrosPerRecord: number;
  readonly megabytesPerSecond: number;
}

const words = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike".split(" ");

/** Deterministic pseudo-random numbers (xorshift32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

type Random = () => number;

function pick(random: Random): string {
  return words[random() % words.length] ?? "";
}

function hexId(random: Random, bytes: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, () => 1 + (random() % 255));
}

function message(w: ProtobufWriter, field: number, write: () => void): void {
  w.tag(field, 2);
  const mark = w.open();
  write();
  w.close(mark);
}

function string(w: ProtobufWriter, field: number, value: string): void {
  w.bytesField(field, Buffer.from(value));
}

function attribute(w: ProtobufWriter, field: number, key: string, value: string | number): void {
  message(w, field, () => {
    string(w, 1, key);
    message(w, 2, () => {
      if (typeof value === "string") {
        string(w, 1, value);
      } else if (Number.isInteger(value)) {
        w.tag(3, 0);
        w.varint32(value);
      } else {
        w.tag(4, 1);
        w.double(value);
      }
    });
  });
}

function time(w: ProtobufWriter, field: number, random: Random): void {
  w.tag(field, 1);
  w.fixed64(random() | 0, 0x17a00000 + (random() & 0xffff));
}

function writeLog(w: ProtobufWriter, random: Random): void {
  time(w, 1, random);
  w.tag(2, 0);
  w.varint32(1 + (random() % 24));
  string(w, 3, "INFO");
  message(w, 5, () =>
    string(
      w,
      1,
      `GET /api/${pick(random)}/${random() % 100000} took ${random() % 5000} ms for ${pick(random)} ${pick(random)}`,
    ),
  );
  attribute(w, 6, "http.request.method", "GET");
  attribute(w, 6, "http.route", `/api/${pick(random)}/:id`);
  attribute(w, 6, "http.response.status_code", 200 + (random() % 300));
  attribute(w, 6, "user.id", `user-${random() % 1000000}`);
  w.bytesField(9, hexId(random, 16));
  w.bytesField(10, hexId(random, 8));
  time(w, 11, random);
}

function writeSpan(w: ProtobufWriter, random: Random): void {
  w.bytesField(1, hexId(random, 16));
  w.bytesField(2, hexId(random, 8));
  w.bytesField(4, hexId(random, 8));
  string(w, 5, `GET /api/${pick(random)}`);
  w.tag(6, 0);
  w.varint32(2);
  time(w, 7, random);
  time(w, 8, random);
  attribute(w, 9, "http.request.method", "GET");
  attribute(w, 9, "http.route", `/api/${pick(random)}/:id`);
  attribute(w, 9, "http.response.status_code", 200 + (random() % 300));
  attribute(w, 9, "server.address", `${pick(random)}.example.com`);
  attribute(w, 9, "user.id", `user-${random() % 1000000}`);
}

function writeGauge(w: ProtobufWriter, random: Random): void {
  string(w, 1, `system.${pick(random)}.utilization`);
  string(w, 2, "Share of the time in use");
  string(w, 3, "1");
  message(w, 5, () => {
    for (let point = 0; point < 10; point++) {
      message(w, 1, () => {
        time(w, 2, random);
        time(w, 3, random);
        if (point & 1) {
          w.tag(6, 1);
          w.fixed64(random(), 0);
        } else {
          w.tag(4, 1);
          w.double((random() % 100000) / 1000);
        }
        attribute(w, 7, "cpu.mode", pick(random));
        attribute(w, 7, "cpu.logical_number", random() % 64);
        attribute(w, 7, "host.group", `group-${pick(random)}`);
      });
    }
  });
}

function writeHistogram(w: ProtobufWriter, random: Random): void {
  string(w, 1, "http.server.request.duration");
  string(w, 3, "s");
  message(w, 9, () => {
    for (let point = 0; point < 10; point++) {
      message(w, 1, () => {
        time(w, 2, random);
        time(w, 3, random);
        w.tag(4, 1);
        w.fixed64(random(), 0);
        w.tag(5, 1);
        w.double(random() / 1000);
        message(w, 6, () => {
          for (let bucket = 0; bucket < 15; bucket++) {
            w.fixed64(random() % 10000, 0);
          }
        });
        message(w, 7, () => {
          for (let bucket = 0; bucket < 14; bucket++) {
            w.double(bucket / 4);
          }
        });
        attribute(w, 9, "http.route", `/api/${pick(random)}/:id`);
        attribute(w, 9, "http.response.status_code", 200 + (random() % 300));
      });
    }
    w.tag(2, 0);
    w.varint32(2);
  });
}

function createRequest({ items, write, processes }: Workload, seed: number): Uint8Array {
  const random = createRandom(seed);
  const w = new ProtobufWriter();
  message(w, 1, () => {
    message(w, 1, () => {
      attribute(w, 1, "service.name", "checkout");
      attribute(w, 1, "service.namespace", "shop");
      attribute(w, 1, "service.instance.id", `instance-${seed % processes}`);
      attribute(w, 1, "service.version", "1.42.0");
      attribute(w, 1, "host.name", `node-${seed % 8}.example.com`);
      attribute(w, 1, "process.pid", 4242);
      attribute(w, 1, "telemetry.sdk.language", "nodejs");
      attribute(w, 1, "telemetry.sdk.name", "opentelemetry");
      attribute(w, 1, "telemetry.sdk.version", "2.0.0");
    });
    message(w, 2, () => {
      message(w, 1, () => {
        string(w, 1, "@shop/http");
        string(w, 2, "0.3.1");
      });
      for (let index = 0; index < items; index++) {
        message(w, 2, () => write(w, random));
      }
    });
  });
  return w.output();
}

/** The same logs as OTLP/JSON, as the OpenTelemetry JS SDK writes it. */
function createJsonLogs(seed: number, items: number): Uint8Array {
  const random = createRandom(seed);
  const hex = (bytes: number): string => Buffer.from(hexId(random, bytes)).toString("hex");
  const pair = (key: string, value: object): object => ({ key, value });
  const logRecords = Array.from({ length: items }, () => ({
    timeUnixNano: `17${String(random()).padStart(10, "0")}0000000`,
    observedTimeUnixNano: `17${String(random()).padStart(10, "0")}0000000`,
    severityNumber: 1 + (random() % 24),
    severityText: "INFO",
    body: {
      stringValue: `GET /api/${pick(random)}/${random() % 100000} took ${random() % 5000} ms for ${pick(random)} ${pick(random)}`,
    },
    attributes: [
      pair("http.request.method", { stringValue: "GET" }),
      pair("http.route", { stringValue: `/api/${pick(random)}/:id` }),
      pair("http.response.status_code", { intValue: 200 + (random() % 300) }),
      pair("user.id", { stringValue: `user-${random() % 1000000}` }),
    ],
    droppedAttributesCount: 0,
    traceId: hex(16),
    spanId: hex(8),
  }));
  const resource = { attributes: [pair("service.name", { stringValue: `checkout-${seed % 8}` })] };
  return Buffer.from(
    JSON.stringify({
      resourceLogs: [{ resource, scopeLogs: [{ scope: { name: "@shop/http" }, logRecords }] }],
    }),
  );
}

interface Workload {
  readonly name: string;
  readonly signal: 1 | 2 | 3;
  readonly items: number;
  readonly recordsPerItem: number;
  readonly write: (w: ProtobufWriter, random: Random) => void;
  /** How many send, in turns. */
  readonly processes: number;
  readonly change?: Partial<BodyHead>;
}

const workloads: readonly Workload[] = [
  ...[8, 2000, 8000, 16_000].map((processes) => ({
    name: `logs, 10 a request, from ${processes}`,
    signal: 1 as const,
    items: 10,
    recordsPerItem: 1,
    write: writeLog,
    processes,
  })),
  { name: "logs, 1000 a request", signal: 1, items: 1000, recordsPerItem: 1, write: writeLog, processes: 8 },
  { name: "logs, 3 a request", signal: 1, items: 3, recordsPerItem: 1, write: writeLog, processes: 8 },
  { name: "spans, 1000 a request", signal: 3, items: 1000, recordsPerItem: 1, write: writeSpan, processes: 8 },
  { name: "number points, 1000", signal: 2, items: 100, recordsPerItem: 10, write: writeGauge, processes: 8 },
  {
    name: "histogram points, 1000",
    signal: 2,
    items: 100,
    recordsPerItem: 10,
    write: writeHistogram,
    processes: 8,
  },
  {
    name: "logs in JSON, 1000",
    signal: 1,
    items: 1000,
    recordsPerItem: 1,
    write: writeLog,
    processes: 8,
    change: { format: "json" },
  },
  {
    name: "logs, gzip, 1000",
    signal: 1,
    items: 1000,
    recordsPerItem: 1,
    write: writeLog,
    processes: 8,
    change: { encoding: "gzip" },
  },
];

const leastRequests = 64;

function toShared(bytes: Uint8Array): Uint8Array {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  return shared;
}

/** Microseconds of SHA-1 over one block of a size, the fastest of many tries. */
function sha1Micros(blockBytes: number): number {
  const block = new Uint8Array(Math.round(blockBytes)).fill(7);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 200; round++) {
    const startMs = performance.now();
    for (let index = 0; index < 10; index++) {
      hash("sha1", block, "hex");
    }
    best = Math.min(best, (performance.now() - startMs) * 100);
  }
  return best;
}

function createBody(workload: Workload, seed: number): Uint8Array {
  const { change, items } = workload;
  if (change?.format === "json") {
    return createJsonLogs(seed, items);
  }
  const body = createRequest(workload, seed);
  return change?.encoding === "gzip" ? gzipSync(body) : body;
}

function run(workload: Workload, seconds: number): DecodeResult {
  const requests = Math.max(leastRequests, workload.processes);
  const bodies = Array.from({ length: requests }, (_, index) => toShared(createBody(workload, index + 1)));
  const head: BodyHead = {
    signal: workload.signal,
    format: "protobuf",
    encoding: "identity",
    audience: "public",
    ...workload.change,
  };
  const builder = new SegmentBuilder({ maxInflatedBytes: 64 * 1024 * 1024, maxDepth: 100 });
  const recordsPerRequest = workload.items * workload.recordsPerItem;
  const bytes = bodies.reduce((total, body) => total + body.length, 0);
  // Short segments: some of them then have a core to themselves even on a busy machine.
  const perSegment = Math.min(bodies.length, Math.ceil(3000 / recordsPerRequest));
  let records = 0;
  let payloadBytes = 0;
  let bestMicros = Number.POSITIVE_INFINITY;
  const segment = (from: number): void => {
    builder.begin(1_700_000_000_000_000_000n, new Set());
    for (let index = 0; index < perSegment; index++) {
      const body = bodies[(from + index) % bodies.length];
      if (body === undefined) {
        continue;
      }
      const outcome = builder.add(body, head);
      if (outcome.kind !== "stored" || outcome.records !== recordsPerRequest) {
        throw new Error(`unexpected outcome ${JSON.stringify(outcome)}`);
      }
      records += outcome.records;
    }
    const { blocks } = builder.finish();
    payloadBytes = blocks.reduce((sum, block) => sum + block.payloadBytes, 0) / perSegment;
  };
  const round = (untilMs: number, least: number): void => {
    for (let from = 0; from < least || performance.now() < untilMs; from += perSegment) {
      const startMs = performance.now();
      segment(from);
      const micros = (performance.now() - startMs) * 1000;
      bestMicros = Math.min(bestMicros, micros / (perSegment * recordsPerRequest));
    }
  };
  // Every process is met at least once before.
  round(performance.now() + seconds * 500, bodies.length);
  records = 0;
  const before = process.cpuUsage();
  round(performance.now() + seconds * 1000, 0);
  const used = process.cpuUsage(before);
  const micros = used.user + used.system;
  const bytesPerRecord = bytes / bodies.length / recordsPerRequest;
  return {
    name: workload.name,
    records: recordsPerRequest,
    bytesPerRecord,
    microsPerRecord: micros / records,
    bestMicrosPerRecord: bestMicros,
    sha1MicrosPerRecord: sha1Micros(payloadBytes) / recordsPerRequest,
    megabytesPerSecond: (bytesPerRecord * records) / micros,
  };
}

/** `pnpm bench decode [--only TEXT] [--seconds 2]`: prints every workload whose name contains the text. */
export async function benchDecode(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    only: text("", "workloads whose name contains this"),
    seconds: number(2, "time of each workload", 0.1),
  };
  const values = readOptions("decode", "decoding OTLP into columns, on one thread", options, argv);
  const chosen = workloads.filter(({ name }) => name.includes(values.only));
  if (chosen.length === 0) {
    const names = workloads.map(({ name }) => JSON.stringify(name)).join(", ");
    throw new Usage(`--only: no workload is named so; there are ${names}`, false);
  }
  const figures: Figure[] = [];
  for (const workload of chosen) {
    const result = run(workload, values.seconds);
    // Its parent may have ended meanwhile.
    await setImmediate();
    figures.push(figure(`${result.name}, best`, "us/record", result.bestMicrosPerRecord));
    console.log(
      `${result.name.padEnd(32)} ${result.bytesPerRecord.toFixed(0).padStart(5)} B/record ` +
        `mean ${result.microsPerRecord.toFixed(3)} best ${result.bestMicrosPerRecord.toFixed(3)} ` +
        `of which sha1 ${result.sha1MicrosPerRecord.toFixed(3)} us/record, ` +
        `${result.megabytesPerSecond.toFixed(0)} MB/s`,
    );
  }
  return figures;
}
