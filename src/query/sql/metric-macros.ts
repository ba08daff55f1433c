/**
 * Functions over metrics. An argument of those of one row stands once in each: DuckDB puts its text wherever a macro names
 * it.
 * `list_transform([value], lambda x: ...)[1]` gives a value a name.
 *
 * Bucket i of an exponential histogram of scale s holds values above 2^(i / 2^s), up to and including
 * 2^((i + 1) / 2^s); the first count of a list is that of bucket `offset`. At a scale lower by `shift` a bucket is
 * 2^shift of these, and holds what they hold.
 */
/** A histogram with explicit bounds as one value. */
export const histogramType = "STRUCT(bucket_counts DOUBLE[], explicit_bounds DOUBLE[])";

/** An exponential histogram as one value. Counts are doubles: they add up without a wider type. */
export const expHistogramType =
  `STRUCT(scale INTEGER, zero_count DOUBLE, zero_threshold DOUBLE, positive_offset INTEGER, ` +
  `positive_bucket_counts DOUBLE[], negative_offset INTEGER, negative_bucket_counts DOUBLE[])`;

/** The columns of `histograms` that make one, in the order of its fields. */
export const expHistogramColumns = [
  "scale",
  "zero_count",
  "zero_threshold",
  "positive_offset",
  "positive_bucket_counts",
  "negative_offset",
  "negative_bucket_counts",
] as const;

/** The buckets of one sign. */
export type Sign = "positive" | "negative";

/** SQL of the value that columns, or expressions of the same names, make. */
export function expHistogramSql(values: readonly string[] = expHistogramColumns): string {
  return `CAST({${expHistogramColumns.map((field, i) => `${field}: ${values[i] ?? "NULL"}`).join(", ")}} AS ${expHistogramType})`;
}

/** SQL of 2^shift as a double. A shift of 64 leaves buckets -1 and 0 of all indexes of 32 bits; so do higher ones. */
const power = (shift: string): string => `pow(2.0, least(${shift}, 64))`;

/**
 * SQL of a histogram's scale as a BIGINT. OTLP bounds it by 32 bits alone. From -11 down all doubles are in buckets -1
 * and 0, so that a lower scale says the same.
 */
const scaleOf = (histogram: string): string => `greatest(CAST(${histogram}.scale AS BIGINT), -11)`;

/** SQL of a bucket's index at a scale that is lower by `shift`, as a BIGINT. */
function lowerIndex(index: string, shift: string): string {
  return `CAST(floor((${index}) / ${power(shift)}) AS BIGINT)`;
}

/**
 * SQL of the count of bucket `index` of a scale that is lower by `shift`, of a list that begins with bucket `offset`;
 * 0 outside of the list. The bounds of the slice stay within 1 and the length, for others would count from the end.
 */
export function countAt(counts: string, offset: string, shift: string, index: string): string {
  const edge = (i: string): string => `(${i}) * ${power(shift)} - (${offset})`;
  const begin = `CAST(least(greatest(${edge(index)}, 0), len(${counts})) AS BIGINT) + 1`;
  const end = `CAST(least(greatest(${edge(`${index} + 1`)}, 0), len(${counts})) AS BIGINT)`;
  return `coalesce(list_sum((${counts})[${begin}:${end}]), 0)`;
}

/** `body` with `name` for a value. */
function named(value: string, name: string, body: string): string {
  return `list_transform([${value}], lambda ${name}: ${body})[1]`;
}

const refusal = (sentence: string): string => `error('${sentence}')`;

/** Whether a list holds nulls. */
const hasNulls = (list: string): string => `list_count(${list}) < len(${list})`;

/** Whether a list of counts holds what is none. NaN is the greatest number to DuckDB. */
const badCounts = (list: string): string => `list_min(${list}) < 0 OR NOT isfinite(list_max(${list}))`;

const badQuantile = (q: string): string => `NOT (${q} >= 0 AND ${q} <= 1)`;

/**
 * The number, from 1, of the bucket that holds `svc_rank`: the first that is not empty and up to which that many are
 * counted. (DuckDB's list_reduce mixes up the captured values of rows whose lists differ in length.)
 */
