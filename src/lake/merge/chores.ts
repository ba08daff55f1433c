/** What the leader of maintenance does beside merging. */
import type { Sql } from "../../db/sql.js";
import type { Clock } from "../../runtime/clock.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import { BadObjects } from "../bad-objects.js";
import { nextTask } from "../check/lake-tasks.js";
import { clockObstacle, storeClockObstacle } from "../retention/lake-clock.js";
import { orphansObstacle } from "../retention/lake-owner.js";
import { applyRetention } from "../retention/retention.js";
import { noteDefault, removesAnything, type RetentionPolicy, selectOverrides } from "../retention/retention-policy.js";
import type { TrimResult } from "../rewrite/trim.js";
import { removeEmptyDays } from "../store/empty-days.js";
import type { ObjectStore } from "../store/object-store.js";
import { sweepOrphans } from "../sweep.js";
import { sweepLeftovers } from "../leftovers.js";
import { tables } from "../tables/tables.js";
import type { Chore } from "./maintenance.js";
import type { TaskRequest } from "./merger.js";

/** What the chores work with. */
export interface ChoreOptions {
  readonly sql: Sql;
  readonly store: ObjectStore;
  /** Works in engine processes; see `Merger`. */
  readonly rewriter: {
    task(request: TaskRequest, signal: AbortSignal): Promise<void>;
    trim(policy: RetentionPolicy, signal: AbortSignal): Promise<TrimResult>;
  };
  /** `SVC_RETENTION_DAYS` */
  readonly retentionDays: number | null;
  /** `SVC_UNSTAMPED_AUDIENCE` */
  readonly unstampedAudience: string;
  readonly clock: Clock;
  /** Between two runs of retention. Default 5 minutes. */
  readonly retentionEveryMs?: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

const taskPauseMs = 60_000;
/** Between two searches for orphans. */
const sweepEveryMs = 3_600_000;
/** A day without objects keeps its directory for so long: rows of today and yesterday arrive in theirs. */
const emptyForMs = 2 * 86_400_000;
const notePauseMs = 300_000;
/** Between two runs of retention that go through all streams. */
const blocksEveryMs = 6 * 3_600_000;

/** The chores, in their order. */
export function createChores(o: ChoreOptions): Chore[] {
  return [noteChore(o), taskChore(o), retentionChore(o), sweepChore(o)];
}

/** Whoever leads says its default: as soon as it leads, and again for as long as it does. */
function noteChore({ sql, retentionDays, clock }: ChoreOptions): Chore {
  let dueMs = Number.NEGATIVE_INFINITY;
  return {
    name: "say the default retention",
    everyMs: 0,
    async run() {
      if (clock.monotonicMs() >= dueMs) {
        await noteDefault(sql, retentionDays);
        dueMs = clock.monotonicMs() + notePauseMs;
      }
      return false;
    },
  };
}

/** One task of an administrator until its end; one that something passing stands in the way of waits a minute. */
function taskChore({ sql, rewriter, unstampedAudience, clock, logger }: ChoreOptions): Chore {
  const waiting = new Map<string, number>();
  return {
    name: "do a task of an administrator",
    everyMs: 0,
    async run(signal) {
      for (const [taskId, untilMs] of waiting) {
        if (untilMs <= clock.monotonicMs()) {
          waiting.delete(taskId);
        }
      }
      const taskId = await nextTask(sql, [...waiting.keys()]);
      if (taskId === null || signal.aborted) {
        return false;
      }
      logger.info({ taskId }, "a task of an administrator begins");
      try {
        await rewriter.task({ taskId, unstampedAudience }, signal);
        logger.info({ taskId }, "a task of an administrator is done");
      } catch (error) {
        if (signal.aborted) {
          throw error;
        }
        waiting.set(taskId, clock.monotonicMs() + taskPauseMs);
        logger.warn({ taskId, err: error }, "a task of an administrator failed, or is continued later");
      }
      return true;
    },
  };
}

function retentionChore(o: ChoreOptions): Chore {
  const { sql, rewriter, logger, metrics, unstampedAudience } = o;
  const removed = metrics.counter("maintenance_retention_total", "What retention has removed", ["what"]);
  const obstacles = metrics.gauge(
    "maintenance_retention_held",
    "1 while nothing is removed for its age, because the clock cannot be trusted",
  );
  let blocksDueMs = o.clock.monotonicMs();
  return {
    name: "remove what is older than its retention",
    everyMs: o.retentionEveryMs ?? 300_000,
    async run(signal) {
      const policy = { defaultDays: o.retentionDays, unstampedAudience, overrides: await selectOverrides(sql) };
      const obstacle = await clockObstacle(sql, () => o.clock.nowMs());
      obstacles.set(obstacle === null ? 0 : 1);
      if (obstacle !== null) {
        logger[removesAnything(policy) ? "warn" : "debug"](`nothing is removed for its age: ${obstacle}`);
        return false;
      }
      const objectsOnly = o.clock.monotonicMs() < blocksDueMs;
      const result = await applyRetention({ sql, policy, objectsOnly, cancelled: () => signal.aborted });
      if (!objectsOnly) {
        blocksDueMs = o.clock.monotonicMs() + blocksEveryMs;
      }
      let trimmed: TrimResult = { objects: 0, rows: 0, bad: [] };
      if (removesAnything(policy) && !signal.aborted) {
        trimmed = await rewriter.trim(policy, signal);
      }
      const counts = { ...result, trimmedObjects: trimmed.objects, trimmedRows: trimmed.rows };
      for (const [what, count] of Object.entries(counts)) {
        removed.inc({ what }, count);
      }
      if (Object.values(counts).some((count) => count > 0)) {
        logger.info(counts, "removed what was older than its retention");
      }
      if (trimmed.bad.length > 0) {
        throw new BadObjects(trimmed.bad);
      }
      return false;
    },
  };
}

/** Objects that were never published, or that an interrupted merge, rewrite or probe left, and directories of days without any. */
function sweepChore(o: ChoreOptions): Chore {
  const { sql, store, clock, logger } = o;
  return {
    name: "remove objects that were never published",
    everyMs: sweepEveryMs,
    async run() {
      const stranger = await orphansObstacle(sql, store);
      const nowMs = (): number => clock.nowMs();
      const obstacle = stranger ?? (await clockObstacle(sql, nowMs)) ?? (await storeClockObstacle(store, nowMs));
      if (obstacle !== null) {
        logger[stranger === null ? "info" : "warn"](`objects that were never published stay: ${obstacle}`);
        return false;
      }
      const results = [await sweepLeftovers(store, clock.nowMs())];
      for (const prefix of Object.keys(tables)) {
        results.push(await sweepOrphans(sql, store, { nowMs: clock.nowMs(), prefix }));
        const directory = store.localPath(prefix);
        if (directory !== null) {
          await removeEmptyDays(directory, clock.nowMs() - emptyForMs);
        }
      }
      const removed = {
        removedObjects: results.reduce((sum, { removedObjects }) => sum + removedObjects, 0),
        removedBytes: results.reduce((sum, { removedBytes }) => sum + removedBytes, 0),
      };
      if (removed.removedObjects > 0) {
        logger.info(removed, "removed objects that were never published");
      }
      for (const { failure } of results) {
        if (failure !== null) {
          throw failure;
        }
      }
      return false;
    },
  };
}
