/** Views of traces: `trace_logs('<trace id>')` and the like are called as functions, and read rows of that trace only. */
import { audienceColumn } from "./file-source.js";
import { exactTime, type FileViewDefinition } from "./file-view.js";
import { plainViews } from "./file-views.js";
import { hourAround } from "./span-views.js";
import { traceTreeSql } from "./trace-tree.js";

/** Definitions by name. */
export const traceFunctions = {
  trace_logs: {
    tables: ["log_entries"],
    time: exactTime,
    columns: plainViews.log_entries.columns,
    sql: (rows, inRange) => `${plainViews.log_entries.sql(rows, inRange)} ORDER BY time, observed_time, insert_time`,
  },
  trace_tree: {
    tables: ["spans"],
    time: hourAround,
    columns: [
      ["depth", "INTEGER"],
      ["path", "VARCHAR"],
      ["name", "VARCHAR"],
      ["service_name", "VARCHAR"],
      ["start_ms", "DOUBLE"],
      ["duration_ms", "DOUBLE"],
      ["self_ms", "DOUBLE"],
      ["kind_name", "VARCHAR"],
      ["status", "VARCHAR"],
      ["is_error", "BOOLEAN"],
      ["is_orphan", "BOOLEAN"],
      ["time", "TIMESTAMP_NS"],
      ["end_time", "TIMESTAMP_NS"],
      ["duration_ns", "BIGINT"],
      ["trace_id", "VARCHAR"],
      ["span_id", "VARCHAR"],
      ["parent_span_id", "VARCHAR"],
      ["status_message", "VARCHAR"],
      ["properties", "VARCHAR"],
      audienceColumn,
    ],
    sql: ([spans], inRange) => traceTreeSql(spans([]), inRange.join(" AND ")),
  },
} as const satisfies Readonly<Record<string, FileViewDefinition>>;
