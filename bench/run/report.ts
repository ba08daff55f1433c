/** The result of a run, as a file and as tables. */
import { readFileSync } from "node:fs";

import { type Figure, isMet } from "../figures.js";
import type { Environment, MachineSpeed } from "./machine.js";
import { printTable } from "./table.js";

/** What became of one bench. */
export interface BenchResult {
  readonly id: string;
  readonly area: string;
  readonly settings: readonly string[];
  /** `skipped`: it cannot measure here, or did not end in time. */
  readonly how: "done" | "failed" | "skipped";
  /** Why it is not `done`. */
  readonly why?: string;
  readonly seconds: number;
  readonly before: MachineSpeed;
  readonly after: MachineSpeed;
  readonly figures: readonly Figure[];
}

/** What `pnpm bench` writes. */
export interface RunResult {
  readonly kind: "telemetry-bench-run";
  readonly environment: Environment;
  readonly versions: Readonly<Record<string, string>>;
  readonly results: readonly BenchResult[];
}

/** Reads one that was written. @throws Error, a sentence */
export function readRun(file: string): RunResult {
  let run: Partial<RunResult>;
  try {
    run = JSON.parse(readFileSync(file, "utf8")) as Partial<RunResult>;
  } catch (error) {
    throw new Error(`${file} cannot be read as JSON: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
  if (run.kind !== "telemetry-bench-run" || run.results === undefined) {
    throw new Error(`${file} is not the result of \`pnpm bench\``);
  }
  return run as RunResult;
}

/** Prints a table an area, and what could not be measured. */
export function printRun(run: RunResult): void {
  for (const area of new Set(run.results.map((result) => result.area))) {
    const results = run.results.filter((result) => result.area === area);
    const rows = results.flatMap(({ id, figures }) => figures.map((figure) => rowOf(id, figure)));
    if (rows.length > 0) {
      printTable(area, rows);
    }
    for (const { id, how, why = "", figures } of results) {
      if (how !== "done") {
        console.log(`${id}: ${how === "failed" ? "FAILED" : "not measured"}: ${why}`);
      }
      for (const figure of figures.filter(({ value }) => value === null)) {
        console.log(`${id}: ${figure.id}: not measured: ${figure.why ?? "nobody said why"}`);
      }
    }
  }
  const all = run.results.flatMap(({ figures }) => figures);
  const count = (met: boolean): number => all.filter((figure) => isMet(figure) === met).length;
  const became = (how: BenchResult["how"]): number => run.results.filter((result) => result.how === how).length;
  const without = all.filter(({ value }) => value === null).length;
  console.log(
    `\n${all.length} figures: ${count(true)} met, ${count(false)} not met, ${without} not measured; ` +
      `${became("failed")} benches failed, ${became("skipped")} skipped`,
  );
  const speeds = run.results.flatMap(({ before, after }) => [before, after]);
  const range = (of: (speed: MachineSpeed) => number): string =>
    `${Math.min(...speeds.map(of))} to ${Math.max(...speeds.map(of))} ms`;
  if (speeds.length > 0) {
    const { cpu, cores, node, commit } = run.environment;
    console.log(`${cpu}, ${cores} cores, Node.js ${node}, ${commit}`);
    console.log(`a fixed loop took ${range((s) => s.wallMs)}, ${range((s) => s.cpuMs)} of CPU`);
  }
}

/** Prints the figures of one bench. */
export function printFigures(bench: string, figures: readonly Figure[]): void {
  printTable(
    "figures",
    figures.map((figure) => rowOf(bench, figure)),
  );
  for (const { id, why } of figures.filter(({ value }) => value === null)) {
    console.log(`${id}: not measured: ${why ?? "nobody said why"}`);
  }
}

function rowOf(bench: string, figure: Figure): Record<string, string | number> {
  const { id, unit, value, limit, rounds } = figure;
  const met = isMet(figure);
  const { most, least } = limit ?? {};
  const bound = most === undefined ? (least === undefined ? "" : `at least ${least}`) : `at most ${most}`;
  return {
    bench,
    figure: id,
    value: value ?? "not measured",
    unit,
    rounds: rounds === undefined ? "" : `${Math.min(...rounds)} to ${Math.max(...rounds)}`,
    limit: bound,
    of: limit?.of ?? "",
    met: met === null ? "" : met ? "yes" : "NO",
  };
}
