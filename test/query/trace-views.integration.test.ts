/** Views of traces, calls between services and exceptions, against rows whose answer is known. */
import { beforeAll, describe, expect, it } from "vitest";

import { quoteText } from "../../src/runtime/text/sql-text.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";
import { fileViews, isTraceFunction } from "../../src/query/sql/views.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

const id = (n: string, digits = 32): string => Buffer.from(n).toString("hex").padStart(digits, "0");

interface Span {
  readonly at: string;
  readonly ms?: number;
  readonly trace: string;
  readonly span: string;
  readonly parent?: string;
  readonly service?: string;
  readonly kind?: number;
  readonly status?: number;
  readonly properties?: Record<string, unknown>;
  /** Time and attributes of an event named exception. */
  readonly exception?: readonly [string, Record<string, unknown>];
  readonly event?: string;
}

const textSql = (text: string | undefined): string => (text === undefined ? "NULL" : quoteText(text));

/** An object with these spans. */
async function store(spans: readonly Span[], audience = "public"): Promise<void> {
  await addPartition(t.lake, t.sql, {
    table: "spans",
    audience,
    rowsSql: spans
      .map(({ at, ms = 1, trace, span, parent, service, kind = 1, status = 0, properties = {}, exception, event }) => {
        const [eventAt, attributes] = exception ?? [at, {}];
        const name = event ?? "exception";
        const events =
          exception === undefined
            ? "[]"
            : `[{'time': TIMESTAMP_NS '${eventAt}', 'name': '${name}', 'properties': ${textSql(JSON.stringify(attributes))}, 'dropped_attributes_count': 0}]`;
        return `SELECT TIMESTAMP_NS '${at}' AS time, TIMESTAMP_NS '${at}' + INTERVAL ${ms} MILLISECOND AS end_time, ${ms * 1_000_000} AS duration_ns, '${id(trace)}' AS trace_id, '${id(span, 16)}' AS span_id, ${parent === undefined ? "NULL" : `'${id(parent, 16)}'`} AS parent_span_id, '${span}' AS name, ${textSql(service)} AS service_name, ${kind}::INTEGER AS kind, ${status}::INTEGER AS status_code, ${textSql(JSON.stringify(properties))} AS properties, ${events} AS events`;
      })
      .join(" UNION ALL "),
  });
}

async function planOf(sql: string): Promise<string> {
  const rows = await t.plainRows(`EXPLAIN ANALYZE ${sql}`);
  return rows.map(({ explain_value: text }) => (typeof text === "string" ? text : "")).join("\n");
}

const filesRead = (plan: string): number =>
  [...plan.matchAll(/Total Files Read: (\d+)/gu)].reduce((sum, [, n]) => sum + Number(n), 0);

