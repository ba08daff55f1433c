/** Rules of the deny list, and what is true of a query. */
import type { Denial, DenialTest } from "../../api/wire.js";
import { call } from "../../api/call.js";
import { ApiError } from "../../api/error.js";

/** A query as rules see it; what is left out is the caller's. */
interface TestedQuery {
  readonly sql: string;
  readonly user?: string;
  readonly client?: string;
}

/** Whether an expression is true of a query; nothing is saved, and the query does not run. @throws ApiError */
export async function matches(expression: string, query: TestedQuery): Promise<boolean> {
  const body = { match_expr: expression, ...query };
  const answer = await call<DenialTest>("api/query-denials/test", { method: "POST", body });
  return answer.matches;
}

/** What the rules say of a query. */
export interface Verdict {
  readonly refusing: readonly Denial[];
  /** Rules that could not be tried, with why; such a rule refuses nothing. */
  readonly broken: readonly { readonly rule: Denial; readonly error: unknown }[];
}

/** Tries rules one after another, as there are few; the last ones only when no error of the server stops it. */
export async function judge(rules: readonly Denial[], query: TestedQuery): Promise<Verdict> {
  const refusing: Denial[] = [];
  const broken: { rule: Denial; error: unknown }[] = [];
  for (const rule of rules) {
    try {
      if (await matches(rule.match_expr, query)) {
        refusing.push(rule);
      }
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "BAD_REQUEST") {
        throw error;
      }
      broken.push({ rule, error });
    }
  }
  return { refusing, broken };
}
