/** Where benches keep their figures: `bench/results/NAME.json` in the repository. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Writes the figures of a run, with whatever says how they came about, and prints where. */
export function saveResults(name: string, content: object, say: (line: string) => void = console.log): void {
  const results = fileURLToPath(new URL("../../../bench/results/", import.meta.url));
  mkdirSync(results, { recursive: true });
  writeFileSync(join(results, `${name}.json`), `${JSON.stringify(content, null, 2)}\n`);
  say(`saved to bench/results/${name}.json`);
}
