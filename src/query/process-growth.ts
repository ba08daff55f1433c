/**
 * What DuckDB takes outside of its memory limit: states of some aggregates, texts and lists of a vector. The
 * process as a whole is watched, and a query that saw it grow too far is given up between two of its steps. What
 * a single step takes is not bounded here but by the gate and by bounded-functions.ts.
 */
import { memoryUsage } from "node:process";

import { ServiceError } from "../runtime/errors.js";

const checkEveryMs = 20;

/** A watch over one query. */
export interface GrowthWatch {
  /** The error to report when the watch has given the query up, else null. */
  readonly failure: () => ServiceError | null;
  readonly stop: () => void;
}

/**
 * Watches from now on. Growth counts from here, not from zero: memory that an earlier query has left behind
 * with the allocator is used again and must not be held against this one.
 * @param maxGrowthBytes how much larger the process may get while the query runs, whoever makes it so
 * @param giveUp called once, when it is larger
 */
export function watchGrowth(maxGrowthBytes: number, giveUp: () => void): GrowthWatch {
  const start = memoryUsage.rss();
  let exceeded = false;
  const timer = setInterval(() => {
    if (exceeded || memoryUsage.rss() - start <= maxGrowthBytes) return;
    exceeded = true;
    giveUp();
  }, checkEveryMs);
  return {
    failure: () => (exceeded ? memoryExceeded() : null),
    stop: () => {
      clearInterval(timer);
    },
  };
}

/** A query that needs more memory than it may have: RESOURCE_EXHAUSTED in gRPC. */
export function memoryExceeded(cause?: unknown): ServiceError {
  return new ServiceError(
    "PAYLOAD_TOO_LARGE",
    "The query needs more memory than it may have; narrow it by time, select fewer columns or aggregate more coarsely.",
    { cause },
  );
}
