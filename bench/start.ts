/**
 * `pnpm bench start [--rounds 5]`: from the start of a monolith until it is ready, with the embedded database on a data
 * directory that it has used before, and what it and its engines hold of memory when all are idle, without Postgres.
 */
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { atMost, type Figure, figure, repeat } from "./figures.js";
import { childrenOf } from "../test/helpers/processes.js";
import { processMemory } from "./run/machine.js";
import { startMonolith } from "./monolith.js";
import { count, readOptions } from "./run/options.js";

/** Runs the bench; see the head of this file. */
export async function benchStart(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = { rounds: count(5, "starts that are measured") };
  const { rounds } = readOptions("start", "start of the monolith", options, argv);
  const directory = tmpdir();
  // The first makes the database.
  await startOnce(directory);
  const starts = await repeat(rounds, () => startOnce(directory));
  return [
    figure(
      "ingestion and analytics, until ready",
      "ms",
      starts.map(({ ms }) => Math.round(ms)),
      atMost(2000),
    ),
    figure(
      "ingestion and analytics with a spare engine, idle, memory",
      "MB",
      starts.map(({ bytes }) => Math.round(bytes / 1e6)),
      atMost(320),
    ),
  ];
}

/** What is idle is not at once: spare engines start behind everything else. */
const idleMs = 3000;

async function startOnce(directory: string): Promise<{ readonly ms: number; readonly bytes: number }> {
  const startMs = performance.now();
  const server = await startMonolith({
    SVC_ROLES: "ingestion,analytics,maintenance",
    SVC_DATA_DIR: directory,
    SVC_DISABLE_AUTH: "true",
  });
  const ms = performance.now() - startMs;
  await sleep(idleMs);
  const engines = childrenOf(server.pid, "engine-process");
  if (engines.length === 0) {
    throw new Error("there is no spare engine");
  }
  const bytes = [server.pid, ...engines].reduce((sum, pid) => sum + processMemory(pid).residentBytes, 0);
  await server.stop();
  return { ms, bytes };
}
