/**
 * The tables of the lake: columns in order, types, nullability. `docs/schema.md` says the same in prose.
 * A change here changes the schema hash of new objects; readers union by name, so adding is safe.
 */
import {
  BoolColumn,
  type Column,
  Float64Column,
  Int32Column,
  Int64Column,
  type LeafColumn,
  ListColumn,
  RunColumn,
  Utf8Column,
} from "./columns.js";

/** What a leaf stores. `run_*` types are run columns over a dictionary (see columns.ts). */
export type LeafType =
  | "timestamp_ns"
  | "int64"
  | "uint64"
  | "int32"
  | "float64"
  | "bool"
  | "utf8"
  | "run_utf8"
  | "run_int64"
  | "run_timestamp_ns";

/** One leaf of a table or of a list's elements. */
export interface LeafDefinition<T extends LeafType = LeafType> {
  readonly type: T;
  readonly nullable: boolean;
}

/** A list column: elements are structs of `children`, or bare values when the only child is `element`. */
export interface ListDefinition<C extends Record<string, LeafDefinition> = Record<string, LeafDefinition>> {
  readonly type: "list";
  readonly children: C;
}

/** One column of a table. */
export type ColumnDefinition = LeafDefinition | ListDefinition;

/** Columns of a table in file order. */
export type TableDefinition = Record<string, ColumnDefinition>;

interface LeafColumns {
  timestamp_ns: Int64Column;
  int64: Int64Column;
  uint64: Int64Column;
  int32: Int32Column;
  float64: Float64Column;
  bool: BoolColumn;
  utf8: Utf8Column;
  run_utf8: RunColumn;
  run_int64: RunColumn;
  run_timestamp_ns: RunColumn;
}

/** The builders of a table, by column name. */
export type ColumnsOf<T extends TableDefinition> = {
  readonly [K in keyof T]: T[K] extends LeafDefinition<infer L>
    ? LeafColumns[L]
    : T[K] extends ListDefinition<infer C>
      ? ListColumn<{ [E in keyof C]: LeafColumns[C[E]["type"]] }>
      : never;
};

const leaf = <T extends LeafType>(type: T, nullable = false): LeafDefinition<T> => ({
  type,
  nullable,
});
const list = <C extends Record<string, LeafDefinition>>(children: C): ListDefinition<C> => ({
  type: "list",
  children,
});

/** Who sent the row: equal for all rows of a block. UUIDs are lower-case text. */
const processColumns = {
  process_id: leaf("run_utf8"),
  stream_id: leaf("run_utf8"),
  block_id: leaf("run_utf8"),
  insert_time: leaf("run_timestamp_ns"),
  service_namespace: leaf("run_utf8", true),
  service_name: leaf("run_utf8", true),
  service_instance_id: leaf("run_utf8", true),
  service_version: leaf("run_utf8", true),
  host_name: leaf("run_utf8", true),
  /** All resource attributes as a JSON object. */
  process_properties: leaf("run_utf8"),
  resource_schema_url: leaf("run_utf8", true),
  resource_dropped_attributes_count: leaf("run_int64"),
  /** What entities the resource describes, a JSON array; null where it names none. */
  resource_entity_refs: leaf("run_utf8", true),
};

/** The instrumentation scope; `target` is its name. */
const scopeColumns = {
  target: leaf("run_utf8"),
  scope_version: leaf("run_utf8", true),
  scope_properties: leaf("run_utf8"),
  scope_dropped_attributes_count: leaf("run_int64"),
  scope_schema_url: leaf("run_utf8", true),
};

/** OTLP exemplars; exactly one of value and value_int is set, or neither. Ids are lower-case hex. */
const exemplars = list({
  time: leaf("timestamp_ns", true),
  value: leaf("float64", true),
  value_int: leaf("int64", true),
  trace_id: leaf("utf8", true),
  span_id: leaf("utf8", true),
  properties: leaf("utf8"),
});

/** Metric fields that hold for all points of a metric. */
const metricColumns = {
  name: leaf("run_utf8"),
  unit: leaf("run_utf8"),
  description: leaf("run_utf8"),
  /** sum, gauge / histogram, exponential_histogram, summary. */
  metric_type: leaf("run_utf8"),
  /** unspecified, delta, cumulative; null where the type has none. */
  temporality: leaf("run_utf8", true),
  metric_properties: leaf("run_utf8"),
};

/** What tables of points end with. */
const pointColumns = {
  flags: leaf("int64"),
  properties: leaf("utf8"),
  exemplars,
  ...scopeColumns,
  ...processColumns,
};