const bucketOfRank = (counts: string): string =>
  `list_position(list_transform(${counts}, lambda svc_n, svc_i: ` +
  `svc_n > 0 AND list_sum(${counts}[1:svc_i]) >= svc_rank), true)`;

/** How far into bucket `svc_k` the rank is, 0 to 1. */
const fraction = (counts: string): string =>
  `((svc_rank - coalesce(list_sum(${counts}[1:svc_k - 1]), 0)) / ${counts}[svc_k])`;

/** A body over `svc_h`: q and h, a histogram. */
const quantileOf = (histogram: string, body: string): string =>
  named(`{q: CAST(q AS DOUBLE), h: ${histogram}}`, "svc_h", body);

/** Prometheus' quantile of classic histograms, over `svc_h`: q, h. */
const explicitQuantile = `CASE
    WHEN svc_h.q IS NULL OR svc_h.h.bucket_counts IS NULL OR svc_h.h.explicit_bounds IS NULL THEN NULL
    WHEN ${badQuantile("svc_h.q")} THEN ${refusal("histogram_quantile takes a quantile from 0 to 1.")}
    WHEN len(svc_h.h.bucket_counts) = 0 AND len(svc_h.h.explicit_bounds) = 0 THEN NULL
    WHEN len(svc_h.h.bucket_counts) <> len(svc_h.h.explicit_bounds) + 1
      THEN ${refusal("histogram_quantile takes one more count than bounds.")}
    WHEN ${hasNulls("svc_h.h.bucket_counts")} OR ${hasNulls("svc_h.h.explicit_bounds")} THEN NULL
    WHEN ${badCounts("svc_h.h.bucket_counts")}
      THEN ${refusal("histogram_quantile takes counts that are finite and not below zero.")}
    WHEN len(svc_h.h.explicit_bounds) > 0 AND NOT (isfinite(svc_h.h.explicit_bounds[1]) AND isfinite(svc_h.h.explicit_bounds[-1]) AND list_sort(svc_h.h.explicit_bounds) = svc_h.h.explicit_bounds)
      THEN ${refusal("histogram_quantile takes bounds that are finite and rise.")}
    WHEN len(svc_h.h.explicit_bounds) = 0 OR list_sum(svc_h.h.bucket_counts) = 0 THEN NULL
    ELSE ${named(
      "svc_h.q * list_sum(svc_h.h.bucket_counts)",
      "svc_rank",
      named(
        bucketOfRank("svc_h.h.bucket_counts"),
        "svc_k",
        `CASE
          WHEN svc_k = len(svc_h.h.bucket_counts) THEN svc_h.h.explicit_bounds[-1]
          WHEN svc_k = 1 AND svc_h.h.explicit_bounds[1] <= 0 THEN svc_h.h.explicit_bounds[1]
          WHEN svc_k = 1 THEN svc_h.h.explicit_bounds[1] * ${fraction("svc_h.h.bucket_counts")}
          ELSE svc_h.h.explicit_bounds[svc_k - 1] + (svc_h.h.explicit_bounds[svc_k] - svc_h.h.explicit_bounds[svc_k - 1]) * ${fraction("svc_h.h.bucket_counts")}
        END`,
      ),
    )}
  END`;

const positive = "svc_h.h.positive_bucket_counts";
const negative = "svc_h.h.negative_bucket_counts";
const zeroThreshold = "coalesce(svc_h.h.zero_threshold, 0)";
/** Of a bucket's bound. The first bucket may be the last that 32 bits can number. */
const exponent = (sign: Sign, index: string): string =>
  `pow(2.0, (CAST(svc_h.h.${sign}_offset AS BIGINT) + ${index}) * pow(2.0, -${scaleOf("svc_h.h")}))`;

/** Whether an exponential histogram, or null, lacks a number that matters. */
const lacksNumbers = (h: string): string =>
  `${h}.scale + ${h}.zero_count + len(${h}.positive_bucket_counts) + len(${h}.negative_bucket_counts) IS NULL ` +
  (["positive", "negative"] as const)
    .map((sign) => {
      const counts = `${h}.${sign}_bucket_counts`;
      return `OR (len(${counts}) > 0 AND ${h}.${sign}_offset IS NULL) OR ${hasNulls(counts)}`;
    })
    .join(" ");

