import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import type { ProcessRow } from "../../src/lake/catalogue-rows.js";
import { field, join, logsRequest, metricsRequest, oneLog, tracesRequest, utf8 } from "../helpers/otlp/otlp-build.js";
import { decodePlain, encodePlain, type PlainMessage } from "../helpers/otlp/otlp-proto.js";
import { createBuilder, decodeOne, plainHead, receivedAt, segmentRows } from "../helpers/lake/segment.js";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u;

const attribute = (key: string, value: string): PlainMessage => ({
  key,
  value: { stringValue: value },
});
const checkout = {
  attributes: [attribute("service.name", "checkout"), attribute("host.name", "n1")],
};

function columnsOf(row: ProcessRow | undefined): Record<string, unknown> {
  return JSON.parse(row?.columns ?? "") as Record<string, unknown>;
}

/** RFC 9562 section 5.5, written independently. */
function uuidV5(namespace: string, name: Uint8Array): string {
  const digest = createHash("sha1")
    .update(Buffer.from(namespace.replaceAll("-", ""), "hex"))
    .update(name)
    .digest();
  digest[6] = ((digest[6] ?? 0) & 0x0f) | 0x50;
  digest[8] = ((digest[8] ?? 0) & 0x3f) | 0x80;
  const hex = digest.subarray(0, 16).toString("hex");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/u, "$1-$2-$3-$4-$5");
}

describe("identity", () => {
  it("is the UUIDv5 of the published namespaces, so that it never changes between versions", () => {
    const { segment } = decodeOne(createBuilder(), oneLog({ body: { intValue: "1" } }, checkout), plainHead(1));
    const own = uuidV5("6f0d1c6e-8a51-5e0b-9c1f-2f3f5b1f7a10", utf8("audience:public"));
    const processId = uuidV5(uuidV5(own, utf8("process")), utf8('[["service.name","checkout"],["host.name","n1"]]'));
    expect(segment.processes).toMatchObject([{ processId }]);
    expect(columnsOf(segment.processes[0])).toMatchObject({ service_name: "checkout", host_name: "n1" });
    const request = decodePlain(1, oneLog({ body: { intValue: "1" } }, checkout));
    const [entry] = request["resourceLogs"] as PlainMessage[];
    const bytes = encodePlain(1, { resourceLogs: [entry] });
    const block = uuidV5(uuidV5(own, utf8("block")), join([1], bytes.subarray(2)));
    expect(segment.blocks).toMatchObject([
      {
        blockId: block,
        processId,
        streamId: uuidV5(processId, utf8("logs")),
        signal: 1,
        rowCount: 1,
      },
    ]);
  });

  it("is the same on every builder, and for any order of attributes", () => {
    const reversed = { attributes: checkout.attributes.toReversed() };
    const one = decodeOne(createBuilder(), oneLog({}, checkout), plainHead(1)).segment;
    const other = decodeOne(createBuilder(), oneLog({}, reversed), plainHead(1)).segment;
    expect(one.processes[0]?.processId).toMatch(uuid);
    expect(other.processes[0]?.processId).toBe(one.processes[0]?.processId);
    expect(other.blocks[0]?.blockId).not.toBe(one.blocks[0]?.blockId);
  });

  it("differs between audiences, the unstamped one and any name included, and between signals", () => {
    const builder = createBuilder();
    builder.begin(receivedAt, new Set());
    for (const audience of ["a", "b", null, "unstamped", "null"]) {
      builder.add(oneLog({}, checkout), plainHead(1, { audience }));
    }
    const { groups, processes, blocks, streams } = builder.finish();
    expect(new Set(processes.map((row) => row.processId)).size).toBe(5);
    expect(new Set(blocks.map((row) => row.blockId)).size).toBe(5);
    expect(new Set(streams.map((row) => row.streamId)).size).toBe(5);
    expect(groups.map((group) => [group.audience, group.tables.log_entries.rows])).toEqual([
      ["a", 1],
      ["b", 1],
      [null, 1],
      ["unstamped", 1],
      ["null", 1],
    ]);
  });

  it("is the same for all signals of a process, each of which is a stream of its own", () => {
    const builder = createBuilder();
    builder.begin(receivedAt, new Set());
    const span = { traceId: Buffer.alloc(16, 1), spanId: Buffer.alloc(8, 1), name: "s" };
    const gauge = { name: "g", gauge: { dataPoints: [{ asInt: "1" }] } };
    builder.add(oneLog({}, checkout), plainHead(1));
    builder.add(
      encodePlain(3, { resourceSpans: [{ resource: checkout, scopeSpans: [{ spans: [span] }] }] }),
      plainHead(3),
    );
    builder.add(
      encodePlain(2, { resourceMetrics: [{ resource: checkout, scopeMetrics: [{ metrics: [gauge] }] }] }),
      plainHead(2),
    );
    builder.add(oneLog({ eventName: "again" }, checkout), plainHead(1));
    const segment = builder.finish();
    expect(segment.processes).toHaveLength(1);
    const { processId = "" } = segment.processes[0] ?? {};
    const streamOf = (name: string): string => uuidV5(processId, Buffer.from(name));
    const { log_entries, spans, measures } = segmentRows(segment);
    expect(
      [log_entries[0], spans[0], measures[0], log_entries[1]].map((row) => [row?.["process_id"], row?.["stream_id"]]),
    ).toEqual(["logs", "traces", "metrics", "logs"].map((name) => [processId, streamOf(name)]));
  });

  it("gives every row the ids of its block", () => {
    const { segment, rows } = decodeOne(
      createBuilder(),
      join(oneLog({ eventName: "a" }, checkout), oneLog({ eventName: "b" }), oneLog({ eventName: "c" }, checkout)),
      plainHead(1),
    );
    expect(rows.log_entries.map((row) => [row["block_id"], row["process_id"], row["stream_id"]])).toEqual(
      segment.blocks.map((block) => [block.blockId, block.processId, block.streamId]),
    );
    expect(segment.processes).toHaveLength(2);
    expect(segment.streams).toHaveLength(2);
    expect(segment.blocks.map((block) => block.beginTimeNs)).toEqual([receivedAt, receivedAt, receivedAt]);
  });

  it("keeps what PostgreSQL cannot hold out of the process row, and only there", () => {
    const { segment, rows } = decodeOne(
      createBuilder(),
      oneLog(
        {},
        {
          attributes: [
            attribute("service.name", "a\0b"),
            attribute("path", "C:\\u0000"),
            { key: "process.pid", value: { intValue: "4242" } },
            attribute("process.creation.time", "+275000-01-01T00:00:00Z"),
          ],
        },
      ),
      plainHead(1),
    );
    const columns = columnsOf(segment.processes[0]);
    expect(columns).toMatchObject({ service_name: "a\uFFFDb", process_pid: 4242, start_seconds: null });
    expect(JSON.parse(String(columns["properties"]))).toMatchObject({
      "service.name": "a\uFFFDb",
      path: "C:\\u0000",
    });
    expect(rows.log_entries).toMatchObject([{ service_name: "a\0b" }]);
  });
});

