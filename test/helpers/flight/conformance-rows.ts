/** What the conformance checks read. */
import type { TestAnalytics } from "../servers/analytics.js";
import { addPartition } from "../lake/lake.js";

/** 5000 log entries: the first at 2025-11-21T16:00:00Z, levels 1 to 6 in turn. */
export async function addConformanceRows(t: TestAnalytics): Promise<void> {
  await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql:
      "SELECT make_timestamp_ns(1763740800000000000 + i) AS time, 'message ' || i AS msg, CAST(1 + i % 6 AS INTEGER) AS level, CASE WHEN i % 3 = 0 THEN NULL ELSE 'trace' || i END AS trace_id FROM range(5000) t(i)",
  });
}
