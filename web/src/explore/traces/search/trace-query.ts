/** The SQL that finds traces: by what their spans are, how long they took, whether they failed. */
import { type Condition, conditionOf, type Filter, type FilterColumns } from "../../../ui/filters/filters.js";

/** What filters of spans may name. */
export const spanColumns: FilterColumns = {
  text: [
    "service_name",
    "name",
    "kind_name",
    "status",
    "status_message",
    "service_version",
    "service_instance_id",
    "host_name",
    "target",
    "span_id",
    "trace_id",
    "process_id",
  ],
  number: ["duration_ms"],
  attributes: "properties",
};
/** Most traces that are listed. */
export const mostTraces = 1000;

interface TraceSearch {
  readonly filters: readonly Filter[];
  readonly audience: string | null;
  readonly minMs: number | null;
  readonly maxMs: number | null;
  readonly onlyErrors: boolean;
  readonly slowest: boolean;
  /** Only with a call between these. */
  readonly caller: string | null;
  readonly callee: string | null;
}

/** The traces that a search finds, newest or slowest first. */
export function traceQuery(o: TraceSearch): Condition {
  const parts: Condition[] = [];
  if (o.audience !== null) {
    parts.push({ sql: "audience = ?", parameters: [o.audience] });
  }
  if (o.minMs !== null) {
    parts.push({ sql: "duration_ms >= ?", parameters: [o.minMs] });
  }
  if (o.maxMs !== null) {
    parts.push({ sql: "duration_ms <= ?", parameters: [o.maxMs] });
  }
  if (o.onlyErrors) {
    parts.push({ sql: "is_error", parameters: [] });
  }
  if (o.filters.length > 0) {
    const { sql, parameters } = conditionOf(o.filters, spanColumns, o.audience);
    parts.push({ sql: `trace_id IN (SELECT trace_id FROM spans WHERE ${sql})`, parameters });
  }
  if (o.caller !== null || o.callee !== null) {
    const ends = [
      ["caller", o.caller],
      ["callee", o.callee],
    ].filter((end): end is [string, string] => end[1] !== null);
    const conditions = [...ends.map(([name]) => `${name} = ?`), ...(o.audience === null ? [] : ["audience = ?"])];
    parts.push({
      sql: `trace_id IN (SELECT trace_id FROM service_calls WHERE ${conditions.join(" AND ")})`,
      parameters: [...ends.map(([, name]) => name), ...(o.audience === null ? [] : [o.audience])],
    });
  }
  return {
    sql: `SELECT time, trace_id, root_service, root_name, duration_ms, spans::DOUBLE AS spans, errors::DOUBLE AS errors, services
FROM traces WHERE ${parts.length === 0 ? "true" : parts.map(({ sql }) => sql).join(" AND ")}
ORDER BY ${o.slowest ? "duration_ms" : "time"} DESC LIMIT ${mostTraces}`,
    parameters: parts.flatMap(({ parameters }) => [...parameters]),
  };
}