it.each([
  ["2026-11-30T10:00:00Z", 1_796_032_800],
  ["2026-11-30T10:00:00.25+01:30", 1_796_027_400.25],
  ["2026-11-30T10:00", 1_796_032_800],
  ["1969-12-31T00:00:00Z", -86_400],
  ["garbage 5", null],
  ["1", null],
  ["2026-11-30", 1_795_996_800],
  ["", null],
  ["2026-13-30T10:00:00Z", null],
])("reads the start of a process, %s, as %s", (text, seconds) => {
  const { segment } = decodeOne(
    createBuilder(),
    oneLog({}, { attributes: [attribute("process.creation.time", text)] }),
    plainHead(1),
  );
  expect(columnsOf(segment.processes[0])).toMatchObject({ start_seconds: seconds });
});

it("stores attributes of resources and scopes in order of their names, and equal ones as they were sent", () => {
  const attributes = [
    attribute("b", "1"),
    attribute('a":x', "2"),
    attribute("a.b", "3"),
    attribute("a", "4"),
    attribute("b", "0"),
  ];
  const { rows } = decodeOne(
    createBuilder(),
    encodePlain(1, {
      resourceLogs: [
        { resource: { attributes }, scopeLogs: [{ scope: { attributes }, logRecords: [{ attributes }] }] },
      ],
    }),
    plainHead(1),
  );
  const [row] = rows.log_entries;
  const sorted = '{"a":"4","a.b":"3","a\\":x":"2","b":"1","b":"0"}';
  expect(row?.["process_properties"]).toBe(sorted);
  expect(row?.["scope_properties"]).toBe(sorted);
  expect(row?.["properties"]).toBe('{"b":"1","a\\":x":"2","a.b":"3","a":"4","b":"0"}');
});

