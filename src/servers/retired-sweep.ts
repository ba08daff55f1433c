/** The removal of objects that have left the catalogue, from time to time. */
import type { Sql } from "../db/sql.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import { DatabasePace } from "../lake/retention/database-pace.js";
import { sweepRetired } from "../lake/retire.js";
import { systemClock } from "../runtime/clock.js";
import type { Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { Periodic } from "../runtime/periodic.js";

/** Retired objects stay for so long after they left the catalogue, for queries that have them open. */
const retiredGraceMs = 3_600_000;
const sweepEveryMs = 300_000;

/** Sweeps until `scope` stops. Several processes may: one at a time does. */
export function startRetiredSweep(
  scope: Scope,
  sql: Sql,
  store: ObjectStore,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics },
): void {
  const failures = metrics.counter(
    "retired_sweep_failures_total",
    "Sweeps that could not remove some of the objects that nothing names any more",
  );
  const pace = new DatabasePace(systemClock, retiredGraceMs);
  const sweep = async (): Promise<void> => {
    try {
      if (await pace.jumped(sql)) {
        logger.info("retired objects stay: the clock of the database was set on; waiting for an hour");
        return;
      }
      const { removedObjects, removedBytes, failure } = await sweepRetired(sql, store, retiredGraceMs);
      if (removedObjects > 0) {
        logger.info({ removedObjects, removedBytes }, "objects removed");
      }
      if (failure !== null) {
        throw failure;
      }
    } catch (error) {
      failures.inc();
      logger.warn({ err: error }, "retired objects cannot be removed; trying again later");
    }
  };
  const sweeps = new Periodic(sweep, sweepEveryMs);
  scope.defer("sweep of retired objects", () => sweeps.stop());
}
