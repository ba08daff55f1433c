/**
 * CPU profiles of the servers that a bench starts (`pnpm bench profile`). V8 writes a file for each thread when it ends,
 * into the directory that BENCH_PROFILE_DIR names; without that variable nothing here has any effect.
 */
import { appendFileSync, chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

/** Names the directory to the process of a bench. */
export const profileVariable = "BENCH_PROFILE_DIR";

/** Microseconds between two samples. */
const intervalMicros = 500;

/** Part of a profile's clock, which all processes of a machine share: microseconds. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Where the files of a run are. */
export const placesIn = (directory: string) =>
  ({
    /** Profiles of servers, or of the bench itself. */
    server: path.join(directory, "server"),
    /** Profiles of engines. */
    engine: path.join(directory, "engine"),
    /** What servers start engines with. */
    engineNode: path.join(directory, "engine-node"),
    /** What was measured when: a span a line. */
    spans: path.join(directory, "spans.jsonl"),
  }) as const;

const hook = (name: string): string => `--import=${new URL(`./${name}.js`, import.meta.url).href}`;

const profileInto = (directory: string): string[] => [
  "--cpu-prof",
  `--cpu-prof-dir=${directory}`,
  `--cpu-prof-interval=${intervalMicros}`,
];

/** Makes the directory of a run. Engines get neither an environment nor options of the server: a script passes theirs. */
export function prepareProfiles(directory: string): void {
  const { server, engine, engineNode } = placesIn(directory);
  mkdirSync(server, { recursive: true });
  mkdirSync(engine, { recursive: true });
  const quoted = [process.execPath, ...profileInto(engine), hook("engine-hook")].map(
    (part) => `'${part.replaceAll("'", String.raw`'\''`)}'`,
  );
  writeFileSync(engineNode, `#!/bin/sh\nexec ${quoted.join(" ")} "$@"\n`);
  chmodSync(engineNode, 0o755);
}

/** Arguments of Node.js for the process of a bench whose own work is profiled. */
export const selfProfileArguments = (directory: string): string[] => profileInto(placesIn(directory).server);

/** Arguments of Node.js for a server that a bench starts: none when nothing is profiled. */
export function serverProfileArguments(): string[] {
  const directory = process.env[profileVariable];
  return directory === undefined ? [] : [...profileInto(placesIn(directory).server), hook("server-hook")];
}

/** Runs what is measured: with such spans, a profile's other times, starts and pauses, are left out of its sums. */
export async function profiled<T>(run: () => Promise<T>): Promise<T> {
  const directory = process.env[profileVariable];
  if (directory === undefined) {
    return run();
  }
  const micros = (): number => Number(process.hrtime.bigint() / 1000n);
  const from = micros();
  try {
    return await run();
  } finally {
    const span: Span = { from, to: micros() };
    appendFileSync(placesIn(directory).spans, `${JSON.stringify(span)}\n`);
  }
}
