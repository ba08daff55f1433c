/** The SQL of `trace_tree`: the spans of a trace as a tree, depth first. */
import { kindNames, nameSql, statusNames } from "./value-names.js";

/** Most spans of a tree; what is sorted below is held in memory about twenty times. */
const maxSpans = 250_000;
/** A path names so many ancestors at most (a power of two), by so many characters of their names. */
const pathSpans = 16;
const pathNameLength = 100;
const pathRounds = Math.log2(pathSpans);
/** Further apart than any two times in nanoseconds. */
const apart = 2n ** 64n;

/**
 * A SELECT of the spans in `rows`, in order. Nothing in it takes a step per level, because a level costs DuckDB a
 * millisecond and traces may be chains of thousands of spans. Pointers are doubled instead: after k rounds each points
 * 2^k further, so that rounds are as many as the number of spans has binary digits.
 *
 * - `climb` follows parents. Whoever comes back to itself after all rounds is in a circle; the earliest span of a circle
 *   (`looped`) loses its parent.
 * - `jump` is a walk around the tree that meets each span with children twice: mark 2 id where it begins, 2 id + 1 where it
 *   ends; others once, where they begin; and 0 behind the last one. The number of marks ahead gives the order, and what
 *   has begun and not ended the depth. `opens` is by how much a mark changes that.
 * - `covered` is the time in which some child was running, overlapping ones counted once. The latest end so far is kept
 *   per parent by adding so much for each parent that those of others are earlier than all times: one long window takes
 *   a quarter of the time of many short ones.
 *
 * Spans that share an id within the trace are children of their parent each; the earliest has their children.
 */
export function traceTreeSql(rows: string, where: string): string {
  const name = (span: string): string => `left(${span}.name, ${pathNameLength})`;
  return `WITH RECURSIVE
    span AS MATERIALIZED (
      SELECT *, CAST(row_number() OVER (ORDER BY time, span_id, insert_time, name) AS INTEGER) AS id FROM ${rows}),
    most AS MATERIALIZED (
      SELECT CASE WHEN count(*) > ${maxSpans} THEN error('trace_tree takes traces of at most ${maxSpans} spans.')
        ELSE CAST(ceil(log2(2 * count(*) + 1)) AS INTEGER) END AS rounds
      FROM span),
    said AS MATERIALIZED (
      SELECT span.id, known.id AS parent
      FROM span LEFT JOIN (SELECT span_id, min(id) AS id FROM span GROUP BY span_id) AS known
        ON span.parent_span_id = known.span_id),
    climb AS (
      SELECT id, parent AS above, parent AS least, 0 AS round FROM said WHERE parent IS NOT NULL
      UNION ALL
      SELECT a.id, b.above, least(a.least, b.least), a.round + 1
      FROM climb AS a JOIN climb AS b ON a.above = b.id
      WHERE a.round < (SELECT rounds FROM most)),
    looped AS (SELECT id FROM climb WHERE round = (SELECT rounds FROM most) AND least = id),
    edge AS MATERIALIZED (
      SELECT said.id, if(looped.id IS NULL, parent, NULL) AS parent FROM said LEFT JOIN looped USING (id)),
    family AS MATERIALIZED (
      SELECT edge.id, child,
        coalesce(if(lead(parent) OVER siblings IS NOT DISTINCT FROM parent, 2 * lead(edge.id) OVER siblings, NULL),
          2 * parent + 1, 0) AS after
      FROM edge
      LEFT JOIN (SELECT parent AS id, min(id) AS child FROM edge WHERE parent IS NOT NULL GROUP BY parent) AS first
        ON edge.id = first.id
      WINDOW siblings AS (ORDER BY parent, edge.id)),
    step AS (
      SELECT 2 * id AS mark, coalesce(2 * child, after) AS goes, CAST(child IS NOT NULL AS INTEGER) AS opens FROM family
      UNION ALL SELECT 2 * id + 1, after, -1 FROM family WHERE child IS NOT NULL
      UNION ALL SELECT 0, 0, 0),
    jump AS (
      SELECT CAST(mark AS INTEGER) AS mark, CAST(goes AS INTEGER) AS goes, CAST(mark > 0 AS INTEGER) AS ahead, opens, 0 AS round
      FROM step
      UNION ALL
      SELECT a.mark, b.goes, a.ahead + b.ahead, a.opens, a.round + 1
      FROM jump AS a JOIN jump AS b ON a.goes = b.mark
      WHERE a.round < (SELECT rounds FROM most)),
    tour AS (
      SELECT mark // 2 AS id, mark % 2 AS ends, ahead,
        CAST(sum(opens) OVER (ORDER BY ahead DESC ROWS UNBOUNDED PRECEDING) AS INTEGER) - opens AS depth
      FROM jump WHERE round = (SELECT rounds FROM most) AND mark > 0),
    lineage AS (
      SELECT edge.id, parent AS above, if(parent IS NULL, [], [${name("p")}]) AS names, 0 AS round
      FROM edge LEFT JOIN span AS p ON edge.parent = p.id
      UNION ALL
      SELECT a.id, b.above, coalesce(b.names, []) || a.names, a.round + 1
      FROM lineage AS a LEFT JOIN lineage AS b ON a.above = b.id
      WHERE a.round < ${pathRounds} AND (SELECT count(above) FROM lineage) > 0),
    path AS (SELECT id, max_by(names, round) AS names FROM lineage GROUP BY id),
    child AS (
      SELECT p.id, epoch_ns(greatest(c.time, p.time)) AS begins, epoch_ns(least(c.end_time, p.end_time)) AS ends
      FROM edge JOIN span AS c ON edge.id = c.id JOIN span AS p ON edge.parent = p.id),
    covered AS (
      SELECT id, CAST(sum(greatest(0, ends - greatest(begins, coalesce(seen - id * ${apart}, begins)))) AS BIGINT) AS ns
      FROM (
        SELECT *, max(id * ${apart} + ends) OVER (
          ORDER BY id, begins, ends ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen
        FROM child)
      GROUP BY id)
    SELECT depth, if(depth > ${pathSpans}, '... > ', '') || array_to_string(path.names || [${name("span")}], ' > ') AS path, name, service_name,
      (epoch_ns(time) - (SELECT epoch_ns(min(time)) FROM span)) / 1e6 AS start_ms, duration_ns / 1e6 AS duration_ms,
      greatest(0, duration_ns - coalesce(covered.ns, 0)) / 1e6 AS self_ms,
      ${nameSql("kind", kindNames)} AS kind_name, ${nameSql("status_code", statusNames)} AS status,
      status_code = 2 AS is_error, edge.parent IS NULL AND parent_span_id IS NOT NULL AS is_orphan,
      time, end_time, duration_ns, trace_id, span_id, parent_span_id, status_message, properties, audience
    FROM span JOIN tour USING (id) JOIN edge USING (id) LEFT JOIN path USING (id) LEFT JOIN covered USING (id)
    WHERE ends = 0${where === "" ? "" : ` AND ${where}`}
    ORDER BY ahead DESC`;
}
