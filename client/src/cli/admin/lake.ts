/** `telemetry lake`: whether the store holds what the catalogue says. */
import { type ActionCall, type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

/** The actions of `telemetry lake`. */
export const lakeActions: readonly AdminAction[] = [
  {
    name: "check",
    parameters: [],
    flags: ["repair", "deep", "detach"],
    help: "compares the catalogue with the objects of the store, waits for the end and prints the report",
    call: (_, { repair, deep, detach }): ActionCall => ({
      request: requestOf(routes.createLakeCheck, { body: { repair, deep } }),
      ...(detach ? {} : { follow: { route: routes.getLakeCheck, id: "check_id" } }),
      shown: { kind: "fields" },
    }),
  },
  {
    name: "list",
    parameters: [],
    flags: ["limit", "all", "offset"],
    help: "lists checks, newest first",
    call: (_, values) => ({
      request: requestOf(routes.listLakeChecks),
      pages: pagesOf(values, ["check_id"]),
      shown: {
        kind: "rows",
        columns: [
          column("check_id", "check_id"),
          column("state", "state"),
          column("repair", "repair"),
          timeColumn("asked", "created_at"),
          column("by", "created_by", { shrinks: true }),
        ],
      },
    }),
  },
  {
    name: "show",
    parameters: ["check_id"],
    flags: [],
    help: "shows how a check stands, and its report",
    call: ([id = ""]) => ({ request: requestOf(routes.getLakeCheck, { path: { id } }), shown: { kind: "fields" } }),
  },
];
