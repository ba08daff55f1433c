/**
 * `pnpm bench micro`: the small parts that every request passes, alone on one thread, with tinybench:
 * SHA-256 of a key, a copy into the arena, decoding, encoding to Parquet. For what an end-to-end figure
 * is made of; the figures that count are those of `pnpm bench ingest`.
 */
import { hash } from "node:crypto";

import { Bench } from "tinybench";

import { generateKeyString } from "../../src/auth/key-string.js";
import { SegmentBuilder } from "../../src/ingest/segment.js";
import { ByteDictionary } from "../../src/lake/tables/columns.js";
import { encodeTable } from "../../src/lake/parquet/write.js";
import { type TableName, tables } from "../../src/lake/tables/tables.js";
import { Actor } from "../../src/runtime/actor.js";
import { Arena } from "../../src/runtime/threads/arena.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { type Figure, figure } from "../figures.js";
import { buildPayload, type LoadSignal } from "../load/otlp-payloads.js";
import { count, readOptions } from "../run/options.js";
import { printTable } from "../run/table.js";

const signalNumbers = { logs: 1, metrics: 2, traces: 3 } as const;
const recordsPerRequest = 1000;

function addCodec(bench: Bench, signal: LoadSignal): void {
  const builder = new SegmentBuilder({ maxInflatedBytes: 64 * 2 ** 20, maxDepth: 100 });
  const payload = buildPayload(signal, recordsPerRequest, 1);
  let counter = 1n;
  const decode = (): ReturnType<SegmentBuilder["finish"]> => {
    payload.body.writeBigUInt64LE(counter++, payload.patchOffset);
    builder.begin(1_790_000_000_000_000_000n, new Set());
    builder.add(payload.body, {
      signal: signalNumbers[signal],
      format: "protobuf",
      encoding: "identity",
      audience: "public",
    });
    return builder.finish();
  };
  bench.add(`decode 1000 ${signal}`, () => {
    decode();
  });
  bench.add(`decode and encode 1000 ${signal}`, () => {
    for (const group of decode().groups) {
      for (const table of Object.keys(tables) as TableName[]) {
        const { columns, rows } = group.tables[table];
        if (rows > 0) {
          encodeTable(table, columns, rows, { compression: "none" });
        }
      }
    }
  });
}

/** Runs the bench; see the head of this file. */
export async function benchMicro(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = { milliseconds: count(500, "time of each part, after 300 ms to warm up") };
  const { milliseconds } = readOptions("micro", "parts of a request, on one thread", options, argv);
  const bench = new Bench({ time: milliseconds, warmupTime: 300 });
  const key = generateKeyString();
  bench.add("SHA-256 of a key", () => {
    hash("sha256", key);
  });
  const arena = new Arena(128 * 2 ** 20);
  const chunk = new Uint8Array(new ArrayBuffer(1003), 3);
  bench.add("allocate, write 1 KB and free in the arena", () => {
    const offset = arena.allocate(chunk.length);
    arena.write(offset, chunk);
    arena.free(offset);
  });
  const dictionary = new ByteDictionary();
  const name = Buffer.from("http.server.request.duration");
  bench.add("intern a known name of 28 bytes", () => {
    dictionary.intern(name, 0, name.length);
  });
  const actor = new Actor<number>({
    name: "bench",
    capacity: 1024,
    logger: createSilentLogger(),
    handle: () => undefined,
  });
  bench.add("a message through an actor", async () => {
    actor.tell(1);
    await Promise.resolve();
  });
  for (const signal of ["logs", "traces", "metrics"] as const) {
    addCodec(bench, signal);
  }
  await bench.run();
  await actor.stop();
  const results = bench.tasks.map(({ name: task, result }) => {
    if (!("latency" in result)) {
      throw new Error(`${task} failed`);
    }
    return { task, latency: result.latency };
  });
  printTable(
    "parts of a request, one thread",
    results.map(({ task, latency }) => ({
      part: task,
      "mean us": Number((latency.mean * 1000).toFixed(3)),
      "median us": Number((latency.p50 * 1000).toFixed(3)),
      "p99 us": Number((latency.p99 * 1000).toFixed(3)),
      samples: latency.samplesCount,
    })),
  );
  return results.map(({ task, latency }) => figure(task, "us", latency.p50 * 1000));
}
