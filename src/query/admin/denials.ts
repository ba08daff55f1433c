/**
 * The query deny list: rules that refuse queries by caller and text. A rule is a boolean SQL expression
 * over `user`, `email`, `client`, `sql` and `sql_hash`; the same gate that checks queries checks it. The
 * list protects the server from expensive queries; it does not decide what a caller may read. So a rule
 * that fails denies nothing, and is counted and logged.
 *
 * Rules are read every {@link refreshMs}; during an outage of the database the last ones apply.
 */
import { LRUMap } from "../../runtime/collections/lru-map.js";

import type { AnyAuthor } from "../../auth/audit.js";
import type { Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { SingleFlight } from "../../runtime/single-flight.js";
import { isUuid } from "../../runtime/text/uuid.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import type { MatchContext, QueryBackend } from "../backend/backend.js";
import { maxTextLength } from "../gate/query-text.js";
import { deleteRule, type DenialRule, insertRule, type NewDenialRule, selectRules } from "./denial-table.js";

/** Options of {@link DenialRules}. */
interface DenialRulesOptions {
  readonly sql: Sql;
  readonly backend: Pick<QueryBackend, "match">;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Default 10 s. */
  readonly refreshMs?: number;
}

const defaultRefreshMs = 10_000;
const tryTimeoutMs = 10_000;
/** Longest expression and reason in UTF-16 code units. */
const maxExpression = 10_000;
const maxReason = 1000;
/** Verdicts that are kept, so that a query that was described is not matched again to run. */
const maxVerdicts = 1000;

const sample: MatchContext = {
  user: "user@example.com",
  email: "user@example.com",
  client: "client",
  sql: "SELECT 1",
  sql_hash: "",
};

/** Does something when its caller's turn has come. */
type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

/** The rules, and whether they refuse a query. Starts reading them at once. */
export class DenialRules implements Component {
  readonly name = "query-denials";
  readonly #o: DenialRulesOptions;
  readonly #reading = new SingleFlight(() => this.#read());
  readonly #timer: NodeJS.Timeout;
  readonly #verdicts = new LRUMap<string, DenialRule | null>(maxVerdicts);
  /** Rules whose failure was logged. */
  readonly #complained = new Set<string>();
  readonly #countDenied: () => void;
  readonly #countFailure: () => void;
  /** Null until they are read for the first time. */
  #rules: readonly DenialRule[] | null = null;
  /** Grows with every read. */
  #version = 0;

  constructor(o: DenialRulesOptions) {
    this.#o = o;
    const denied = o.metrics.counter("query_denied", "Queries that a rule of the deny list refused");
    const failures = o.metrics.counter(
      "query_denial_rule_failures_total",
      "Rules of the deny list that could not be evaluated",
    );
    this.#countDenied = () => denied.inc();
    this.#countFailure = () => failures.inc();
    this.#timer = setInterval(() => void this.#refreshLater(), o.refreshMs ?? defaultRefreshMs);
    this.#timer.unref();
    void this.#refreshLater();
  }

  /**
   * The rule that a query matches, or null.
   * @param inTurn waits for a turn where an engine is needed
   * @throws ServiceError UNAVAILABLE when the rules were never read; what `inTurn` throws
   */
  async match(context: MatchContext, signal: AbortSignal, inTurn: InTurn): Promise<DenialRule | null> {
    const rules = this.#rules ?? (await this.#firstRules());
    if (rules.length === 0) {
      return null;
    }
    const key = JSON.stringify(Object.values({ ...context, sql: "" }));
    const known = this.#verdicts.get(key);
    if (known !== undefined) {
      return known;
    }
    const version = this.#version;
    const verdict = await inTurn(() => this.#firstMatch(rules, context, signal));
    if (version === this.#version) {
      this.#verdicts.set(key, verdict);
    }
    return verdict;
  }

  /** Counts a refusal. @returns ServiceError FORBIDDEN with the rule's id and reason */
  refuse(rule: DenialRule): ServiceError {
    this.#countDenied();
    return new ServiceError("FORBIDDEN", `The query is on the deny list (rule ${rule.ruleId}): ${rule.reason}`);
  }

  list(): Promise<readonly DenialRule[]> {
    return selectRules(this.#o.sql);
  }

  /** Adds a rule, or finds an existing one with the same expression and reason. @throws ServiceError BAD_REQUEST */
  async add(by: AnyAuthor, wanted: NewDenialRule): Promise<DenialRule> {
    const { matchExpr, reason } = wanted;
    if (matchExpr.length > maxExpression || reason.length > maxReason) {
      throw new ServiceError("BAD_REQUEST", `match_expr may have ${maxExpression} characters, reason ${maxReason}.`);
    }
    if (reason.trim() === "") {
      throw new ServiceError("BAD_REQUEST", "reason is empty; callers who are denied see it.");
    }
    await this.#tryOut(matchExpr);
    const rule = await insertRule(this.#o.sql, by, wanted);
    await this.#refreshAfterChange();
    return rule;
  }

  /** Null when there is no such rule. @throws ServiceError BAD_REQUEST */
  async remove(by: AnyAuthor, ruleId: string): Promise<DenialRule | null> {
    if (!isUuid(ruleId)) {
      throw new ServiceError("BAD_REQUEST", "rule_id is a UUID; list_query_denials() shows it.");
    }
    const rule = await deleteRule(this.#o.sql, by, ruleId);
    await this.#refreshAfterChange();
    return rule;
  }

  /** Whether an expression is true of a query; nothing is kept of it. @throws ServiceError BAD_REQUEST */
  async test(matchExpr: string, context: MatchContext, signal: AbortSignal): Promise<boolean> {
    const [result] = await this.#o.backend.match([matchExpr], context, signal);
    if (result === undefined || "failure" in result) {
      const failure = result?.failure ?? "";
      throw new ServiceError(
        "BAD_REQUEST",
        `match_expr is a condition over user, email, client, sql and sql_hash: ${failure}`,
      );
    }
    return result.matches;
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#reading.idle();
  }

  async #read(): Promise<void> {
    const rules = await selectRules(this.#o.sql);
    // Not only when they have changed: an expression may look at the clock.
    this.#verdicts.clear();
    this.#version++;
    this.#rules = rules;
  }

  async #refreshLater(): Promise<void> {
    try {
      await this.#reading.run();
    } catch (error) {
      this.#o.logger.warn({ err: error }, "the query deny list cannot be read; the last one stays");
    }
  }

  /** A read that is under way may have begun before the change. */
  async #refreshAfterChange(): Promise<void> {
    await this.#reading.idle();
    await this.#reading.run();
  }

  async #firstRules(): Promise<readonly DenialRule[]> {
    try {
      await this.#reading.run();
    } catch (error) {
      throw new ServiceError("UNAVAILABLE", "the query deny list cannot be read", {
        cause: error,
        retryAfterSeconds: 1,
      });
    }
    return this.#rules ?? [];
  }

  async #firstMatch(
    rules: readonly DenialRule[],
    context: MatchContext,
    signal: AbortSignal,
  ): Promise<DenialRule | null> {
    const results = await this.#o.backend.match(
      rules.map(({ matchExpr }) => matchExpr),
      context,
      signal,
    );
    let verdict: DenialRule | null = null;
    for (const [i, rule] of rules.entries()) {
      const result = results[i];
      if (result === undefined) {
        continue;
      }
      if ("failure" in result) {
        this.#complain(rule, result.failure);
      } else if (result.matches) {
        verdict ??= rule;
      }
    }
    return verdict;
  }

  #complain({ ruleId }: DenialRule, failure: string): void {
    this.#countFailure();
    if (this.#complained.has(ruleId)) {
      return;
    }
    this.#complained.add(ruleId);
    // Not into the service's own telemetry: DuckDB's words quote the query.
    this.#o.logger.warn(
      { selfTelemetry: true, rule: ruleId, failure },
      "a rule of the query deny list fails and denies nothing",
    );
  }

  /** @throws ServiceError BAD_REQUEST for an expression that cannot be evaluated */
  async #tryOut(matchExpr: string): Promise<void> {
    // The longest text that there can be, too: a rule that fails for it would let it pass.
    for (const sql of [sample.sql, "x".repeat(maxTextLength)]) {
      const timeout = AbortSignal.timeout(tryTimeoutMs);
      const [tried] = await this.#o.backend.match([matchExpr], { ...sample, sql }, timeout);
      if (tried !== undefined && !("failure" in tried)) {
        continue;
      }
      const about = sql === sample.sql ? "" : `, also over a text of ${sql.length} characters`;
      throw new ServiceError(
        "BAD_REQUEST",
        `match_expr is a condition over user, email, client, sql and sql_hash${about}: ${tried?.failure ?? ""}`,
      );
    }
  }
}
