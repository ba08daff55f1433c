/**
 * Functions that DuckDB lacks, in SQL: definitions for `CREATE MACRO`, run once in an instance, before
 * its first query. One with the name of a DuckDB function replaces it.
 */
import { quoteText } from "../../runtime/text/sql-text.js";
import { catalogName, schemaName } from "./catalog-names.js";

/**
 * A call with the type of its time `t`. Of a TIMESTAMP_NS, DuckDB's own functions make a TIMESTAMP, which readers of
 * the columns do not expect: to some the number is one of nanoseconds. Both sides of a CASE have one type, the
 * finer one; DuckDB takes the CASE out again before it computes anything. Variants by the type of `t` would not
 * do: DuckDB does not know the type of an aggregate when it chooses among them.
 */
const sameTime = (call: string): string => `CASE WHEN true THEN system.main.${call} ELSE t END`;

/** Macros that {@link sameTime} makes, which copies the time: their second argument. */
export const timeCopiers: ReadonlySet<string> = new Set(["date_bin", "date_trunc", "datetrunc", "time_bucket"]);

const bin = (origin: string): string => sameTime(`time_bucket(CAST(stride AS INTERVAL), t, ${origin})`);

/** One attribute as text. Its name may hold dots. A JSON pointer names it exactly, so `~` and `/` are escaped. */
const attribute = `json_extract_string(properties, '/' || replace(replace(name, '~', '~0'), '/', '~1'))`;

/** An attribute's text as something else. DuckDB rounds a fraction; an empty text, which does not match, is no number. */
const typedTexts = {
  int: (text: string) => `TRY_CAST(regexp_extract(${text}, '^[+-]?[0-9]+(?:[.]0*)?$') AS BIGINT)`,
  double: (text: string) => `TRY_CAST(${text} AS DOUBLE)`,
  bool: (text: string) => `TRY_CAST(${text} AS BOOLEAN)`,
} as const;

/** Most rows of `time_buckets`: a day has 86,400 seconds. */
const maxBuckets = 100_000;

/**
 * The buckets of `date_bin` between two times, as a table. What is wrong with the arguments is said before the list is
 * made, and the list has no end beyond the limit even where DuckDB makes it ahead, of constants.
 */
const timeBuckets = `time_buckets("begin", "end", step) AS TABLE
     SELECT CAST(unnest(CASE
         WHEN svc_step <= INTERVAL 0 SECOND
           THEN error('time_buckets takes a step above zero, such as INTERVAL 1 MINUTE.')
         WHEN NOT isfinite(svc_begin) OR NOT isfinite(svc_end)
           THEN error('time_buckets takes a begin and an end that are not infinite.')
         WHEN svc_count > ${maxBuckets}
           THEN error('time_buckets makes at most ${maxBuckets} buckets; take a longer step or a shorter range.')
         ELSE range(
           system.main.time_bucket(svc_step, svc_begin, TIMESTAMP '1970-01-01'),
           CASE WHEN svc_count <= ${maxBuckets} THEN svc_end ELSE svc_begin END,
           svc_step)
       END) AS TIMESTAMP_NS) AS time
     FROM (
       SELECT *, (epoch(svc_end) - epoch(svc_begin)) / epoch(svc_step) AS svc_count
       FROM (
         SELECT CAST("begin" AS TIMESTAMP) AS svc_begin, CAST("end" AS TIMESTAMP) AS svc_end,
           CAST(step AS INTERVAL) AS svc_step))`;

/** Characters of a message that its pattern is made of. */
const patternLength = 1000;

/** Digits of hex that mix figures and letters, at least eight together: a number is none, nor is a word. */
const mixedHex = Array.from({ length: 15 }, (_, i) => i + 1).flatMap((n) => [
  `[0-9]{${n}}[a-fA-F][0-9a-fA-F]{${Math.max(0, 7 - n)},}`,
  `[a-fA-F]{${n}}[0-9][0-9a-fA-F]{${Math.max(0, 7 - n)},}`,
]);

/** What messages of one kind differ in, and what stands for it; in this order. All take linear time. */
const patternParts = [
  // A single quote within a word is an apostrophe.
  [String.raw`"[^"]*"|\B'[^']*'\B`, "<str>"],
  [
    String.raw`\b(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|0[xX][0-9a-fA-F]+|[0-9a-fA-F]{16,}|${mixedHex.join("|")})\b`,
    "<id>",
  ],
  // Also times, dates and addresses of networks. No minus within a word.
  [String.raw`(?:\B-)?[0-9]+(?:[.,:_T+-][0-9]+)*(?:[eE][+-]?[0-9]+|Z\b)?`, "<num>"],
] as const;

const logPattern = patternParts.reduce(
  (sql, [pattern, placeholder]) => `regexp_replace(${sql}, ${quoteText(pattern)}, '${placeholder}', 'g')`,
  `left(CAST(msg AS VARCHAR), ${patternLength})`,
);

/** Definitions, each the text behind `CREATE MACRO`. Every instance pays for them; see `metricMacros` for dear ones. */
export const sqlMacros: readonly string[] = [
  `attr(properties, name) AS ${attribute}`,
  `attr_int(properties, name) AS ${typedTexts.int(attribute)}`,
  `attr_double(properties, name) AS ${typedTexts.double(attribute)}`,
  `attr_bool(properties, name) AS ${typedTexts.bool(attribute)}`,
  // The same of an attribute that is a column.
  ...Object.entries(typedTexts).map(([type, sql]) => `svc_${type}_of_text(value) AS ${sql("value")}`),
  // The older name of `attr`.
  `property_get(properties, name) AS ${attribute}`,
  `log_pattern(msg) AS ${logPattern}`,
  // The clock gives TIMESTAMP, in UTC, rather than TIMESTAMP WITH TIME ZONE, which DuckDB does not compare with the
  // TIMESTAMP_NS of the lake's times; so `time > now() - INTERVAL 1 HOUR` just works.
  "now() AS CAST(transaction_timestamp() AS TIMESTAMP)",
  "get_current_timestamp() AS CAST(transaction_timestamp() AS TIMESTAMP)",
  "ago(distance) AS CAST(transaction_timestamp() AS TIMESTAMP) - CAST(distance AS INTERVAL)",
  "to_timestamp(seconds) AS make_timestamp(CAST(CAST(seconds AS DOUBLE) * 1000000 AS BIGINT))",
  `date_trunc(part, t) AS ${sameTime("date_trunc(part, t)")}`,
  `datetrunc(part, t) AS ${sameTime("date_trunc(part, t)")}`,
  `time_bucket(width, t) AS ${sameTime("time_bucket(width, t)")},
     (width, t, origin) AS ${sameTime("time_bucket(width, t, origin)")}`,
  // As in Postgres and DataFusion, whose dashboards call it; DuckDB's time_bucket counts from a Monday of 2000.
  `date_bin(stride, t) AS ${bin("TIMESTAMP '1970-01-01'")},
     (stride, t, origin) AS ${bin("CAST(origin AS TIMESTAMP)")}`,
  timeBuckets,
  `current_database() AS '${catalogName}'`,
  `current_catalog() AS '${catalogName}'`,
  `current_schema() AS '${schemaName}'`,
];
