/** What the real OpenTelemetry JS SDK sends stands in the Parquet objects, field by field. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { startTestIngestion, type TestIngestion } from "../helpers/ingest-server.js";
import { linked, type SdkIds, sendWithSdk, startMs } from "../helpers/sdk-traffic.js";

let t: TestIngestion;

beforeAll(async () => {
  t = await startTestIngestion();
});

afterAll(async () => {
  await t.stop();
});

const ns = (ms: number): string => String(BigInt(ms) * 1_000_000n);

describe.each([
  { format: "protobuf", compression: "none" },
  { format: "protobuf", compression: "gzip" },
  { format: "json", compression: "none" },
  { format: "json", compression: "gzip" },
] as const)("$format, compression $compression", ({ format, compression }) => {
  const service = `sdk-${format}-${compression}`;
  let ids: SdkIds;
  const mine = `service_name = '${service}'`;

  beforeAll(async () => {
    ids = await sendWithSdk({ url: t.url, key: t.key, format, compression, service });
  });

  test("the process columns and the process row", async () => {
    const rows = await t.rows(
      "log_entries",
      `select distinct service_namespace, service_version, service_instance_id, host_name,
         process_properties->>'process.pid' as pid from t where ${mine}`,
    );
    expect(rows).toEqual([
      {
        service_namespace: "shop",
        service_version: "1.2.3",
        service_instance_id: `${service}-1`,
        host_name: "node-7",
        pid: "4242",
      },
    ]);
    const processes = await t.database.sql`
      select service_namespace, service_version, host_name, process_pid::int as pid, audience
      from processes where service_name = ${service}`;
    expect([...processes]).toEqual([
      {
        service_namespace: "shop",
        service_version: "1.2.3",
        host_name: "node-7",
        pid: 4242,
        audience: "team-a",
      },
    ]);
  });

  test("log records", async () => {
    const rows = await t.rows(
      "log_entries",
      `select epoch_ns(event_time)::varchar as event_time, epoch_ns(observed_time)::varchar as observed_time,
         level, severity_number, severity_text, msg, body_type, event_name, trace_id, span_id,
         properties, target, scope_version
       from t where ${mine} order by time`,
    );
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({
      event_time: ns(startMs),
      observed_time: ns(startMs + 1),
      level: 3,
      severity_number: 13,
      severity_text: "WARN",
      msg: "stock is low – 3 left ☃",
      body_type: "string",
      trace_id: ids.traceId,
      span_id: ids.rootSpanId,
      target: "orders",
      scope_version: "2.0.0",
    });
    expect(JSON.parse(rows[0]?.["properties"] as string)).toEqual({
      item: "tea",
      left: 3,
      ratio: 0.25,
      urgent: false,
      tags: ["a", "b"],
    });
    expect(rows[1]).toMatchObject({
      level: 2,
      severity_number: 17,
      body_type: "kvlist",
      event_name: "order.failed",
      trace_id: null,
      span_id: null,
    });
    expect(JSON.parse(rows[1]?.["msg"] as string)).toEqual({ order: 7, reason: { code: "E1" } });
  });

  test("sums and gauges", async () => {
    const rows = await t.rows(
      "measures",
      `select name, unit, description, metric_type, temporality, is_monotonic, value, properties, target
       from t where ${mine} order by name`,
    );
    expect(rows).toEqual([
      {
        name: "queue.depth",
        unit: "",
        description: "",
        metric_type: "sum",
        temporality: "cumulative",
        is_monotonic: false,
        value: -2,
        properties: "{}",
        target: "runtime",
      },
      {
        name: "requests",
        unit: "1",
        description: "Requests",
        metric_type: "sum",
        temporality: "cumulative",
        is_monotonic: true,
        value: 5,
        properties: '{"route":"/a"}',
        target: "runtime",
      },
      {
        name: "temperature",
        unit: "Cel",
        description: "",
        metric_type: "gauge",
        temporality: null,
        is_monotonic: null,
        value: 21.5,
        properties: "{}",
        target: "runtime",
      },
      {
        name: "uptime",
        unit: "",
        description: "",
        metric_type: "gauge",
        temporality: null,
        is_monotonic: null,
        value: 99,
        properties: '{"source":"callback"}',
        target: "runtime",
      },
    ]);
  });

  test("histograms and exponential histograms", async () => {
    const rows = await t.rows(
      "histograms",
      `select name, metric_type, count::int as count, sum, min, max,
         bucket_counts::int[] as bucket_counts, explicit_bounds, scale, zero_count::int as zero_count,
         list_sum(positive_bucket_counts::int[])::int as positive
       from t where ${mine} order by name`,
    );
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({
      name: "latency",
      metric_type: "histogram",
      count: 3,
      sum: 555,
      min: 5,
      max: 500,
      bucket_counts: [1, 1, 1],
      explicit_bounds: [10, 100],
      scale: null,
    });
    expect(rows[1]).toMatchObject({
      name: "payload.size",
      metric_type: "exponential_histogram",
      count: 4,
      sum: 1007,
      min: 1,
      max: 1000,
      zero_count: 0,
      positive: 4,
    });
    expect(rows[1]?.["scale"]).toBeTypeOf("number");
  });

  test("spans with their events and links", async () => {
    const rows = await t.rows(
      "spans",
      `select epoch_ns(time)::varchar as start, epoch_ns(end_time)::varchar as "end",
         duration_ns::varchar as duration, trace_id, span_id, parent_span_id, name, kind, status_code,
         status_message, properties, target, scope_version,
         [epoch_ns(e.time)::varchar for e in events] as event_times, [e.name for e in events] as event_names,
         [e.properties for e in events] as event_properties,
         [l.trace_id for l in links] as link_traces, [l.span_id for l in links] as link_spans,
         [l.properties for l in links] as link_properties
       from t where ${mine} order by time`,
    );
    expect(rows).toEqual([
      {
        start: ns(startMs),
        end: ns(startMs + 10),
        duration: "10000000",
        trace_id: ids.traceId,
        span_id: ids.rootSpanId,
        parent_span_id: null,
        name: "POST /checkout",
        kind: 2,
        status_code: 0,
        status_message: null,
        properties: '{"http.route":"/checkout"}',
        target: "checkout",
        scope_version: "0.9.0",
        event_times: [],
        event_names: [],
        event_properties: [],
        link_traces: [],
        link_spans: [],
        link_properties: [],
      },
      {
        start: ns(startMs + 1),
        end: ns(startMs + 5),
        duration: "4000000",
        trace_id: ids.traceId,
        span_id: ids.childSpanId,
        parent_span_id: ids.rootSpanId,
        name: "charge card",
        kind: 3,
        status_code: 2,
        status_message: "card declined",
        properties: "{}",
        target: "checkout",
        scope_version: "0.9.0",
        event_times: [ns(startMs + 2), ns(startMs + 3)],
        event_names: ["declined", "retried"],
        event_properties: ['{"code":51,"final":true}', "{}"],
        link_traces: [linked.traceId],
        link_spans: [linked.spanId],
        link_properties: ['{"reason":"retry of"}'],
      },
    ]);
  });
});
