/** Views of traces: `trace_logs('<trace id>')` and the like are called as functions, and read rows of that trace only. */
import { exactTime, type FileViewDefinition } from "./file-view.js";
import { plainViews } from "./file-views.js";

/** Definitions by name. */
export const traceFunctions = {
  trace_logs: {
    tables: ["log_entries"],
    time: exactTime,
    columns: plainViews.log_entries.columns,
    sql: (rows, inRange) => `${plainViews.log_entries.sql(rows, inRange)} ORDER BY time`,
  },
} as const satisfies Readonly<Record<string, FileViewDefinition>>;
