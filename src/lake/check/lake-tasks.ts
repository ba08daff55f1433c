/** Tasks of administrators: erasures and checks, which wait in `lake_tasks` until the leader of maintenance does them. */
import { setTimeout as sleep } from "node:timers/promises";

import type { Sql } from "../../db/sql.js";
import { isConnectionError } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { isOutage } from "../bad-objects.js";
import { isOfEndedEngine } from "../merge/merge-engine.js";
import { readErasureFilter } from "../rewrite/erasure-filter.js";
import { erase } from "../rewrite/erasure.js";
import type { RewritePoint } from "../rewrite/rewrite.js";
import { checkLake, type CheckContext } from "./check-lake.js";

/** Where a task can be cut off, for tests: its own points, and those of the objects that it rewrites. */
export type TaskPoint = "taken" | RewritePoint | "finishing" | "finished";

/** What a task works with. */
export interface TaskContext extends Omit<CheckContext, "at"> {
  /** Called at each point. */
  readonly at?: (point: TaskPoint) => Promise<void> | void;
}

/** How long a task waits before it is tried again whose engine was killed: memory may be free by then. */
const retryWaitsMs = [200, 500, 1_000, 2_000];

/** The task whose turn it is: the oldest one that has not ended, leaving out those that have to wait. */
export async function nextTask(sql: Sql, except: readonly string[]): Promise<string | null> {
  const [row] = await sql<{ taskId: string }[]>`
    select task_id as "taskId" from lake_tasks
    where state in ('waiting', 'running') and task_id <> all(${[...except]}::uuid[])
    order by created_at, task_id limit 1`;
  return row?.taskId ?? null;
}

interface TaskRow {
  readonly kind: "erasure" | "check";
  readonly request: unknown;
  readonly createdSeconds: number;
}

/**
 * Does a task, or continues it. Two processes may be at one for a moment: what each object loses is counted once, with
 * its replacement, and a task ends once.
 * @throws what ended it early. When that may pass (UNAVAILABLE, CANCELLED) the task stays to be continued, and says what it
 *   waits for; else it has failed.
 */
export async function runTask(context: TaskContext, taskId: string): Promise<void> {
  const { sql } = context;
  const [task] = await sql<TaskRow[]>`
    update lake_tasks set state = 'running', error = null, started_at = coalesce(started_at, now())
    where task_id = ${taskId} and state in ('waiting', 'running')
    returning kind, request, extract(epoch from created_at)::float8 as "createdSeconds"`;
  if (task === undefined) {
    return;
  }
  await context.at?.("taken");
  let report: unknown;
  try {
    report = await retried(context, (watched) => perform(watched, taskId, task));
  } catch (error) {
    const words = error instanceof ServiceError ? error.message : "The task failed; the log of maintenance says why.";
    if (!mayPass(error)) {
      await end(sql, taskId, "failed", words, null);
    } else if (!context.cancelled()) {
      await sayWaiting(sql, taskId, words);
    }
    throw error;
  }
  await context.at?.("finishing");
  await end(sql, taskId, "done", null, report);
  await context.at?.("finished");
}

/**
 * The system kills a process that has too much memory, and so does whoever kills processes: the signal is the same. So a
 * task whose engine was killed is tried again, until that has happened five times with no object replaced in between.
 */
async function retried<T>(context: TaskContext, work: (context: TaskContext) => Promise<T>): Promise<T> {
  let waits = retryWaitsMs.values();
  const watched: TaskContext = {
    ...context,
    at: async (point) => {
      if (point === "replaced") {
        waits = retryWaitsMs.values();
      }
      await context.at?.(point);
    },
  };
  for (;;) {
    try {
      return await work(watched);
    } catch (error) {
      const wait = isOfEndedEngine(error) && !context.cancelled() ? waits.next().value : undefined;
      if (wait === undefined) {
        throw error;
      }
      await sleep(wait);
    }
  }
}

function mayPass(error: unknown): boolean {
  return (
    isConnectionError(error) ||
    (error instanceof ServiceError && isOutage(error) && (error.retryable || error.code === "CANCELLED"))
  );
}

async function perform(context: TaskContext, taskId: string, task: TaskRow): Promise<unknown> {
  if (task.kind === "check") {
    const { repair, deep } = task.request as { readonly repair?: unknown; readonly deep?: unknown };
    return await checkLake(context, { repair: repair === true, deep: deep === true });
  }
  const filter = readErasureFilter(task.request);
  const { createdSeconds } = task;
  await erase(context, { taskId, filter, createdSeconds, unstamped: filter.audience === context.unstampedAudience });
  return null;
}

async function sayWaiting(sql: Sql, taskId: string, words: string): Promise<void> {
  try {
    await sql`update lake_tasks set error = ${words} where task_id = ${taskId} and state = 'running'`;
  } catch (error) {
    // It may be the database that it waits for.
    if (!isConnectionError(error)) {
      throw error;
    }
  }
}

async function end(
  sql: Sql,
  taskId: string,
  state: "done" | "failed",
  error: string | null,
  report: unknown,
): Promise<void> {
  await sql`
    update lake_tasks set state = ${state}, error = ${error}, finished_at = now(),
      report = ${report === null ? null : JSON.stringify(report)}::text::jsonb
    where task_id = ${taskId} and state = 'running'`;
}
