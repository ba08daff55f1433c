/**
 * Thread entry of the query pool: one locked DuckDB per thread, several queries on it at a time. Neither
 * one that computes for long nor one whose reader is slow keeps the thread's other queries up.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type MessagePort, threadId } from "node:worker_threads";

import type { DuckDBConnection } from "@duckdb/node-api";

import type { MatchContext, MatchResult } from "../query/denials.js";
import { loadRawBindings } from "../query/duckdb-bindings.js";
import { type Engine, Engines } from "../query/engines.js";
import { forget, inspect, type InspectOptions, type Inspection } from "../query/inspect.js";
import type { QuerySink } from "../query/batcher.js";
import { createLanes } from "../query/lanes.js";
import { matchRules, type MatchStatements } from "../query/match-rules.js";
import { watchGrowth } from "../query/process-growth.js";
import { type Cancellation, letGoMs, type RunContext, runQuery } from "../query/run.js";
import { createScrubber, queryError } from "../query/scrub.js";
import { ServiceError, toErrorRecord } from "../runtime/errors.js";
import { defineTask, type TaskContext, taskWorkerData } from "../runtime/task-worker.js";
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
const engines = await Engines.start(options, String(threadId));

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

const collector = createYoungCollector();

/** How long DuckDB may keep what it was told to let go of before others get another instance. */
const stuckMs = 30_000;

/** Keeps the engine open while the work that is left of a query is done. */
function holdUntilDone(engine: Engine, work: Promise<void>): Promise<void> {
  const timer = setTimeout(() => {
    // Without another instance the present one goes on as it is; an error here would end the thread.
    engines.stuck(engine).catch(() => undefined);
  }, stuckMs);
  return engines
    .hold(engine, () => work)
    .finally(() => {
      clearTimeout(timer);
    });
}

function contextOf(engine: Engine): RunContext {
  const { connections, memory } = engine;
  return {
    bindings,
    connections,
    scrub,
    memory,
    limits: options,
    collector,
    enter: (call) => queryLanes.enter(call),
    track: (work) => track(holdUntilDone(engine, work)),
    leavers: () => tracked.size,
  };
}

/** Takes the engine's inspector for one use; it comes back when nothing has gone wrong. */
async function withInspector<T>(
  used: Engine,
  cancelled: () => boolean,
  use: (connection: DuckDBConnection) => Promise<T>,
): Promise<T> {
  const connection = used.inspector ?? (await used.connect());
  used.inspector = null;
  let clean = false;
  const interrupting = setInterval(() => {
    if (cancelled()) connection.interrupt();
  }, interruptEveryMs);
  const growth = watchGrowth(options.maxGrowthBytes, () => {
    connection.interrupt();
  });
  try {
    const result = await use(connection);
    clean = true;
    return result;
  } catch (error) {
    await engines.failed(used, error);
    throw growth.failure() ?? queryError(error, scrub);
  } finally {
    growth.stop();
    clearInterval(interrupting);
    if (clean) used.inspector = connection;
    else connection.closeSync();
  }
}

function inspectOnce(
  sql: string,
  options: InspectOptions,
  cancelled: () => boolean,
): Promise<Inspection> {
  return engines.use((used) =>
    withInspector(used, cancelled, async (connection) => {
      const inspection = await inspect(bindings, connection, sql, options);
      await forget(connection, inspection);
      return inspection;
    }),
  );
}

const matchStatements: MatchStatements = new Map();

function matchOnce(
  expressions: readonly string[],
  context: MatchContext,
  cancelled: () => boolean,
): Promise<MatchResult[]> {
  return engines.use((used) =>
    withInspector(used, cancelled, (connection) =>
      matchRules(connection, matchStatements, expressions, context, scrub),
    ),
  );
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

async function answer(task: QueryTask, { cancelled }: TaskContext): Promise<QueryAnswer> {
  if (task.kind === "inspect") {
    const { sql } = task;
    const inspection = await inspectionLanes.enter(() => inspectOnce(sql, task.options, cancelled));
    return { kind: "inspection", inspection };
  }
  if (task.kind === "match") {
    const { expressions } = task;
    const results = await inspectionLanes.enter(() =>
      matchOnce(expressions, task.context, cancelled),
    );
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
    return await engines.use(async (used) => {
      const context = contextOf(used);
      const { summary, failure } = await runQuery(
        context,
        task.query,
        task.sources,
        sink,
        cancellation,
      );
      if (failure !== null) await engines.failed(used, failure.cause);
      const told = failure === null ? null : (growth.failure() ?? failure);
      return { kind: "ended", summary, error: told === null ? null : toErrorRecord(told) };
    });
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
  await engines.close();
}

export default defineTask<QueryTask, QueryAnswer>(answer, { close });
