/** The admin service on a thread of its own, behind its interface. Its callers take turns: one keeps out no others. */
import type { AdminService, AdminServiceOptions } from "../admin/admin-service.js";
import { FairQueue } from "../runtime/turns/fair-queue.js";
import type { Author } from "../auth/audit.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { ServiceError } from "../runtime/errors.js";
import { TaskPool } from "../runtime/threads/task-pool.js";

/** What the admin thread is opened with, and offers. */
export interface AdminThread {
  readonly settings: Pick<AdminServiceOptions, "connectionString" | "policy">;
  /** `stop` closes the connections; nothing may follow it. */
  readonly methods: Pick<
    AdminService,
    "handle" | "withdraw" | "standing" | "sources" | "map" | "saveMap" | "deleteMap" | "probe" | "stop"
  >;
}

/** Options of {@link startAdminPool}. */
type AdminPoolOptions = AdminThread["settings"] & {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** How long a call waits for its turn. Default 15 s. */
  readonly turnMs?: number;
};

/** The admin service as its thread executes it. */
export interface AdminPool extends AdminService {
  /** False while the thread cannot be replaced. */
  readonly healthy: boolean;
}

/**
 * Calls that the thread has in hand at once: enough for its two connections. Who waits for one of those does so in the
 * order of arrival, and up to a deadline; here in turns.
 */
const concurrentCalls = 32;
/** Beyond them the newest of the caller with the most is refused. */
const waitingCalls = 1000;
/** As long as a call waits for a connection: while the database hangs, calls fail when that has gone by twice. */
const defaultTurnMs = 15_000;

/** Starts the thread. @throws ServiceError UNAVAILABLE when it cannot be started. */
export async function startAdminPool(o: AdminPoolOptions): Promise<AdminPool> {
  const pool = await TaskPool.create<AdminThread>({
    name: "admin",
    entry: new URL("./admin-thread.js", import.meta.url),
    threads: 1,
    concurrentTasksPerWorker: concurrentCalls,
    // Connections live on between tasks.
    idleEventLoop: true,
    maxQueue: waitingCalls,
    settings: { connectionString: o.connectionString, policy: o.policy },
    logger: o.logger,
    metrics: o.metrics,
  });
  const turns = new FairQueue({ places: concurrentCalls, maxWaiting: waitingCalls });
  const inTurn = async <T>({ caller }: Pick<Author, "caller">, work: () => Promise<T>): Promise<T> => {
    const waiting = new AbortController();
    const timer = setTimeout(() => {
      waiting.abort(new ServiceError("UNAVAILABLE", undefined, { retryAfterSeconds: 1 }));
    }, o.turnMs ?? defaultTurnMs);
    const place = await turns.acquire(caller.name, waiting.signal).finally(() => clearTimeout(timer));
    try {
      return await work();
    } finally {
      place.release();
    }
  };
  let stopping: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    // A thread that is down has no connections left to close.
    await pool.run("stop", undefined).catch((error: unknown) => {
      o.logger.debug({ err: error }, "the admin thread was down when it was to stop");
    });
    await pool.stop();
  };
  return {
    name: "admin-pool",
    // What has no caller waits in the pool, where all that have one leave room.
    handle: (call) => inTurn(call, () => pool.run("handle", call)),
    withdraw: (minted) => pool.run("withdraw", minted),
    standing: (caller) => inTurn({ caller }, () => pool.run("standing", caller)),
    sources: () => pool.run("sources", undefined),
    map: (file) => pool.run("map", file),
    saveMap: (map) => inTurn(map, () => pool.run("saveMap", map)),
    deleteMap: (map) => inTurn(map, () => pool.run("deleteMap", map)),
    probe: () => pool.run("probe", undefined),
    get healthy() {
      return pool.healthy;
    },
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}
