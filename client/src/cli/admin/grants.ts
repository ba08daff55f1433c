/** `telemetry grants`: who may read and mint into audiences. */
import { UsageError } from "../context.js";
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

const parameters = ["audience", "read|mint", "member"] as const;

/** The actions of `telemetry grants`. */
export const grantActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: [],
    flags: ["audience", "kind", "member", "limit", "all", "offset"],
    help: "lists grants, newest first",
    call: (_, { audience, kind, member, ...values }) => ({
      request: requestOf(routes.listGrants, { query: { audience, kind, member } }),
      pages: pagesOf(values, ["audience", "kind", "member"]),
      shown: {
        kind: "rows",
        columns: [
          column("audience", "audience"),
          column("kind", "kind"),
          column("member", "member"),
          timeColumn("created", "created_at"),
          column("by", "created_by", { shrinks: true }),
        ],
      },
    }),
  },
  {
    name: "add",
    parameters,
    flags: [],
    help: "grants reading or minting of an audience to user:<email>, group:<name>, key:<key_id> or *",
    call: (args) => ({
      request: requestOf(routes.createGrant, { body: grantOf(args) }),
      shown: { kind: "fields" },
    }),
  },
  {
    name: "remove",
    parameters,
    flags: [],
    help: "removes a grant",
    call: (args) => ({
      request: requestOf(routes.deleteGrant, { query: grantOf(args) }),
      shown: { kind: "line", line: "removed" },
    }),
  },
  {
    name: "mine",
    parameters: [],
    flags: [],
    help: "shows what you may read and mint",
    call: () => ({ request: requestOf(routes.myAudiences), shown: { kind: "fields" } }),
  },
];

function grantOf([audience = "", kind = "", member = ""]: readonly string[]): Record<string, string> {
  if (kind !== "read" && kind !== "mint") {
    throw new UsageError(`a grant is for read or mint; got ${JSON.stringify(kind)}`);
  }
  return { audience, kind, member };
}
