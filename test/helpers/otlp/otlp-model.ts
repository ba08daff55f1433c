/**
 * What our tables hold for a request, said a second time and simply: from the plain data that protobufjs
 * decodes to rows of plain cells. Ids of process, stream and block are left out.
 */
import type { TableName } from "../../../src/lake/tables/tables.js";
import type { Cell, PlainRow } from "../lake/columns-to-rows.js";
import type { PlainMessage } from "./otlp-proto.js";

/** Rows by table, and what is reported about the request. */
interface ExpectedRequest {
  readonly rows: { readonly [T in TableName]: PlainRow[] };
  records: number;
  rejected: number;
  droppedAttributes: number;
}

const list = (value: unknown): readonly PlainMessage[] => (value ?? []) as readonly PlainMessage[];
const text = (value: unknown): string => (value ?? "") as string;
const optionalText = (value: unknown): string | null => (text(value) === "" ? null : text(value));
const number = (value: unknown): number => (value ?? 0) as number;
const optionalNumber = (value: unknown): number | null => (value ?? null) as number | null;
const long = (value: unknown): bigint => BigInt((value ?? "0") as string);
const time = (value: unknown): bigint | null => (long(value) === 0n ? null : long(value));
const uint32 = (value: unknown): bigint => BigInt(number(value));
const hex = (value: unknown): string => Buffer.from((value ?? []) as number[]).toString("hex");
const optionalHex = (value: unknown): string | null => (/[^0]/u.test(hex(value)) ? hex(value) : null);

const latest = 2n ** 63n - 1n;
const badTime = (value: unknown): boolean => long(value) >= latest;

/** A double as JSON that never reads as an integer. */
function doubleJson(value: number): string {
  if (!Number.isFinite(value)) {
    return `"${value}"`;
  }
  const digits = Object.is(value, -0) ? "-0" : String(value);
  return /[.e]/u.test(digits) ? digits : `${digits}.0`;
}

/** An AnyValue as JSON. */
function valueJson(value: unknown): string {
  const [kind, content] = Object.entries((value ?? {}) as PlainMessage)[0] ?? ["", null];
  switch (kind) {
    case "stringValue":
      return JSON.stringify(content);
    case "boolValue":
      return String(content);
    case "intValue":
      return content as string;
    case "doubleValue":
      return doubleJson(content as number);
    case "bytesValue":
      return JSON.stringify(Buffer.from(content as number[]).toString("base64"));
    case "arrayValue":
      return `[${list((content as PlainMessage)["values"])
        .map(valueJson)
        .join(",")}]`;
    case "kvlistValue":
      return `{${list((content as PlainMessage)["values"])
        .map(pairJson)
        .join(",")}}`;
    default:
      return "null";
  }
}

function pairJson(pair: PlainMessage): string {
  return `${JSON.stringify(text(pair["key"]))}:${valueJson(pair["value"])}`;
}

function entityRefs(value: unknown): string | null {
  const refs = list(value).map((ref) => {
    const fields = {
      schema_url: ref["schemaUrl"],
      type: ref["type"],
      id_keys: ref["idKeys"],
      description_keys: ref["descriptionKeys"],
    };
    return Object.fromEntries(Object.entries(fields).filter(([, it]) => ((it ?? "") as string).length > 0));
  });
  return refs.length === 0 ? null : JSON.stringify(refs);
}

const levels = [null, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1];
const levelsByText: Record<string, number> = {
  fatal: 1,
  error: 2,
  warn: 3,
  info: 4,
  debug: 5,
  trace: 6,
};

const bodyTypes: Record<string, string> = {
  stringValue: "string",
  boolValue: "bool",
  intValue: "int",
  doubleValue: "double",
  arrayValue: "array",
  kvlistValue: "kvlist",
  bytesValue: "bytes",
};

const dataKinds = ["gauge", "sum", "histogram", "exponentialHistogram", "summary"];
const temporalities = ["unspecified", "delta", "cumulative"];

/** Attributes in the order of their names, as JSON has them up to the first quotation mark and colon. */
function inOrder(value: unknown): PlainMessage[] {
  const name = (pair: PlainMessage): Buffer => {
    const json = pairJson(pair);
    return Buffer.from(json.slice(0, json.indexOf('":', 1)));
  };
  return list(value).toSorted((a, b) => name(a).compare(name(b)));
}

