/** Counting and logging of database errors on the authentication path. */
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import type { SharedClock } from "./shared-clock.js";

const leastQuietMs = 60_000;

/** Tells of database errors without flooding the log. */
export interface ErrorReporter {
  /** Count the error in `db_api_key_error_count{table}`; log it unless one was logged lately. */
  report(error: unknown): void;
}

/**
 * Every error counts in `db_api_key_error_count{table}`; the log gets at most one line per table and
 * `max(quietMs, 60 s)`, which says how many errors it counts.
 */
export function createErrorReporter(o: {
  readonly table: string;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: SharedClock;
  readonly quietMs: number;
}): ErrorReporter {
  const counter = o.metrics.counter("db_api_key_error_count", "Database errors in the key-lookup path.", ["table"]);
  const { table } = o;
  // An alert does not see the step from nothing to 1.
  counter.inc({ table }, 0);
  const quietMs = Math.max(leastQuietMs, o.quietMs);
  let lastMs = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  return {
    report(error) {
      counter.inc({ table });
      const nowMs = o.clock();
      if (nowMs - lastMs < quietMs) {
        unlogged++;
        return;
      }
      o.logger.error(
        { table, cause: describeError(error), earlierErrors: unlogged },
        "database error while looking up API keys; callers get 503 until it passes",
      );
      lastMs = nowMs;
      unlogged = 0;
    },
  };
}

// Code and message only: the driver's error objects also carry the statement and its parameters.
function describeError(error: unknown): string {
  if (!(error instanceof Error)) {
    return "unknown error";
  }
  const code = "code" in error && typeof error.code === "string" ? `${error.code}: ` : "";
  return code + error.message;
}
