/** The record of one query, made when it is over. */
import { principalIdentity } from "../auth/principal.js";
import type { Clock } from "../runtime/clock.js";
import { ServiceError, toServiceError } from "../runtime/errors.js";
import type { QuerySummary } from "./backend/run.js";
import { sqlHashOf } from "./fingerprint.js";
import type { QueryLog } from "./query-log.js";
import type { QueryCaller } from "./statement.js";

/** What is recorded of a query while it goes on; `finished` or `failed` comes last, once. */
export interface QueryRecord {
  /** Known after the gate. */
  fingerprint: string | null;
  /** Objects that it reads; known after planning. */
  partitions: number;
  /** Where it runs and why; null where there is no cluster to choose. */
  engine: { readonly name: "local" | "cluster"; readonly reason: string } | null;
  finished(summary: QuerySummary): void;
  failed(error: unknown, summary?: QuerySummary): void;
}

/** Starts the record of a query. @param signal of its caller: why it was aborted is what became of the query */
export function startRecord(
  o: { readonly clock: Clock; readonly log: QueryLog },
  { principal, client }: QueryCaller,
  sql: string,
  signal: AbortSignal,
): QueryRecord {
  const { clock, log } = o;
  const startMs = clock.nowMs();
  const startedMs = clock.monotonicMs();
  const write = (outcome: string, summary: QuerySummary | null): void => {
    log.record({
      startMs,
      durationMs: clock.monotonicMs() - startedMs,
      caller: principalIdentity(principal),
      client,
      sql,
      sqlHash: sqlHashOf(sql),
      fingerprint: record.fingerprint,
      rows: summary?.rows ?? 0,
      bytes: summary?.bytes ?? 0,
      partitions: record.partitions,
      peakMemoryBytes: summary?.peakMemoryBytes ?? null,
      outcome,
      engine: record.engine,
    });
  };
  const record: QueryRecord = {
    fingerprint: null,
    partitions: 0,
    engine: null,
    finished: (summary) => {
      write("OK", summary);
    },
    failed: (error, summary) => {
      const reason: unknown = signal.reason;
      const ours = signal.aborted && reason instanceof ServiceError ? reason : error;
      write(toServiceError(ours).code, summary ?? null);
    },
  };
  return record;
}
