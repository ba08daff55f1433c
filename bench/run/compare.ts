/** `pnpm bench compare A.json B.json`: what moved between two runs, beyond what their rounds differ by. */
import type { Figure } from "../figures.js";
import { printTable } from "./table.js";
import { readRun, type RunResult } from "./report.js";

/** A change below this share is never called one. */
const leastChange = 0.05;
/** Without rounds nothing says how far a figure varies by itself. */
const leastChangeWithoutRounds = 0.3;

/** How a figure of the first run stands to the one of the second. */
interface Change {
  readonly bench: string;
  readonly figure: string;
  readonly unit: string;
  readonly before: number;
  readonly after: number;
  /** `moved`: the rounds of the two runs do not touch. `perhaps`: there are none, and it changed much. */
  readonly verdict: "moved" | "perhaps" | "same";
}

/** Compares the figures that both runs have with the same settings. */
export function compareRuns(a: RunResult, b: RunResult): { changes: Change[]; left: string[] } {
  const changes: Change[] = [];
  const left: string[] = [];
  for (const { id: bench, settings, figures } of a.results) {
    const other = b.results.find(({ id }) => id === bench);
    if (other === undefined || other.settings.join(" ") !== settings.join(" ")) {
      left.push(`${bench}: ${other === undefined ? "only the first run has it" : "the settings differ"}`);
      continue;
    }
    for (const figure of figures) {
      const { id, unit } = figure;
      const after = other.figures.find((one) => one.id === id && one.unit === unit);
      if (after === undefined || after.value === null || figure.value === null) {
        left.push(`${bench}: ${id}: not measured in both`);
        continue;
      }
      const verdict = verdictOf(figure, after, figure.value, after.value);
      changes.push({ bench, figure: id, unit, before: figure.value, after: after.value, verdict });
    }
    const isNew = (after: Figure): boolean => figures.every(({ id, unit }) => id !== after.id || unit !== after.unit);
    left.push(...other.figures.filter(isNew).map(({ id }) => `${bench}: ${id}: only the second run has it`));
  }
  const isOnlyInB = ({ id }: { id: string }): boolean => a.results.every((result) => result.id !== id);
  left.push(...b.results.filter(isOnlyInB).map(({ id }) => `${id}: only the second run has it`));
  return { changes, left };
}

function verdictOf(a: Figure, b: Figure, before: number, after: number): Change["verdict"] {
  const share = Math.abs(after - before) / Math.max(Math.abs(before), Number.MIN_VALUE);
  if (a.rounds === undefined || b.rounds === undefined) {
    return share > leastChangeWithoutRounds ? "perhaps" : "same";
  }
  const isApart = Math.min(...b.rounds) > Math.max(...a.rounds) || Math.max(...b.rounds) < Math.min(...a.rounds);
  return isApart && share > leastChange ? "moved" : "same";
}

/** Prints what moved. @throws Error, a sentence, for a file that is not a result */
export function compareFiles(fileA: string, fileB: string, isJson: boolean): void {
  const [a, b] = [readRun(fileA), readRun(fileB)];
  const { changes, left } = compareRuns(a, b);
  const moved = changes.filter(({ verdict }) => verdict !== "same");
  if (isJson) {
    console.log(JSON.stringify({ changes, left }, null, 2));
    return;
  }
  if (moved.length > 0) {
    const rows = moved.map((change) => ({
      bench: change.bench,
      figure: change.figure,
      unit: change.unit,
      before: change.before,
      after: change.after,
      times: (change.after / change.before).toFixed(2),
      moved: change.verdict === "moved" ? "beyond the rounds" : "perhaps: no rounds",
    }));
    printTable(`${a.environment.commit} to ${b.environment.commit}`, rows);
  }
  for (const sentence of left) {
    console.log(`not compared: ${sentence}`);
  }
  console.log(`${changes.length} figures compared, ${moved.length} moved`);
  const loop = ({ results }: RunResult): number =>
    Math.min(...results.flatMap(({ before, after }) => [before.cpuMs, after.cpuMs]));
  console.log(`the fixed loop took ${loop(a)} and ${loop(b)} ms of CPU at best`);
  if (a.environment.cpu !== b.environment.cpu || a.environment.cores !== b.environment.cores) {
    console.log("the machines differ: only ratios to a peer of the same run mean anything");
  }
}