/** Log records (OTLP LogRecord). */
export const logEntries = {
  /** time_unix_nano, else observed_time_unix_nano, else the time of receipt. */
  time: leaf("timestamp_ns"),
  /** time_unix_nano as sent, null when 0. */
  event_time: leaf("timestamp_ns", true),
  observed_time: leaf("timestamp_ns", true),
  /** 1 fatal .. 6 trace, from severity_number; null when unspecified and severity_text says nothing. */
  level: leaf("int32", true),
  severity_number: leaf("int32"),
  severity_text: leaf("utf8", true),
  /** A string body verbatim, any other body as JSON, null without body. */
  msg: leaf("utf8", true),
  /** string, bool, int, double, bytes, array, kvlist, or empty: the kind of AnyValue in the body. */
  body_type: leaf("run_utf8"),
  event_name: leaf("utf8", true),
  trace_id: leaf("utf8", true),
  span_id: leaf("utf8", true),
  /** Flags as sent (uint32), in the low half of a 64-bit integer. */
  flags: leaf("int64"),
  properties: leaf("utf8"),
  dropped_attributes_count: leaf("int64"),
  ...scopeColumns,
  ...processColumns,
} satisfies TableDefinition;

/** Points of sums and gauges (OTLP NumberDataPoint). */
const measures = {
  time: leaf("timestamp_ns"),
  start_time: leaf("timestamp_ns", true),
  ...metricColumns,
  is_monotonic: leaf("bool", true),
  /** The value as a double, whichever kind was sent; null when the point holds none. */
  value: leaf("float64", true),
  /** The exact integer when the point was sent as one. */
  value_int: leaf("int64", true),
  ...pointColumns,
} satisfies TableDefinition;

/** Points of histograms, exponential histograms and summaries. */
const histograms = {
  time: leaf("timestamp_ns"),
  start_time: leaf("timestamp_ns", true),
  ...metricColumns,
  count: leaf("uint64"),
  sum: leaf("float64", true),
  min: leaf("float64", true),
  max: leaf("float64", true),
  bucket_counts: list({ element: leaf("uint64") }),
  explicit_bounds: list({ element: leaf("float64") }),
  /** Exponential histograms only, null otherwise. */
  scale: leaf("int32", true),
  zero_count: leaf("uint64", true),
  zero_threshold: leaf("float64", true),
  positive_offset: leaf("int32", true),
  positive_bucket_counts: list({ element: leaf("uint64") }),
  negative_offset: leaf("int32", true),
  negative_bucket_counts: list({ element: leaf("uint64") }),
  /** Summaries only, empty otherwise. */
  quantiles: list({ quantile: leaf("float64"), value: leaf("float64") }),
  ...pointColumns,
} satisfies TableDefinition;

/** Spans with their events and links (OTLP Span). */
const spans = {
  /** start_time_unix_nano. */
  time: leaf("timestamp_ns"),
  end_time: leaf("timestamp_ns"),
  /** end - start in nanoseconds; negative when the clock went back. */
  duration_ns: leaf("int64"),
  trace_id: leaf("utf8"),
  span_id: leaf("utf8"),
  parent_span_id: leaf("utf8", true),
  trace_state: leaf("utf8", true),
  name: leaf("utf8"),
  /** OTLP enum: 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  kind: leaf("int32"),
  /** OTLP enum: 0 unset, 1 ok, 2 error. */
  status_code: leaf("int32"),
  status_message: leaf("utf8", true),
  flags: leaf("int64"),
  properties: leaf("utf8"),
  dropped_attributes_count: leaf("int64"),
  events: list({
    time: leaf("timestamp_ns"),
    name: leaf("utf8"),
    properties: leaf("utf8"),
    dropped_attributes_count: leaf("int64"),
  }),
  dropped_events_count: leaf("int64"),
  links: list({
    trace_id: leaf("utf8"),
    span_id: leaf("utf8"),
    trace_state: leaf("utf8", true),
    flags: leaf("int64"),
    properties: leaf("utf8"),
    dropped_attributes_count: leaf("int64"),
  }),
  dropped_links_count: leaf("int64"),
  ...scopeColumns,
  ...processColumns,
} satisfies TableDefinition;

/** Every table of the lake by name. */
export const tables = {
  log_entries: logEntries,
  measures,
  histograms,
  spans,
} as const satisfies Record<string, TableDefinition>;

/** Name of a lake table. */
export type TableName = keyof typeof tables;

export type LogColumns = ColumnsOf<typeof logEntries>;
export type MeasureColumns = ColumnsOf<typeof measures>;

function createLeaf(type: LeafType): LeafColumn {
  switch (type) {
    case "timestamp_ns":
    case "int64":
    case "uint64":
      return new Int64Column();
    case "int32":
      return new Int32Column();
    case "float64":
      return new Float64Column();
    case "bool":
      return new BoolColumn();
    case "utf8":
      return new Utf8Column();
    case "run_utf8":
    case "run_int64":
    case "run_timestamp_ns":
      return new RunColumn();
  }
}

/** Empty builders for every column of a table. */
export function createColumns<T extends TableDefinition>(definition: T): ColumnsOf<T> {
  const columns: Record<string, Column> = {};
  for (const [name, column] of Object.entries(definition)) {
    columns[name] =
      column.type === "list"
        ? new ListColumn(
            Object.fromEntries(Object.entries(column.children).map(([child, { type }]) => [child, createLeaf(type)])),
          )
        : createLeaf(column.type);
  }
  // Names that are computed leave an object in dictionary mode; the copy has a hidden class, which the
  // decoder's access to its columns wants.
  return { ...columns } as ColumnsOf<T>;
}
