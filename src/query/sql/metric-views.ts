/**
 * Views over the points of metrics: by how much counters and histograms rose from point to point, and which metrics and
 * series there are.
 *
 * A point's increase depends on points of at most {@link lookbackNs} before it, whatever else the query reads, so that
 * its range changes which rows there are and no number in them.
 */
import { rolledSeriesColumns } from "../../lake/rollup/rollup.js";
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
import { exactTime, type FileViewDefinition, type TableRows } from "./file-view.js";

/** How old a point's predecessor may be, and how long ago a series may have begun that has none. */
const lookbackNs = 3_600_000_000_000n;

/**
 * Names a series. The process is of one audience. Without an instance, resources that differ in other attributes alone
 * share a process, as databases or containers do that one receiver asks; an instance stays the same when attributes come
 * later. DuckDB's hash is another in other versions of it, so it is compared within a query only.
 */
const seriesHash =
  "hash(audience, process_id, CASE WHEN coalesce(service_instance_id, '') = '' THEN process_properties END, target, " +
  "scope_version, scope_properties, name, unit, metric_type, temporality, properties)";

const seriesSql = "format('{:016x}', svc_hash)";

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

/** The last columns of what rose: since when, why not, and of which series. */
const sinceColumns: RowColumns = [["seconds", "DOUBLE"], ["problem", "VARCHAR"], ...seriesColumns, audienceColumn];

function columnsNamed(names: readonly string[]): RowColumns {
  const all = columnsOfTable("measures");
  return names.flatMap((wanted) => all.filter(([name]) => name === wanted));
}

const namesOf = (columns: RowColumns): string => columns.map(([name]) => name).join(", ");

/**
 * What points of one epoch of a series share: it is from a start to the next, so that writers who share a series, each
 * with a start of its own, do not mix. One number, for points are sorted by it.
 */
const epochHash = (apart: readonly string[]): string =>
  `hash(${["svc_hash", "start_time", ...apart].join(", ")}) AS svc_epoch`;

/**
 * The points before and after in an epoch. Columns stand here as they are that conditions of a query are often on: DuckDB
 * tests these where it reads the files. They come last, for rows are compared column by column, and most of them differ
 * in the number.
 */
const window = (tie: string): string =>
  `(PARTITION BY svc_epoch, name, service_name, process_id ORDER BY time, ${tie})`;

/** Points of both temporalities that say something: flag 1 is one without a recorded value. */
const valid = ["temporality IN ('cumulative', 'delta')", "flags & 1 = 0", "time >= make_timestamp_ns(0)"];

/**
 * Nanoseconds since the point before, and since the start; null when there is none. A series that begins while its library
 * collects starts after the time of that point; its age is 0.
 */
const spans =
  "epoch_ns(time) - epoch_ns(svc_time) AS svc_gap, CASE WHEN start_time <> time AND start_time >= make_timestamp_ns(0) " +
  `AND epoch_ns(start_time) - epoch_ns(time) <= ${lookbackNs} ` +
  "THEN greatest(epoch_ns(time) - epoch_ns(start_time), 0) END AS svc_age";

/** What the increase is since: a delta's start, the point before, or the start of the series. */
const seconds =
  `CASE WHEN temporality = 'delta' THEN coalesce(nullif(svc_age, 0), CASE WHEN svc_gap BETWEEN 1 AND ${lookbackNs} THEN svc_gap END) ` +
  `WHEN svc_gap <= ${lookbackNs} THEN svc_gap ELSE nullif(svc_age, 0) END / 1e9`;

const pointTime: FileViewDefinition["time"] = { slackBeforeNs: lookbackNs, slackAfterNs: 0n };

