/**
 * The OTLP messages by their JSON names (OTLP 1.x, "JSON Protobuf Encoding"; the proto3 JSON mapping):
 * what a transcoder from JSON to protobuf needs to know about every field. Names are accepted in
 * lowerCamelCase and as in the .proto file.
 */

/** How a field is written in JSON and in protobuf; numbers, because hot code switches on them. */
export const fieldKind = {
  message: 0,
  string: 1,
  /** bytes as hex digits: trace and span ids. */
  hex: 2,
  /** bytes as base64. */
  base64: 3,
  bool: 4,
  double: 5,
  fixed64: 6,
  sfixed64: 7,
  fixed32: 8,
  int64: 9,
  uint64: 10,
  uint32: 11,
  sint32: 12,
  /** A number or a name. */
  enum: 13,
} as const;

/** Wire type of each kind, by its number. */
const wireTypeOfKind = [2, 2, 2, 2, 0, 1, 1, 1, 5, 0, 0, 0, 0, 0] as const;

/** A field of a message. */
export interface JsonField {
  readonly number: number;
  /** A value of {@link fieldKind}. */
  readonly kind: number;
  /** Wire type of one value. */
  readonly wireType: number;
  readonly repeated: boolean;
  /** The bit of the field in its message. */
  readonly bit: number;
  /** Bits of the other members of its oneof. */
  readonly rivals: number;
  /** The message type; set for kind `message`, after all types are defined. */
  type: JsonMessage | null;
  readonly enumNames: ReadonlyMap<string, number> | null;
}

/** A name of a field, and what usually follows it: senders write their fields in one order. */
export interface JsonKey {
  readonly bytes: Uint8Array;
  readonly field: JsonField;
  /** The key that came behind this one the last time. */
  next: JsonKey | null;
}

/** A message type: its fields, found by the bytes of a JSON key. */
export class JsonMessage {
  readonly name: string;
  /** The key that came first the last time. */
  first: JsonKey | null = null;
  readonly #slots: Int32Array;
  readonly #keys: JsonKey[] = [];

  constructor(name: string, fields: ReadonlyMap<string, JsonField>) {
    this.name = name;
    this.#slots = new Int32Array(128).fill(-1);
    for (const [key, field] of fields) {
      this.#add(Buffer.from(key), field);
    }
  }

  /** The key `bytes[start, end)`, whose {@link keyHash} is given; null when no field has that name. */
  find(bytes: Uint8Array, start: number, end: number, hash: number): JsonKey | null {
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const index = this.#slots[slot]!;
      if (index === -1) {
        return null;
      }
      const key = this.#keys[index]!;
      if (sameBytes(key.bytes, bytes, start, end)) {
        return key;
      }
    }
  }

  #add(key: Uint8Array, field: JsonField): void {
    let hash = keyHashSeed;
    for (const byte of key) {
      hash = keyHash(hash, byte);
    }
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    while (this.#slots[slot] !== -1) {
      slot = (slot + 1) & mask;
    }
    this.#slots[slot] = this.#keys.length;
    this.#keys.push({ bytes: key, field, next: null });
  }
}

/** Hash of no bytes. */
export const keyHashSeed = 17;

/** Adds a byte to the hash of a key. */
export function keyHash(hash: number, byte: number): number {
  return (Math.imul(hash, 31) + byte) | 0;
}

function sameBytes(key: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (key.length !== end - start) {
    return false;
  }
  for (let index = 0; index < key.length; index++) {
    if (key[index] !== bytes[start + index]) {
      return false;
    }
  }
  return true;
}

/** `"kind number"`, `"kind number oneof"`, repeated kinds with `[]`; `Name number` for messages. */
type FieldTexts = Readonly<Record<string, string>>;

const enums: Readonly<Record<string, readonly string[]>> = {
  AggregationTemporality: [
    "AGGREGATION_TEMPORALITY_UNSPECIFIED",
    "AGGREGATION_TEMPORALITY_DELTA",
    "AGGREGATION_TEMPORALITY_CUMULATIVE",
  ],
  SpanKind: [
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
  ],
  StatusCode: ["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"],
  SeverityNumber: [
    "SEVERITY_NUMBER_UNSPECIFIED",
    ...["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"].flatMap((name) =>
      ["", "2", "3", "4"].map((step) => `SEVERITY_NUMBER_${name}${step}`),
    ),
  ],
};

