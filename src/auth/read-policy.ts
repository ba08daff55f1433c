/**
 * Who may read what, and who is admin: grants and groups as one snapshot in memory.
 *
 * States: empty (no snapshot yet) -> fresh -> stale (older than the TTL) -> fresh ...
 *   empty   every question waits for a load; when it fails the question fails (UNAVAILABLE): closed
 *   fresh   answered from memory
 *   stale   one load is started and awaited by all; when it fails, the last good snapshot answers,
 *           and further attempts go on in the background, so that an outage slows nobody down
 * A timer loads once per TTL, so that questions normally never wait. The snapshot is read in one
 * statement, hence consistent: a grant and the group it names are seen together or not at all.
 */
import type { Sql } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { DeadlineSql } from "./deadline-sql.js";
import { createErrorReporter } from "./error-reporter.js";
import { buildGrants, type Grants, type GrantsRow, type ReadAudiences } from "./grants.js";
import type { Principal } from "./principal.js";
import { createSharedClock, type SharedClock } from "./shared-clock.js";

export type { ReadAudiences } from "./grants.js";

/** The authorization layer of the reading side. */
export interface ReadPolicy extends Component {
  /** @throws ServiceError UNAVAILABLE when grants were never loaded and cannot be now. */
  readAudiences(principal: Principal): Promise<ReadAudiences>;
  /** @throws ServiceError UNAVAILABLE when groups were never loaded and cannot be now. */
  isAdmin(principal: Principal): Promise<boolean>;
}

/** Options of the read policy. */
export interface ReadPolicyOptions {
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
  /** A load that takes longer has failed. Default 5000 ms, at most the TTL. */
  readonly statementTimeoutMs?: number;
}

const RETRY_MS = 1000;
const LEAST_INTERVAL_MS = 1000;

/** Make the read policy; the first load is under way when this returns, failures included. */
export function createReadPolicy(o: ReadPolicyOptions): ReadPolicy {
  const clock = o.clock ?? createSharedClock();
  const sql = new DeadlineSql({
    sql: o.sql,
    reopen: o.reopen,
    // A load that took longer than the TTL would bring a snapshot that is stale already.
    timeoutMs: Math.min(o.statementTimeoutMs ?? 5000, Math.max(LEAST_INTERVAL_MS, o.ttlMs)),
  });
  const errors = createErrorReporter({
    metrics: o.metrics,
    logger: o.logger,
    clock,
    quietMs: o.ttlMs,
  });
  const staleness = o.metrics.gauge(
    "auth_snapshot_age_seconds",
    "Age of the grants and groups snapshot that is being served.",
  );
  let grants: Grants | null = null;
  let readAtMs = 0;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  let loading: Promise<void> | null = null;
  let failing = false;
  let stopped = false;

  const load = async (): Promise<void> => {
    const startedMs = clock();
    try {
      grants = buildGrants(await sql.run(selectGrants), o.unstampedAudience);
      readAtMs = startedMs;
      failing = false;
    } catch (error) {
      failing = true;
      notBeforeMs = clock() + RETRY_MS;
      errors.report("audience_grants", error);
    } finally {
      if (grants !== null) staleness.set((clock() - readAtMs) / 1000);
    }
  };
  const loadOnce = (): Promise<void> => {
    loading ??= load().finally(() => {
      loading = null;
    });
    return loading;
  };
  const current = async (): Promise<Grants> => {
    if (grants === null || clock() - readAtMs >= o.ttlMs) {
      if (!stopped && clock() >= notBeforeMs) {
        const loaded = loadOnce();
        // Once a load has failed nobody waits for the next, as long as there is something to serve.
        if (grants === null || !failing) await loaded;
      }
      if (grants !== null) staleness.set((clock() - readAtMs) / 1000);
    }
    if (grants === null) {
      throw new ServiceError("UNAVAILABLE", "grants could not be read", { retryAfterSeconds: 1 });
    }
    return grants;
  };
  const timer = setInterval(() => void loadOnce(), Math.max(LEAST_INTERVAL_MS, o.ttlMs));
  timer.unref();
  void loadOnce();

  return {
    name: "read-policy",
    readAudiences: async (principal) =>
      principal.kind === "anonymous"
        ? everything(o.unstampedAudience)
        : (await current()).readAudiences(principal),
    isAdmin: async (principal) =>
      principal.kind === "anonymous" || (await current()).isAdmin(principal),
    async stop() {
      stopped = true;
      clearInterval(timer);
      await loading;
      await sql.stop();
    },
  };
}

/**
 * The policy under `--disable-auth`, which has no authorization layer: everybody reads everything and
 * is admin. Unstamped rows that are read as no audience stay invisible to everyone all the same.
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

function everything(unstampedAudience: string): ReadAudiences {
  return unstampedAudience === "" ? { kind: "all", unstamped: false } : { kind: "all" };
}

function selectGrants(sql: Sql): PromiseLike<readonly GrantsRow[]> {
  return sql<GrantsRow[]>`
    select 'read' as source, audience as name, member from audience_grants where kind = 'read'
    union all
    select 'group', group_name, member from group_members`;
}