describe("blocks", () => {
  it("are stored once in a segment, and counted once", () => {
    const builder = createBuilder();
    builder.begin(receivedAt, new Set());
    const body = oneLog({ body: { stringValue: "once" } }, checkout);
    const stored = { kind: "stored", records: 1, rejected: 0 };
    expect(builder.add(body, plainHead(1))).toMatchObject(stored);
    expect(builder.add(body, plainHead(1))).toMatchObject({ ...stored, records: 0 });
    const fresh = oneLog({ body: { stringValue: "fresh" } }, checkout);
    expect(builder.add(join(body, fresh, fresh), plainHead(1))).toMatchObject(stored);
    expect(builder.add(body, plainHead(1, { audience: "other" }))).toMatchObject(stored);
    const segment = builder.finish();
    expect(segment.blocks).toHaveLength(3);
    expect(segmentRows(segment).log_entries).toHaveLength(3);
  });

  it("that are excluded leave no row, no block and no process", () => {
    const builder = createBuilder();
    const body = oneLog({ body: { stringValue: "stands" } }, checkout);
    const [block] = decodeOne(builder, body, plainHead(1)).segment.blocks;
    builder.begin(receivedAt, new Set([block?.blockId ?? ""]));
    expect(builder.add(body, plainHead(1))).toMatchObject({ kind: "stored", records: 0 });
    const segment = builder.finish();
    expect(segment).toMatchObject({ blocks: [], processes: [], streams: [] });
    expect(segmentRows(segment).log_entries).toEqual([]);
  });

  it("of a failed request may come again in a good one", () => {
    const builder = createBuilder();
    const body = oneLog({ body: { stringValue: "again" } }, checkout);
    builder.begin(receivedAt, new Set());
    expect(builder.add(join(body, [0x0a, 0x7f]), plainHead(1))).toMatchObject({ kind: "failed" });
    expect(builder.add(body, plainHead(1))).toMatchObject({ kind: "stored", records: 1 });
    const segment = builder.finish();
    expect(segment.blocks).toHaveLength(1);
    expect(segmentRows(segment).log_entries).toHaveLength(1);
  });

  it("know the bounds of their rows' times, without the rejected", () => {
    const body = encodePlain(3, {
      resourceSpans: [
        {
          scopeSpans: [
            {
              spans: [
                {
                  traceId: Array(16).fill(1),
                  spanId: Array(8).fill(1),
                  startTimeUnixNano: "4294967296",
                  endTimeUnixNano: "8589934599",
                },
                {
                  traceId: Array(16).fill(1),
                  spanId: Array(8).fill(1),
                  startTimeUnixNano: "4294967295",
                  endTimeUnixNano: "8589934592",
                },
                {
                  traceId: [1],
                  spanId: Array(8).fill(1),
                  startTimeUnixNano: "1",
                  endTimeUnixNano: "9589934599",
                },
              ],
            },
            {
              schemaUrl: "x",
              spans: [
                {
                  traceId: Array(16).fill(1),
                  spanId: Array(8).fill(1),
                  startTimeUnixNano: "4294967297",
                  endTimeUnixNano: "4294967290",
                },
              ],
            },
          ],
        },
      ],
    });
    const { segment, rows } = decodeOne(createBuilder(), body, plainHead(3));
    expect(segment.blocks).toMatchObject([{ beginTimeNs: 4294967295n, endTimeNs: 4294967297n, rowCount: 3 }]);
    expect(rows.spans.map((row) => row["duration_ns"])).toEqual([4294967303n, 4294967297n, -7n]);
  });
});

