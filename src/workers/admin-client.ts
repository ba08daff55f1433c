/** The admin thread behind its interface. */
import type { AdminAnswer, AdminCall, UndeliveredKey } from "../admin/admin-service.js";
import type { CallerStanding } from "../admin/administrators.js";
import type { Caller } from "../auth/caller.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { TaskPool } from "../runtime/threads/task-pool.js";
import type { AdminRequest, AdminResponse, AdminWorkerData } from "./admin-messages.js";

/** Options of {@link startAdminPool}. */
export interface AdminPoolOptions extends AdminWorkerData {
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Executes admin calls on a thread of their own. */
export interface AdminPool extends Component {
  /** @throws ServiceError for every answer that is not a success. */
  call(call: AdminCall): Promise<AdminAnswer>;
  /** See AdminService. @throws ServiceError when the key could not be revoked. */
  withdraw(minted: UndeliveredKey): Promise<void>;
  /** See AdminService. @throws ServiceError UNAVAILABLE when that cannot be told. */
  standing(caller: Caller): Promise<CallerStanding>;
  /** Why the database cannot serve, in a sentence, or null. @throws ServiceError UNAVAILABLE. */
  probe(): Promise<string | null>;
  /** False while the thread cannot be replaced. */
  readonly healthy: boolean;
}

/** Calls that the thread has in hand at once; nearly all of them wait for a connection. */
const concurrentCalls = 256;
const waitingCalls = 1000;

/** Starts the thread. @throws ServiceError UNAVAILABLE when it cannot be started. */
export async function startAdminPool(o: AdminPoolOptions): Promise<AdminPool> {
  const workerData: AdminWorkerData = { connectionString: o.connectionString, policy: o.policy };
  const pool = await TaskPool.create<AdminRequest, AdminResponse>({
    name: "admin",
    entry: new URL("./admin-thread.js", import.meta.url),
    threads: 1,
    concurrentTasksPerWorker: concurrentCalls,
    // Connections live on between tasks.
    idleEventLoop: true,
    maxQueue: waitingCalls,
    workerData,
    logger: o.logger,
    metrics: o.metrics,
  });
  let stopping: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    // A thread that is down has no connections left to close.
    await pool.run({ kind: "stop" }).catch((error: unknown) => {
      o.logger.debug({ err: error }, "the admin thread was down when it was to stop");
    });
    await pool.stop();
  };
  return {
    name: "admin-pool",
    async call(call) {
      const answer = await pool.run({ kind: "call", call });
      if (answer === null || !("status" in answer)) throw unexpected();
      return answer;
    },
    async withdraw(minted) {
      await pool.run({ kind: "withdraw", minted });
    },
    async standing(caller) {
      const answer = await pool.run({ kind: "standing", caller });
      if (answer === null || !("isAdmin" in answer)) throw unexpected();
      return answer;
    },
    async probe() {
      const answer = await pool.run({ kind: "probe" });
      if (answer === null || !("problem" in answer)) throw unexpected();
      return answer.problem;
    },
    get healthy() {
      return pool.healthy;
    },
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}

function unexpected(): Error {
  return new Error("the admin thread gave the answer to another question");
}
