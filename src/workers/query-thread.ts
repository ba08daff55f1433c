/**
 * Thread entry of the query pool: one locked DuckDB per thread, several queries on it at a time.
 *
 * DuckDB's calls run on Node's few shared I/O threads, which everything else in the process needs too;
 * so one call per thread is in progress at any time. A query whose reader is slow holds no call, and
 * does not keep the thread's other queries up.
 */
import type { MessagePort } from "node:worker_threads";

import type { DuckDBConnection } from "@duckdb/node-api";

import type { MatchContext, MatchResult } from "../query/denials.js";
import { loadRawBindings } from "../query/duckdb-bindings.js";
import { connectEngine, openEngine } from "../query/engine.js";
import { forget, inspect, type InspectOptions, type Inspection } from "../query/inspect.js";
import { matchRules, type MatchStatements } from "../query/match-rules.js";
import { type Cancellation, type QuerySink, runQuery } from "../query/run.js";
import { createScrubber, queryError } from "../query/scrub.js";
import { ServiceError } from "../runtime/errors.js";
import { defineTask, taskWorkerData } from "../runtime/task-worker.js";
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
const instance = await openEngine(options);

/** Runs calls one after the other, in the order they came. */
function createTurnstile(): <T>(call: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (call) => {
    const turn = last.then(call);
    last = turn.catch(() => undefined);
    return turn;
  };
}

const enter = createTurnstile();
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

/** DuckDB forgets an interrupt that comes between two of its steps, so it is told again at this interval. */
const interruptEveryMs = 10;

/** Sends by the port as long as there are credits. */
function createSink(
  port: MessagePort,
  cancellation: Cancellation,
): QuerySink & { readonly close: () => void } {
  let credits = initialCredits;
  let wake: () => void = () => undefined;
  let interrupting: NodeJS.Timeout | undefined;
  const cancel = (): void => {
    if (cancellation.cancelled) return;
    cancellation.cancelled = true;
    cancellation.interrupt();
    interrupting = setInterval(() => {
      cancellation.interrupt();
    }, interruptEveryMs);
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
    close: () => {
      clearInterval(interrupting);
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

export default defineTask<QueryTask, QueryAnswer>(async (task) => {
  if (task.kind === "inspect") {
    return {
      kind: "inspection",
      inspection: await enter(() => inspectOnce(task.sql, task.options)),
    };
  }
  if (task.kind === "match") {
    return {
      kind: "matches",
      results: await enter(() => matchOnce(task.expressions, task.context)),
    };
  }
  const cancellation: Cancellation = { cancelled: false, interrupt: () => undefined };
  const sink = createSink(task.port, cancellation);
  try {
    const context = { bindings, instance, scrub, enter };
    const summary = await runQuery(context, task.query, task.sources, sink, cancellation);
    return { kind: "finished", summary };
  } finally {
    sink.close();
  }
});