const pointFields = {
  attributes: "KeyValue[] 7",
  start_time_unix_nano: "fixed64 2",
  time_unix_nano: "fixed64 3",
} as const;

const definitions: Readonly<Record<string, FieldTexts>> = {
  AnyValue: {
    string_value: "string 1 value",
    bool_value: "bool 2 value",
    int_value: "int64 3 value",
    double_value: "double 4 value",
    array_value: "ArrayValue 5 value",
    kvlist_value: "KeyValueList 6 value",
    bytes_value: "base64 7 value",
  },
  ArrayValue: { values: "AnyValue[] 1" },
  KeyValueList: { values: "KeyValue[] 1" },
  KeyValue: { key: "string 1", value: "AnyValue 2" },
  InstrumentationScope: {
    name: "string 1",
    version: "string 2",
    attributes: "KeyValue[] 3",
    dropped_attributes_count: "uint32 4",
  },
  Resource: {
    attributes: "KeyValue[] 1",
    dropped_attributes_count: "uint32 2",
    entity_refs: "EntityRef[] 3",
  },
  EntityRef: {
    schema_url: "string 1",
    type: "string 2",
    id_keys: "string[] 3",
    description_keys: "string[] 4",
  },
  LogsRequest: { resource_logs: "ResourceLogs[] 1" },
  ResourceLogs: { resource: "Resource 1", scope_logs: "ScopeLogs[] 2", schema_url: "string 3" },
  ScopeLogs: {
    scope: "InstrumentationScope 1",
    log_records: "LogRecord[] 2",
    schema_url: "string 3",
  },
  LogRecord: {
    time_unix_nano: "fixed64 1",
    observed_time_unix_nano: "fixed64 11",
    severity_number: "SeverityNumber 2",
    severity_text: "string 3",
    body: "AnyValue 5",
    attributes: "KeyValue[] 6",
    dropped_attributes_count: "uint32 7",
    flags: "fixed32 8",
    trace_id: "hex 9",
    span_id: "hex 10",
    event_name: "string 12",
  },
  MetricsRequest: { resource_metrics: "ResourceMetrics[] 1" },
  ResourceMetrics: {
    resource: "Resource 1",
    scope_metrics: "ScopeMetrics[] 2",
    schema_url: "string 3",
  },
  ScopeMetrics: {
    scope: "InstrumentationScope 1",
    metrics: "Metric[] 2",
    schema_url: "string 3",
  },
  Metric: {
    name: "string 1",
    description: "string 2",
    unit: "string 3",
    gauge: "Gauge 5 data",
    sum: "Sum 7 data",
    histogram: "Histogram 9 data",
    exponential_histogram: "ExponentialHistogram 10 data",
    summary: "Summary 11 data",
    metadata: "KeyValue[] 12",
  },
  Gauge: { data_points: "NumberDataPoint[] 1" },
  Sum: {
    data_points: "NumberDataPoint[] 1",
    aggregation_temporality: "AggregationTemporality 2",
    is_monotonic: "bool 3",
  },
  Histogram: {
    data_points: "HistogramDataPoint[] 1",
    aggregation_temporality: "AggregationTemporality 2",
  },
  ExponentialHistogram: {
    data_points: "ExponentialHistogramDataPoint[] 1",
    aggregation_temporality: "AggregationTemporality 2",
  },
  Summary: { data_points: "SummaryDataPoint[] 1" },
  NumberDataPoint: {
    ...pointFields,
    as_double: "double 4 value",
    as_int: "sfixed64 6 value",
    exemplars: "Exemplar[] 5",
    flags: "uint32 8",
  },
  HistogramDataPoint: {
    ...pointFields,
    attributes: "KeyValue[] 9",
    count: "fixed64 4",
    sum: "double 5",
    bucket_counts: "fixed64[] 6",
    explicit_bounds: "double[] 7",
    exemplars: "Exemplar[] 8",
    flags: "uint32 10",
    min: "double 11",
    max: "double 12",
  },
  ExponentialHistogramDataPoint: {
    ...pointFields,
    attributes: "KeyValue[] 1",
    count: "fixed64 4",
    sum: "double 5",
    scale: "sint32 6",
    zero_count: "fixed64 7",
    positive: "Buckets 8",
    negative: "Buckets 9",
    flags: "uint32 10",
    exemplars: "Exemplar[] 11",
    min: "double 12",
    max: "double 13",
    zero_threshold: "double 14",
  },
  Buckets: { offset: "sint32 1", bucket_counts: "uint64[] 2" },
  SummaryDataPoint: {
    ...pointFields,
    count: "fixed64 4",
    sum: "double 5",
    quantile_values: "ValueAtQuantile[] 6",
    flags: "uint32 8",
  },
  ValueAtQuantile: { quantile: "double 1", value: "double 2" },
  Exemplar: {
    filtered_attributes: "KeyValue[] 7",
    time_unix_nano: "fixed64 2",
    as_double: "double 3 value",
    as_int: "sfixed64 6 value",
    span_id: "hex 4",
    trace_id: "hex 5",
  },
  TracesRequest: { resource_spans: "ResourceSpans[] 1" },
  ResourceSpans: { resource: "Resource 1", scope_spans: "ScopeSpans[] 2", schema_url: "string 3" },
  ScopeSpans: { scope: "InstrumentationScope 1", spans: "Span[] 2", schema_url: "string 3" },
  Span: {
    trace_id: "hex 1",
    span_id: "hex 2",
    trace_state: "string 3",
    parent_span_id: "hex 4",
    flags: "fixed32 16",
    name: "string 5",
    kind: "SpanKind 6",
    start_time_unix_nano: "fixed64 7",
    end_time_unix_nano: "fixed64 8",
    attributes: "KeyValue[] 9",
    dropped_attributes_count: "uint32 10",
    events: "Event[] 11",
    dropped_events_count: "uint32 12",
    links: "Link[] 13",
    dropped_links_count: "uint32 14",
    status: "Status 15",
  },
  Event: {
    time_unix_nano: "fixed64 1",
    name: "string 2",
    attributes: "KeyValue[] 3",
    dropped_attributes_count: "uint32 4",
  },
  Link: {
    trace_id: "hex 1",
    span_id: "hex 2",
    trace_state: "string 3",
    attributes: "KeyValue[] 4",
    dropped_attributes_count: "uint32 5",
    flags: "fixed32 6",
  },
  Status: { message: "string 2", code: "StatusCode 3" },
};

