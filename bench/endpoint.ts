/**
 * `pnpm bench endpoint --url http://127.0.0.1:4318 [--pid N]`: the load of `pnpm bench ingest` against any OTLP endpoint,
 * such as an OpenTelemetry Collector. With the number of its process it prints CPU a record as `ingest` does. A credential
 * is read from the variable BENCH_AUTHORIZATION, because command lines are open to everybody on a machine.
 */
import { existsSync } from "node:fs";

import { type Figure, figure, round } from "./figures.js";
import { assertAccepted, generateLoad, loadUrl } from "./load/ingestion-process.js";
import { loadEncodings, loadFormats, loadSignals } from "./load/otlp-payloads.js";
import { processCpuSeconds } from "../src/engine/process-cpu.js";
import { count, counts, number, readOptions, text, Usage, word, words } from "./run/options.js";
import { printTable } from "./run/table.js";

/** Runs the bench; see the head of this file. @throws Error when not every record was accepted */
export async function benchEndpoint(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    url: text("http://127.0.0.1:4318", "address of the endpoint, without /v1/logs"),
    pid: number(0, "its process, for CPU a record; 0: no such figure"),
    records: counts("1000", "records a request; each size is a run"),
    signals: words(loadSignals, "logs", "what is sent"),
    protocol: word(["http", "grpc"], "http", "how requests travel"),
    encoding: word(loadEncodings, "identity", "Content-Encoding of bodies over HTTP"),
    format: word(loadFormats, "protobuf", "how bodies over HTTP are written"),
    connections: count(16, "senders"),
    rate: number(0, "requests a second; 0: as many as there can be"),
    rounds: count(3, "runs of each kind, in turns"),
    seconds: number(5, "length of a run", 0.1),
    "warm-up": number(5, "seconds of load before each signal"),
  };
  const values = readOptions("endpoint", "the load of `ingest` against any OTLP endpoint", options, argv);
  const { url, pid, connections, protocol, encoding, format, rate, seconds } = values;
  if (!URL.canParse(url) || new URL(url).protocol !== "http:" || new URL(url).port === "") {
    throw new Usage(`--url takes an address such as http://127.0.0.1:4318, not ${JSON.stringify(url)}`, false);
  }
  if (protocol === "grpc" && (encoding !== "identity" || format !== "protobuf")) {
    throw new Usage("--encoding and --format are for --protocol http", false);
  }
  if (pid !== 0 && !existsSync(`/proc/${pid}/stat`)) {
    throw new Usage(`--pid: there is no process ${pid}`, false);
  }
  const address = url.replace(/\/$/u, "");
  const authorization = process.env["BENCH_AUTHORIZATION"] ?? "";
  const rows: Record<string, string | number>[] = [];
  const figures: Figure[] = [];
  for (const signal of values.signals) {
    const target =
      protocol === "http" ? `${address}/v1/${signal}` : loadUrl({ url, grpcUrl: address }, signal, protocol);
    const load = { signal, connections, protocol, encoding, format, ...(rate === 0 ? {} : { rate }) };
    if (values["warm-up"] > 0) {
      await generateLoad(target, authorization, {
        ...load,
        records: values.records[0] ?? 1,
        seconds: values["warm-up"],
      });
    }
    const taken = values.records.map((records) => ({ records, cpu: [] as number[], perSecond: [] as number[] }));
    for (let i = 0; i < values.rounds; i++) {
      for (const { records, cpu, perSecond } of taken) {
        const before = pid === 0 ? 0 : processCpuSeconds(pid);
        const report = await generateLoad(target, authorization, { ...load, records, seconds });
        const cpuSeconds = pid === 0 ? 0 : processCpuSeconds(pid) - before;
        assertAccepted(`${signal} ${records}`, report);
        cpu.push((cpuSeconds * 1e6) / report.records);
        perSecond.push(report.records / report.seconds);
        rows.push({
          signal,
          "records a request": records,
          "records/s": Math.round(report.records / report.seconds),
          "CPU us/record": pid === 0 ? "" : round((cpuSeconds * 1e6) / report.records, 3),
          "p50 ms": round(report.latencyMs.p50, 1),
          "p99 ms": round(report.latencyMs.p99, 1),
          "generator CPU s": round(report.cpuSeconds),
        });
      }
    }
    for (const { records, cpu, perSecond } of taken) {
      figures.push(figure(`${signal} ${records}, records`, "1/s", perSecond));
      if (pid !== 0) {
        figures.push(figure(`${signal} ${records}, CPU`, "us/record", cpu));
      }
    }
  }
  printTable(url, rows);
  return figures;
}
