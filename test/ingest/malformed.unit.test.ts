import { describe, expect, it } from "vitest";

import { field, join, logsRequest, metricsRequest, oneLog, tracesRequest, utf8 } from "../helpers/otlp/otlp-build.js";
import { encodePlain } from "../helpers/otlp/otlp-proto.js";
import { createBuilder, decodeOne, plainHead, receivedAt, segmentRows } from "../helpers/lake/segment.js";

const builder = createBuilder();
const good = oneLog({ body: { stringValue: "good" } });

function outcomeOf(body: Uint8Array, signal: 1 | 2 | 3 = 1): unknown {
  return decodeOne(builder, body, plainHead(signal)).outcome;
}

const badRequest = { kind: "failed", code: "BAD_REQUEST" };

/** `levels` messages of field 1 inside each other. */
function nested(levels: number, wrap: (inner: Uint8Array) => Uint8Array): Uint8Array {
  let inner: Uint8Array = new Uint8Array(0);
  for (let level = 0; level < levels; level++) {
    inner = wrap(inner);
  }
  return inner;
}

describe("malformed protobuf", () => {
  const record = (...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array => logsRequest(join(...parts));
  const overlong = Array.from({ length: 10 }, () => 0x80);

  it.each([
    ["a tag without its value", record([0x08])],
    ["a truncated fixed64", record([0x09, 1, 2, 3])],
    ["a truncated fixed32", record([0x45, 1])],
    ["a truncated varint", record([0x10, 0x80])],
    ["a varint of 11 bytes", record([0x10, ...overlong, 1])],
    ["a tag of 11 bytes", record([...overlong, 1, 0])],
    ["a field number beyond 29 bits", record([0xf8, 0xff, 0xff, 0xff, 0x1f, 0])],
    ["a length past the end of the message", record([0x1a, 5, 0x61])],
    ["a length of 2^32", record([0x1a, 0x80, 0x80, 0x80, 0x80, 0x10, 0x61])],
    ["a length of 2^64 - 1", record([0x1a, ...Array.from({ length: 9 }, () => 0xff), 1])],
    ["field number 0", record([0x00, 0x01])],
    ["wire type 6", record([0x0e, 0x01])],
    ["wire type 7", record([0x0f, 0x01])],
    ["a group that never ends", record([0x9b, 0x3e, 0x08, 0x01])],
    ["a group that never started", record([0x9c, 0x3e])],
    ["a group that ends with another number", record([0x9b, 0x3e, 0xa4, 0x3e])],
    ["an attribute whose value is cut", record(field(6, field(1, utf8("k")), [0x12, 4, 0x0a]))],
    ["a body that claims more than it has", record([0x2a, 2, 0x0a, 9])],
    [
      "a packed list of broken length in a body that a later one replaces",
      record(field(5, field(5, [0x0a, 9])), field(5, field(1, utf8("x")))),
    ],
  ])("fails a request with %s, and only that", (_, bad) => {
    builder.begin(receivedAt, new Set());
    expect(builder.add(good, plainHead(1))).toMatchObject({ kind: "stored", records: 1 });
    expect(builder.add(join(good, bad), plainHead(1))).toMatchObject(badRequest);
    expect(builder.add(oneLog({ body: { intValue: "2" } }), plainHead(1))).toMatchObject({
      kind: "stored",
    });
    const segment = builder.finish();
    expect(segmentRows(segment).log_entries.map((row) => row["msg"])).toEqual(["good", "2"]);
    expect(segment.blocks).toHaveLength(2);
  });

  it("fails a request at every byte at which a valid one is cut, except between resources", () => {
    const whole = encodePlain(3, {
      resourceSpans: [
        {
          resource: { attributes: [{ key: "a", value: { doubleValue: 1 } }] },
          scopeSpans: [
            {
              spans: [{ traceId: Array(16).fill(1), spanId: Array(8).fill(1), events: [{ name: "e" }] }],
            },
          ],
        },
      ],
    });
    for (let length = 1; length < whole.length; length++) {
      expect(outcomeOf(whole.subarray(0, length), 3)).toMatchObject(badRequest);
    }
    expect(outcomeOf(whole, 3)).toMatchObject({ kind: "stored", records: 1 });
  });

  it("takes an empty request", () => {
    for (const signal of [1, 2, 3] as const) {
      expect(outcomeOf(new Uint8Array(0), signal)).toMatchObject({ kind: "stored", records: 0 });
    }
  });

  it("takes a value whose length has three bytes, although two of them would fit the rest", () => {
    const value = field(1, utf8("x"));
    const unknown = field(77, new Uint8Array(16383 - 4));
    const attribute = join(field(1, utf8("k")), [0x12, value.length | 0x80, 0x80, 0], value, unknown);
    const { outcome, rows } = decodeOne(builder, logsRequest(field(6, attribute)), plainHead(1));
    expect(outcome).toMatchObject({ kind: "stored", records: 1 });
    expect(rows.log_entries).toMatchObject([{ properties: '{"k":"x"}' }]);
    // The second byte alone would be a length that ends with the attribute.
    expect(attribute.length - 6).toBe(value.length + 0x80 * 0x80);
  });

  it("takes a known field of another wire type for an unknown one, as protobuf does", () => {
    // time_unix_nano as varint, severity_number as string, body as fixed32, trace_id as varint.
    const odd = join([0x08, 5], field(2, utf8("x")), [0x2d, 1, 2, 3, 4], [0x48, 1], field(3, utf8("INFO")));
    const { rows } = decodeOne(builder, logsRequest(odd), plainHead(1));
    expect(rows.log_entries).toMatchObject([
      {
        event_time: null,
        severity_number: 0,
        msg: null,
        trace_id: null,
        severity_text: "INFO",
        level: 4,
      },
    ]);
  });

  it("takes varints that are longer than they need be", () => {
    const odd = join([0x90, 0x80, 0x00, 0x89, 0x80, 0x80, 0x00], field(3, utf8("x")));
    const { rows } = decodeOne(builder, logsRequest(odd), plainHead(1));
    expect(rows.log_entries).toMatchObject([{ severity_number: 9, severity_text: "x" }]);
  });
});

describe("nesting", () => {
  const anyValueBomb = (levels: number): Uint8Array =>
    logsRequest(
      field(
        5,
        nested(levels, (inner) => field(5, field(1, inner))),
      ),
    );
  const kvlistBomb = (levels: number): Uint8Array =>
    logsRequest(
      field(
        6,
        field(
          2,
          nested(levels, (inner) => field(6, field(1, field(2, inner)))),
        ),
      ),
    );
  const groupBomb = (levels: number): Uint8Array =>
    logsRequest(
      join(
        ...Array.from({ length: levels }, () => [0x9b, 0x3e]),
        ...Array.from({ length: levels }, () => [0x9c, 0x3e]),
      ),
    );

  it.each([
    ["arrays in AnyValue", anyValueBomb, 48],
    ["key-value lists in AnyValue", kvlistBomb, 31],
    ["unknown groups", groupBomb, 97],
  ])("takes %s up to a depth of 100 messages and fails the request beyond", (_, bomb, deepest) => {
    expect(outcomeOf(bomb(deepest))).toMatchObject({ kind: "stored", records: 1 });
    expect(outcomeOf(bomb(deepest + 1))).toMatchObject(badRequest);
    expect(outcomeOf(bomb(2000))).toMatchObject(badRequest);
  });

  it("counts groups inside groups inside an AnyValue together", () => {
    const groups = (levels: number): Uint8Array =>
      join(
        ...Array.from({ length: levels }, () => [0x9b, 0x3e]),
        ...Array.from({ length: levels }, () => [0x9c, 0x3e]),
      );
    expect(outcomeOf(logsRequest(field(5, field(5, field(1, groups(94))))))).toMatchObject({
      kind: "stored",
    });
    expect(outcomeOf(logsRequest(field(5, field(5, field(1, groups(95))))))).toMatchObject(badRequest);
  });
});

describe("records that cannot be stored", () => {
  const span = { traceId: Array(16).fill(7), spanId: Array(8).fill(7) };
  const spans = (...list: object[]): Uint8Array =>
    encodePlain(3, { resourceSpans: [{ scopeSpans: [{ spans: list }] }] });

  it.each([
    ["a trace id of 15 bytes", { ...span, traceId: Array(15).fill(7) }],
    ["no trace id", { spanId: span.spanId }],
    ["a trace id of zeros", { ...span, traceId: Array(16).fill(0) }],
    ["a span id of 9 bytes", { ...span, spanId: Array(9).fill(7) }],
    ["a span id of zeros", { ...span, spanId: Array(8).fill(0) }],
    ["a parent span id of 7 bytes", { ...span, parentSpanId: Array(7).fill(7) }],
    ["a start 2^63 ns after the epoch", { ...span, startTimeUnixNano: "9223372036854775808" }],
    ["an end at the last instant", { ...span, endTimeUnixNano: "9223372036854775807" }],
    ["an event out of time", { ...span, events: [{}, { timeUnixNano: "18446744073709551615" }] }],
    ["a link with a short trace id", { ...span, links: [{ traceId: [1], spanId: span.spanId }] }],
  ])("leaves out a span with %s and keeps its neighbours", (_, bad) => {
    const { outcome, rows } = decodeOne(
      builder,
      spans({ ...span, name: "a" }, { ...bad, attributes: [{ key: "k" }] }, { ...span, name: "b" }),
      plainHead(3),
    );
    expect(outcome).toMatchObject({ kind: "stored", records: 2, rejected: 1 });
    expect(outcome).toHaveProperty("rejectedReason", expect.stringMatching(/^a (trace id|span id|timestamp) /u));
    expect(rows.spans.map((row) => [row["name"], row["properties"], row["events"]])).toEqual([
      ["a", "{}", []],
      ["b", "{}", []],
    ]);
  });

  it("keeps a span whose link leads to no span, with what else the link has", () => {
    const link = { traceState: "a=1", attributes: [{ key: "k", value: { boolValue: true } }] };
    const zeros = { traceId: Array(16).fill(0), spanId: Array(8).fill(0) };
    const { outcome, rows } = decodeOne(
      builder,
      spans({ ...span, links: [link, { ...link, ...zeros }, { ...link, ...span }] }),
      plainHead(3),
    );
    expect(outcome).toMatchObject({ kind: "stored", records: 1, rejected: 0 });
    const rest = { trace_state: "a=1", properties: '{"k":true}' };
    expect(rows.spans).toMatchObject([
      {
        links: [
          { trace_id: "", span_id: "", ...rest },
          { trace_id: "", span_id: "", ...rest },
          { trace_id: "07".repeat(16), span_id: "07".repeat(8), ...rest },
        ],
      },
    ]);
  });

  it.each([
    ["a trace id of 4 bytes", { traceId: [1, 2, 3, 4] }],
    ["a span id of 16 bytes", { spanId: Array(16).fill(1) }],
    ["an observed time out of range", { observedTimeUnixNano: "9223372036854775807" }],
  ])("leaves out a log record with %s", (_, bad) => {
    expect(outcomeOf(oneLog({ ...bad, body: { stringValue: "x" } }))).toMatchObject({
      kind: "stored",
      records: 0,
      rejected: 1,
    });
  });

  it("keeps log records without ids or with ids of zeros, as null", () => {
    const { rows } = decodeOne(builder, oneLog({ traceId: Array(16).fill(0), spanId: Array(8).fill(0) }), plainHead(1));
    expect(rows.log_entries).toMatchObject([{ trace_id: null, span_id: null }]);
  });

  const invalid = [
    ["a lone continuation byte", [0x80]],
    ["an overlong slash", [0xc0, 0xaf]],
    ["an overlong form of three bytes", [0xe0, 0x80, 0xaf]],
    ["a surrogate", [0xed, 0xa0, 0x80]],
    ["a code point beyond U+10FFFF", [0xf4, 0x90, 0x80, 0x80]],
    ["a cut sequence", [0xe6, 0xbc]],
    ["a byte that UTF-8 never has", [0xff]],
  ] as const;
  const places: readonly (readonly [string, (text: Uint8Array) => Uint8Array])[] = [
    ["the body", (text) => field(5, field(1, text))],
    ["severity_text", (text) => field(3, text)],
    ["event_name", (text) => field(12, text)],
    ["an attribute's key", (text) => field(6, field(1, text))],
    ["an attribute's value", (text) => field(6, field(1, utf8("k")), field(2, field(1, text)))],
    ["a value in an array in an attribute", (text) => field(6, field(2, field(5, field(1, field(1, text)))))],
  ];

  it.each(invalid.flatMap(([what, bytes]) => places.map(([where, put]) => ({ what, bytes, where, put }))))(
    "leaves out a log record with $what in $where, whatever is around it",
    ({ bytes, put }) => {
      for (const before of ["", "1234567", "12345678", "é".repeat(3), "x".repeat(5000)]) {
        for (const after of ["", "7654321", "x".repeat(100)]) {
          const bad = put(join(utf8(before), bytes, utf8(after)));
          const { outcome, rows } = decodeOne(builder, logsRequest(bad, field(3, utf8("ok"))), plainHead(1));
          expect(outcome).toMatchObject({ kind: "stored", records: 1, rejected: 1 });
          expect(rows.log_entries.map((row) => row["severity_text"])).toEqual(["ok"]);
        }
      }
    },
  );

  it("leaves out every record below a resource, a scope or a metric whose text is not UTF-8", () => {
    const bad = field(1, [0xff]);
    const log = field(2, field(3, utf8("x")));
    expect(outcomeOf(field(1, field(1, field(1, bad)), field(2, log, log)))).toMatchObject({
      records: 0,
      rejected: 2,
      rejectedReason: "a string of the resource is not valid UTF-8",
    });
    expect(outcomeOf(field(1, field(3, [0xff]), field(2, log)))).toMatchObject({
      records: 0,
      rejected: 1,
    });
    const { outcome, rows } = decodeOne(
      builder,
      field(1, field(2, field(1, bad), log), field(2, log), field(2, log, field(1, bad))),
      plainHead(1),
    );
    expect(outcome).toMatchObject({ records: 1, rejected: 2 });
    expect(rows.log_entries).toHaveLength(1);
    expect(outcomeOf(field(1, field(2, log, field(3, [0xff]))))).toMatchObject({
      records: 0,
      rejected: 1,
    });
    const gauge = field(5, field(1, [0x21, 0, 0, 0, 0, 0, 0, 0, 0]));
    for (const number of [1, 2, 3]) {
      const metrics = metricsRequest(join(gauge, field(number, [0xff])), gauge);
      expect(outcomeOf(metrics, 2)).toMatchObject({ records: 1, rejected: 1 });
    }
  });

  it("counts each record once, also when its scope is refused after it", () => {
    const bad = field(2, field(9, [1]));
    const log = field(2, field(3, utf8("x")));
    expect(outcomeOf(field(1, field(2, bad, log, field(3, [0xff]))))).toMatchObject({
      records: 0,
      rejected: 2,
      rejectedReason: expect.stringContaining("trace id") as unknown,
    });
  });

  it("takes an exemplar's bad trace id for its point's", () => {
    const body = encodePlain(2, {
      resourceMetrics: [
        {
          scopeMetrics: [
            {
              metrics: [
                {
                  name: "m",
                  gauge: {
                    dataPoints: [{ asInt: "1", exemplars: [{ traceId: [1] }] }, { asInt: "2" }],
                  },
                },
              ],
            },
          ],
        },
      ],
    });
    const { outcome, rows } = decodeOne(builder, body, plainHead(2));
    expect(outcome).toMatchObject({ records: 1, rejected: 1 });
    expect(rows.measures).toMatchObject([{ value: 2, value_int: 2n, exemplars: [] }]);
  });

  it("rejects spans by the same rules when a traces request repeats them", () => {
    expect(outcomeOf(tracesRequest(field(5, utf8("no ids"))), 3)).toMatchObject({
      records: 0,
      rejected: 1,
    });
  });
});

describe("large values", () => {
  it("takes an attribute of 10 MB", () => {
    const value = `${'"'.repeat(5)}${"x".repeat(10 * 1024 * 1024)}é`;
    const { outcome, rows } = decodeOne(
      builder,
      oneLog({ attributes: [{ key: "big", value: { stringValue: value } }] }),
      plainHead(1),
    );
    expect(outcome).toMatchObject({ kind: "stored", records: 1 });
    expect(rows.log_entries[0]?.["properties"]).toBe(JSON.stringify({ big: value }));
  });

  it("refuses a body beyond the limit", () => {
    const small = createBuilder(1000);
    const head = plainHead(1);
    expect(decodeOne(small, oneLog({ body: { stringValue: "x".repeat(2000) } }), head).outcome).toMatchObject({
      kind: "failed",
      code: "PAYLOAD_TOO_LARGE",
    });
  });

  it("takes as many rows as the documents say fit, and says what to do about one more", () => {
    // Time and value, 18 bytes; 256 for the row, and two for attributes, of which there are none.
    const point = field(1, [0x19], new Uint8Array(8).fill(1), [0x21], new Uint8Array(8));
    const limit = 64 * 1024;
    const fit = Math.floor((4 * limit - 1024 - 64) / (256 + 18 + 2));
    const points = (count: number): Uint8Array =>
      metricsRequest(join(field(1, utf8("m")), field(5, ...Array<Uint8Array>(count).fill(point))));
    const small = createBuilder(limit);
    expect(decodeOne(small, points(fit), plainHead(2)).outcome).toMatchObject({ kind: "stored", records: fit });
    expect(decodeOne(small, points(fit + 1), plainHead(2)).outcome).toEqual({
      kind: "failed",
      code: "PAYLOAD_TOO_LARGE",
      message: "the request decodes to more than 262144 bytes; send fewer records in one",
    });
  });

  it("refuses a resource and a scope of more than a megabyte, whatever they would be in JSON", () => {
    const attributes = (bytes: number): object[] => [{ key: "a", value: { stringValue: "\u0000".repeat(bytes) } }];
    const entry = (resource: object, scope: object): Uint8Array =>
      encodePlain(1, { resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords: [{}] }] }] });
    const large = { attributes: attributes(1024 * 1024) };
    const usual = { attributes: attributes(10_000) };
    for (const body of [entry(large, usual), entry(usual, large)]) {
      expect(decodeOne(builder, body, plainHead(1)).outcome).toMatchObject({
        kind: "failed",
        code: "PAYLOAD_TOO_LARGE",
        message: "a resource or a scope has more than 1048576 bytes; give it fewer attributes",
      });
    }
    expect(decodeOne(builder, entry(usual, usual), plainHead(1)).outcome).toMatchObject({ kind: "stored", records: 1 });
  });

  it("refuses metadata of a metric of more than a megabyte, in one attribute or several", () => {
    const part = { key: "a", value: { stringValue: "x".repeat(500_000) } };
    const outcome = (...metadata: object[]): unknown => {
      const metric = { metadata, gauge: { dataPoints: [{ asInt: "1" }] } };
      const body = encodePlain(2, { resourceMetrics: [{ scopeMetrics: [{ metrics: [metric, metric] }] }] });
      return outcomeOf(body, 2);
    };
    expect(outcome(part, part)).toMatchObject({ kind: "stored", records: 2 });
    expect(outcome(part, part, part)).toMatchObject({
      kind: "failed",
      code: "PAYLOAD_TOO_LARGE",
      message: "the metadata of a metric has more than 1048576 bytes; give it less",
    });
  });

  it("counts what attributes and entities of resources, metadata of metrics and bodies of lists are as text", () => {
    const escaped = [{ stringValue: "\u0001".repeat(60_000) }];
    const body = oneLog({ body: { arrayValue: { values: escaped } } });
    const attributes = [{ key: "a", value: escaped[0] }];
    const resource = oneLog({}, { attributes });
    const metric = { metadata: attributes, gauge: { dataPoints: [{ asInt: "1" }] } };
    const metadata = encodePlain(2, { resourceMetrics: [{ scopeMetrics: [{ metrics: [metric] }] }] });
    // EntityRef.type of the resource.
    const entity = field(1, field(1, field(3, field(2, utf8("\u0001".repeat(60_000))))), field(2, field(2)));
    for (const [signal, request] of [
      [1, body],
      [1, resource],
      [1, entity],
      [2, metadata],
    ] as const) {
      expect(decodeOne(createBuilder(80_000), request, plainHead(signal)).outcome).toMatchObject({
        kind: "failed",
        code: "PAYLOAD_TOO_LARGE",
      });
    }
  });

  it("refuses a body of countless empty records before they fill the memory", () => {
    const bomb = field(1, field(2, Buffer.alloc(4_000_000, Uint8Array.of(0x12, 0x00))));
    const { outcome, segment } = decodeOne(createBuilder(8 * 1024 * 1024), bomb, plainHead(1));
    expect(outcome).toMatchObject({ kind: "failed", code: "PAYLOAD_TOO_LARGE" });
    expect(segmentRows(segment).log_entries).toEqual([]);
  });
});
