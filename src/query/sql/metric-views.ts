/**
 * Views over the points of metrics: by how much counters and histograms rose from point to point, and which metrics and
 * series there are.
 *
 * A point's increase depends on points of at most {@link lookbackNs} before it, whatever else the query reads, so that
 * its range changes which rows there are and no number in them.
 */
import { columnsOfTable, type RowColumns } from "../../lake/tables/duckdb-types.js";
import {
  countAt,
  expHistogramColumns,
  expHistogramSql,
  expHistogramType,
  histogramType,
  type Sign,
} from "./metric-macros.js";
import { audienceColumn, whereSql } from "./file-source.js";
import { exactTime, type FileViewDefinition } from "./file-view.js";

/** How old a point's predecessor may be, and how long ago a series may have begun that has none. */
const lookbackNs = 3_600_000_000_000n;

/**
 * Names a series. The process is of one audience. DuckDB's hash is another in other versions of it, so it is compared
 * within a query only.
 */
const seriesHash =
  "hash(audience, process_id, target, scope_version, scope_properties, name, unit, metric_type, temporality, properties)";

const seriesSql = (hash: string): string => `format('{:016x}', ${hash})`;

/** Columns of the series that its rows carry, behind those of the view's own. */
const seriesColumns = columnsNamed([
  "name",
  "unit",
  "properties",
  "temporality",
  "target",
  "process_id",
  "service_namespace",
  "service_name",
  "service_instance_id",
  "service_version",
  "host_name",
  "process_properties",
]);

function columnsNamed(names: readonly string[]): RowColumns {
  const all = columnsOfTable("measures");
  return names.flatMap((wanted) => all.filter(([name]) => name === wanted));
}

const namesOf = (columns: RowColumns): string => columns.map(([name]) => name).join(", ");

/**
 * The points before and after in a series. One epoch of it is from a start to the next, so that writers who share a
 * series, each with a start of its own, do not mix. Columns stand here as they are that conditions of a query are
 * often on: DuckDB tests these where it reads the files.
 */
const window = (more: string, tie: string): string =>
  `(PARTITION BY name, service_name, process_id, svc_hash, ${more}start_time ORDER BY time, ${tie})`;

/** Points of both temporalities that say something: flag 1 is one without a recorded value. */
const valid = ["temporality IN ('cumulative', 'delta')", "flags & 1 = 0", "time >= make_timestamp_ns(0)"];

/** Nanoseconds since the point before, and since the start; null when there is none. */
const spans =
  "epoch_ns(time) - epoch_ns(svc_time) AS svc_gap, CASE WHEN start_time < time AND start_time >= make_timestamp_ns(0) " +
  "THEN epoch_ns(time) - epoch_ns(start_time) END AS svc_age";

/** What the increase is since: a delta's start, the point before, or the start of the series. */
const seconds =
  `CASE WHEN temporality = 'delta' THEN coalesce(svc_age, CASE WHEN svc_gap BETWEEN 1 AND ${lookbackNs} THEN svc_gap END) ` +
  `WHEN svc_gap <= ${lookbackNs} THEN svc_gap ELSE svc_age END / 1e9`;

const pointTime: FileViewDefinition["time"] = { slackBeforeNs: lookbackNs, slackAfterNs: 0n };

const counterIncreases: FileViewDefinition = {
  tables: ["measures"],
  time: pointTime,
  columns: [
    ["time", "TIMESTAMP_NS"],
    ["series", "VARCHAR"],
    ["increase", "DOUBLE"],
    ["seconds", "DOUBLE"],
    ["problem", "VARCHAR"],
    ...seriesColumns,
    audienceColumn,
  ],
  sql: ([rows], inRange) =>
    `SELECT time, ${seriesSql("svc_hash")} AS series, CASE WHEN svc_rise >= 0 THEN svc_rise END AS increase,
       ${seconds} AS seconds,
       CASE WHEN svc_rise < 0 THEN 'The value of a monotonic sum is below zero.' END AS problem,
       ${namesOf(seriesColumns)}, audience
     FROM (
       SELECT *, CASE
           WHEN svc_gap = 0 AND value = svc_value THEN NULL
           WHEN temporality = 'delta' THEN value
           WHEN svc_gap <= ${lookbackNs} THEN CASE WHEN value >= svc_value THEN value - svc_value ELSE value END
           WHEN svc_age <= ${lookbackNs} THEN value
         END AS svc_rise
       FROM (
         SELECT *, ${spans} FROM (
           SELECT *, lag(value) OVER svc_w AS svc_value, lag(time) OVER svc_w AS svc_time
           FROM (SELECT *, ${seriesHash} AS svc_hash
             FROM ${rows([...valid, "metric_type = 'sum'", "is_monotonic", "isfinite(value)"])})
           WINDOW svc_w AS ${window("", "value")})))
     ${whereSql(["svc_rise IS NOT NULL", ...inRange])}`,
};