describe("memory", () => {
  it("is bounded for a segment: what comes when it is full is to be sent again, and fits the next one", () => {
    const builder = createBuilder(4000);
    const bodies = Array.from({ length: 100 }, (_, index) =>
      gzipSync(oneLog({ body: { stringValue: `${index}${"x".repeat(3000)}` } })),
    );
    const head = plainHead(1, { encoding: "gzip" });
    builder.begin(receivedAt, new Set());
    const outcomes = bodies.map((body) => builder.add(body, head));
    const stored = outcomes.filter((outcome) => outcome.kind === "stored").length;
    expect(stored).toBeGreaterThan(1);
    expect(outcomes.slice(stored)).toEqual(
      Array.from({ length: 100 - stored }, () => ({ kind: "unavailable", retryAfterSeconds: 1 })),
    );
    expect(segmentRows(builder.finish()).log_entries).toHaveLength(stored);
    expect(decodeOne(builder, bodies[99] ?? new Uint8Array(0), head).outcome).toMatchObject({
      kind: "stored",
    });
  });

  it("is bounded by resources: others wait for the rows that each of them is in the catalogue", () => {
    const builder = createBuilder(16 * 1024 * 1024);
    const of = (count: number, from = 0): Uint8Array =>
      join(...Array.from({ length: count }, (_, i) => field(1, field(3, utf8(String(from + i))))));
    builder.begin(receivedAt, new Set(), true);
    expect(builder.add(of(16_385), plainHead(1))).toEqual({
      kind: "failed",
      code: "PAYLOAD_TOO_LARGE",
      message: "the request has more than 16384 resources, or large ones; send fewer in one",
    });
    builder.begin(receivedAt, new Set(), true);
    expect(builder.add(of(8191), plainHead(1)).kind).toBe("stored");
    expect(builder.add(of(8193, 10_000), plainHead(1)).kind).toBe("stored");
    expect(builder.add(of(1, 20_000), plainHead(1)).kind).toBe("unavailable");
    builder.begin(receivedAt, new Set(), true);
    expect(builder.add(of(16_384, 30_000), plainHead(1)).kind).toBe("stored");
  });

  it("is bounded for others by the resources of large requests, and of all beyond one each", () => {
    const builder = createBuilder(16 * 1024 * 1024);
    const of = (count: number, from: number): Uint8Array => {
      const record = field(2, field(2, field(5, field(1, utf8("x")))));
      return join(...Array.from({ length: count }, (_, i) => field(1, join(record, field(3, utf8(String(from + i)))))));
    };
    builder.begin(receivedAt, new Set());
    expect(builder.add(of(1025, 0), plainHead(1)).kind).toBe("large");
    expect(builder.add(of(1024, 2000), plainHead(1)).kind).toBe("stored");
    expect(builder.add(of(1024, 4000), plainHead(1)).kind).toBe("unavailable");
    expect(builder.add(of(2, 6000), plainHead(1)).kind).toBe("unavailable");
    expect(builder.add(of(1, 8000), plainHead(1)).kind).toBe("stored");
    const { blocks, groups } = builder.finish();
    expect(blocks.length).toBe(1025);
    expect(groups.map(({ tables }) => tables.log_entries.rows)).toEqual([1025]);
  });

  it("is bounded by the rows of large resources in the catalogue as well", () => {
    const builder = createBuilder(16 * 1024 * 1024);
    const record = field(2, field(2, field(5, field(1, utf8("x")))));
    // Each control character is six in JSON, and a seventh in JSON of JSON: about 70 KiB of a row, so 17 blocks or 18.
    const text = (name: string, value: string): Uint8Array =>
      field(1, join(field(1, utf8(name)), field(2, field(1, utf8(value)))));
    const long = text("a", "\u0001".repeat(10_000));
    const resource = (index: number): Uint8Array =>
      field(1, join(record, field(1, join(text("service.name", String(index)), long))));
    const of = (count: number, from: number): Uint8Array =>
      join(...Array.from({ length: count }, (_, i) => resource(from + i)));
    builder.begin(receivedAt, new Set());
    expect(builder.add(of(65, 0), plainHead(1)).kind).toBe("large");
    builder.begin(receivedAt, new Set());
    expect(builder.add(of(50, 100), plainHead(1)).kind).toBe("stored");
    expect(builder.add(of(50, 200), plainHead(1)).kind).toBe("stored");
    expect(builder.add(of(50, 300), plainHead(1)).kind).toBe("unavailable");
    builder.begin(receivedAt, new Set(), true);
    expect(builder.add(of(65, 0), plainHead(1)).kind).toBe("stored");
    expect(builder.add(of(1000, 0), plainHead(1))).toMatchObject({ kind: "failed", code: "PAYLOAD_TOO_LARGE" });
    // One that is there again and again is one row.
    builder.begin(receivedAt, new Set());
    const again = join(...Array.from({ length: 500 }, () => resource(0)));
    expect(builder.add(again, plainHead(1)).kind).toBe("stored");
  });

  it("is reused between segments without leaving anything of the last one", () => {
    const builder = createBuilder();
    const rich = oneLog({ body: { stringValue: "first" }, traceId: Array(16).fill(1), severityText: "INFO" }, checkout);
    decodeOne(builder, rich, plainHead(1));
    const { rows } = decodeOne(builder, oneLog({ eventName: "second" }), plainHead(1));
    expect(rows.log_entries).toMatchObject([
      {
        event_name: "second",
        msg: null,
        body_type: "empty",
        trace_id: null,
        severity_text: null,
        service_name: null,
        level: null,
      },
    ]);
  });

  it("reads bodies in shared memory at any alignment", () => {
    const body = oneLog({ body: { stringValue: "shared" } });
    const shared = new Uint8Array(new SharedArrayBuffer(body.length + 32));
    for (let offset = 0; offset < 16; offset++) {
      shared.set(body, offset);
      const view = shared.subarray(offset, offset + body.length);
      expect(decodeOne(createBuilder(), view, plainHead(1)).rows.log_entries).toMatchObject([{ msg: "shared" }]);
    }
  });
});

