/** `telemetry audit`: who changed what about keys, grants and groups. */
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

/** The one action of `telemetry audit`, whose name may be left out. */
export const auditActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: [],
    flags: ["limit", "all", "offset"],
    help: "lists changes of keys, grants and groups, newest first",
    call: (_, values) => ({
      request: requestOf(routes.listAudit),
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