describe("traces", () => {
  beforeAll(async () => {
    await store([
      { at: "2025-01-01 10:00:00", ms: 100, trace: "one", span: "root", service: "web", status: 0 },
      { at: "2025-01-01 10:00:00.01", ms: 20, trace: "one", span: "a", parent: "root", service: "db" },
      { at: "2025-01-01 10:30:00", ms: 5, trace: "one", span: "b", parent: "a", service: "web", status: 2 },
      { at: "2025-01-01 11:00:00", ms: 5, trace: "two", span: "lost", parent: "nobody" },
    ]);
    // The rest of traces that began before, and after a pause.
    await store([
      { at: "2025-01-01 11:20:00", ms: 7, trace: "one", span: "c", parent: "a", service: "mail" },
      { at: "2025-01-01 11:59:00", ms: 7, trace: "two", span: "d", parent: "lost" },
    ]);
    await store([{ at: "2025-01-03 00:00:00", ms: 1, trace: "two", span: "e", parent: "lost" }]);
    await store([{ at: "2025-01-05 00:00:00", ms: 1, trace: "three", span: "f" }], "other");
  });

  it("have a row each", async () => {
    expect(
      await t.plainRows(`SELECT trace_id, root_name, root_service, services, spans, errors, is_error, duration_ms, duration_ns, audience,
          CAST(time AS VARCHAR) AS time, CAST(end_time AS VARCHAR) AS end_time
        FROM traces WHERE time < '2025-01-02' ORDER BY time`),
    ).toEqual([
      {
        trace_id: id("one"),
        root_name: "root",
        root_service: "web",
        services: ["db", "mail", "web"],
        spans: 4,
        errors: 1,
        is_error: true,
        duration_ms: 4_800_007,
        duration_ns: 4_800_007_000_000,
        audience: "public",
        time: "2025-01-01 10:00:00",
        end_time: "2025-01-01 11:20:00.007",
      },
      {
        trace_id: id("two"),
        root_name: null,
        root_service: null,
        services: [],
        // The span of two days later is more than an hour behind the range.
        spans: 2,
        errors: 0,
        is_error: false,
        duration_ms: 3_540_007,
        duration_ns: 3_540_007_000_000,
        audience: "public",
        time: "2025-01-01 11:00:00",
        end_time: "2025-01-01 11:59:00.007",
      },
    ]);
  });

  it("begin in the range that is asked for, or before it by less than an hour without a span", async () => {
    const names = async (where: string): Promise<unknown[]> =>
      (await t.plainRows(`SELECT trace_id, spans FROM traces WHERE ${where} ORDER BY time`)).map((row) => [
        row["trace_id"],
        row["spans"],
      ]);
    expect(await names("time >= '2025-01-01 10:20:00' AND time < '2025-01-02'")).toEqual([[id("two"), 2]]);
    // Of "one" the span of 10:30 is seen, which is before the range.
    expect(await names("time >= '2025-01-01 11:10:00' AND time < '2025-01-02'")).toEqual([]);
    expect(await names("time >= '2025-01-02'")).toEqual([[id("two"), 1]]);
    expect(await names("time <= '2025-01-01 10:00:00'")).toEqual([[id("one"), 3]]);
    expect(await names(`trace_id = '${id("two").toUpperCase()}'`)).toEqual([[id("two"), 3]]);
  });

  it("open no other objects, and count no rows of others, whichever objects those lie in", async () => {
    const plan = await planOf("SELECT * FROM traces WHERE time >= '2025-01-02 12:00' AND time < '2025-01-04'");
    expect(filesRead(plan)).toBe(1);
    expect(filesRead(await planOf("SELECT * FROM traces"))).toBe(3);
  });
});