/** The counts of one sign, less those of the point before, which may have finer buckets. */
const bucketRises = (sign: Sign): string => {
  const counts = `${sign}_bucket_counts`;
  const offset = `${sign}_offset`;
  return `CASE WHEN scale = svc_before.scale AND ${offset} = svc_before.${offset}
      THEN list_transform(${counts}, lambda svc_n, svc_i: svc_n - coalesce(svc_before.${counts}[svc_i], 0))
      ELSE list_transform(${counts}, lambda svc_n, svc_i: svc_n - ${countAt(
        `svc_before.${counts}`,
        `svc_before.${offset}`,
        "(svc_before.scale - scale)",
        `(${offset} + svc_i - 1)`,
      )}) END`;
};

/** Whether a count fell, or counts are missing that the point before had. */
const bucketsFell = (rises: string, counts: string): string =>
  `coalesce(list_min(${rises}) < 0, false) OR coalesce(list_sum(${rises}), 0) <> coalesce(list_sum(${counts}), 0) - coalesce(list_sum(svc_before.${counts}), 0)`;

const risesOf = ["bucket_counts", "positive_bucket_counts", "negative_bucket_counts"] as const;

/** Differences of unsigned numbers may be below zero, and those of scales beyond 32 bits. */
const widened = [
  ...["count", "zero_count"].map((name) => `CAST(${name} AS DOUBLE) AS ${name}`),
  ...risesOf.map((name) => `CAST(${name} AS DOUBLE[]) AS ${name}`),
  "CAST(scale AS BIGINT) AS scale",
].join(", ");

const histogramIncreases: FileViewDefinition = {
  tables: ["histograms"],
  time: pointTime,
  columns: [
    ["time", "TIMESTAMP_NS"],
    ["series", "VARCHAR"],
    ["count", "DOUBLE"],
    ["sum", "DOUBLE"],
    ["bucket_counts", "DOUBLE[]"],
    ["explicit_bounds", "DOUBLE[]"],
    ["histogram", histogramType],
    ["exp_histogram", expHistogramType],
    ["seconds", "DOUBLE"],
    ["problem", "VARCHAR"],
    ...seriesColumns,
    audienceColumn,
  ],
  sql: ([rows], inRange) => {
    const rise = (name: string): string => `CASE WHEN svc_reset THEN ${name} ELSE svc_${name} END`;
    return `SELECT time, ${seriesSql("svc_hash")} AS series,
       CASE WHEN problem IS NULL THEN ${rise("count")} END AS count,
       CASE WHEN problem IS NULL AND isfinite(${rise("sum")}) THEN ${rise("sum")} END AS sum,
       CASE WHEN problem IS NULL THEN ${rise("bucket_counts")} END AS bucket_counts,
       explicit_bounds,
       CASE WHEN problem IS NULL AND metric_type = 'histogram'
         THEN {bucket_counts: ${rise("bucket_counts")}, explicit_bounds: explicit_bounds} END AS histogram,
       CASE WHEN problem IS NULL AND metric_type = 'exponential_histogram' THEN ${expHistogramSql(
         expHistogramColumns.map((name) => (name === "zero_count" || name.endsWith("counts") ? rise(name) : name)),
       )} END AS exp_histogram,
       ${seconds} AS seconds, problem, ${namesOf(seriesColumns)}, audience
     FROM (
       SELECT *, svc_whole OR svc_scale_rose OR svc_count < 0 OR coalesce(svc_zero_count, 0) < 0
           OR ${risesOf.map((name) => bucketsFell(`svc_${name}`, name)).join(" OR ")} AS svc_reset,
         CASE
           WHEN len(bucket_counts) + len(explicit_bounds) > 0 AND len(bucket_counts) <> len(explicit_bounds) + 1
             THEN 'There is not one more count than bounds.'
           WHEN NOT svc_whole AND svc_count >= 0 AND zero_threshold <> svc_before.zero_threshold
             THEN 'The zero threshold changed.'
         END AS problem
       FROM (
         SELECT *,
           count - svc_before.count AS svc_count,
           sum - svc_before.sum AS svc_sum,
           zero_count - svc_before.zero_count AS svc_zero_count,
           coalesce(scale > svc_before.scale, false) AS svc_scale_rose,
           list_transform(bucket_counts, lambda svc_n, svc_i: svc_n - svc_before.bucket_counts[svc_i]) AS svc_bucket_counts,
           CASE WHEN scale <= svc_before.scale THEN ${bucketRises("positive")} END AS svc_positive_bucket_counts,
           CASE WHEN scale <= svc_before.scale THEN ${bucketRises("negative")} END AS svc_negative_bucket_counts
         FROM (
           SELECT *, temporality = 'delta' OR svc_gap IS NULL OR svc_gap > ${lookbackNs} AS svc_whole
           FROM (
             SELECT *, svc_before.time AS svc_time, ${spans.replaceAll("svc_time", "svc_before.time")} FROM (
               SELECT *, lag({time: time, count: count, sum: sum, bucket_counts: bucket_counts, ${expHistogramColumns
                 .map((name) => `${name}: ${name}`)
                 .join(", ")}}) OVER svc_w AS svc_before
               FROM (SELECT * REPLACE (${widened}), ${seriesHash} AS svc_hash
                 FROM ${rows([...valid, "metric_type <> 'summary'"])})
               WINDOW svc_w AS ${window("hash(explicit_bounds), ", "count")}))
           WHERE NOT coalesce(svc_gap = 0 AND count = svc_before.count AND sum IS NOT DISTINCT FROM svc_before.sum, false)
             AND (temporality = 'delta' OR coalesce(svc_gap <= ${lookbackNs}, false) OR coalesce(svc_age <= ${lookbackNs}, false)))))
     ${whereSql(inRange)}`;
  },
};

