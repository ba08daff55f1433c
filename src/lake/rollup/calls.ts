/**
 * Calls between services, out of spans. Every span that is called is put beside the one that is its parent, if any: one
 * join finds those, and also the spans that call what sends none. An end whose other end is not among the rows stays
 * open, so that calls of several sets of spans can be found set by set, and their open ends together (see
 * {@link allCallsSql}).
 */

/** Attributes that name what a span calls, the best first, and what kind of thing each of them names. */
const callees = [
  ["peer.service", "external"],
  ["db.system.name", "database"],
  ["db.system", "database"],
  ["messaging.system", "queue"],
  ["server.address", "external"],
  ["net.peer.name", "external"],
  ["http.host", "external"],
  ["http.url", "external"],
] as const;

/** The attributes that calls are made of, in order. */
export const calleeAttributes: readonly string[] = callees.map(([attribute]) => attribute);

/** The host of a URL without its port, if it has one: HTTP clients in Python name nothing but the URL. */
const hostSql = (url: string): string =>
  `nullif(regexp_extract(${url}, '^[^:/]+://([^/?#]*@)?([^/?#@]+?)(:[0-9]*)?([/?#]|$)', 2), '')`;

/** Columns of a call beside those of its span. */
export const callColumns = ["caller", "callee", "callee_type", "is_error"] as const;

const service = "coalesce(service_name, 'unknown_service')";
const failed = "coalesce(status_code = 2, false) AS failed";
/** Spans of whom a service is called, and those of who calls. */
const calledKinds = "kind IN (2, 5)";
const callingKinds = "kind IN (3, 4)";

/** What the two ids of a span are told apart by: the same in every version of DuckDB. */
const idNumber = (traceId: string, spanId: string): string => `md5_number_lower(${traceId} || ' ' || ${spanId})`;

/**
 * SQL of whether a time is at most so many hours before or after another, in whole microseconds: their numbers are far
 * from the ends of 64 bits, while sums of TIMESTAMP_NS end in 1677 and 2262, where DuckDB fails the query.
 */
export function nearSql(time: string, other: string, hoursBefore: number, hoursAfter: number): string {
  const moved = (hours: number): string => `epoch_us(${other}) + ${hours * 3_600_000_000}`;
  return `epoch_us(${time}) BETWEEN ${moved(-hoursBefore)} AND ${moved(hoursAfter)}`;
}

/** Of a called span `s` and its parent `p`. */
const near = nearSql("p.time", "s.time", 1, 1);

/** Whether what the parent `p` of a called span has done is a call. */
const isCalling = (calledService: string): string =>
  `coalesce(p.service <> ${calledService} OR p.${callingKinds}, false)`;

/**
 * A SELECT of the calls among some spans: `own` columns and {@link callColumns}.
 * @param rows spans, SQL in brackets
 * @param attributes columns of theirs that hold {@link calleeAttributes}
 * @param own columns of the span that was called, else of the one that calls
 */
export function callsSql(rows: string, attributes: readonly string[], own: readonly string[]): string {
  return joinedSql(rows, attributes, own, "", "if(called, calls OR queue IS NOT NULL, beyond IS NOT NULL)");
}

/**
 * The same and open ends, whose `caller` or `callee` may be null. A called span whose parent is not there has the ids of
 * that, `parent_trace_id` and `parent_span_id`; a calling one that has called none has a number for its own, `unanswered`.
 */
export function openCallsSql(rows: string, attributes: readonly string[], own: readonly string[]): string {
  const ends = `, if(orphan, called_trace_id, NULL) AS parent_trace_id, if(orphan, parent_span_id, NULL) AS parent_span_id,
      if(called, NULL, ${idNumber("calling_trace_id", "calling_span_id")}) AS unanswered`;
  return joinedSql(rows, attributes, own, ends, "if(called, calls OR queue IS NOT NULL OR orphan, calling)");
}

