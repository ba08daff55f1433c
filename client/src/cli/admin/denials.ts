/** `telemetry denials`: rules that refuse queries. */
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { routes } from "./routes.js";

/** The actions of `telemetry denials`. */
export const denialActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: [],
    flags: [],
    help: "lists the rules that refuse queries, oldest first",
    call: () => ({
      request: requestOf(routes.listDenials),
      shown: {
        kind: "rows",
        columns: [
          column("rule_id", "rule_id"),
          column("match_expr", "match_expr", { shrinks: true }),
          column("reason", "reason", { shrinks: true }),
          timeColumn("created", "created_at"),
          column("by", "created_by", { shrinks: true }),
        ],
      },
    }),
  },
  {
    name: "add",
    parameters: ["match_expr", "reason"],
    flags: [],
    help: "refuses queries that a condition over user, email, client, sql and sql_hash is true of",
    call: ([match_expr = "", reason = ""]) => ({
      request: requestOf(routes.addDenial, { body: { match_expr, reason } }),
      shown: { kind: "fields" },
    }),
  },
  {
    name: "remove",
    parameters: ["rule_id"],
    flags: [],
    help: "removes a rule",
    call: ([rule_id = ""]) => ({
      request: requestOf(routes.removeDenial, { query: { rule_id } }),
      shown: { kind: "line", line: "removed" },
    }),
  },
  {
    name: "test",
    parameters: ["match_expr", "sql"],
    flags: [],
    help: "says whether a condition is true of the text of a query",
    call: ([match_expr = "", sql = ""]) => ({
      request: requestOf(routes.testDenial, { body: { match_expr, sql } }),
      shown: { kind: "fields" },
    }),
  },
];