/** The rows of a table by series. Of what a query does not name nothing is read. */
function seriesOf(rows: string, isMonotonic: string): string {
  const any = ["description", ...seriesColumns.map(([name]) => name)]
    .filter((name) => !["name", "unit", "temporality", "service_name", "process_id"].includes(name))
    .map((name) => `any_value(${name}) AS ${name}`);
  return `SELECT name, metric_type AS kind, unit, temporality, ${isMonotonic} AS is_monotonic, service_name, process_id,
      audience, svc_hash, ${any.join(", ")}, count(*) AS points, min(time) AS first_seen, max(time) AS last_seen
    FROM (SELECT *, ${seriesHash} AS svc_hash FROM ${rows})
    GROUP BY name, metric_type, unit, temporality, service_name, process_id, audience, svc_hash`;
}

const allSeries: (rows: Parameters<FileViewDefinition["sql"]>[0], inRange: readonly string[]) => string = (
  [measures, histograms],
  inRange,
) =>
  `(${seriesOf(measures(inRange), "any_value(is_monotonic)")}` +
  `${histograms === undefined ? "" : ` UNION ALL ${seriesOf(histograms(inRange), "CAST(NULL AS BOOLEAN)")}`})`;

const seen: RowColumns = [
  ["points", "BIGINT"],
  ["first_seen", "TIMESTAMP_NS"],
  ["last_seen", "TIMESTAMP_NS"],
];

const metricSeries: FileViewDefinition = {
  tables: ["measures", "histograms"],
  time: exactTime,
  columns: [
    ["series", "VARCHAR"],
    ["kind", "VARCHAR"],
    ["is_monotonic", "BOOLEAN"],
    ...seen,
    ...seriesColumns,
    audienceColumn,
  ],
  sql: (rows, inRange) =>
    `SELECT ${seriesSql("svc_hash")} AS series, kind, is_monotonic, ${namesOf(seen)}, ${namesOf(seriesColumns)}, audience
     FROM ${allSeries(rows, inRange)}`,
};

const metricCatalogue: FileViewDefinition = {
  tables: ["measures", "histograms"],
  time: exactTime,
  columns: [
    ["name", "VARCHAR"],
    ["kind", "VARCHAR"],
    ["unit", "VARCHAR"],
    ["description", "VARCHAR"],
    ["temporality", "VARCHAR"],
    ["is_monotonic", "BOOLEAN"],
    ["services", "BIGINT"],
    ["series", "BIGINT"],
    ...seen,
    audienceColumn,
  ],
  sql: (rows, inRange) =>
    `SELECT name, kind, unit, max(description) AS description, temporality, is_monotonic,
       count(DISTINCT service_name) AS services, count(*) AS series, CAST(sum(points) AS BIGINT) AS points,
       min(first_seen) AS first_seen, max(last_seen) AS last_seen, audience
     FROM ${allSeries(rows, inRange)}
     GROUP BY name, kind, unit, temporality, is_monotonic, audience`,
};

/** Definitions by name. */
export const metricViews = {
  counter_increases: counterIncreases,
  histogram_increases: histogramIncreases,
  metric_catalogue: metricCatalogue,
  metric_series: metricSeries,
} as const satisfies Readonly<Record<string, FileViewDefinition>>;