describe("messages that occur more than once merge as protobuf says", () => {
  const text = (value: string): Uint8Array => field(1, utf8(value));
  const pair = (key: string, value: string): Uint8Array => field(1, text(key), field(2, text(value)));

  it("resource and scope", () => {
    const { rows } = decodeOne(
      createBuilder(),
      field(
        1,
        field(1, pair("a", "1"), [0x10, 1]),
        field(2, field(1, text("one"), field(2, utf8("v"))), field(2, []), field(1, text("two"))),
        field(1, pair("b", "2")),
      ),
      plainHead(1),
    );
    expect(rows.log_entries).toMatchObject([
      {
        process_properties: '{"a":"1","b":"2"}',
        resource_dropped_attributes_count: 1n,
        target: "two",
        scope_version: "v",
      },
    ]);
  });

  it("references to entities: each is an object, empty fields are left out, of one sent twice the last counts", () => {
    const { rows } = decodeOne(
      createBuilder(),
      field(
        1,
        field(
          1,
          field(3, field(2, utf8("old")), field(4, utf8("a")), field(3, utf8("x")), field(2, utf8("host"))),
          field(3),
        ),
        field(2, field(2, field(5, text("one")))),
        field(1, field(3, field(9, utf8("unknown")), field(1, utf8("https://x/1")), field(3, utf8('"')), field(3))),
      ),
      plainHead(1),
    );
    expect(rows.log_entries).toMatchObject([
      {
        resource_entity_refs:
          '[{"type":"host","id_keys":["x"],"description_keys":["a"]},{},' +
          String.raw`{"schema_url":"https://x/1","id_keys":["\"",""]}]`,
      },
    ]);
  });

  it("references to entities that are not UTF-8 refuse what the resource sent, those beyond their end the request", () => {
    const send = (ref: Uint8Array) =>
      decodeOne(createBuilder(), field(1, field(1, ref), field(2, field(2, field(5, text("one"))))), plainHead(1));
    for (const number of [1, 2, 3, 4]) {
      expect(send(field(3, field(number, [0xff]))).outcome).toMatchObject({ kind: "stored", records: 0, rejected: 1 });
      expect(send(field(3, [(number << 3) | 2, 5])).outcome).toMatchObject({ code: "BAD_REQUEST" });
    }
  });

  it("bodies and attribute values: the last member of the oneof wins, lists of the last kind grow", () => {
    const array = (...values: string[]): Uint8Array => field(5, ...values.map((value) => field(1, text(value))));
    const record = join(
      field(5, array("lost")),
      field(5, text("lost too")),
      field(5, array("x")),
      field(5, array("y"), field(99, utf8("unknown")), array("z")),
      field(6, text("k"), field(2, text("old")), field(2, [0x18, 7])),
    );
    const { rows } = decodeOne(createBuilder(), logsRequest(record), plainHead(1));
    expect(rows.log_entries).toMatchObject([{ msg: '["x","y","z"]', body_type: "array", properties: '{"k":7}' }]);
  });

  it("a status, and the data of a metric", () => {
    const ids = join(field(1, Array(16).fill(1)), field(2, Array(8).fill(1)));
    const span = join(ids, field(15, field(2, utf8("m")), [0x18, 1]), field(15, [0x18, 2]));
    expect(decodeOne(createBuilder(), logsRequest(span), plainHead(3)).rows.spans).toMatchObject([
      { status_code: 2, status_message: "m" },
    ]);
    const point = (value: number): Uint8Array => field(1, [0x31, value, 0, 0, 0, 0, 0, 0, 0]);
    const metric = join(
      field(5, point(1)),
      field(7, point(2), [0x10, 2], [0x18, 1]),
      field(9, field(1, [])),
      field(7, point(3), [0x18, 1]),
      field(7, point(4)),
    );
    const { outcome, rows, segment } = decodeOne(createBuilder(), logsRequest(metric), plainHead(2));
    expect(outcome).toMatchObject({ records: 2, rejected: 0 });
    expect(segment.blocks).toMatchObject([{ rowCount: 2 }]);
    expect(rows.histograms).toEqual([]);
    expect(rows.measures).toMatchObject([
      { value_int: 3n, is_monotonic: true, temporality: "unspecified", metric_type: "sum" },
      { value_int: 4n, is_monotonic: true, temporality: "unspecified", metric_type: "sum" },
    ]);
  });
});