/** Prometheus' quantile of native histograms, over `svc_h`: q, h. Buckets are numbered from the lowest value up. */
const expQuantile = `CASE
    WHEN svc_h.q IS NULL OR ${lacksNumbers("svc_h.h")} THEN NULL
    WHEN ${badQuantile("svc_h.q")} THEN ${refusal("exp_histogram_quantile takes a quantile from 0 to 1.")}
    WHEN NOT (${zeroThreshold} >= 0 AND isfinite(${zeroThreshold}))
      THEN ${refusal("exp_histogram_quantile takes a zero_threshold that is finite and not below zero.")}
    ELSE ${named(
      `list_reverse(${negative}) || [svc_h.h.zero_count] || ${positive}`,
      "svc_c",
      `CASE
        WHEN ${badCounts("svc_c")}
          THEN ${refusal("exp_histogram_quantile takes counts that are finite and not below zero.")}
        WHEN list_sum(svc_c) = 0 THEN NULL
        ELSE ${named(
          "svc_h.q * list_sum(svc_c)",
          "svc_rank",
          named(
            bucketOfRank("svc_c"),
            "svc_k",
            named(
              fraction("svc_c"),
              "svc_f",
              `CASE
              WHEN svc_k <= len(${negative})
                THEN -${exponent("negative", `len(${negative}) - svc_k + 1 - svc_f`)}
              WHEN svc_k > len(${negative}) + 1
                THEN ${exponent("positive", `svc_k - len(${negative}) - 2 + svc_f`)}
              WHEN coalesce(list_sum(${negative}), 0) = 0 AND coalesce(list_sum(${positive}), 0) > 0
                THEN ${zeroThreshold} * svc_f
              WHEN coalesce(list_sum(${positive}), 0) = 0 AND coalesce(list_sum(${negative}), 0) > 0
                THEN ${zeroThreshold} * (svc_f - 1)
              ELSE ${zeroThreshold} * (2 * svc_f - 1)
            END`,
            ),
          ),
        )}
      END`,
    )}
  END`;

/** The sum of each place of the lists in `lists`, which have `width` places. */
const sumOfPlaces = (lists: string, width: string): string =>
  `list_transform(range(1, ${width} + 1), ` +
  `lambda svc_i: list_sum(list_transform(${lists}, lambda svc_l: svc_l[svc_i])))`;

/**
 * The values of a group that are not null; null when it has none. The argument stands twice, because to take nulls out
 * of the list would copy it.
 */
const valuesOf = (value: string): string => `list(${value}) FILTER (${value} IS NOT NULL)`;

/**
 * Places that are added up as rows come, by every thread: a list of a group's values is added up by one. Lists with
 * more places are collected.
 */
const quickPlaces = 32;

/** SQL of the sums of {@link quickPlaces} places over a group. @param place SQL of a row's value at a place, from 0 */
const quickSums = (place: (j: number) => string): string =>
  `[${Array.from({ length: quickPlaces }, (_, j) => `sum(${place(j)})`).join(", ")}]`;

/** Lists of counts added up place by place. Null in any of them is null in the sum. @param counts SQL of a row's list */
const mergedCounts = (counts: string): string =>
  named(
    `{low: min(len(${counts})), high: max(len(${counts})), nulls: bool_or(${hasNulls(counts)}),
      sums: ${quickSums((j) => `(${counts})[${j + 1}]`)}, l: list(${counts}) FILTER (len(${counts}) > ${quickPlaces})}`,
    "svc_g",
    `CASE
      WHEN svc_g.low <> svc_g.high
        THEN ${refusal("histogram_merge takes counts of one length; group by explicit_bounds.")}
      WHEN svc_g.nulls THEN NULL
      WHEN svc_g.high <= ${quickPlaces} THEN svc_g.sums[1:svc_g.high]
      WHEN svc_g.high > ${quickPlaces} THEN ${sumOfPlaces("svc_g.l", "svc_g.high")}
    END`,
  );