/** @param more columns that begin with a comma @param where which rows of the join are wanted */
function joinedSql(
  rows: string,
  attributes: readonly string[],
  own: readonly string[],
  more: string,
  where: string,
): string {
  const isNamed = (kind: (typeof callees)[number][1]): string =>
    `coalesce(${attributes.filter((_, i) => callees[i]?.[1] === kind).join(", ")}) IS NOT NULL`;
  // What a span calls that may send no spans itself, and what kind of thing that is.
  const named = attributes.map((value, i) => (callees[i]?.[0] === "http.url" ? hostSql(value) : value));
  const beyond = `if(${callingKinds}, coalesce(${named.join(", ")}), NULL)`;
  const beyondType = `CASE WHEN ${isNamed("database")} THEN 'database' WHEN ${isNamed("queue")} THEN 'queue' ELSE 'external' END`;
  const queue = attributes[callees.findIndex(([attribute]) => attribute === "messaging.system")];
  const read = [...new Set(["time", "trace_id", "span_id", ...own])].join(", ");
  // Which rows of the join are calls is asked behind it: DuckDB joins by other than comparisons row by row.
  const pairs = `SELECT s.trace_id IS NOT NULL AS called, s.queue, s.service AS callee, s.failed,
      s.trace_id IS NOT NULL AND p.trace_id IS NULL AND s.parent_span_id IS NOT NULL AS orphan,
      s.trace_id AS called_trace_id, s.parent_span_id, p.trace_id AS calling_trace_id, p.span_id AS calling_span_id,
      p.service AS parent_service, p.failed AS parent_failed, p.beyond, p.beyond_type, p.calling,
      ${isCalling("s.service")} AS calls,
      ${own.map((name) => `if(s.trace_id IS NULL, p.${name}, s.${name}) AS ${name}`).join(", ")}
    FROM (SELECT ${read}, parent_span_id, ${failed}, ${service} AS service, if(kind = 5, ${queue}, NULL) AS queue
      FROM ${rows} WHERE ${calledKinds}) AS s
    FULL JOIN (SELECT ${read}, kind, ${failed}, ${service} AS service, ${beyond} AS beyond, ${beyondType} AS beyond_type,
        ${callingKinds} AS calling FROM ${rows}) AS p
      ON s.trace_id = p.trace_id AND s.parent_span_id = p.span_id AND ${near}`;
  return `SELECT ${own.join(", ")},
      if(called, if(calls, parent_service, queue), parent_service) AS caller,
      if(called, callee, beyond) AS callee,
      if(called, 'service', beyond_type) AS callee_type,
      if(called, failed OR (calls AND parent_failed), parent_failed) AS is_error${more}
    FROM (${pairs}) WHERE ${where}`;
}

/**
 * A SELECT of the calls of all sets of spans together: `time`, {@link callColumns} and `own` columns.
 * @param sets of each {@link openCallsSql} of `time` and `own`, SQL in brackets, each of which is read three times
 * @param rows all of their spans, SQL in brackets
 * @param own other columns than `time`, of the span that was called
 */
export function allCallsSql(sets: readonly string[], rows: string, own: readonly string[]): string {
  const columns = ["time", ...callColumns, ...own];
  const from = (names: readonly string[], where: string): string =>
    `(${sets.map((set) => `SELECT ${names.join(", ")} FROM ${set} WHERE ${where}`).join(" UNION ALL ")})`;
  const orphans = from([...columns, "parent_trace_id", "parent_span_id"], "parent_trace_id IS NOT NULL");
  const calling = from(["time", "caller", "is_error", "unanswered"], "unanswered IS NOT NULL");
  const picked = (caller: string, isError: string): string =>
    columns
      .map((name) => (name === "caller" ? caller : name === "is_error" ? isError : `s.${name}`))
      .map((value, i) => `${value} AS ${columns[i]}`)
      .join(", ");
  return `WITH svc_met AS MATERIALIZED (
      SELECT s.*, p.unanswered AS met, p.caller AS met_service, p.is_error AS met_failed
      FROM (SELECT *, ${idNumber("parent_trace_id", "parent_span_id")} AS parent FROM ${orphans}) AS s
      LEFT JOIN ${calling} AS p ON s.parent = p.unanswered AND ${near}),
    svc_left AS (SELECT * FROM svc_met WHERE met IS NULL)
    SELECT ${columns.join(", ")} FROM ${from([...columns, "unanswered"], "parent_trace_id IS NULL AND callee IS NOT NULL")} AS svc_found
      WHERE unanswered IS NULL OR unanswered NOT IN (SELECT met FROM svc_met WHERE met IS NOT NULL)
    UNION ALL SELECT ${picked("met_service", "s.is_error OR met_failed")} FROM svc_met AS s WHERE met IS NOT NULL
    UNION ALL SELECT * FROM (
      SELECT ${picked(`if(${isCalling("s.callee")}, p.service, s.caller)`, `s.is_error OR (${isCalling("s.callee")} AND p.failed)`)}
      FROM svc_left AS s
      LEFT JOIN (SELECT time, trace_id, span_id, kind, ${failed}, ${service} AS service FROM ${rows}) AS p
        ON s.parent_trace_id = p.trace_id AND s.parent_span_id = p.span_id AND ${near})
      WHERE caller IS NOT NULL`;
}

/** A SELECT of how many pairs with a called span those of some spans (SQL in brackets) make that share their ids. */
export function sharedPairsSql(rows: string): string {
  return `SELECT coalesce(CAST(sum(n * m) AS DOUBLE), 0) FROM
    (SELECT hash(trace_id, span_id) AS id, count(*) AS n FROM ${rows} GROUP BY id HAVING n > 1)
    JOIN (SELECT hash(trace_id, parent_span_id) AS id, count(*) AS m FROM ${rows} WHERE ${calledKinds} GROUP BY id) USING (id)`;
}
