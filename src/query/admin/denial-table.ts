/** The table `query_denials`; its changes are in the audit. */
import { randomUUID } from "node:crypto";

import { type AnyAuthor, appendAudit } from "../../auth/audit.js";
import type { Sql, TransactionSql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";

/** A row of `query_denials`. */
export interface DenialRule {
  readonly ruleId: string;
  readonly matchExpr: string;
  readonly reason: string;
  readonly createdAt: Date;
  readonly createdBy: string;
}

/** What an admin says of a rule. */
export type NewDenialRule = Pick<DenialRule, "matchExpr" | "reason">;

const maxRules = 1000;

function columns(sql: Sql | TransactionSql) {
  return sql`rule_id as "ruleId", match_expr as "matchExpr", reason, created_at as "createdAt",
    created_by as "createdBy"`;
}

/** All rules, the oldest first. */
export function selectRules(sql: Sql): Promise<DenialRule[]> {
  return sql<DenialRule[]>`
    select ${columns(sql)} from query_denials order by created_at, rule_id limit ${maxRules}`;
}

/** Adds a rule, or finds an existing one with the same expression and reason. @throws ServiceError CONFLICT */
export function insertRule(sql: Sql, by: AnyAuthor, { matchExpr, reason }: NewDenialRule): Promise<DenialRule> {
  return sql.begin(async (tx) => {
    // One at a time, or two at once would add a rule twice, or one too many.
    await tx`lock table query_denials in share row exclusive mode`;
    const [standing] = await tx<DenialRule[]>`
      select ${columns(tx)} from query_denials
      where match_expr = ${matchExpr} and reason = ${reason} limit 1`;
    if (standing !== undefined) {
      return standing;
    }
    const [{ count } = { count: 0 }] = await tx<{ count: number }[]>`
      select count(*)::int as count from query_denials`;
    if (count >= maxRules) {
      throw new ServiceError("CONFLICT", `There are ${maxRules} rules already; remove some first.`);
    }
    const [rule] = await tx<DenialRule[]>`
      insert into query_denials (rule_id, match_expr, reason, created_by)
      values (${randomUUID()}, ${matchExpr}, ${reason}, ${by.caller.name})
      returning ${columns(tx)}`;
    if (rule === undefined) {
      throw new ServiceError("INTERNAL", "a rule was not inserted");
    }
    await appendAudit(tx, by, {
      action: "denial.add",
      target: rule.ruleId,
      details: { match_expr: matchExpr, reason },
    });
    return rule;
  });
}

/** Null when there is no such rule. @param ruleId a UUID */
export function deleteRule(sql: Sql, by: AnyAuthor, ruleId: string): Promise<DenialRule | null> {
  return sql.begin(async (tx) => {
    const [rule] = await tx<DenialRule[]>`
      delete from query_denials where rule_id = ${ruleId}::uuid returning ${columns(tx)}`;
    if (rule === undefined) {
      return null;
    }
    const { ruleId: target, matchExpr } = rule;
    await appendAudit(tx, by, { action: "denial.remove", target, details: { match_expr: matchExpr } });
    return rule;
  });
}
