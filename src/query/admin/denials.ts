/**
 * The query deny list: rules that refuse queries by who asks and what is asked. A rule is a boolean SQL
 * expression over `user`, `email`, `client`, `sql` and `sql_hash`; the same gate that checks queries
 * checks it. The list protects the server from queries it cannot bear; what a caller may read is none of
 * its business. So a rule that fails to evaluate denies nothing, and is counted and logged.
 *
 * Rules are read every {@link refreshMs}; one outage of the database leaves the last ones in force.
 */
import { randomUUID } from "node:crypto";

import type { Sql, TransactionSql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { isUuid } from "../../runtime/text/uuid.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import type { MatchContext, QueryBackend } from "../backend/backend.js";
import { maxTextLength } from "../gate/query-text.js";

/** A row of `query_denials`. */
export interface DenialRule {
  readonly ruleId: string;
  readonly matchExpr: string;
  readonly reason: string;
  readonly createdAt: Date;
  readonly createdBy: string;
}

/** Rules as they stand and as they are asked. */
export interface DenialRules extends Component {
  /**
   * The rule that a query matches, or null.
   * @throws ServiceError UNAVAILABLE when the rules were never read
   */
  match(context: MatchContext, signal: AbortSignal): Promise<DenialRule | null>;
  /** Counts a refusal. @returns ServiceError FORBIDDEN with the rule's id and reason */
  refuse(rule: DenialRule): ServiceError;
  list(): Promise<readonly DenialRule[]>;
  /** Adds a rule, or finds the one that stands with the same expression and reason. @throws ServiceError BAD_REQUEST */
  add(matchExpr: string, reason: string, createdBy: string): Promise<DenialRule>;
  /** Null when there is no such rule. */
  remove(ruleId: string): Promise<DenialRule | null>;
}

/** Options of {@link createDenialRules}. */
export interface DenialRulesOptions {
  readonly sql: Sql;
  readonly backend: Pick<QueryBackend, "match">;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Default 10 s. */
  readonly refreshMs?: number;
}

const defaultRefreshMs = 10_000;
/** Longest expression and reason in UTF-16 code units. */
const maxExpression = 10_000;
const maxReason = 1000;
const maxRules = 1000;
/** Verdicts that are kept, so that a query that was described is not matched again to run. */
const maxVerdicts = 1000;

const sample: MatchContext = {
  user: "user@example.com",
  email: "user@example.com",
  client: "client",
  sql: "SELECT 1",
  sql_hash: "",
};

/** Starts reading the rules. */
export function createDenialRules(o: DenialRulesOptions): DenialRules {
  const denied = o.metrics.counter("query_denied", "Queries that a rule of the deny list refused");
  const failures = o.metrics.counter(
    "query_denial_rule_failures_total",
    "Rules of the deny list that could not be evaluated",
  );
  let rules: readonly DenialRule[] | null = null;
  let version = 0;
  let loading: Promise<void> | null = null;
  const verdicts = new Map<string, DenialRule | null>();
  const complained = new Set<string>();

  const read = async (): Promise<void> => {
    const rows = await selectRules(o.sql);
    // Not only when they have changed: an expression may look at the clock.
    verdicts.clear();
    version++;
    rules = rows;
  };
  const refresh = (): Promise<void> => {
    loading ??= read().finally(() => {
      loading = null;
    });
    return loading;
  };
  /** A read that is under way may have begun before the change. */
  const refreshAfterChange = async (): Promise<void> => {
    await loading?.catch(() => undefined);
    await refresh();
  };
  const refreshLater = (): void => {
    refresh().catch((error: unknown) => {
      o.logger.warn({ err: error }, "the query deny list cannot be read; the last one stays");
    });
  };
  const timer = setInterval(refreshLater, o.refreshMs ?? defaultRefreshMs);
  timer.unref();
  refreshLater();

  const current = async (): Promise<readonly DenialRule[]> => {
    if (rules === null) {
      await refresh().catch((error: unknown) => {
        throw new ServiceError("UNAVAILABLE", "the query deny list cannot be read", {
          cause: error,
          retryAfterSeconds: 1,
        });
      });
    }
    return rules ?? [];
  };

  const verdictOf = async (
    active: readonly DenialRule[],
    context: MatchContext,
    signal: AbortSignal,
  ): Promise<DenialRule | null> => {
    const key = JSON.stringify(Object.values({ ...context, sql: "" }));
    const known = verdicts.get(key);
    if (known !== undefined) return known;
    const asked = version;
    const results = await o.backend.match(
      active.map(({ matchExpr }) => matchExpr),
      context,
      signal,
    );
    let verdict: DenialRule | null = null;
    for (const [i, result] of results.entries()) {
      const rule = active[i];
      if (rule === undefined) continue;
      if ("failure" in result) {
        failures.inc();
        if (complained.has(rule.ruleId)) continue;
        complained.add(rule.ruleId);
        // Not into the service's own telemetry: DuckDB's words quote the query.
        o.logger.warn(
          { selfTelemetry: true, rule: rule.ruleId, failure: result.failure },
          "a rule of the query deny list fails and denies nothing",
        );
      } else if (result.matches) verdict ??= rule;
    }
    if (asked === version) {
      if (verdicts.size >= maxVerdicts) verdicts.clear();
      verdicts.set(key, verdict);
    }
    return verdict;
  };

  return {
    name: "query-denials",
    match: async (context, signal) => {
      const active = rules ?? (await current());
      return active.length === 0 ? null : verdictOf(active, context, signal);
    },
    refuse: (rule) => {
      denied.inc();
      return new ServiceError(
        "FORBIDDEN",
        `The query is on the deny list (rule ${rule.ruleId}): ${rule.reason}`,
      );
    },
    list: () => selectRules(o.sql),
    add: async (matchExpr, reason, createdBy) => {
      if (matchExpr.length > maxExpression || reason.length > maxReason) {
        throw new ServiceError(
          "BAD_REQUEST",
          `match_expr may have ${maxExpression} characters, reason ${maxReason}.`,
        );
      }
      if (reason.trim() === "") {
        throw new ServiceError("BAD_REQUEST", "reason is told to whoever is denied; it is empty.");
      }
      // The longest text that there can be, too: a rule that fails for it would let it pass.
      for (const sql of [sample.sql, "x".repeat(maxTextLength)]) {
        const context = { ...sample, sql };
        const [tried] = await o.backend.match([matchExpr], context, AbortSignal.timeout(10_000));
        if (tried !== undefined && !("failure" in tried)) continue;
        const about = sql === sample.sql ? "" : `, also over a text of ${sql.length} characters`;
        throw new ServiceError(
          "BAD_REQUEST",
          `match_expr is a condition over user, email, client, sql and sql_hash${about}: ${tried?.failure ?? ""}`,
        );
      }
      const rule = await o.sql.begin((tx) => insertRule(tx, matchExpr, reason, createdBy));
      await refreshAfterChange();
      return rule;
    },
    remove: async (ruleId) => {
      if (!isUuid(ruleId)) {
        throw new ServiceError("BAD_REQUEST", "rule_id is a UUID; list_query_denials() shows it.");
      }
      const [rule] = await o.sql<DenialRule[]>`
        delete from query_denials where rule_id = ${ruleId}::uuid returning ${columns(o.sql)}`;
      await refreshAfterChange();
      return rule ?? null;
    },
    stop: async () => {
      clearInterval(timer);
      await loading?.catch(() => undefined); // reported by whoever started it
    },
  };
}

function columns(sql: Sql | TransactionSql) {
  return sql`rule_id as "ruleId", match_expr as "matchExpr", reason, created_at as "createdAt",
    created_by as "createdBy"`;
}

function selectRules(sql: Sql): Promise<DenialRule[]> {
  return sql<DenialRule[]>`
    select ${columns(sql)} from query_denials order by created_at, rule_id limit ${maxRules}`;
}

async function insertRule(
  sql: TransactionSql,
  matchExpr: string,
  reason: string,
  createdBy: string,
): Promise<DenialRule> {
  // One at a time, or two at once would add a rule twice, or one too many.
  await sql`lock table query_denials in share row exclusive mode`;
  const [standing] = await sql<DenialRule[]>`
    select ${columns(sql)} from query_denials
    where match_expr = ${matchExpr} and reason = ${reason} limit 1`;
  if (standing !== undefined) return standing;
  const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
    select count(*)::int as count from query_denials`;
  if (count >= maxRules) {
    throw new ServiceError("CONFLICT", `There are ${maxRules} rules already; remove some first.`);
  }
  const [rule] = await sql<DenialRule[]>`
    insert into query_denials (rule_id, match_expr, reason, created_by)
    values (${randomUUID()}, ${matchExpr}, ${reason}, ${createdBy.slice(0, 255)})
    returning ${columns(sql)}`;
  if (rule === undefined) throw new ServiceError("INTERNAL", "a rule was not inserted");
  return rule;
}