describe("service_calls and service_edges", () => {
  beforeAll(async () => {
    await store([
      { at: "2026-01-01 10:00:00", ms: 50, trace: "x1", span: "s1", service: "web", kind: 2 },
      { at: "2026-01-01 10:00:00.1", ms: 40, trace: "x1", span: "c1", parent: "s1", service: "web", kind: 3 },
      {
        at: "2026-01-01 10:00:00.2",
        ms: 30,
        trace: "x1",
        span: "s2",
        parent: "c1",
        service: "shop",
        kind: 2,
        status: 2,
      },
      // Of the same service, but through the network.
      { at: "2026-01-01 10:00:01", ms: 9, trace: "x1", span: "c2", parent: "s2", service: "shop", kind: 3, status: 2 },
      { at: "2026-01-01 10:00:01", ms: 8, trace: "x1", span: "s3", parent: "c2", service: "shop", kind: 2 },
      // Within the process: no call.
      { at: "2026-01-01 10:00:01", ms: 8, trace: "x1", span: "i", parent: "s3", service: "shop", kind: 1 },
      // Of what sends no spans.
      {
        at: "2026-01-01 10:00:02",
        ms: 3,
        trace: "x1",
        span: "q1",
        parent: "s3",
        service: "shop",
        kind: 3,
        properties: { "db.system": "postgresql", "server.address": "db1" },
      },
      {
        at: "2026-01-01 10:00:02",
        ms: 5,
        trace: "x1",
        span: "q2",
        parent: "s3",
        service: "shop",
        kind: 3,
        properties: { "db.system.name": "redis", "peer.service": "cache" },
        status: 2,
      },
      {
        at: "2026-01-01 10:00:02",
        ms: 1,
        trace: "x1",
        span: "q3",
        parent: "s3",
        service: "shop",
        kind: 4,
        properties: { "messaging.system": "kafka" },
      },
      {
        at: "2026-01-01 10:00:02",
        ms: 1,
        trace: "x1",
        span: "q4",
        parent: "s3",
        service: "shop",
        kind: 3,
        properties: { "server.address": "api.example" },
      },
      ...[
        "https://user:p%40ss@pay.example:8443/v1?to=a://b@c.example",
        "http://plain.example",
        "http://[::1]:80/",
        "/no/host",
      ].map((url, i) => ({
        at: `2026-01-01 10:00:02.${i + 1}`,
        ms: 1,
        trace: "x1",
        span: `u${i}`,
        parent: "s3",
        service: "shop",
        kind: 3,
        properties: { "http.method": "GET", "http.url": url },
      })),
      { at: "2026-01-01 10:00:02", ms: 1, trace: "x1", span: "q5", parent: "s3", service: "shop", kind: 3 },
      // A consumer with its producer in a trace of its own, and one below it.
      {
        at: "2026-01-01 10:00:03",
        ms: 2,
        trace: "x2",
        span: "m1",
        service: "mail",
        kind: 5,
        properties: { "messaging.system": "kafka" },
      },
      {
        at: "2026-01-01 10:00:04",
        ms: 2,
        trace: "x3",
        span: "p1",
        service: "shop",
        kind: 4,
        properties: { "messaging.system": "kafka" },
      },
      {
        at: "2026-01-01 10:00:05",
        ms: 2,
        trace: "x3",
        span: "m2",
        parent: "p1",
        service: "mail",
        kind: 5,
        properties: { "messaging.system": "kafka" },
      },
    ]);
    await store([
      { at: "2026-01-01 10:30:00", ms: 10, trace: "x1", span: "s4", parent: "c1", service: "shop", kind: 2 },
      { at: "2026-01-01 11:30:00", ms: 10, trace: "x1", span: "s5", parent: "c1", service: "shop", kind: 2 },
      { at: "2026-01-01 10:30:00", ms: 10, trace: "x4", span: "s6", parent: "c1", kind: 2 },
      { at: "2026-01-01 10:29:00", ms: 10, trace: "x4", span: "c1", service: "web", kind: 1 },
    ]);
  });

  const calls = async (where: string): Promise<unknown[]> =>
    (
      await t.plainRows(
        `SELECT caller, callee, callee_type, name, duration_ms, is_error FROM service_calls WHERE ${where} ORDER BY time, name`,
      )
    ).map((row) => Object.values(row));

  it("have a row for each call, with the side that was called first", async () => {
    expect(await calls("time BETWEEN '2026-01-01' AND '2026-01-02'")).toEqual([
      ["web", "shop", "service", "s2", 30, true],
      ["shop", "shop", "service", "s3", 8, true],
      ["shop", "postgresql", "database", "q1", 3, false],
      ["shop", "cache", "database", "q2", 5, true],
      ["shop", "kafka", "queue", "q3", 1, false],
      ["shop", "api.example", "external", "q4", 1, false],
      ["shop", "pay.example", "external", "u0", 1, false],
      ["shop", "plain.example", "external", "u1", 1, false],
      ["shop", "[::1]", "external", "u2", 1, false],
      ["kafka", "mail", "service", "m1", 2, false],
      ["shop", "mail", "service", "m2", 2, false],
      ["web", "shop", "service", "s4", 10, false],
      ["web", "unknown_service", "service", "s6", 10, false],
    ]);
  });

  it("find the other side of a call beyond the range", async () => {
    const range = "time >= '2026-01-01 10:29:30' AND time < '2026-01-01 11:00'";
    expect(await calls(range)).toEqual([
      ["web", "shop", "service", "s4", 10, false],
      ["web", "unknown_service", "service", "s6", 10, false],
    ]);
    expect(filesRead(await planOf("SELECT * FROM service_calls WHERE time > '2026-01-02'"))).toBe(0);
  });

  it("are a map of services in one line", async () => {
    const map = "SELECT * EXCLUDE (audience) FROM service_edges('2026-01-01', '2026-01-02')";
    expect((await t.plainRows(map)).map((row) => Object.values(row))).toEqual([
      ["web", "shop", "service", 2, 1, 20, 29],
      ["kafka", "mail", "service", 1, 0, 2, 2],
      ["shop", "[::1]", "external", 1, 0, 1, 1],
      ["shop", "api.example", "external", 1, 0, 1, 1],
      ["shop", "cache", "database", 1, 1, 5, 5],
      ["shop", "kafka", "queue", 1, 0, 1, 1],
      ["shop", "mail", "service", 1, 0, 2, 2],
      ["shop", "pay.example", "external", 1, 0, 1, 1],
      ["shop", "plain.example", "external", 1, 0, 1, 1],
      ["shop", "postgresql", "database", 1, 0, 3, 3],
      ["shop", "shop", "service", 1, 1, 8, 8],
      ["web", "unknown_service", "service", 1, 0, 10, 10],
    ]);
    expect(await t.plainRows("SELECT sum(calls)::INTEGER AS n FROM service_edges() AS e")).toEqual([{ n: 13 }]);
    expect(
      await t.plainRows(
        "SELECT e.calls FROM service_edges('2026-01-01 10:10:00+00'::TIMESTAMPTZ, now()) AS e WHERE callee = 'shop'",
      ),
    ).toEqual([{ calls: 1 }]);
    expect(await t.plainRows("SELECT * FROM service_edges(now(), now())")).toEqual([]);
  });

  it.each([
    "service_edges('2026-01-01')",
    "service_edges(NULL, now())",
    "service_edges((SELECT min(time) FROM spans), now())",
    "service_edges(a := '2026-01-01', b := now())",
    "attribute_keys(1 + random(), now())",
  ])("refuse a range that is none: %s", async (call) => {
    await expect(t.plainRows(`SELECT * FROM ${call}`)).rejects.toThrow(
      /takes a begin and an end, times without columns/u,
    );
  });

  it("refuse what is no time, and the name without its brackets", async () => {
    await expect(t.plainRows("SELECT * FROM service_edges('yesterday', now())")).rejects.toThrow(/yesterday/u);
    await expect(t.plainRows("SELECT * FROM service_edges")).rejects.toThrow(/service_edges\(begin, end\)/u);
    await expect(t.plainRows("SELECT service_edges('2026-01-01', now())")).rejects.toThrow(/not available/u);
  });
});