/** Expected rows of one request under the given time of receipt. */
export function expectRequest(signal: 1 | 2 | 3, request: PlainMessage, received: bigint): ExpectedRequest {
  const result: ExpectedRequest = {
    rows: { log_entries: [], measures: [], histograms: [], spans: [] },
    records: 0,
    rejected: 0,
    droppedAttributes: 0,
  };
  /** Attributes as a JSON object; reserved ones are counted and left out. */
  const attributes = (value: unknown): string => {
    const kept = list(value).filter((pair) => !text(pair["key"]).startsWith("svc."));
    result.droppedAttributes += list(value).length - kept.length;
    return `{${kept.map(pairJson).join(",")}}`;
  };
  const keep = (table: TableName, isBad: boolean, row: PlainRow): void => {
    if (isBad) {
      result.rejected++;
      return;
    }
    result.records++;
    result.rows[table].push(row);
  };

  const badOptionalIds = (message: PlainMessage): boolean =>
    ![0, 32].includes(hex(message["traceId"]).length) || ![0, 16].includes(hex(message["spanId"]).length);

  const logRecord = (log: PlainMessage, shared: PlainRow): void => {
    const [bodyKind] = Object.keys(log["body"] ?? {});
    const body = log["body"] as PlainMessage | undefined;
    const severity = number(log["severityNumber"]);
    const isBad = badTime(log["timeUnixNano"]) || badTime(log["observedTimeUnixNano"]) || badOptionalIds(log);
    keep("log_entries", isBad, {
      time: time(log["timeUnixNano"]) ?? time(log["observedTimeUnixNano"]) ?? received,
      event_time: time(log["timeUnixNano"]),
      observed_time: time(log["observedTimeUnixNano"]),
      level:
        severity === 0 ? (levelsByText[text(log["severityText"]).toLowerCase()] ?? null) : (levels[severity] ?? null),
      severity_number: severity,
      severity_text: optionalText(log["severityText"]),
      msg: bodyKind === undefined ? null : bodyKind === "stringValue" ? text(body?.["stringValue"]) : valueJson(body),
      body_type: bodyKind === undefined ? "empty" : (bodyTypes[bodyKind] ?? "?"),
      event_name: optionalText(log["eventName"]),
      trace_id: optionalHex(log["traceId"]),
      span_id: optionalHex(log["spanId"]),
      flags: uint32(log["flags"]),
      properties: attributes(log["attributes"]),
      dropped_attributes_count: uint32(log["droppedAttributesCount"]),
      ...shared,
    });
  };

  const span = (it: PlainMessage, shared: PlainRow): void => {
    const events = list(it["events"]);
    const links = list(it["links"]);
    const parent = hex(it["parentSpanId"]);
    const status = (it["status"] ?? {}) as PlainMessage;
    const isBad =
      [it["startTimeUnixNano"], it["endTimeUnixNano"], ...events.map((e) => e["timeUnixNano"])].some(badTime) ||
      hex(it["traceId"]).length !== 32 ||
      optionalHex(it["traceId"]) === null ||
      hex(it["spanId"]).length !== 16 ||
      optionalHex(it["spanId"]) === null ||
      ![0, 16].includes(parent.length) ||
      links.some(badOptionalIds);
    keep("spans", isBad, {
      time: long(it["startTimeUnixNano"]),
      end_time: long(it["endTimeUnixNano"]),
      duration_ns: long(it["endTimeUnixNano"]) - long(it["startTimeUnixNano"]),
      trace_id: hex(it["traceId"]),
      span_id: hex(it["spanId"]),
      parent_span_id: optionalHex(it["parentSpanId"]),
      trace_state: optionalText(it["traceState"]),
      name: text(it["name"]),
      kind: number(it["kind"]),
      status_code: number(status["code"]),
      status_message: optionalText(status["message"]),
      flags: uint32(it["flags"]),
      properties: attributes(it["attributes"]),
      dropped_attributes_count: uint32(it["droppedAttributesCount"]),
      events: events.map((event) => ({
        time: long(event["timeUnixNano"]),
        name: text(event["name"]),
        properties: attributes(event["attributes"]),
        dropped_attributes_count: uint32(event["droppedAttributesCount"]),
      })),
      dropped_events_count: uint32(it["droppedEventsCount"]),
      links: links.map((link) => ({
        trace_id: optionalHex(link["traceId"]) ?? "",
        span_id: optionalHex(link["spanId"]) ?? "",
        trace_state: optionalText(link["traceState"]),
        flags: uint32(link["flags"]),
        properties: attributes(link["attributes"]),
        dropped_attributes_count: uint32(link["droppedAttributesCount"]),
      })),
      dropped_links_count: uint32(it["droppedLinksCount"]),
      ...shared,
    });
  };

  const exemplars = (value: unknown): readonly unknown[] =>
    list(value).map((exemplar) => ({
      time: time(exemplar["timeUnixNano"]),
      value: optionalNumber(exemplar["asDouble"]),
      value_int: exemplar["asInt"] === undefined ? null : long(exemplar["asInt"]),
      trace_id: optionalHex(exemplar["traceId"]),
      span_id: optionalHex(exemplar["spanId"]),
      properties: attributes(exemplar["filteredAttributes"]),
    }));

  const badPoint = (point: PlainMessage): boolean =>
    badTime(point["startTimeUnixNano"]) ||
    badTime(point["timeUnixNano"]) ||
    list(point["exemplars"]).some((e) => badTime(e["timeUnixNano"]) || badOptionalIds(e));

  const metric = (it: PlainMessage, common: PlainRow): void => {
    const [kind = ""] = Object.keys(it).filter((key) => dataKinds.includes(key));
    const data = (it[kind] ?? {}) as PlainMessage;
    const temporality = temporalities[number(data["aggregationTemporality"])] ?? "unspecified";
    const shared: PlainRow = {
      ...common,
      name: text(it["name"]),
      unit: text(it["unit"]),
      description: text(it["description"]),
      metric_type: kind === "exponentialHistogram" ? "exponential_histogram" : kind,
      temporality: kind === "gauge" || kind === "summary" ? null : temporality,
      metric_properties: attributes(it["metadata"]),
    };
    for (const point of list(data["dataPoints"])) {
      const base: PlainRow = {
        ...shared,
        time: time(point["timeUnixNano"]) ?? received,
        start_time: time(point["startTimeUnixNano"]),
        flags: uint32(point["flags"]),
        properties: attributes(point["attributes"]),
        exemplars: exemplars(point["exemplars"]),
      };
      if (kind === "gauge" || kind === "sum") {
        const asInt = point["asInt"];
        keep("measures", badPoint(point), {
          ...base,
          is_monotonic: kind === "sum" ? ((data["isMonotonic"] ?? false) as boolean) : null,
          value: asInt === undefined ? optionalNumber(point["asDouble"]) : Number(asInt),
          value_int: asInt === undefined ? null : long(asInt),
        });
        continue;
      }
      const isExponential = kind === "exponentialHistogram";
      const positive = point["positive"] as PlainMessage | undefined;
      const negative = point["negative"] as PlainMessage | undefined;
      const counts = (value: unknown): bigint[] => ((value ?? []) as string[]).map(BigInt);
      const offset = (buckets: PlainMessage | undefined): Cell =>
        buckets === undefined ? null : number(buckets["offset"]);
      keep("histograms", badPoint(point), {
        ...base,
        count: long(point["count"]),
        sum: kind === "summary" ? number(point["sum"]) : optionalNumber(point["sum"]),
        min: optionalNumber(point["min"]),
        max: optionalNumber(point["max"]),
        bucket_counts: counts(point["bucketCounts"]),
        explicit_bounds: (point["explicitBounds"] ?? []) as number[],
        scale: isExponential ? number(point["scale"]) : null,
        zero_count: isExponential ? long(point["zeroCount"]) : null,
        zero_threshold: isExponential ? number(point["zeroThreshold"]) : null,
        positive_offset: offset(positive),
        positive_bucket_counts: counts(positive?.["bucketCounts"]),
        negative_offset: offset(negative),
        negative_bucket_counts: counts(negative?.["bucketCounts"]),
        quantiles: list(point["quantileValues"]).map((q) => ({
          quantile: number(q["quantile"]),
          value: number(q["value"]),
        })),
      });
    }
  };

  const [entries, scopes, items] = {
    1: ["resourceLogs", "scopeLogs", "logRecords"],
    2: ["resourceMetrics", "scopeMetrics", "metrics"],
    3: ["resourceSpans", "scopeSpans", "spans"],
  }[signal] as [string, string, string];
  for (const entry of list(request[entries])) {
    const resource = (entry["resource"] ?? {}) as PlainMessage;
    const named = (key: string): string | null => {
      const pair = list(resource["attributes"]).findLast((it) => text(it["key"]) === key);
      const value = (pair?.["value"] ?? {}) as PlainMessage;
      if (pair === undefined) {
        return null;
      }
      if (value["stringValue"] !== undefined) {
        return text(value["stringValue"]);
      }
      return Object.keys(value).length === 0 ? "" : valueJson(value);
    };
    const process: PlainRow = {
      insert_time: received,
      service_namespace: named("service.namespace"),
      service_name: named("service.name"),
      service_instance_id: named("service.instance.id"),
      service_version: named("service.version"),
      host_name: named("host.name"),
      process_properties: attributes(inOrder(resource["attributes"])),
      resource_schema_url: optionalText(entry["schemaUrl"]),
      resource_dropped_attributes_count: uint32(resource["droppedAttributesCount"]),
      resource_entity_refs: entityRefs(resource["entityRefs"]),
    };
    for (const scopeEntry of list(entry[scopes])) {
      const scope = (scopeEntry["scope"] ?? {}) as PlainMessage;
      const shared: PlainRow = {
        ...process,
        target: text(scope["name"]),
        scope_version: optionalText(scope["version"]),
        scope_properties: attributes(inOrder(scope["attributes"])),
        scope_dropped_attributes_count: uint32(scope["droppedAttributesCount"]),
        scope_schema_url: optionalText(scopeEntry["schemaUrl"]),
      };
      for (const item of list(scopeEntry[items])) {
        if (signal === 1) {
          logRecord(item, shared);
        } else if (signal === 2) {
          metric(item, shared);
        } else {
          span(item, shared);
        }
      }
    }
  }
  return result;
}
