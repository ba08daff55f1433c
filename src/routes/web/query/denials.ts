/**
 * The deny list over HTTP: the admin functions of the built-in analytics server, called as the caller, which knows them
 * for administrators only, and which writes the audit. To it, this server is a proxy in front.
 */
import { underSignals } from "telemetry-service-client/shared/abort";
import type { Row } from "telemetry-service-client/flight/query-result";
import { statementCommand } from "telemetry-service-client/flight/statement-command";
import { type Author, forwardedFor } from "../../../auth/audit.js";
import { ServiceError } from "../../../runtime/errors.js";
import { quoteText } from "../../../runtime/text/sql-text.js";
import type { OperationInput } from "../../../wire/web/admin-api.js";
import type { DataSources } from "./data-sources.js";
import { failureOf } from "./query-failure.js";

/** Who asks. */
export interface DenialCaller extends Author {
  readonly idToken: string;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

/** A rule as the routes show it. */
interface Denial {
  readonly rule_id: string;
  readonly match_expr: string;
  readonly reason: string;
  readonly created_at: string;
  readonly created_by: string;
}

/** Longest time of one call in milliseconds. */
const timeoutMs = 30_000;

/** Rules in their order. Everything here throws ServiceError. */
export async function listDenials(sources: DataSources, by: DenialCaller): Promise<Denial[]> {
  return (await rowsOf(sources, by, "SELECT * FROM list_query_denials()")).map(denialOf);
}

/** Adds a rule, or finds the same one. */
export async function addDenial(
  sources: DataSources,
  by: DenialCaller,
  { match_expr, reason }: OperationInput<"addDenial">["body"],
): Promise<Denial> {
  // The admin functions take no parameters, only text that is written out.
  const sql = `SELECT * FROM deny_queries(${quoteText(match_expr)}, ${quoteText(reason)})`;
  const [row] = await rowsOf(sources, by, sql);
  if (row === undefined) {
    throw new ServiceError("INTERNAL", "deny_queries() gave no row");
  }
  return denialOf(row);
}

/** Removes a rule that is there. */
export async function removeDenial(sources: DataSources, by: DenialCaller, ruleId: string): Promise<void> {
  const [row] = await rowsOf(sources, by, `SELECT * FROM remove_query_denial(${quoteText(ruleId)})`);
  if (row === undefined) {
    throw new ServiceError("NOT_FOUND", "there is no such rule");
  }
}

/** Whether an expression is true of a query; nothing is saved, and the query does not run. */
export async function testDenial(
  sources: DataSources,
  by: DenialCaller,
  { match_expr, sql, user, email, client }: OperationInput<"testDenial">["body"],
): Promise<boolean> {
  const { caller } = by;
  const values = [match_expr, sql, user ?? caller.name, email ?? caller.email ?? "", client ?? ""].map(quoteText);
  const rows = await rowsOf(sources, by, `SELECT * FROM test_query_denial(${values.join(", ")})`);
  return rows[0]?.["matches"] === true;
}

async function rowsOf(sources: DataSources, { idToken, origin, signal }: DenialCaller, sql: string): Promise<Row[]> {
  const { name, calls, release } = sources.openBuiltIn();
  return await underSignals([signal, AbortSignal.timeout(timeoutMs)], async (either) => {
    try {
      const headers = { authorization: `Bearer ${idToken}`, "x-forwarded-for": forwardedFor(origin) };
      const context = { signal: either, headers };
      const command = await statementCommand(calls, sql, [], context);
      // apache-arrow takes long to load, and only this needs it.
      const { openResult } = await import("telemetry-service-client/flight/query-result");
      const frames = calls.get(await calls.info(command, context), either);
      const result = await openResult(frames, undefined, { begin: () => undefined, stop: () => undefined });
      const rows: Row[] = [];
      for await (const row of result.rows()) {
        rows.push(row);
      }
      return rows;
    } catch (error) {
      throw failureOf(error, name, signal);
    } finally {
      release();
    }
  });
}

function denialOf(row: Row): Denial {
  const text = (column: string): string => {
    const value = row[column];
    return typeof value === "string" ? value : "";
  };
  return {
    rule_id: text("rule_id"),
    match_expr: text("match_expr"),
    reason: text("reason"),
    created_at: new Date(text("created_at")).toISOString(),
    created_by: text("created_by"),
  };
}
