/**
 * Thread entry of the query pool: one locked DuckDB per thread, several queries on it at a time. Neither
 * one that computes for long nor one whose reader is slow keeps the thread's other queries up.
 */
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type MessagePort, threadId } from "node:worker_threads";

import type { DuckDBConnection } from "@duckdb/node-api";

import type { MatchContext, MatchResult } from "../query/denials.js";
import { loadRawBindings } from "../query/duckdb-bindings.js";
import { connectEngine, createConnectionSource, openEngine } from "../query/engine.js";
import { forget, inspect, type InspectOptions, type Inspection } from "../query/inspect.js";
import type { QuerySink } from "../query/batcher.js";
import { createLanes } from "../query/lanes.js";
import { matchRules, type MatchStatements } from "../query/match-rules.js";
import { createMemoryWatch } from "../query/memory-watch.js";
import { watchGrowth } from "../query/process-growth.js";
import { type Cancellation, letGoMs, type RunContext, runQuery } from "../query/run.js";
import { createScrubber, queryError } from "../query/scrub.js";
import { ServiceError, toErrorRecord } from "../runtime/errors.js";
import { defineTask, taskWorkerData } from "../runtime/task-worker.js";
import { createYoungCollector } from "../runtime/collector.js";
import {
  initialCredits,
  type QueryAnswer,
  type QueryControl,
  type QueryMessage,
  type QueryTask,
  type QueryWorkerData,
} from "./query-messages.js";

const options = taskWorkerData() as QueryWorkerData;
const bindings = loadRawBindings();
const scrub = createScrubber([options.lakeDirectory, options.tempDirectory]);
// Instances that shared a directory would write to files of the same names.
const tempDirectory = path.join(options.tempDirectory, String(threadId));
await mkdir(tempDirectory, { recursive: true });
const instance = await openEngine({ ...options, tempDirectory });
const memory = createMemoryWatch(instance);
const connections = createConnectionSource(instance);

/** Calls of queries: one at a time, and one that takes its time. */
const queryLanes = createLanes({ patienceMs: 25, maxSlow: 1 });
/** Inspections and matches share a connection, so they take turns. */
const inspectionLanes = createLanes({ patienceMs: 0, maxSlow: 0 });

/** What gives up the queries that run. */
const running = new Set<() => void>();
/** Work that may outlive its query. */
const tracked = new Set<Promise<void>>();

function track(work: Promise<void>): Promise<void> {
  const settled = work.finally(() => {
    tracked.delete(settled);
  });
  tracked.add(settled);
  return settled;
}

const context: RunContext = {
  bindings,
  connections,
  scrub,
  memory,
  limits: options,
  collector: createYoungCollector(),
  enter: (call) => queryLanes.enter(call),
  track,
  leavers: () => tracked.size,
};

/** The connection that inspects; replaced after an error, which may have left names behind. */
let inspector: DuckDBConnection | null = null;

async function inspectOnce(sql: string, options: InspectOptions): Promise<Inspection> {
  const connection = inspector ?? (await connectEngine(instance));
  inspector = null;
  let clean = false;
  try {
    const inspection = await inspect(bindings, connection, sql, options);
    await forget(connection, inspection);
    clean = true;
    return inspection;
  } catch (error) {
    throw queryError(error, scrub);
  } finally {
    if (clean) inspector = connection;
    else connection.closeSync();
  }
}

const matchStatements: MatchStatements = new Map();

async function matchOnce(
  expressions: readonly string[],
  context: MatchContext,
): Promise<MatchResult[]> {
  const connection = inspector ?? (await connectEngine(instance));
  inspector = null;
  try {
    return await matchRules(connection, matchStatements, expressions, context, scrub);
  } finally {
    inspector = connection;
  }
}

const closePollMs = 5;

/** DuckDB forgets an interrupt that comes between two of its steps, so it is told again at this interval. */
const interruptEveryMs = 10;

/** Sends by the port as long as there are credits. */
function createSink(
  port: MessagePort,
  cancellation: Cancellation,
): QuerySink & { readonly cancel: () => void; readonly close: () => void } {
  let credits = initialCredits;
  let wake: () => void = () => undefined;
  let interrupting: NodeJS.Timeout | undefined;
  let leaving: NodeJS.Timeout | undefined;
  const cancel = (): void => {
    if (cancellation.cancelled) return;
    cancellation.cancelled = true;
    cancellation.interrupt();
    interrupting = setInterval(() => {
      cancellation.interrupt();
    }, interruptEveryMs);
    leaving = setTimeout(() => {
      cancellation.leave();
    }, letGoMs);
  };
  port.on("message", (control: QueryControl) => {
    if (control.kind === "credit") {
      credits++;
    } else {
      cancel();
    }
    wake();
  });
  // The other side closes the port when it has gone.
  port.on("close", () => {
    cancel();
    wake();
  });
  return {
    cancel: () => {
      cancel();
      wake();
    },
    close: () => {
      clearInterval(interrupting);
      clearTimeout(leaving);
      port.removeAllListeners();
      const end: QueryMessage = { kind: "end" };
      port.postMessage(end, []);
      port.close();
    },
    ready: async () => {
      for (;;) {
        if (cancellation.cancelled) throw new ServiceError("CANCELLED");
        if (credits > 0) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    send: (message) => {
      credits--;
      const posted: QueryMessage = { kind: "data", message };
      port.postMessage(posted, [message.buffer]);
    },
  };
}

async function answer(task: QueryTask): Promise<QueryAnswer> {
  if (task.kind === "inspect") {
    const { sql } = task;
    const inspection = await inspectionLanes.enter(() => inspectOnce(sql, task.options));
    return { kind: "inspection", inspection };
  }
  if (task.kind === "match") {
    const { expressions } = task;
    const results = await inspectionLanes.enter(() => matchOnce(expressions, task.context));
    return { kind: "matches", results };
  }
  const cancellation: Cancellation = {
    cancelled: false,
    interrupt: () => undefined,
    leave: () => undefined,
  };
  const sink = createSink(task.port, cancellation);
  running.add(sink.cancel);
  const growth = watchGrowth(options.maxGrowthBytes, sink.cancel);
  try {
    const { summary, failure } = await runQuery(
      context,
      task.query,
      task.sources,
      sink,
      cancellation,
    );
    const told = failure === null ? null : (growth.failure() ?? failure);
    return { kind: "ended", summary, error: told === null ? null : toErrorRecord(told) };
  } finally {
    growth.stop();
    running.delete(sink.cancel);
    sink.close();
  }
}

/**
 * The last task: gives up what still runs, waits until no call into DuckDB is in progress, and closes it.
 * A thread that ended with a call in progress would take the process down.
 */
async function close(): Promise<void> {
  for (const cancel of running) cancel();
  while (running.size > 0 || tracked.size > 0 || queryLanes.busy > 0 || inspectionLanes.busy > 0) {
    await sleep(closePollMs);
  }
  await memory.settled();
  await connections.close();
  inspector?.closeSync();
  inspector = null;
  instance.closeSync();
}

export default defineTask<QueryTask, QueryAnswer>(answer, { close });
