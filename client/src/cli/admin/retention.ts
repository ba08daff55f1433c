/** `telemetry retention`: how long rows are kept. */
import { UsageError } from "../context.js";
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

/** The actions of `telemetry retention`. */
export const retentionActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: [],
    flags: ["limit", "all", "offset"],
    help: "lists what is kept for another time than the default of maintenance",
    call: (_, values) => ({
      request: requestOf(routes.listRetention),
      pages: pagesOf(values, ["view", "audience"]),
      shown: {
        kind: "rows",
        columns: [
          column("view", "view"),
          { title: "audience", value: (row) => row["audience"] ?? "*" },
          { title: "days", right: true, value: (row) => (row["days"] === 0 ? "for good" : row["days"]) },
          timeColumn("changed", "updated_at"),
          column("by", "updated_by", { shrinks: true }),
        ],
      },
    }),
  },
  {
    name: "set",
    parameters: ["view", "days"],
    flags: ["audience"],
    help: "keeps rows of log_entries, measures, histograms, spans or api_key_usage for so many days; 0: for good",
    call: ([view = "", days = ""], { audience }) => ({
      request: requestOf(routes.putRetention, {
        body: { view, days: daysOf(days), ...(audience === null ? {} : { audience }) },
      }),
      shown: { kind: "fields" },
    }),
  },
  {
    name: "delete",
    parameters: ["view"],
    flags: ["audience"],
    help: "deletes an override",
    call: ([view = ""], { audience }) => ({
      request: requestOf(routes.deleteRetention, { query: { view, audience } }),
      shown: { kind: "line", line: "deleted" },
    }),
  },
];

function daysOf(text: string): number {
  if (/^\d{1,6}$/u.test(text)) {
    return Number(text);
  }
  throw new UsageError(`days is a whole number, 0 for good; got ${JSON.stringify(text)}`);
}
