/** What the pages of services ask, and what they make of the answers. */
import { cellsOf } from "../../api/cells.js";
import type { QueryResult } from "../../api/query.js";
import type { Buckets } from "../../ui/chart/buckets.js";
import type { Condition } from "../../ui/filters/filters.js";

/** Where a service has no name; so do the views of calls. */
export const unnamed = "unknown_service";

/** What others ask of a service, and what begins in it. */
export const isRequest = "(kind_name IN ('server', 'consumer') OR is_root)";

export function audienceCondition(audience: string | null): Condition {
  return audience === null ? { sql: "true", parameters: [] } : { sql: "audience = ?", parameters: [audience] };
}

/** Of rows of one service. */
export function serviceCondition(name: string, audience: string | null): Condition {
  const own = audienceCondition(audience);
  const named = name === unnamed ? `coalesce(service_name, '${unnamed}') = ?` : "service_name = ?";
  return { sql: `${named} AND ${own.sql}`, parameters: [name, ...own.parameters] };
}

/** Rows with a time are buckets, those without are of the whole range. */
export function servicesSql(buckets: Buckets, audience: Condition): string {
  return `SELECT coalesce(service_name, '${unnamed}') AS service, date_bin('${buckets.width}', time) AS bucket,
  count(*) AS requests, count_if(is_error) AS errors,
  approx_quantile(duration_ms, 0.5) AS p50, approx_quantile(duration_ms, 0.95) AS p95
FROM spans WHERE ${isRequest} AND ${audience.sql}
GROUP BY GROUPING SETS ((1), (1, 2))`;
}

/** Rows by service and signal, also of services that send no spans. */
export function signalsSql(audience: Condition): string {
  return `SELECT coalesce(p.service_name, '${unnamed}') AS service, b.signal, sum(b.row_count) AS entries
FROM (FROM blocks WHERE ${audience.sql}) b
JOIN (SELECT DISTINCT process_id, service_name FROM processes) p USING (process_id) GROUP BY ALL`;
}

export function callsSql(condition: string): string {
  return `SELECT caller, callee, callee_type, count(*) AS calls, count_if(is_error) AS errors,
  approx_quantile(duration_ms, 0.5) AS p50, approx_quantile(duration_ms, 0.95) AS p95
FROM service_calls WHERE ${condition} GROUP BY ALL ORDER BY calls DESC`;
}

/** Requests of a service in a range. */
export interface ServiceRow {
  readonly name: string;
  readonly requests: number;
  readonly errors: number;
  /** Milliseconds; NaN without requests. */
  readonly p50: number;
  readonly p95: number;
  /** Each with a value per bucket. */
  readonly requestsOverTime: Float64Array;
  readonly errorsOverTime: Float64Array;
  readonly p95OverTime: Float64Array;
  /** Rows by signal: `logs`, `metrics`, `traces`. */
  readonly rows: ReadonlyMap<string, number>;
}

export interface Call {
  readonly caller: string;
  readonly callee: string;
  /** `service`, `database`, `queue`, `external`. */
  readonly calleeType: string;
  readonly calls: number;
  readonly errors: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p95: number;
}

interface Growing extends Omit<ServiceRow, "requests" | "errors" | "p50" | "p95" | "rows"> {
  requests: number;
  errors: number;
  p50: number;
  p95: number;
  readonly rows: Map<string, number>;
}

/** Sorted by requests, then by name. */
export function readServices(
  spans: QueryResult | null,
  signals: QueryResult | null,
  buckets: Buckets,
): readonly ServiceRow[] {
  const found = new Map<string, Growing>();
  const of = (name: string): Growing => {
    const known = found.get(name);
    if (known !== undefined) {
      return known;
    }
    const length = buckets.times.length;
    const made: Growing = {
      name,
      requests: 0,
      errors: 0,
      p50: Number.NaN,
      p95: Number.NaN,
      requestsOverTime: new Float64Array(length),
      errorsOverTime: new Float64Array(length),
      p95OverTime: new Float64Array(length).fill(Number.NaN),
      rows: new Map(),
    };
    found.set(name, made);
    return made;
  };
  if (spans !== null) {
    const { text, number } = cellsOf(spans);
    for (let row = 0; row < spans.rows; row++) {
      const service = of(text("service", row));
      const bucket = number("bucket", row);
      if (Number.isNaN(bucket)) {
        service.requests = number("requests", row);
        service.errors = number("errors", row);
        service.p50 = number("p50", row);
        service.p95 = number("p95", row);
        continue;
      }
      const at = Math.round((bucket - buckets.range.beginMs) / 1000 / buckets.seconds);
      if (at >= 0 && at < buckets.times.length) {
        service.requestsOverTime[at] = number("requests", row);
        service.errorsOverTime[at] = number("errors", row);
        service.p95OverTime[at] = number("p95", row);
      }
    }
  }
  if (signals !== null) {
    const { text, number } = cellsOf(signals);
    for (let row = 0; row < signals.rows; row++) {
      of(text("service", row)).rows.set(text("signal", row), number("entries", row));
    }
  }
  return [...found.values()].sort((a, b) => b.requests - a.requests || a.name.localeCompare(b.name));
}

export function readCalls(result: QueryResult | null): readonly Call[] {
  if (result === null) {
    return [];
  }
  const { text, number } = cellsOf(result);
  return Array.from({ length: result.rows }, (_, row) => ({
    caller: text("caller", row),
    callee: text("callee", row),
    calleeType: text("callee_type", row),
    calls: number("calls", row),
    errors: number("errors", row),
    p50: number("p50", row),
    p95: number("p95", row),
  }));
}

/** Errors of requests, 0 to 1; NaN without requests. */
export const errorShare = ({ errors, requests }: { readonly errors: number; readonly requests: number }): number =>
  requests === 0 ? Number.NaN : errors / requests;
