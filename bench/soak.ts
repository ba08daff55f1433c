/**
 * `pnpm bench soak --minutes N`: the ingestion server at full load for half an hour, with requests of 10, 100 and
 * 1000 records in turn, and its resident memory every ten seconds. What counts is the ratio between minute 5 and
 * the end: memory that grows with the number of requests shows there, whatever the caches of the start take.
 * The figures go to `bench/results/ingest-soak.json`.
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setInterval } from "node:timers";

import { startEmbeddedPostgres } from "../src/db/embedded/embedded.js";
import { createLogger } from "../src/runtime/log/log.js";
import { atMost, type Figure, figure, mebibytes, median, noLimit, round } from "./figures.js";
import { generateLoad, prepareDatabase, removeOldObjects, startServer } from "./load/ingestion-process.js";
import { loadSignals } from "./load/otlp-payloads.js";
import { processCpuSeconds } from "../src/engine/process-cpu.js";
import { describeEnvironment, processMemory } from "./run/machine.js";
import { saveResults } from "./run/results.js";
import { count, number, readOptions, text, word } from "./run/options.js";
import { printTable } from "./run/table.js";

const sampleEveryMs = 10_000;
/** Objects go after a while: half an hour at full load is a hundred gigabytes. */
const keepObjectsMs = 20_000;
const recordsPerRequest = "10,100,1000";
/** Samples around a point in time that it is the median of: one may fall before a collection, or after. */
const samplesPerPoint = 6;

/** Runs the soak; see the head of this file. */
export async function benchSoak(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    minutes: number(30, "length", 0.5),
    signal: word(loadSignals, "logs", "what is sent"),
    connections: count(16, "senders"),
    driver: word(["uws", "node"], "uws", "HTTP driver of the server"),
    save: text("ingest-soak", "name of the file under bench/results/ that keeps the result"),
  };
  const values = readOptions("soak", "memory at full load", options, argv);
  const { minutes, signal } = values;
  const directory = tmpdir();
  const logger = createLogger({ level: "warn", service: "bench" });
  const postgres = await startEmbeddedPostgres({ dataDirectory: directory, logger });
  try {
    const { connectionString } = postgres;
    const { authorization } = await prepareDatabase(connectionString, logger);
    const server = await startServer({
      connectionString,
      dataDirectory: directory,
      driver: values.driver,
    });
    const residentBytes: number[] = [];
    const timer = setInterval(() => {
      residentBytes.push(processMemory(server.pid).residentBytes);
      removeOldObjects(join(directory, "lake"), keepObjectsMs);
    }, sampleEveryMs);
    try {
      const load = await generateLoad(`${server.url}/ingestion/otlp/v1/${signal}`, authorization, {
        signal,
        records: recordsPerRequest,
        seconds: minutes * 60,
        connections: values.connections,
      });
      clearInterval(timer);
      const result = {
        minutes,
        requests: load.requests,
        statuses: load.statuses,
        cpuMicrosPerRecord: round((processCpuSeconds(server.pid) * 1e6) / load.acknowledgedRecords, 3),
        ...memoryRatio(residentBytes, minutes),
      };
      printTable("soak", [
        {
          "records/s": Math.round(load.acknowledgedRecords / load.seconds),
          "requests/s": Math.round(load.requests / load.seconds),
          [`MiB at minute ${round(result.fromMinute, 1)}`]: result.earlyMiB,
          "MiB at the end": result.lateMiB,
          "end / early": result.ratio,
          "not 200": load.requests - (load.statuses["200"] ?? 0),
        },
      ]);
      saveResults(values.save, {
        environment: describeEnvironment(),
        settings: { ...values, recordsPerRequest, sampleEverySeconds: sampleEveryMs / 1000 },
        result,
        load,
        residentMiB: residentBytes.map(mebibytes),
      });
      return [
        figure(
          "memory at the end to memory at minute 5",
          "times",
          result.ratio,
          minutes < 30 ? noLimit("target is for half an hour") : atMost(1.1),
        ),
        figure("memory at the end", "MiB", result.lateMiB, atMost(1024)),
        // Memory says nothing of a server that refuses its load.
        figure("refused", "requests", load.requests - (load.statuses["200"] ?? 0), atMost(0)),
      ];
    } finally {
      clearInterval(timer);
      await server.stop();
    }
  } finally {
    await postgres.stop();
  }
}

/** Memory at minute 5 (of a shorter run: after a sixth of it) and at the end. */
function memoryRatio(
  residentBytes: readonly number[],
  minutes: number,
): {
  readonly fromMinute: number;
  readonly earlyMiB: number;
  readonly lateMiB: number;
  readonly ratio: number;
} {
  const fromMinute = Math.min(5, minutes / 6);
  const first = Math.floor((fromMinute * 60_000) / sampleEveryMs);
  const early = median(residentBytes.slice(first, first + samplesPerPoint));
  const late = median(residentBytes.slice(-samplesPerPoint));
  return {
    fromMinute,
    earlyMiB: mebibytes(early),
    lateMiB: mebibytes(late),
    ratio: round(late / early, 3),
  };
}