describe("exceptions", () => {
  beforeAll(async () => {
    await store([
      {
        at: "2027-01-01 00:00:00",
        trace: "e1",
        span: "job",
        service: "batch",
        exception: [
          "2027-01-01 20:00:00",
          {
            "exception.type": "IOError",
            "exception.message": "disk full",
            "exception.stacktrace": "at a",
            "exception.escaped": true,
          },
        ],
      },
      {
        at: "2027-01-01 12:00:00",
        trace: "e1",
        span: "other",
        event: "retry",
        exception: ["2027-01-01 12:00:00", { "exception.type": "Not" }],
      },
      {
        at: "2027-01-01 12:00:00",
        trace: "e2",
        span: "late",
        exception: ["2027-01-02 12:00:01", { "exception.type": "TooLate" }],
      },
    ]);
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience: "public",
      rowsSql: `SELECT TIMESTAMP_NS '2027-01-01 19:00:00' AS time, 'web' AS service_name, '${id("e3")}' AS trace_id, '${id("s", 16)}' AS span_id, p AS properties
        FROM (VALUES ('{"exception.type":"KeyError","exception.message":"k"}'), ('{"a":"b","x":"exception."}'), ('{"exception.message":"only a message"}'), ('{"exception.other":1}')) AS v(p)`,
    });
  });

  it("are events of spans and log records", async () => {
    expect(
      await t.plainRows(`SELECT CAST(time AS VARCHAR) AS time, type, message, stacktrace, escaped, source, service_name, trace_id, audience
        FROM exceptions WHERE time > '2027-01-01 18:00' ORDER BY time, message`),
    ).toEqual([
      {
        time: "2027-01-01 19:00:00",
        type: "KeyError",
        message: "k",
        stacktrace: null,
        escaped: null,
        source: "log",
        service_name: "web",
        trace_id: id("e3"),
        audience: "public",
      },
      {
        time: "2027-01-01 19:00:00",
        type: null,
        message: "only a message",
        stacktrace: null,
        escaped: null,
        source: "log",
        service_name: "web",
        trace_id: id("e3"),
        audience: "public",
      },
      {
        time: "2027-01-01 20:00:00",
        type: "IOError",
        message: "disk full",
        stacktrace: "at a",
        escaped: true,
        source: "span",
        service_name: "batch",
        trace_id: id("e1"),
        audience: "public",
      },
    ]);
    expect(filesRead(await planOf("SELECT count(*) FROM exceptions WHERE time > '2027-02-01'"))).toBe(0);
  });
});

