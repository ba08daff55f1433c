/** Views that put spans together: whole traces, calls between services, and exceptions of spans and log records. */
import {
  allCallsSql,
  callColumns,
  calleeAttributes,
  callsSql,
  nearSql,
  openCallsSql,
} from "../../lake/rollup/calls.js";
import type { RowColumns } from "../../lake/tables/duckdb-types.js";
import { attributeColumnsOf, type FileViewDefinition } from "./file-view.js";
import { audienceColumn, whereSql } from "./file-source.js";

const hourNs = 3_600_000_000_000n;

/**
 * What belongs together lies within an hour: the spans of a trace of which one is in a range, the two sides of a call.
 */
export const hourAround = { slackBeforeNs: hourNs, slackAfterNs: hourNs } as const;

/** A span has failed with an exception after it ran for a day at most. */
const dayBefore = { slackBeforeNs: 24n * hourNs, slackAfterNs: hourNs } as const;

/** The first and the last columns of a call. */
const callBegin: RowColumns = [
  ["time", "TIMESTAMP_NS"],
  ["caller", "VARCHAR"],
  ["callee", "VARCHAR"],
  ["callee_type", "VARCHAR"],
];
const callEnd: RowColumns = [audienceColumn, ["is_error", "BOOLEAN"], ["duration_ms", "DOUBLE"]];
const callAttributes = attributeColumnsOf(calleeAttributes).map(({ column }) => column);

/** The attribute of an exception, if there are attributes. */
const exceptionColumns = (properties: string): string =>
  `attr(${properties}, 'exception.type') AS type, attr(${properties}, 'exception.message') AS message, ` +
  `attr(${properties}, 'exception.stacktrace') AS stacktrace, attr_bool(${properties}, 'exception.escaped') AS escaped`;

/** Definitions by name. */
export const spanViews = {
  traces: {
    tables: ["spans"],
    time: hourAround,
    columns: [
      ["time", "TIMESTAMP_NS"],
      ["end_time", "TIMESTAMP_NS"],
      ["duration_ns", "BIGINT"],
      ["trace_id", "VARCHAR"],
      ["root_name", "VARCHAR"],
      ["root_service", "VARCHAR"],
      ["services", "VARCHAR[]"],
      ["spans", "BIGINT"],
      ["errors", "BIGINT"],
      audienceColumn,
      ["is_error", "BOOLEAN"],
      ["duration_ms", "DOUBLE"],
    ],
    // Each aggregate that a query does not name costs nothing.
    sql: ([spans], inRange) =>
      `SELECT time, end_time, duration_ns, trace_id, svc_root.name AS root_name, svc_root.service_name AS root_service,
        services, spans, errors, audience, errors > 0 AS is_error, duration_ns / 1e6 AS duration_ms FROM (
        SELECT min(time) AS time, max(end_time) AS end_time, epoch_ns(max(end_time)) - epoch_ns(min(time)) AS duration_ns,
          trace_id,
          arg_min({name: name, service_name: service_name}, (time, span_id)) FILTER (parent_span_id IS NULL) AS svc_root,
          list_sort(list_distinct(list(service_name))) AS services, count(*) AS spans,
          count(*) FILTER (status_code = 2) AS errors, audience
        FROM ${spans([])} GROUP BY trace_id, audience)${whereSql(inRange)}`,
  },
  service_calls: {
    tables: ["spans"],
    time: hourAround,
    attributes: calleeAttributes,
    columns: [
      ...callBegin,
      ["name", "VARCHAR"],
      ["duration_ns", "BIGINT"],
      ["trace_id", "VARCHAR"],
      ["span_id", "VARCHAR"],
      ...callEnd,
    ],
    sql: ([spans], inRange) => {
      const own = ["time", "name", "duration_ns", "trace_id", "span_id", "audience"];
      return `SELECT time, caller, callee, callee_type, name, duration_ns, trace_id, span_id, audience, is_error,
          duration_ns / 1e6 AS duration_ms
        FROM (${callsSql(spans([]), callAttributes, own)})${whereSql(inRange)}`;
    },
  },
  service_latencies: {
    // Calls are found set by set, and then among all spans those whose two ends no set has.
    tables: ["spans", "spans"],
    time: hourAround,
    attributes: calleeAttributes,
    columns: [...callBegin, ["duration_ns", "BIGINT"], ...callEnd],
    rolledUp: ["any", null],
    sql: ([spans, all = spans], inRange, [rolled = null] = []) => {
      const own = ["duration_ns", "audience"];
      const rest = [spans([]), callAttributes, ["time", ...own]] as const;
      const found =
        rolled === null
          ? callsSql(...rest)
          : `WITH svc_rest AS MATERIALIZED (${openCallsSql(...rest)}) SELECT ${["time", ...callColumns, ...own].join(", ")}
             FROM (${allCallsSql([rolled, "svc_rest"], all([]), own)})`;
      return `SELECT time, caller, callee, callee_type, duration_ns, audience, is_error, duration_ns / 1e6 AS duration_ms
        FROM (${found})${whereSql(inRange)}`;
    },
  },
  exceptions: {
    tables: ["spans", "log_entries"],
    time: dayBefore,
    columns: [
      ["time", "TIMESTAMP_NS"],
      ["type", "VARCHAR"],
      ["message", "VARCHAR"],
      ["stacktrace", "VARCHAR"],
      ["escaped", "BOOLEAN"],
      ["source", "VARCHAR"],
      ["service_name", "VARCHAR"],
      ["service_version", "VARCHAR"],
      ["host_name", "VARCHAR"],
      ["trace_id", "VARCHAR"],
      ["span_id", "VARCHAR"],
      ["process_id", "VARCHAR"],
      audienceColumn,
    ],
    sql: ([spans, logs = spans], inRange) => {
      const owner = "service_name, service_version, host_name, trace_id, span_id, process_id, audience";
      return (
        `SELECT event.time AS time, ${exceptionColumns("event.properties")}, 'span' AS source, ${owner}
          FROM (SELECT time AS began, unnest(events) AS event, ${owner} FROM ${spans([])})
          WHERE ${[
            "event.name = 'exception'",
            nearSql("event.time", "began", 1, 24),
            ...inRange.map((condition) => `event.${condition}`),
          ].join(" AND ")}` +
        ` UNION ALL SELECT time, ${exceptionColumns("properties")}, 'log' AS source, ${owner}
          FROM ${logs("inRange")}
          WHERE contains(properties, '"exception.')
            AND (attr(properties, 'exception.type') IS NOT NULL OR attr(properties, 'exception.message') IS NOT NULL)`
      );
    },
  },
} as const satisfies Readonly<Record<string, FileViewDefinition>>;
