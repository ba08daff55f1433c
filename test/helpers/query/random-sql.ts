/**
 * Random SQL that reaches for everything: views, listings, functions of DuckDB that look at files and catalogs, names
 * of temporary tables, admin functions; in subqueries, CTEs (recursive ones, too), joins, windows, lambdas, DESCRIBE,
 * SUMMARIZE and EXPLAIN; casts that fail and tell a value when they meet one; statements with parameters. What is valid
 * gives the same rows however often it runs (no clock, no chance, no order).
 */
import { quoteText } from "../../../src/runtime/text/sql-text.js";
import { seededRandom } from "../seeded-random.js";

interface RandomSqlOptions {
  readonly seed: number;
  /** Texts to reach for: ids, paths and words of rows, visible and hidden. */
  readonly words: readonly string[];
  readonly processIds: readonly string[];
  /** Id of a trace that has rows. */
  readonly trace: string;
  /** Paths of objects, absolute. */
  readonly paths: readonly string[];
}

/** A statement and the texts to bind to its parameters `$1`, `$2`, ... */
export interface RandomStatement {
  readonly sql: string;
  readonly values: readonly string[];
}

/** A generator of statements. */
export function createRandomSql(o: RandomSqlOptions): () => RandomStatement {
  const random = seededRandom(o.seed);
  const below = (n: number): number => Math.floor(random() * n);
  const pick = (items: readonly string[]): string => items[below(items.length)] ?? "";

  const columns = {
    log_entries: [
      "audience",
      "time",
      "msg",
      "level",
      "level_name",
      "target",
      "process_id",
      "service_name",
      "properties",
      "trace_id",
    ],
    measures: ["audience", "time", "name", "process_id", "service_name", "properties", "unit"],
    histograms: ["audience", "time", "name", "process_id", "service_name", "metric_type", "unit"],
    counter_increases: ["audience", "time", "name", "process_id", "series", "increase", "seconds", "problem"],
    histogram_increases: ["audience", "time", "name", "process_id", "count", "bucket_counts", "exp_histogram"],
    metric_catalogue: ["audience", "name", "kind", "unit", "series", "points", "services", "last_seen"],
    metric_series: ["audience", "name", "process_id", "series", "properties", "points", "first_seen"],
    spans: [
      "audience",
      "time",
      "name",
      "trace_id",
      "span_id",
      "process_id",
      "service_name",
      "properties",
      "kind_name",
      "status",
      "is_error",
      "is_root",
      "duration_ms",
    ],
    span_events: ["audience", "time", "name", "properties", "span_name", "process_id", "trace_id"],
    traces: ["audience", "time", "trace_id", "root_name", "root_service", "services", "spans", "errors", "duration_ms"],
    service_calls: [
      "audience",
      "time",
      "caller",
      "callee",
      "callee_type",
      "name",
      "trace_id",
      "duration_ms",
      "is_error",
    ],
    attribute_samples: ["audience", "view", "time", "properties", "weight"],
    service_latencies: ["audience", "time", "caller", "callee", "callee_type", "duration_ms", "is_error"],
    exceptions: [
      "audience",
      "time",
      "type",
      "message",
      "stacktrace",
      "source",
      "service_name",
      "trace_id",
      "process_id",
    ],
    log_stats: ["audience", "time", "process_id", "level", "level_name", "target", "count", "service_name"],
    processes: ["audience", "process_id", "service_name", "host_name", "insert_time", "properties"],
    streams: ["audience", "stream_id", "process_id", "signal", "insert_time"],
    blocks: ["audience", "block_id", "stream_id", "process_id", "row_count", "payload_bytes", "begin_time"],
    usage: ["audience", "time", "key_id", "key_name", "requests", "bytes", "records"],
  } as const;
  type View = keyof typeof columns;
  const views = Object.keys(columns) as View[];

  /** Texts that become parameters in place of constants; null in a statement without any. */
  let bound: string[] | null = null;
  const word = (): string => {
    const text = pick(o.words);
    if (bound === null || bound.length >= 5 || random() < 0.5) {
      return quoteText(text);
    }
    bound.push(text);
    return `CAST($${bound.length} AS VARCHAR)`;
  };
  const path = (): string => quoteText(pick(o.paths));

  const scalar = (names: readonly string[], depth: number): string => {
    const column = names.length === 0 ? word() : pick(names);
    if (depth <= 0) {
      return random() < 0.7 ? column : random() < 0.5 ? word() : String(below(100));
    }
    const inner = (): string => scalar(names, depth - 1);
    const text = (): string => `CAST(${inner()} AS VARCHAR)`;
    switch (below(31)) {
      case 30:
        return pick([
          `histogram_quantile(${pick(["0.5", "2", "NULL"])}, [length(${text()}), 1], [length(${text()})])`,
          `exp_histogram_quantile(length(${text()}) / 9, {scale: 1, zero_count: 1, zero_threshold: 0, positive_offset: 0, positive_bucket_counts: [length(${text()})], negative_offset: 0, negative_bucket_counts: []})`,
          names.includes("exp_histogram") ? "exp_histogram_quantile(0.5, exp_histogram)" : "1",
        ]);
      case 29:
        return `list_aggregate([${text()}, ${word()}], ${quoteText(pick(["max", "string_agg", "histogram", "getenv", "write_log"]))})`;
      case 28:
        return names.includes("time")
          ? `CAST(${pick(["date_trunc('minute', time)", "date_bin('1 minute', time)", "time_bucket('1 hour', max(time) OVER ())"])} AS VARCHAR)`
          : `${column} IS NULL`;
      case 27:
        return `CAST(${text()} AS ${pick(failingCasts)})`;
      case 26:
        return pick(failingCalls).replaceAll("x", text);
      case 25:
        return `max(${text()}) OVER (PARTITION BY ${column} ORDER BY CAST(${column} AS VARCHAR) RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)`;
      case 24:
        return `${text()} > ALL (SELECT CAST(a0 AS VARCHAR) FROM (${select(depth - 1, 1)}))`;
      case 23:
        return `list_reduce([${text()}, ${word()}], lambda a, b: greatest(a, b))`;
      case 22:
        return `TRY(${pick(failingCalls).replaceAll("x", text)})`;
      case 0:
        return `length(${text()})`;
      case 1:
        return `upper(${text()}) || ${word()}`;
      case 2:
        return `CASE WHEN ${condition(names, depth - 1)} THEN ${text()} ELSE ${word()} END`;
      case 3:
        return `CASE WHEN ${text()} LIKE ${word()} || '%' THEN error(${text()}) ELSE 1 END`;
      case 4:
        return `1 // (length(${text()}) - ${below(30)})`;
      case 5:
        return `CAST(${text()} AS INTEGER)`;
      case 6:
        return `TRY_CAST(${text()} AS BIGINT)`;
      case 7:
        return `(SELECT ${aggregate(depth - 1)})`;
      case 8:
        return `${pick(["property_get", "attr", "attr_int", "attr_double", "attr_bool"])}(CAST(${column} AS VARCHAR), ${word()})`;
      case 9:
        return `list_transform([${text()}, ${word()}], lambda x: x || ${text()})`;
      case 10:
        return `{'a': ${inner()}, 'b': ${word()}}`;
      case 11:
        return `${pick(["md5", "log_pattern"])}(${text()})`;
      case 12:
        return `${pick(forbiddenScalars)}(${random() < 0.5 ? text() : path()})`;
      case 13:
        return `regexp_extract(${text()}, '[a-z]+')`;
      case 14:
        return `count(*) OVER (PARTITION BY ${inner()})`;
      case 15:
        return `dense_rank() OVER (ORDER BY ${text()})`;
      case 16:
        return `json_extract_string(${text()}, '$.a')`;
      case 17:
        return `[y FOR y IN [${text()}] IF y > ${word()}]`;
      case 18:
        return `(SELECT list_sort(list(DISTINCT CAST(a0 AS VARCHAR))) FROM (${select(depth - 1, 1)}))`;
      case 19:
        return `CAST(${column} AS VARCHAR) IN (SELECT CAST(a0 AS VARCHAR) FROM (${select(depth - 1, 1)}))`;
      default:
        return column;
    }
  };

  /** Casts and calls whose error names the value, or depends on it. */
  const failingCasts = [
    "INTEGER",
    "TIMESTAMP",
    "DATE",
    "UUID",
    "JSON",
    "BOOLEAN",
    "DOUBLE",
    "DECIMAL(4, 1)",
    "INTEGER[]",
    "STRUCT(a INTEGER)",
    "BIT",
    "ENUM('a', 'b')",
    "MAP(VARCHAR, INTEGER)",
    "INTERVAL",
    "VARIANT",
  ] as const;
  const failingCalls = [
    "error(x)",
    "strptime(x, '%Y-%m-%d')",
    "from_hex(x)",
    "unbin(x)",
    'from_json(x, \'{"a": "INTEGER"}\')',
    'from_json_strict(x, \'{"a": "INTEGER"}\')',
    "json_extract_string(x, '/a')",
    "regexp_matches('a', x)",
    "sqrt(-length(x))",
    "chr(-length(x))",
    "factorial(CAST(length(x) + 20 AS INTEGER))",
    "CAST(length(x) * 100 AS TINYINT)",
    "make_date(2000, CAST(length(x) AS INTEGER), 1)",
    "date_trunc(x, DATE '2000-01-01')",
    "list_extract([1], CAST(x AS INTEGER))",
    "parse_formatted_bytes(x)",
  ] as const;

  const condition = (names: readonly string[], depth: number): string => {
    const left = `CAST(${scalar(names, depth - 1)} AS VARCHAR)`;
    switch (below(11)) {
      case 10:
        return names.includes("status")
          ? pick(["status = 'ERROR'", "kind_name <> 'server'", "is_error OR is_root", "duration_ms > 0.5"])
          : names.includes("level_name")
            ? "level_name IN ('Warning', 'info')"
            : "true";
      case 9:
        return names.includes("level")
          ? `level ${pick(["=", "<=", "<>"])} ${pick(["'error'", "'Warn'", word()])}`
          : "true";
      case 8:
        return names.includes("trace_id") ? `trace_id = upper(${word()})` : "true";
      case 0:
        return `${left} LIKE '%' || ${word()} || '%'`;
      case 1:
        return `${left} = ${word()}`;
      case 2:
        return `EXISTS (${select(depth - 1, 1)})`;
      case 3:
        return `NOT (${condition(names, depth - 1)})`;
      case 4:
        return names.includes("process_id") ? `process_id = ${quoteText(pick(o.processIds))}` : "true";
      case 5:
        return names.includes("time")
          ? `time >= make_timestamp_ns(${1_763_726_400_000_000_000 + below(200) * 1000})`
          : "1 = 1";
      case 6:
        return `${left} IS NOT NULL AND ${condition(names, depth - 1)}`;
      default:
        return `${left} > ${word()}`;
    }
  };

  const aggregate = (depth: number): string => {
    const [from, names] = source(depth);
    const of = pick(names.length === 0 ? ["1"] : names);
    const what = pick([
      "count(*)",
      `count(DISTINCT ${of})`,
      `min(CAST(${of} AS VARCHAR))`,
      `max(CAST(${of} AS VARCHAR))`,
      `sum(length(CAST(${of} AS VARCHAR)))`,
      `bit_xor(hash(${of}))`,
      `bool_or(CAST(${of} AS VARCHAR) LIKE ${word()})`,
      `string_agg(CAST(${of} AS VARCHAR), ',' ORDER BY CAST(${of} AS VARCHAR))`,
      `histogram(CAST(${of} AS VARCHAR))`,
      `approx_count_distinct(${of})`,
      `list_sort(list(DISTINCT CAST(${of} AS VARCHAR)))`,
      `arg_max(CAST(${of} AS VARCHAR), length(CAST(${of} AS VARCHAR)))`,
      `entropy(CAST(${of} AS VARCHAR))`,
      `histogram_merge([length(CAST(${of} AS VARCHAR)), 1])`,
      names.includes("exp_histogram") ? "exp_histogram_merge(exp_histogram)" : "histogram_merge([1])",
      names.includes("bucket_counts") ? "histogram_merge(bucket_counts)" : "histogram_merge([1])",
      `sum(CAST(CAST(${of} AS VARCHAR) AS ${pick(failingCasts.slice(0, 1))}))`,
      `any_value(error(CAST(${of} AS VARCHAR)))`,
      `count(*) FILTER (WHERE CAST(${of} AS VARCHAR) LIKE '%' || ${word()} || '%')`,
      `mode(CAST(${of} AS VARCHAR))`,
    ]);
    return `${what} FROM ${from}`;
  };

  const source = (depth: number): readonly [string, readonly string[]] => {
    if (random() < 0.06) {
      return [forbiddenSource(), []];
    }
    if (random() < 0.04) {
      const begin = pick(["'2025-11-21T12:00:00Z'", word(), "(SELECT min(time) FROM log_entries)"]);
      const step = pick(["'1 hour'", "'0 seconds'", "'1 microsecond'", word()]);
      return [`time_buckets(${begin}, '2025-11-22', ${step}) AS bucket`, ["time"]];
    }
    if (random() < 0.08) {
      return functionSource();
    }
    if (depth <= 0 || random() < 0.5) {
      const view = views[below(views.length)] ?? "log_entries";
      switch (below(10)) {
        case 9:
          return ["information_schema.columns", ["table_name", "column_name", "data_type"]];
        case 8:
          return ["telemetry.information_schema.tables", ["table_name", "table_type"]];
        case 0:
          return [
            `view_instance(${quoteText(pick(["log_entries", "spans", "measures", "counter_increases"]))}, ${quoteText(pick(o.processIds))})`,
            ["time", "process_id"],
          ];
        case 1:
          return ["list_partitions()", ["view_set", "row_count", "path", "partition_id", "begin_time", "schema_hash"]];
        case 2:
          return ["list_view_sets()", ["view_set", "kind", "column_count"]];
        case 3:
          return ["(SHOW TABLES)", ["name"]];
        default:
          return [
            pick([view, view, view, view, `"${view}"`, view.toUpperCase(), `main.${view}`, `telemetry.main."${view}"`]),
            columns[view],
          ];
      }
    }
    switch (below(11)) {
      case 10: {
        const values = `${word()}, ${word()}`;
        return [
          `(PIVOT (SELECT CAST(a0 AS VARCHAR) AS k, CAST(a1 AS VARCHAR) AS v FROM (${select(depth - 1, 2)})) ON k IN (${values}) USING max(v), count(*) GROUP BY v) AS pivoted`,
          ["v"],
        ];
      }
      case 9: {
        const [inner] = source(0);
        return [
          `(SELECT * FROM ${inner} PIVOT (count(*) FOR process_id IN (${quoteText(pick(o.processIds))}, ${quoteText(pick(o.processIds))}))) AS pivoted`,
          [],
        ];
      }
      case 8:
        return [
          `(UNPIVOT (SELECT CAST(a0 AS VARCHAR) AS u0, CAST(a1 AS VARCHAR) AS u1 FROM (${select(depth - 1, 2)})) ON u0, u1 INTO NAME n VALUE v) AS u`,
          ["n", "v"],
        ];
      case 7:
        return [
          `(SELECT ${views.map((view) => `(SELECT count(*) FROM ${view}) AS ${view}`).join(", ")}) AS counts`,
          views,
        ];
      case 6: {
        const view = views[below(views.length)] ?? "spans";
        return [
          `(SELECT process_id, count(*) AS n, min(CAST(${pick(columns[view])} AS VARCHAR)) AS least FROM ${view} GROUP BY ROLLUP (process_id) HAVING count(*) > ${below(3)}) AS g`,
          ["process_id", "n", "least"],
        ];
      }
      case 5:
        return [
          `(WITH RECURSIVE r AS (SELECT 1 AS n, (SELECT ${aggregate(0)}) AS a0 UNION ALL SELECT n + 1, a0 FROM r WHERE n < 3) SELECT * FROM r) AS rec`,
          ["n", "a0"],
        ];
      case 0:
        return [`(${select(depth - 1, 2)}) AS s${below(100)}`, ["a0", "a1"]];
      case 1: {
        const [left, names] = source(depth - 1);
        const [right] = source(0);
        return [`${left} CROSS JOIN (SELECT count(*) AS other FROM ${right}) AS j`, [...names, "other"]];
      }
      case 2: {
        const view = views[below(views.length)] ?? "spans";
        return [
          `${view} AS l${below(9)} ${pick(["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])} processes AS p USING (process_id)`,
          view === "processes" ? ["process_id"] : ["process_id"],
        ];
      }
      case 3:
        return [`(SUMMARIZE ${views[below(views.length)] ?? "spans"})`, ["column_name", "min", "max", "count"]];
      default:
        return [
          `(VALUES (${word()}), (${word()})) AS v(w), LATERAL (SELECT ${aggregate(depth - 1)}) AS t(c)`,
          ["w", "c"],
        ];
    }
  };

  /** Functions of a trace, and of a range of time. */
  const functionSource = (): readonly [string, readonly string[]] => {
    const trace = pick([quoteText(o.trace), quoteText(o.trace.toUpperCase()), word()]);
    const range = pick(["", "'2025-11-21T12:00:00Z', '2025-11-22'", `'2025-11-21', ${word()}`]);
    switch (below(4)) {
      case 0:
        return [`trace_tree(${trace})`, ["name", "path", "depth", "service_name", "self_ms", "properties", "time"]];
      case 1:
        return [`trace_logs(${trace})`, columns.log_entries];
      case 2:
        return [`service_edges(${range})`, ["caller", "callee", "calls", "errors", "p95_ms", "audience"]];
      default:
        return [`attribute_keys(${range}) AS k`, ["view", "key", "type", "distinct_values", "audience"]];
    }
  };

  const forbiddenScalars = [
    "getenv",
    "current_setting",
    "read_text",
    "json_serialize_sql",
    "currval",
    "getvariable",
    "pg_get_viewdef",
    "main.lower",
    "system.main.getenv",
    "retire_partition_by_file",
  ] as const;

  const forbiddenSource = (): string => {
    const name = pick([
      "read_parquet",
      "parquet_scan",
      "parquet_metadata",
      "parquet_bloom_probe",
      "read_text",
      "read_blob",
      "glob",
      "sniff_csv",
      "query_table",
      "query",
      "duckdb_views",
      "duckdb_tables",
      "duckdb_temporary_files",
      "duckdb_memory",
      "pragma_storage_info",
      "list_query_denials",
      "retire_partition_by_file",
      "apply_retention",
      "deny_queries",
      "materialize_partitions",
    ]);
    switch (below(6)) {
      case 0:
        return path();
      case 1:
        return `"${pick(o.paths)}"`;
      case 2:
        return pick([
          "query_log",
          "query_denials",
          "lakehouse_partitions",
          "svc_list_partitions",
          "svc_rows",
          "svc_call_0",
          "temp.log_entries",
          "memory.main.log_entries",
          "information_schema.schemata",
          "memory.information_schema.tables",
          "pg_catalog.pg_class",
          "duckdb_views",
          "sqlite_master",
        ]);
      default:
        return `${name}(${path()})`;
    }
  };

  const select = (depth: number, width: number): string => {
    const [from, names] = source(depth);
    const items = Array.from({ length: width }, (_, i) => `${scalar(names, depth)} AS a${i}`);
    const where = random() < 0.5 ? ` WHERE ${condition(names, depth)}` : "";
    return `SELECT ${random() < 0.3 ? "DISTINCT " : ""}${items.join(", ")} FROM ${from}${where}`;
  };

  const cteNames = (): readonly string[] => [
    "a",
    "log_entries",
    "secret",
    '"a.b"',
    '"svc_rows"',
    `"${o.paths[0] ?? ""}"`,
  ];

  const statement = (): string => {
    const depth = 1 + below(3);
    const query = (): string => (random() < 0.4 ? `SELECT ${aggregate(depth)}` : select(depth, 1 + below(3)));
    switch (below(16)) {
      case 15:
        return `SUMMARIZE ${query()}`;
      case 14:
        return `EXPLAIN ANALYZE ${query()}`;
      case 13:
        return `FROM ${source(depth)[0]} QUALIFY count(*) OVER () > ${below(30)}`;
      case 12:
        return `WITH ${pick(["log_entries", "a"])} AS MATERIALIZED (${query()}), b AS (SELECT count(*) AS n FROM ${pick(["log_entries", "a", "spans"])}) SELECT (SELECT count(*) FROM ${pick(["log_entries", "a"])}), n FROM b`;
      case 0:
        return `EXPLAIN ${query()}`;
      case 1:
        return `DESCRIBE ${query()}`;
      case 2:
        return `WITH ${pick(cteNames())} AS (${query()}) SELECT * FROM ${pick(cteNames())}`;
      case 3:
        return `${select(depth, 1)} UNION ALL ${select(depth, 1)}`;
      case 4:
        return `${select(depth, 1)} ${pick(["EXCEPT", "INTERSECT"])} ${select(depth, 1)}`;
      case 5:
        return `SELECT * FROM (${query()}) ORDER BY ALL LIMIT ${below(5)}`;
      case 6:
        return `SELECT * FROM ${source(depth)[0]}`;
      default:
        return query();
    }
  };

  return () => {
    bound = random() < 0.15 ? [] : null;
    const sql = statement();
    const texts = bound ?? [];
    bound = null;
    // Not every text that was made has found its way into the statement.
    const used = texts.flatMap((_, i) => (sql.includes(`$${i + 1} AS`) ? [i] : []));
    return {
      sql: sql.replaceAll(/\$(\d) AS/gu, (_, n) => `$${used.indexOf(Number(n) - 1) + 1} AS`),
      values: used.map((i) => texts[i] ?? ""),
    };
  };
}
