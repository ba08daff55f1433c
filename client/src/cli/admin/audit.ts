/** `telemetry audit`: who changed what. */
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

/** The one action of `telemetry audit`, whose name may be left out. */
export const auditActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: [],
    flags: ["action", "actor", "target", "limit", "all", "offset"],
    help: "lists what administrators changed, newest first",
    call: (_, { action, actor, target, ...values }) => ({
      request: requestOf(routes.listAudit, { query: { action, actor, target } }),
      pages: pagesOf(values, ["audit_id"]),
      shown: {
        kind: "rows",
        columns: [
          timeColumn("at", "at"),
          column("actor", "actor", { shrinks: true }),
          column("action", "action"),
          column("target", "target", { shrinks: true }),
          column("details", "details", { shrinks: true }),
        ],
      },
    }),
  },
];