function camelCase(name: string): string {
  return name.replaceAll(/_([a-z])/gu, (_, letter: string) => letter.toUpperCase());
}

interface ParsedField {
  readonly type: string;
  readonly repeated: boolean;
  readonly number: number;
  readonly oneof: string | undefined;
}

function parseField(text: string): ParsedField {
  const [type = "", number, oneof] = text.split(" ");
  return {
    type: type.replace("[]", ""),
    repeated: type.endsWith("[]"),
    number: Number(number),
    oneof,
  };
}

function createField(parsed: readonly ParsedField[], index: number): JsonField {
  const { type, repeated, number, oneof } = parsed[index]!;
  const names = enums[type];
  let rivals = 0;
  parsed.forEach((other, at) => {
    if (at !== index && oneof !== undefined && other.oneof === oneof) {
      rivals |= 1 << at;
    }
  });
  const scalar = Object.entries(fieldKind).find(([name]) => name === type)?.[1];
  const kind = names === undefined ? (scalar ?? fieldKind.message) : fieldKind.enum;
  return {
    number,
    kind,
    wireType: wireTypeOfKind[kind],
    repeated,
    bit: 1 << index,
    rivals,
    type: null,
    enumNames: names === undefined ? null : new Map(names.map((name, value) => [name, value])),
  };
}

/** The request messages of logs, metrics and traces, in this order. */
export function createRequestTypes(): readonly JsonMessage[] {
  const types = new Map<string, JsonMessage>();
  const open: { field: JsonField; type: string }[] = [];
  for (const [name, texts] of Object.entries(definitions)) {
    const parsed = Object.values(texts).map(parseField);
    const fields = new Map<string, JsonField>();
    Object.keys(texts).forEach((fieldName, index) => {
      const field = createField(parsed, index);
      fields.set(fieldName, field);
      fields.set(camelCase(fieldName), field);
      if (field.kind === fieldKind.message) {
        open.push({ field, type: parsed[index]!.type });
      }
    });
    types.set(name, new JsonMessage(name, fields));
  }
  const typeOf = (name: string): JsonMessage => {
    const type = types.get(name);
    if (type === undefined) {
      throw new Error(`no message type ${name}`);
    }
    return type;
  };
  for (const { field, type } of open) {
    field.type = typeOf(type);
  }
  return ["LogsRequest", "MetricsRequest", "TracesRequest"].map(typeOf);
}
