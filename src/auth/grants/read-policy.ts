/**
 * Who may read what, and who is admin: grants and groups as one snapshot in memory.
 *
 * States: empty (no snapshot yet) -> fresh -> ageing (last quarter of the TTL) -> stale (past it) -> fresh ...
 *   fresh          answered from memory
 *   ageing         the same, while a load runs, again every second as long as it fails
 *   empty, stale   every question waits for a load; when it fails the question fails (UNAVAILABLE), and so
 *                  does every further one until the next attempt is due
 * So nobody waits while the database answers, an outage shorter than a quarter of the TTL goes
 * unnoticed, and a deleted grant or membership works for the TTL at most: an older snapshot is never
 * used. The snapshot is read in one statement, hence consistent: a grant and the group it names are seen
 * together or not at all. Its age counts from when that statement was sent.
 */
import type { Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import type { AudienceFilter } from "../../db/audience-filter.js";
import { DeadlineSql } from "../../db/deadline-sql.js";
import { createErrorReporter } from "../error-reporter.js";
import { adminsOpenWarning, buildGrants, type Grants, type GrantsRow } from "./grants.js";
import type { Principal } from "../principal.js";
import { createSharedClock, type SharedClock } from "../shared-clock.js";

/** The authorization layer of the reading side. */
export interface ReadPolicy extends Component {
  /** @throws ServiceError UNAVAILABLE when grants were not read within the TTL and cannot be now. */
  readAudiences(principal: Principal): Promise<AudienceFilter>;
  /** @throws ServiceError UNAVAILABLE when groups were not read within the TTL and cannot be now. */
  isAdmin(principal: Principal): Promise<boolean>;
}

/** Options of the read policy. */
interface ReadPolicyOptions {
  /** Not closed here. */
  readonly sql: Sql;
  /** Opens another pool like `sql`, for when its connections hang; see deadline-sql.ts. */
  readonly reopen?: () => Sql;
  /** `SVC_AUTH_CACHE_TTL_SECONDS`, in milliseconds. */
  readonly ttlMs: number;
  /** `SVC_UNSTAMPED_AUDIENCE`; the empty string hides unstamped rows from everyone. */
  readonly unstampedAudience: string;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly clock?: SharedClock;
  /**
   * A load that takes longer has failed. Default 5000 ms; what was read after a question answers it, whatever the TTL.
   */
  readonly statementTimeoutMs?: number;
}

const retryMs = 1000;
const leastIntervalMs = 1000;

/** Make the read policy; the first load is under way when this returns, failures included. */
export function createReadPolicy(o: ReadPolicyOptions): ReadPolicy {
  const clock = o.clock ?? createSharedClock();
  const sql = new DeadlineSql({
    sql: o.sql,
    reopen: o.reopen,
    timeoutMs: o.statementTimeoutMs ?? 5000,
  });
  const errors = createErrorReporter({
    table: "audience_grants",
    metrics: o.metrics,
    logger: o.logger,
    clock,
    quietMs: o.ttlMs,
  });
  const staleness = o.metrics.gauge(
    "auth_snapshot_age_seconds",
    "Age of the snapshot of grants and groups; past SVC_AUTH_CACHE_TTL_SECONDS it is not used.",
  );
  const hideAge = o.metrics.onCollect(() => {
    if (grants !== null) {
      staleness.set((clock() - readAtMs) / 1000);
    }
  });
  let grants: Grants | null = null;
  let readAtMs = Number.NEGATIVE_INFINITY;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  let loading: Promise<void> | null = null;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  const load = async (): Promise<void> => {
    const startedMs = clock();
    try {
      const first = grants === null;
      grants = buildGrants(await sql.run(selectGrants), o.unstampedAudience);
      readAtMs = startedMs;
      if (first && grants.adminsOpen) {
        o.logger.warn(adminsOpenWarning);
      }
    } catch (error) {
      notBeforeMs = clock() + retryMs;
      errors.report(error);
    } finally {
      loading = null;
    }
  };
  const loadOnce = (): Promise<void> => {
    loading ??= load();
    return loading;
  };
  /** The snapshot if it is within the TTL, or was read after the question: nothing is more recent then. */
  const usable = (askedMs: number): Grants | null =>
    clock() - readAtMs < o.ttlMs || readAtMs >= askedMs ? grants : null;
  const current = async (): Promise<Grants> => {
    const askedMs = clock();
    // Twice: the load under way may have begun too long before the question.
    for (let attempt = 0; attempt < 2 && usable(askedMs) === null; attempt++) {
      if (stopped || clock() < notBeforeMs) {
        break;
      }
      await loadOnce();
    }
    const snapshot = usable(askedMs);
    if (snapshot === null) {
      throw new ServiceError("UNAVAILABLE", "grants cannot be read at the moment; try again", {
        retryAfterSeconds: 1,
      });
    }
    return snapshot;
  };
  const refresh = async (): Promise<void> => {
    await loadOnce();
    if (stopped) {
      return;
    }
    const dueMs = clock() < notBeforeMs ? retryMs : Math.max(leastIntervalMs, o.ttlMs * 0.75);
    timer = setTimeout(() => void refresh(), dueMs);
    timer.unref();
  };
  void refresh();

  return {
    name: "read-policy",
    readAudiences: async (principal) =>
      principal.kind === "anonymous" ? everything(o.unstampedAudience) : (await current()).readAudiences(principal),
    isAdmin: async (principal) => principal.kind === "anonymous" || (await current()).isAdmin(principal),
    async stop() {
      stopped = true;
      clearTimeout(timer);
      hideAge();
      await loading;
      await sql.stop();
    },
  };
}

/**
 * The policy under `--disable-auth`, which has no authorization layer: everybody reads everything and is
 * admin. Unstamped rows without an audience to be read as stay invisible to everybody.
 * @param unstampedAudience `SVC_UNSTAMPED_AUDIENCE`
 */
export function openReadPolicy(unstampedAudience: string): ReadPolicy {
  return {
    name: "open-read-policy",
    readAudiences: () => Promise.resolve(everything(unstampedAudience)),
    isAdmin: () => Promise.resolve(true),
    stop: () => Promise.resolve(),
  };
}

function everything(unstampedAudience: string): AudienceFilter {
  return unstampedAudience === "" ? { kind: "all", unstamped: false } : { kind: "all" };
}

function selectGrants(sql: Sql): PromiseLike<readonly GrantsRow[]> {
  return sql<GrantsRow[]>`
    select 'read' as source, audience as name, member from audience_grants where kind = 'read'
    union all
    select 'group', group_name, member from group_members`;
}
