/**
 * Execution without holding one of Node's I/O threads: DuckDB computes on threads of its own while its
 * state is asked for from time to time. A query that never ends costs the others nothing but their share
 * of the processor, which DuckDB divides among all queries.
 */
import type { DuckDBConnection, DuckDBResult } from "@duckdb/node-api";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";

import { ServiceError } from "../runtime/errors.js";
import { pendingOf, type RawBindings } from "./duckdb-bindings.js";
import type { FileLists } from "./file-lists.js";

/** Runs one call into DuckDB within the limits of its thread. */
export type Step = <T>(call: () => Promise<T>) => Promise<T>;

/** What {@link execute} needs. */
export interface ExecuteContext {
  readonly bindings: RawBindings;
  readonly step: Step;
  readonly cancellation: { readonly cancelled: boolean };
}

/** For so long the state is asked for in each turn of the event loop: most short queries are done by then. */
const eagerMs = 2;
const firstPollMs = 1;
const lastPollMs = 10;
/** Between two questions passes this part of the time that passed so far. */
const pollShare = 0.02;

/**
 * Starts a statement and waits for its first rows.
 * @param lists the files of its views, completed before it starts
 * @returns a result whose rows are computed as they are fetched, a few megabytes ahead (`stream`), or all at once
 * @throws ServiceError CANCELLED when it was given up; DuckDB's own errors as they are
 */
export async function execute(
  { bindings, step, cancellation }: ExecuteContext,
  connection: DuckDBConnection,
  sql: string,
  lists: FileLists,
  mode: "stream" | "all",
): Promise<DuckDBResult> {
  const pending = await step(async () => {
    const prepared = await connection.prepare(sql);
    try {
      await lists.complete(connection);
      return mode === "stream" ? prepared.startStream() : prepared.start();
    } finally {
      prepared.destroySync();
    }
  });
  const raw = pendingOf(pending);
  const startMs = performance.now();
  for (;;) {
    if (cancellation.cancelled) throw new ServiceError("CANCELLED");
    const state = bindings.pending_execute_check_state(raw);
    if (bindings.pending_execution_is_finished(state)) break;
    const passedMs = performance.now() - startMs;
    if (passedMs < eagerMs) await nextTurn();
    else await sleep(Math.min(lastPollMs, Math.max(firstPollMs, passedMs * pollShare)));
  }
  const message = bindings.pending_error(raw);
  if (message !== null && message !== "") throw new Error(message);
  return step(() => pending.getResult());
}
