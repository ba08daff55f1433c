/**
 * The main path, end to end: what the real OpenTelemetry JS SDK sends is read back field by field, from
 * the Parquet objects and through Flight SQL by clients that nobody here wrote.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import type { TableName } from "../../src/lake/tables/tables.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { type AnalyticsServer, startAnalyticsServer } from "../../src/servers/analytics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { flightClients } from "../helpers/flight/flight-clients.js";
import type { FlightTarget } from "../helpers/flight/plain-rows.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";
import { encodePlain } from "../helpers/otlp/otlp-proto.js";
import { linked, type SdkIds, sendWithSdk, startMs } from "../helpers/otlp/sdk-traffic.js";

let t: TestIngestion;
let analytics: AnalyticsServer;
let target: FlightTarget;
const sent = new Map<string, SdkIds>();

const variants = [
  { format: "protobuf", compression: "none" },
  { format: "protobuf", compression: "gzip" },
  { format: "json", compression: "none" },
  { format: "json", compression: "gzip" },
  { format: "grpc", compression: "none" },
  { format: "grpc", compression: "gzip" },
] as const;

/** Reads rows of a table, which the statement calls `t`. */
type Reader = (table: TableName, sqlText: string) => Promise<Record<string, unknown>[]>;

const readers: [string, Reader][] = [
  ["the Parquet objects", (table, sqlText) => t.rows(table, sqlText)],
  ...Object.entries(flightClients).map(([name, connect]): [string, Reader] => [
    name,
    (table, sqlText) => connect(target)(sqlText.replace("from t ", `from ${table} t `)),
  ]),
];

const serviceOf = ({ format, compression }: (typeof variants)[number]): string => `sdk-${format}-${compression}`;

beforeAll(async () => {
  t = await startTestIngestion({ environment: { SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0" } });
  const { key, keyId } = await mintAnalyticsKey(t.database.sql, {
    name: "test",
    createdBy: "test",
  });
  await t.database.sql`
    insert into audience_grants (audience, kind, member, created_by)
    values ('team-a', 'read', ${`key:${keyId}`}, 'test')`;
  analytics = await startAnalyticsServer({
    config: parseConfig("analytics", [], {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
    }),
    connectionString: t.database.connectionString,
    objectStoreUri: t.storeUri,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
  target = { port: analytics.address.port, key };
  for (const variant of variants) {
    const service = serviceOf(variant);
    sent.set(service, await sendWithSdk({ url: t.url, grpcUrl: t.grpcUrl, key: t.key, ...variant, service }));
  }
});

afterAll(async () => {
  await analytics.stop();
  await t.stop();
});

describe.each(["protobuf", "json"] as const)("references to entities as %s", (format) => {
  const service = `entities-${format}`;
  const request = {
    resourceLogs: [
      {
        resource: {
          attributes: [{ key: "service.name", value: { stringValue: service } }],
          entityRefs: [
            { type: "service", idKeys: ["service.name"], descriptionKeys: ["service.version"] },
            { type: "host", idKeys: ["host.id"], schemaUrl: "https://opentelemetry.io/schemas/1.37.0" },
          ],
        },
        scopeLogs: [{ logRecords: [{ body: { stringValue: "x" } }] }],
      },
    ],
  };

  beforeAll(async () => {
    await (format === "protobuf"
      ? t.post("logs", Buffer.from(encodePlain(1, request)))
      : t.post("logs", Buffer.from(JSON.stringify(request)), { "content-type": "application/json" }));
  });

  test.each(readers)("are read by %s", async (_, read) => {
    const sqlText = `select resource_entity_refs as refs, resource_entity_refs->1->>'type' as second from t where service_name = '${service}'`;
    expect(await read("log_entries", sqlText)).toEqual([
      {
        refs:
          '[{"type":"service","id_keys":["service.name"],"description_keys":["service.version"]},' +
          '{"schema_url":"https://opentelemetry.io/schemas/1.37.0","type":"host","id_keys":["host.id"]}]',
        second: "host",
      },
    ]);
  });
});

const ns = (ms: number): string => String(BigInt(ms) * 1_000_000n);

describe.each(readers.flatMap(([reader, read]) => variants.map((variant) => ({ ...variant, reader, read }))))(
  "$format, compression $compression, read by $reader",
  ({ read, ...variant }) => {
    const service = serviceOf(variant);
    const mine = `service_name = '${service}'`;
    let ids: SdkIds;

    beforeAll(() => {
      ids = sent.get(service) as SdkIds;
    });

    test("the process columns and the process row", async () => {
      const rows = await read(
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
      const rows = await read(
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
      const rows = await read(
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
      const rows = await read(
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
      const rows = await read(
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
  },
);