/** Histograms of the same bounds: lists of them are compared by their hashes, which takes a tenth of the time. */
const boundsHash = "hash(histogram.explicit_bounds)";
const ofBounds = "FILTER (histogram.explicit_bounds IS NOT NULL)";
const mergedHistogram = named(
  `{low: min(${boundsHash}) ${ofBounds}, high: max(${boundsHash}) ${ofBounds},
    bounds: first(histogram.explicit_bounds) FILTER (histogram IS NOT NULL), n: count(histogram)}`,
  "svc_b",
  `CASE
    WHEN svc_b.low <> svc_b.high
      THEN ${refusal("histogram_merge takes histograms of the same bounds; group by explicit_bounds, or by what has one each, such as service_name.")}
    WHEN svc_b.n > 0
      THEN {bucket_counts: ${mergedCounts("histogram.bucket_counts")}, explicit_bounds: svc_b.bounds}
  END`,
);

/** Most buckets of a sign that a merged histogram has; those of the SDKs have 160. */
const maxBuckets = 320;

/** The first and the last bucket of a sign over all of `svc_s.l`, at its lowest scale. */
const edges = (sign: Sign): string => {
  const of = (index: string): string =>
    `list_transform(list_filter(svc_s.l, lambda svc_x: len(svc_x.${sign}_bucket_counts) > 0), ` +
    `lambda svc_x: ${lowerIndex(index, `${scaleOf("svc_x")} - svc_s.scale`)})`;
  const offset = `svc_x.${sign}_offset`;
  return (
    `${sign}_low: list_min(${of(offset)}), ` +
    `${sign}_high: list_max(${of(`CAST(${offset} AS BIGINT) + len(svc_x.${sign}_bucket_counts) - 1`)})`
  );
};

/** By how much the scale has to be lower still, so that the buckets of a sign are at most {@link maxBuckets}. */
const further = (sign: Sign): string =>
  `coalesce(CASE WHEN svc_e.${sign}_high - svc_e.${sign}_low >= ${maxBuckets} ` +
  `THEN ceil(log2((svc_e.${sign}_high - svc_e.${sign}_low) / ${maxBuckets - 2}.0)) END, 0)`;

/** The counts of a sign of one histogram, with those of the buckets before and behind its own. */
const placed = (sign: Sign): string => {
  const counts = `svc_x.${sign}_bucket_counts`;
  const offset = `svc_x.${sign}_offset`;
  const shift = `(${scaleOf("svc_x")} - svc_t.scale)`;
  const own = `CASE WHEN ${shift} = 0 THEN ${counts} ELSE list_transform(
      range(${lowerIndex(offset, shift)}, ${lowerIndex(`${offset} + len(${counts}) - 1`, shift)} + 1),
      lambda svc_a: ${countAt(counts, offset, shift, "svc_a")}) END`;
  return `list_resize(list_resize(CAST([] AS DOUBLE[]), ${lowerIndex(offset, shift)} - svc_t.${sign}_low, CAST(0 AS DOUBLE)) || ${own},
      svc_t.${sign}_high - svc_t.${sign}_low + 1, CAST(0 AS DOUBLE))`;
};

const mergedSign = (sign: Sign): string =>
  `CASE WHEN svc_t.${sign}_low IS NULL THEN [] ELSE ${named(
    `list_transform(list_filter(svc_s.l, lambda svc_x: len(svc_x.${sign}_bucket_counts) > 0), lambda svc_x: ${placed(sign)})`,
    "svc_p",
    sumOfPlaces("svc_p", `(svc_t.${sign}_high - svc_t.${sign}_low + 1)`),
  )} END`;

/** Lists added up as {@link mergedExp} says, whatever they are: one after the other. */
const placedExp = named(
  "{l: svc_r.l, scale: svc_r.low}",
  "svc_s",
  named(
    `{${edges("positive")}, ${edges("negative")}}`,
    "svc_e",
    named(
      `CAST(greatest(${further("positive")}, ${further("negative")}) AS INTEGER)`,
      "svc_k",
      named(
        `{scale: svc_s.scale - svc_k, ${(["positive", "negative"] as const)
          .flatMap((sign) => ["low", "high"].map((edge) => `${sign}_${edge}`))
          .map((edge) => `${edge}: ${lowerIndex(`svc_e.${edge}`, "svc_k")}`)
          .join(", ")}}`,
        "svc_t",
        expHistogramSql([
          "svc_t.scale",
          "svc_r.zero_count",
          "svc_r.threshold",
          "coalesce(svc_t.positive_low, 0)",
          mergedSign("positive"),
          "coalesce(svc_t.negative_low, 0)",
          mergedSign("negative"),
        ]),
      ),
    ),
  ),
);