describe("trace_logs", () => {
  it("are the log records of a trace in order", async () => {
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience: "public",
      rowsSql: `SELECT TIMESTAMP_NS '2028-01-01' - INTERVAL (i) SECOND AS time, if(i % 2 = 0, '${id("l")}', '${id("m")}') AS trace_id, 'm' || i AS msg, 4 AS level FROM range(6) t(i)`,
    });
    expect(await t.plainRows(`SELECT msg, level_name FROM trace_logs('${id("l").toUpperCase()}')`)).toEqual([
      { msg: "m4", level_name: "info" },
      { msg: "m2", level_name: "info" },
      { msg: "m0", level_name: "info" },
    ]);
    const bounded = `SELECT msg FROM trace_logs('${id("l")}') WHERE time >= '2027-12-31 23:59:58'`;
    expect((await t.plainRows(bounded)).map(({ msg }) => msg)).toEqual(["m2", "m0"]);
    expect(filesRead(await planOf(`SELECT * FROM trace_logs('${id("l")}') WHERE time > '2029-01-01'`))).toBe(0);
    await expect(t.plainRows("SELECT * FROM trace_logs('no')")).rejects.toThrow(/trace_logs takes a trace id/u);
  });
});

describe("the first and the last time that can be stored", () => {
  const ends = [
    [1n, "first"],
    [2n ** 63n - 2n, "last"],
  ] as const;

  beforeAll(async () => {
    for (const [ns, name] of ends) {
      const time = `make_timestamp_ns(${ns})`;
      const [trace, span, parent] = [id(name), id("s", 16), id("p", 16)];
      const exception = `[{'time': ${time}, 'name': 'exception', 'properties': '{"exception.type":"E"}', 'dropped_attributes_count': 0}]`;
      const point = `${time} AS time, 'p' AS process_id, 'end' AS name, 'cumulative' AS temporality, 0 AS flags, '{}' AS properties`;
      const rowsOf = {
        spans: `SELECT ${time} AS time, ${time} AS end_time, 0 AS duration_ns, '${trace}' AS trace_id, span_id, parent_span_id, service_name, kind::INTEGER AS kind, '{}' AS properties, ${exception} AS events
          FROM (VALUES ('${span}', '${parent}', 'last', 2), ('${parent}', NULL, 'first', 3)) AS v(span_id, parent_span_id, service_name, kind)`,
        log_entries: `SELECT ${time} AS time, 4 AS level, '${trace}' AS trace_id, '{"exception.type":"E"}' AS properties`,
        measures: `SELECT ${point}, 1.0 AS value, true AS is_monotonic`,
        histograms: `SELECT ${point}, 1 AS count`,
      } as const;
      for (const table of ["spans", "log_entries", "measures", "histograms"] as const) {
        await addPartition(t.lake, t.sql, { table, audience: "public", rowsSql: rowsOf[table] });
      }
    }
  });

  it.each(Object.keys(fileViews).filter((view) => !isTraceFunction(view)))("fail no query of %s", async (view) => {
    expect(await t.plainRows(`SELECT count(COLUMNS(*)) FROM ${view}`)).toHaveLength(1);
  });

  it.each(["trace_tree", "trace_logs"])("fail no query of %s", async (view) => {
    for (const [, name] of ends) {
      expect(await t.plainRows(`SELECT count(COLUMNS(*)) FROM ${view}('${id(name)}')`)).toHaveLength(1);
    }
  });

  it("are times of calls and exceptions", async () => {
    for (const range of ["time < '1970-01-02'", "time > '2262-04-01'"]) {
      for (const view of ["service_calls", "service_latencies"]) {
        expect(await t.plainRows(`SELECT caller, callee FROM ${view} WHERE ${range}`)).toEqual([
          { caller: "first", callee: "last" },
        ]);
      }
      expect(await t.plainRows(`SELECT count(*)::INTEGER AS n FROM exceptions WHERE ${range}`)).toEqual([{ n: 3 }]);
    }
  });
});