describe("reserved attributes", () => {
  it("are dropped and counted wherever attributes may be, but not below other names", () => {
    const reserved = attribute("svc.audience", "forged");
    const kept = {
      key: "k",
      value: { kvlistValue: { values: [attribute("svc.audience", "inner")] } },
    };
    const attributes = [reserved, kept, attribute("svc.", "x")];
    const ids = { traceId: Array(16).fill(1), spanId: Array(8).fill(1) };
    const { outcome, rows } = decodeOne(
      createBuilder(),
      encodePlain(3, {
        resourceSpans: [
          {
            resource: { attributes },
            scopeSpans: [
              {
                scope: { attributes },
                spans: [{ ...ids, attributes, events: [{ attributes }], links: [{ ...ids, attributes }] }],
              },
            ],
          },
        ],
      }),
      plainHead(3),
    );
    expect(outcome).toMatchObject({ records: 1, droppedAttributes: 10 });
    const json = '{"k":{"svc.audience":"inner"}}';
    expect(rows.spans).toMatchObject([
      {
        properties: json,
        scope_properties: json,
        process_properties: json,
        events: [{ properties: json }],
        links: [{ properties: json }],
      },
    ]);
  });
});

describe("reserved attributes of any encoding", () => {
  const value = field(2, field(1, utf8("forged")));
  const name = utf8("svc.audience");
  const attributes: Record<string, Uint8Array> = {
    "a name of 128 bytes": join(field(1, utf8(`svc.${"x".repeat(124)}`)), value),
    "a length that is longer than it need be": join([0x0a, name.length | 0x80, 0], name, value),
  };
  const requests = {
    1: (forged: Uint8Array) => logsRequest(field(6, forged)),
    2: (forged: Uint8Array) =>
      metricsRequest(join(field(1, utf8("m")), field(5, field(1, [0x21], new Uint8Array(8), field(7, forged))))),
    3: (forged: Uint8Array) =>
      tracesRequest(join(field(1, new Uint8Array(16).fill(1)), field(2, new Uint8Array(8).fill(1)), field(9, forged))),
  };

  it.each(Object.keys(attributes).flatMap((what) => ([1, 2, 3] as const).map((signal) => [what, signal] as const)))(
    "are dropped with %s (signal %i)",
    (what, signal) => {
      const { outcome, rows } = decodeOne(createBuilder(), requests[signal](attributes[what]!), plainHead(signal));
      expect(outcome).toMatchObject({ records: 1, droppedAttributes: 1 });
      expect([...rows.log_entries, ...rows.measures, ...rows.spans]).toMatchObject([{ properties: "{}" }]);
    },
  );

  it("are dropped with a long name in JSON", () => {
    const json = {
      resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes: [attribute(`svc.${"x".repeat(124)}`, "")] }] }] }],
    };
    const { outcome, rows } = decodeOne(createBuilder(), utf8(JSON.stringify(json)), plainHead(1, { format: "json" }));
    expect(outcome).toMatchObject({ records: 1, droppedAttributes: 1 });
    expect(rows.log_entries).toMatchObject([{ properties: "{}" }]);
  });
});

describe("levels", () => {
  it.each([
    [1, "", 6],
    [8, "", 5],
    [9, "ERROR", 4],
    [16, "", 3],
    [17, "", 2],
    [24, "", 1],
    [25, "", null],
    [-1, "INFO", null],
    [0, "Warning", 3],
    [0, "info3", 4],
    [0, "CRITICAL", 1],
    [0, "information overload", null],
    [0, "", null],
  ])("severity number %i and text %j make level %j", (severityNumber, severityText, level) => {
    const { rows } = decodeOne(createBuilder(), oneLog({ severityNumber, severityText }), plainHead(1));
    expect(rows.log_entries).toMatchObject([{ level, severity_number: severityNumber }]);
  });
});