/** Positive buckets of one scale within {@link quickPlaces} places: that of a bucket is its index modulo their number. */
const quickExp = expHistogramSql([
  "svc_r.low",
  "svc_r.zero_count",
  "svc_r.threshold",
  "coalesce(svc_r.first, 0)",
  `coalesce(list_transform(range(svc_r.first, svc_r.last + 1),
    lambda svc_a: coalesce(svc_r.sums[(svc_a & ${quickPlaces - 1}) + 1], 0)), [])`,
  "0",
  "[]",
]);

/** Histograms of any scales and offsets, at the highest scale that they have in common and that does for all. */
const mergedExp = ((): string => {
  const h = `CAST(histogram AS ${expHistogramType})`;
  const counts = `${h}.positive_bucket_counts`;
  const offset = `CAST(${h}.positive_offset AS BIGINT)`;
  const threshold = `coalesce(${h}.zero_threshold, 0)`;
  const scale = scaleOf(h);
  return named(
    `{l: ${valuesOf(h)}, n: count(${h}), lacks: bool_or(${lacksNumbers(h)}) FILTER (${h} IS NOT NULL),
      low_threshold: min(${threshold}) FILTER (${h} IS NOT NULL), high_threshold: max(${threshold}) FILTER (${h} IS NOT NULL),
      threshold: first(${h}.zero_threshold) FILTER (${h} IS NOT NULL), zero_count: sum(${h}.zero_count),
      low: min(${scale}) FILTER (${h} IS NOT NULL), high: max(${scale}) FILTER (${h} IS NOT NULL), negative: max(len(${h}.negative_bucket_counts)),
      first: min(${offset}) FILTER (len(${counts}) > 0), last: max(${offset} + len(${counts}) - 1) FILTER (len(${counts}) > 0),
      sums: ${quickSums((j) => `(${counts})[((${j} - ${offset}) & ${quickPlaces - 1}) + 1]`)}}`,
    "svc_r",
    `CASE
      WHEN svc_r.n = 0 OR svc_r.lacks THEN NULL
      WHEN svc_r.low_threshold <> svc_r.high_threshold
        THEN ${refusal("exp_histogram_merge takes histograms of one zero_threshold.")}
      WHEN svc_r.low = svc_r.high AND svc_r.negative = 0 AND coalesce(svc_r.last - svc_r.first < ${quickPlaces}, true)
        THEN ${quickExp}
      ELSE ${placedExp}
    END`,
  );
})();

/**
 * Definitions by name, each the text behind `CREATE MACRO`. A query that calls one makes it first: DuckDB binds them as
 * they are made, which takes 1 to 7 ms.
 */
export const metricMacros: Readonly<Record<string, string>> = {
  histogram_quantile: `histogram_quantile(q, bucket_counts, explicit_bounds) AS ${quantileOf(
    `CAST({bucket_counts: bucket_counts, explicit_bounds: explicit_bounds} AS ${histogramType})`,
    explicitQuantile,
  )},
     (q, histogram) AS ${quantileOf(`CAST(histogram AS ${histogramType})`, explicitQuantile)}`,
  exp_histogram_quantile: `exp_histogram_quantile(q, histogram) AS ${quantileOf(`CAST(histogram AS ${expHistogramType})`, expQuantile)}`,
  // The type of its argument says which of the two is called: it is no aggregate, so DuckDB knows it.
  histogram_merge: `histogram_merge(bucket_counts DOUBLE[]) AS ${mergedCounts("CAST(bucket_counts AS DOUBLE[])")},
     (histogram ${histogramType}) AS ${mergedHistogram}`,
  exp_histogram_merge: `exp_histogram_merge(histogram) AS ${mergedExp}`,
};
