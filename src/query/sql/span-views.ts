/** Views that put spans together: whole traces, calls between services, and exceptions of spans and log records. */
import { attributeColumnsOf, type FileViewDefinition } from "./file-view.js";
import { audienceColumn, whereSql } from "./file-source.js";

const hourNs = 3_600_000_000_000n;

/**
 * What belongs together lies within an hour: the spans of a trace of which one is in a range, the two sides of a call.
 */
export const hourAround = { slackBeforeNs: hourNs, slackAfterNs: hourNs } as const;

/** A span has failed with an exception after it ran for a day at most. */
const dayBefore = { slackBeforeNs: 24n * hourNs, slackAfterNs: hourNs } as const;

const service = "coalesce(service_name, 'unknown_service')";

const near = (a: string, b: string): string =>
  `${b}.time BETWEEN ${a}.time - INTERVAL 1 HOUR AND ${a}.time + INTERVAL 1 HOUR`;

/** Spans of whom a service is called, and those of who calls. */
const failed = "coalesce(status_code = 2, false) AS failed";
const calledKinds = "kind IN (2, 5)";
const callingKinds = "kind IN (3, 4)";

/** Attributes that name what a span calls, the best first, and what kind of thing each of them names. */
const calleeNames = [
  ["peer.service", "external"],
  ["db.system.name", "database"],
  ["db.system", "database"],
  ["messaging.system", "queue"],
  ["server.address", "external"],
  ["net.peer.name", "external"],
  ["http.host", "external"],
] as const;

const nameColumns = attributeColumnsOf(calleeNames.map(([attribute]) => attribute)).map(({ column }) => column);
const firstName = `coalesce(${nameColumns.join(", ")})`;
const isNamed = (kind: (typeof calleeNames)[number][1]): string =>
  `coalesce(${nameColumns.filter((_, i) => calleeNames[i]?.[1] === kind).join(", ")}) IS NOT NULL`;
/** What a span calls that may send no spans itself, and what kind of thing that is. */
const beyond = `if(${callingKinds}, ${firstName}, NULL)`;
const beyondType = `CASE WHEN ${isNamed("database")} THEN 'database' WHEN ${isNamed("queue")} THEN 'queue' ELSE 'external' END`;
const queue = nameColumns[calleeNames.findIndex(([attribute]) => attribute === "messaging.system")];

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
    attributes: calleeNames.map(([attribute]) => attribute),
    columns: [
      ["time", "TIMESTAMP_NS"],
      ["caller", "VARCHAR"],
      ["callee", "VARCHAR"],
      ["callee_type", "VARCHAR"],
      ["name", "VARCHAR"],
      ["duration_ns", "BIGINT"],
      ["trace_id", "VARCHAR"],
      ["span_id", "VARCHAR"],
      audienceColumn,
      ["is_error", "BOOLEAN"],
      ["duration_ms", "DOUBLE"],
    ],
    sql: ([spans], inRange) => {
      const rows = spans([]);
      const own = ["time", "name", "duration_ns", "trace_id", "span_id", "audience"];
      // Every span that is called beside the one that is its parent, if any: whatever that is, and also the spans that
      // nobody's parent is, for those that call are calls of what sends no spans. One join does for both, and which of
      // its rows are calls is asked behind it: DuckDB joins by other than comparisons row by row.
      const pairs = `SELECT s.trace_id IS NOT NULL AS called, s.queue, s.service AS callee, s.failed,
          p.service AS parent_service, p.failed AS parent_failed, p.beyond, p.beyond_type,
          coalesce(p.service <> s.service OR p.${callingKinds}, false) AS calls,
          ${own.map((name) => `if(s.trace_id IS NULL, p.${name}, s.${name}) AS ${name}`).join(", ")}
        FROM (SELECT ${own.join(", ")}, parent_span_id, ${failed}, ${service} AS service, if(kind = 5, ${queue}, NULL) AS queue
          FROM ${rows} WHERE ${calledKinds}) AS s
        FULL JOIN (SELECT ${own.join(", ")}, kind, ${failed}, ${service} AS service, ${beyond} AS beyond,
            ${beyondType} AS beyond_type FROM ${rows}) AS p
          ON s.trace_id = p.trace_id AND s.parent_span_id = p.span_id AND ${near("s", "p")}`;
      return `SELECT ${["time", "caller", "callee", "callee_type", ...own.slice(1), "is_error"].join(", ")}, duration_ns / 1e6 AS duration_ms
        FROM (SELECT ${own.join(", ")},
            if(called, if(calls, parent_service, queue), parent_service) AS caller,
            if(called, callee, beyond) AS callee,
            if(called, 'service', beyond_type) AS callee_type,
            if(called, failed OR (calls AND parent_failed), parent_failed) AS is_error
          FROM (${pairs}) WHERE if(called, calls OR queue IS NOT NULL, beyond IS NOT NULL))${whereSql(inRange)}`;
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
            "event.time BETWEEN began - INTERVAL 1 HOUR AND began + INTERVAL 24 HOUR",
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