const counterIncreases: FileViewDefinition = {
  tables: ["measures"],
  time: pointTime,
  columns: [["time", "TIMESTAMP_NS"], ["series", "VARCHAR"], ["increase", "DOUBLE"], ...sinceColumns],
  sql: ([rows], inRange) =>
    `SELECT time, ${seriesSql} AS series, CASE WHEN svc_rise >= 0 THEN svc_rise END AS increase,
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
           FROM (SELECT *, ${seriesHash} AS svc_hash, ${epochHash([])}
             FROM ${rows([...valid, "metric_type = 'sum'", "is_monotonic", "isfinite(value)"])})
           WINDOW svc_w AS ${window("value")})))
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

/** Whether a count fell. */
const anyFell = (rises: string): string => `coalesce(list_min(${rises}) < 0, false)`;

/** Whether a count fell, or counts are missing that the point before had. */
const bucketsFell = (rises: string, counts: string): string =>
  `${anyFell(rises)} OR coalesce(list_sum(${rises}), 0) <> coalesce(list_sum(${counts}), 0) - coalesce(list_sum(svc_before.${counts}), 0)`;

/** Lists that exponential histograms have, and no others do. */
const signs = ["positive", "negative"] as const;
const countsOf = (sign: Sign): string => `${sign}_bucket_counts`;

/** A number for the counts of one sign, the same with and without empty buckets at the ends. */
const filledHash = (sign: Sign): string => {
  const counts = countsOf(sign);
  const offset = `CAST(${sign}_offset AS BIGINT)`;
  const firstFilled = (list: string): string => `list_position(list_transform(${list}, lambda svc_n: svc_n > 0), true)`;
  return `CASE WHEN coalesce(list_max(${counts}), 0) = 0 THEN 0
      WHEN ${counts}[1] > 0 AND ${counts}[-1] > 0 THEN hash(${offset}, ${counts})
      ELSE list_transform([[${firstFilled(counts)}, len(${counts}) + 1 - ${firstFilled(`list_reverse(${counts})`)}]],
        lambda svc_ends: hash(${offset} + svc_ends[1] - 1, ${counts}[svc_ends[1]:svc_ends[2]]))[1] END`;
};

/** Less the value before. The difference of unsigned numbers may be below zero. */
const less = (name: string): string => `${name} - svc_before.${name} AS svc_${name}`;

/** One kind of histogram: the columns that it has, and what they say. */
interface HistogramKind {
  readonly metricType: string;
  /** Columns to be compared with those of the point before, as numbers that subtract. */
  readonly widened: readonly string[];
  /** Of these, what a point is compared with that is no delta. */
  readonly compared: readonly string[];
  /** What keeps points apart beside their series. */
  readonly apart: readonly string[];
  /** With count and sum, what a point says: two that differ in it at one time are two. */
  readonly said: readonly string[];
  /** Of a point and the one before: `svc_X` for each list or number X that has a rise. */
  readonly rises: readonly string[];
  /** Whether the series began anew, of these. */
  readonly fell: readonly string[];
  /** WHENs that name what is wrong. */
  readonly problems: string;
  /** The columns `bucket_counts`, `explicit_bounds`, `histogram` and `exp_histogram`. */
  readonly values: readonly string[];
}

const rise = (name: string): string => `CASE WHEN svc_reset THEN ${name} ELSE svc_${name} END`;

const explicitKind: HistogramKind = {
  metricType: "metric_type NOT IN ('summary', 'exponential_histogram')",
  widened: ["CAST(bucket_counts AS DOUBLE[]) AS bucket_counts"],
  compared: ["bucket_counts"],
  apart: ["explicit_bounds"],
  said: ["bucket_counts"],
  // Numbers in pairs: to look one up in the other list takes twice as long.
  rises: [
    `CASE WHEN NOT svc_whole THEN list_transform(list_zip(bucket_counts, svc_before.bucket_counts[:len(bucket_counts)]),
       lambda svc_n: svc_n[1] - svc_n[2]) END AS svc_bucket_counts`,
  ],
  // Each rise is of two counts where they are as many: none is missing, and lists are not added up.
  fell: [
    `CASE WHEN len(bucket_counts) = len(svc_before.bucket_counts) THEN ${anyFell("svc_bucket_counts")}
      ELSE ${bucketsFell("svc_bucket_counts", "bucket_counts")} END`,
  ],
  problems: `WHEN len(bucket_counts) + len(explicit_bounds) > 0 AND len(bucket_counts) <> len(explicit_bounds) + 1
    THEN 'There is not one more count than bounds.'`,
  values: [
    `CASE WHEN problem IS NULL THEN ${rise("bucket_counts")} END`,
    "explicit_bounds",
    `CASE WHEN problem IS NULL AND metric_type = 'histogram'
       THEN {bucket_counts: ${rise("bucket_counts")}, explicit_bounds: explicit_bounds} END`,
    `CAST(NULL AS ${expHistogramType})`,
  ],
};

const exponentialKind: HistogramKind = {
  metricType: "metric_type = 'exponential_histogram'",
  widened: [
    "CAST(zero_count AS DOUBLE) AS zero_count",
    // Differences of scales may be beyond 32 bits.
    "CAST(scale AS BIGINT) AS scale",
    ...signs.map((sign) => `CAST(${countsOf(sign)} AS DOUBLE[]) AS ${countsOf(sign)}`),
  ],
  compared: expHistogramColumns,
  apart: [],
  said: ["scale", "zero_count", "zero_threshold", ...signs.map(filledHash)],
  rises: [
    less("zero_count"),
    ...signs.map(
      (sign) =>
        `CASE WHEN NOT svc_whole AND scale <= svc_before.scale THEN ${bucketRises(sign)} END AS svc_${countsOf(sign)}`,
    ),
  ],
  fell: [
    "coalesce(scale > svc_before.scale, false)",
    "coalesce(svc_zero_count, 0) < 0",
    ...signs.map((sign) => bucketsFell(`svc_${countsOf(sign)}`, countsOf(sign))),
  ],
  problems: `WHEN NOT svc_whole AND svc_count >= 0 AND zero_threshold <> svc_before.zero_threshold
    THEN 'The zero threshold changed.'`,
  values: [
    "CASE WHEN problem IS NULL THEN CAST([] AS DOUBLE[]) END",
    "CAST([] AS DOUBLE[])",
    `CAST(NULL AS ${histogramType})`,
    `CASE WHEN problem IS NULL THEN ${expHistogramSql(
      expHistogramColumns.map((name) => (name === "zero_count" || name.endsWith("counts") ? rise(name) : name)),
    )} END`,
  ],
};

/** The increases of one kind: each has columns of its own, and those that it lacks cost time to sort all the same. */
const increasesOf = (rows: TableRows, inRange: readonly string[], kind: HistogramKind): string => {
  const [bucketCounts, bounds, histogram, expHistogram] = kind.values;
  // A delta is not compared, so it needs no lists of the point before.
  const before = kind.compared.map((name) => `${name}: CASE WHEN temporality <> 'delta' THEN ${name} END`);
  return `SELECT time, ${seriesSql} AS series,
       CASE WHEN problem IS NULL THEN ${rise("count")} END AS count,
       CASE WHEN problem IS NULL AND isfinite(${rise("sum")}) THEN ${rise("sum")} END AS sum,
       ${bucketCounts} AS bucket_counts, ${bounds} AS explicit_bounds,
       ${histogram} AS histogram, ${expHistogram} AS exp_histogram,
       ${seconds} AS seconds, problem, ${namesOf(seriesColumns)}, audience
     FROM (
       SELECT *, CASE WHEN svc_whole THEN true ELSE svc_count < 0 OR ${kind.fell.join(" OR ")} END AS svc_reset,
         CASE ${kind.problems} END AS problem
       FROM (
         SELECT *, ${[less("count"), less("sum"), ...kind.rises].join(", ")}
         FROM (
           SELECT *, temporality = 'delta' OR svc_gap IS NULL OR svc_gap > ${lookbackNs} AS svc_whole
           FROM (
             SELECT *, svc_before.time AS svc_time, ${spans.replaceAll("svc_time", "svc_before.time")} FROM (
               SELECT *, lag({time: time, count: count, sum: sum, said: svc_said, ${before.join(", ")}}) OVER svc_w AS svc_before
               FROM (
                 SELECT * REPLACE (CAST(count AS DOUBLE) AS count, ${kind.widened.join(", ")}), ${seriesHash} AS svc_hash,
                   ${epochHash(kind.apart)}, hash(${["sum", ...kind.said].join(", ")}) AS svc_said
                 FROM ${rows([...valid, kind.metricType])})
               WINDOW svc_w AS ${window("count, svc_said")}))
           WHERE NOT coalesce(svc_gap = 0 AND count = svc_before.count AND svc_said = svc_before.said, false)
             AND (temporality = 'delta' OR coalesce(svc_gap <= ${lookbackNs}, false) OR coalesce(svc_age <= ${lookbackNs}, false)))))
     ${whereSql(inRange)}`;
};

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
    ...sinceColumns,
  ],
  sql: ([rows], inRange) =>
    [explicitKind, exponentialKind].map((kind) => increasesOf(rows, inRange, kind)).join(" UNION ALL "),
};

/** What series are grouped by; of the other columns any value will do. Nothing is read of what a query does not name. */
const seriesKeys = "name, kind, unit, temporality, service_name, process_id, audience, svc_hash";
const seriesDetails = seriesColumns
  .flatMap(([name]) =>
    ["name", "unit", "temporality", "service_name", "process_id"].includes(name)
      ? []
      : [`any_value(${name}) AS ${name}`],
  )
  .join(", ");

/** The rows of a table by series. @param rolled roll-ups of further ones */
function seriesOf(rows: string, isMonotonic: string, rolled: string | null): string {
  const ofRows = `SELECT ${seriesKeys}, ${isMonotonic} AS is_monotonic, max(description) AS description, ${seriesDetails},
      count(*) AS points, min(time) AS first_seen, max(time) AS last_seen
    FROM (SELECT *, metric_type AS kind, ${seriesHash} AS svc_hash FROM ${rows}) GROUP BY ${seriesKeys}`;
  return rolled === null
    ? ofRows
    : `SELECT ${seriesKeys}, bool_or(is_monotonic) AS is_monotonic, max(description) AS description, ${seriesDetails},
      CAST(sum(points) AS BIGINT) AS points, min(first_seen) AS first_seen, max(last_seen) AS last_seen
    FROM (${ofRows} UNION ALL BY NAME
      SELECT ${rolledSeriesColumns.filter((name) => rolledInRows.has(name)).join(", ")}, metric_type AS kind, audience,
        ${seriesHash} AS svc_hash, count AS points, first_seen, last_seen FROM ${rolled})
    GROUP BY ${seriesKeys}`;
}

const rolledInRows: ReadonlySet<string> = new Set([
  "description",
  "is_monotonic",
  ...seriesColumns.map(([name]) => name),
]);

const allSeries = (
  [measures, histograms]: Parameters<FileViewDefinition["sql"]>[0],
  [rolledMeasures = null, rolledHistograms = null]: readonly (string | null)[] = [],
): string =>
  `(${seriesOf(measures("inRange"), "bool_or(is_monotonic)", rolledMeasures)}` +
  `${histograms === undefined ? "" : ` UNION ALL ${seriesOf(histograms("inRange"), "CAST(NULL AS BOOLEAN)", rolledHistograms)}`})`;

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
  rolledUp: ["whole", "whole"],
  sql: (rows, _inRange, rolled) =>
    `SELECT ${seriesSql} AS series, kind, is_monotonic, ${namesOf(seen)}, ${namesOf(seriesColumns)}, audience
     FROM ${allSeries(rows, rolled)}`,
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
  rolledUp: ["whole", "whole"],
  sql: (rows, _inRange, rolled) =>
    `SELECT name, kind, unit, max(description) AS description, temporality, is_monotonic,
       count(DISTINCT service_name) AS services, count(*) AS series, CAST(sum(points) AS BIGINT) AS points,
       min(first_seen) AS first_seen, max(last_seen) AS last_seen, audience
     FROM ${allSeries(rows, rolled)}
     GROUP BY name, kind, unit, temporality, is_monotonic, audience`,
};

/** Definitions by name. */
export const metricViews = {
  counter_increases: counterIncreases,
  histogram_increases: histogramIncreases,
  metric_catalogue: metricCatalogue,
  metric_series: metricSeries,
} as const satisfies Readonly<Record<string, FileViewDefinition>>;
