import { describe, expect, it } from "vitest";

import { createBuilder, decodeOne, plainHead } from "../helpers/lake/segment.js";

const builder = createBuilder();

function decodeJson(text: string | Uint8Array, signal: 1 | 2 | 3 = 1): ReturnType<typeof decodeOne> {
  return decodeOne(builder, Buffer.from(text as string), plainHead(signal, { format: "json" }));
}

/** A logs request with one record of these members. */
const log = (members: string): string => `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{${members}}]}]}]}`;
const gauge = (members: string): string =>
  `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{${members}}]}}]}]}]}`;

describe("OTLP/JSON", () => {
  it("keeps 64-bit integers exact as strings and as numbers, however they are written", () => {
    for (const [text, value] of [
      ["9223372036854775807", 9223372036854775807n],
      ['"-9223372036854775808"', -9223372036854775808n],
      ["9007199254740993", 9007199254740993n],
      ["-0", 0n],
      ["12.50e2", 1250n],
      ['"1E2"', 100n],
      ["92233720368547758.070e+2", 9223372036854775807n],
      ["0.000000e99999", 0n],
    ] as const) {
      const { rows } = decodeJson(gauge(`"asInt":${text}`), 2);
      expect(rows.measures).toMatchObject([{ value_int: value, value: Number(value) }]);
    }
  });

  it.each([
    "9223372036854775808",
    "-9223372036854775809",
    "1.5",
    "1e19",
    "1e-1",
    '"0x10"',
    '" 1"',
    '""',
    '"1_0"',
    "true",
    "[1]",
  ])("refuses %s for a 64-bit integer", (text) => {
    expect(decodeJson(gauge(`"asInt":${text}`), 2).outcome).toMatchObject({ code: "BAD_REQUEST" });
  });

  it("reads doubles as JavaScript does, and the names of those that JSON has no number for", () => {
    for (const text of [
      "0.1",
      "-0",
      "-0.0",
      "1e-7",
      "123456789012345678",
      "1.7976931348623157e308",
      "0.30000000000000004",
      "5e-324",
      "100000000000000.5",
      "123456789.12345678",
    ]) {
      const { rows } = decodeJson(gauge(`"asDouble":${text}`), 2);
      expect(rows.measures[0]?.["value"]).toBe(Number(text));
    }
    for (const text of ["NaN", "Infinity", "-Infinity", "-2.5e3"]) {
      expect(decodeJson(gauge(`"asDouble":"${text}"`), 2).rows.measures[0]?.["value"]).toBe(Number(text));
    }
    for (const text of ["1e309", "NaN", '"nan"', "-Infinity", '"1e999"']) {
      expect(decodeJson(gauge(`"asDouble":${text}`), 2).outcome).toMatchObject({
        code: "BAD_REQUEST",
      });
    }
  });

  it("reads ids as hex in either case, bytes as base64 in either alphabet, enums as numbers or names", () => {
    const { rows } = decodeJson(
      log(
        '"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b174","severityNumber":"SEVERITY_NUMBER_ERROR2","body":{"bytesValue":"-_8="},"attributes":[{"key":"b","value":{"bytesValue":"+/8"}}]',
      ),
    );
    expect(rows.log_entries).toMatchObject([
      {
        trace_id: "5b8efff798038103d269b633813fc60c",
        span_id: "eee19b7ec3c1b174",
        severity_number: 18,
        level: 2,
        msg: '"+/8="',
        properties: '{"b":"+/8="}',
      },
    ]);
  });

  it("leaves out a record whose id has a wrong length or is not hex, and keeps the others", () => {
    const ids = ["00ff", "0", "zz", "\\u00e9", "W47/95gDgQPSabYzgT/GDA==", "g".repeat(32), "g".repeat(16)];
    for (const id of ids) {
      for (const name of ["traceId", "spanId"]) {
        const { outcome, rows } = decodeJson(
          `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"${name}":"${id}"},{"body":{"stringValue":"good"}}]}]}]}`,
        );
        expect(outcome).toMatchObject({
          kind: "stored",
          rejected: 1,
          rejectedReason: expect.stringContaining("hex digits in JSON") as string,
        });
        expect(rows.log_entries).toMatchObject([{ msg: "good" }]);
      }
    }
  });

  it("leaves out a span or point for an id that is not hex in its link, its parent or its exemplar", () => {
    const ids = '"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174"';
    const span = (more: string): string =>
      `{"resourceSpans":[{"scopeSpans":[{"spans":[{${ids},"name":"good"},{${ids},${more}}]}]}]}`;
    for (const bad of ['"parentSpanId":"x"', '"links":[{"traceId":"x","spanId":"eee19b7ec3c1b174"}]']) {
      const { outcome, rows } = decodeJson(span(bad), 3);
      expect(outcome).toMatchObject({ kind: "stored", rejected: 1 });
      expect(rows.spans).toMatchObject([{ name: "good" }]);
    }
    const { outcome, rows } = decodeJson(gauge('"asInt":1,"exemplars":[{"traceId":"x"}]'), 2);
    expect(outcome).toMatchObject({ kind: "stored", rejected: 1 });
    expect(rows.measures).toEqual([]);
  });

  it("takes names in snake case, escaped names, nulls, and ignores unknown members of any shape", () => {
    const { rows } = decodeJson(
      '\n{ "resource_logs": [ { "resource": null, "x":[{},[],{"a":[1,-2.5E+3,"\\u0000",null,true,false]}], "scopeLogs":[{"log_records":[{"event_name":"e","\\u0062ody":{"stringValue":"b"},"flags":1,"entityRefs":{"":""}}]}]}] }\r\n\t',
    );
    expect(rows.log_entries).toMatchObject([{ event_name: "e", msg: "b", flags: 1n }]);
  });

  it("takes an integer beyond 64 bits for a double, as the JavaScript SDK writes large numbers", () => {
    const values = [
      "9223372036854775807",
      "-9223372036854775808",
      "9223372036854775808",
      "-1e19",
      '"1e+21"',
      "1.5e300",
    ];
    const { outcome, rows } = decodeJson(
      log(
        `"body":{"arrayValue":{"values":[${values.map((value) => `{"intValue":${value}}`).join()}]}},"eventName":"e"`,
      ),
    );
    expect(outcome).toMatchObject({ kind: "stored", records: 1, rejected: 0 });
    expect(rows.log_entries).toMatchObject([
      {
        event_name: "e",
        msg: "[9223372036854775807,-9223372036854775808,9223372036854776000.0,-10000000000000000000.0,1e+21,1.5e+300]",
      },
    ]);
  });

  it("unescapes every escape, pairs of surrogates included", () => {
    const { rows } = decodeJson(
      log('"body":{"stringValue":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\\u0000 é漢😀"}'),
    );
    expect(rows.log_entries).toMatchObject([{ msg: '"\\/\b\f\n\r\té😀\0 é漢😀' }]);
  });

  it.each([
    ["nothing", ""],
    ["white space", "  "],
    ["no object", "[]"],
    ["a number", "1"],
    ["something behind it", "{}{}"],
    ["a trailing comma in an object", '{"resourceLogs":[],}'],
    ["a trailing comma in an array", '{"resourceLogs":[{},]}'],
    ["a missing colon", '{"resourceLogs" []}'],
    ["a missing comma", '{"a":1 "b":2}'],
    ["a single quote", "{'a':1}"],
    ["a name without quotes", "{a:1}"],
    ["a comment", "{/**/}"],
    ["a byte order mark", "\uFEFF{}"],
    ["an open string", '{"a":"b'],
    ["an open object", '{"resourceLogs":[{"scopeLogs":['],
    ["a control character in a string", '{"a":"\u0001"}'],
    ["a tab in a string", '{"a":"\t"}'],
    ["an unknown escape", '{"a":"\\x"}'],
    ["a short unicode escape", '{"a":"\\u12"}'],
    ["a short unicode escape behind half a surrogate pair", log('"eventName":"\\ud800\\u12"')],
    ["text that is not Unicode as a name of an enum", log('"severityNumber":"\\ud800"')],
    ["a leading zero", '{"a":01}'],
    ["a plus sign", '{"a":+1}'],
    ["a bare fraction", '{"a":.5}'],
    ["an open fraction", '{"a":1.}'],
    ["an open exponent", '{"a":1e}'],
    ["a misspelt literal", '{"a":tru}'],
    ["a field twice", '{"resourceLogs":[],"resource_logs":[]}'],
    ["two members of a oneof", log('"body":{"stringValue":"a","intValue":1}')],
    ["null in an array", '{"resourceLogs":[null]}'],
    ["a string for a message", '{"resourceLogs":["x"]}'],
    ["an object for an array", '{"resourceLogs":{}}'],
    ["a number for a string", log('"eventName":1')],
    ["a string for a bool", log('"body":{"boolValue":"true"}')],
    ["an unknown enum name", log('"severityNumber":"LOUD"')],
    ["a fraction for an integer", log('"body":{"intValue":1.5}')],
    ["a number that no double holds", log('"body":{"intValue":1e400}')],
    ["a negative count", log('"droppedAttributesCount":-1')],
    ["a count beyond 32 bits", log('"droppedAttributesCount":4294967296')],
    ["base64 of a wrong length", log('"body":{"bytesValue":"abcde"}')],
    ["base64 with other characters", log('"body":{"bytesValue":"ab*d"}')],
  ])("fails a request with %s", (_, text) => {
    expect(decodeJson(text).outcome).toMatchObject({ kind: "failed", code: "BAD_REQUEST" });
  });

  it.each<readonly [string, string | readonly number[]]>([
    ["a lone high surrogate", "\\ud83d"],
    ["a high surrogate before an ordinary character", "\\ud83d\\u0041"],
    ["two high surrogates, the second of a pair", "\\ud83d\\ud83d\\ude00"],
    ["a lone low surrogate", "\\udc00"],
    ["halves of a pair the wrong way round", "\\ude00\\ud83d"],
    ["a byte that UTF-8 never has", [0xff]],
    ["an overlong sequence", [0xc0, 0xaf]],
    ["half a surrogate pair in UTF-8", [0xed, 0xa0, 0x80]],
    ["a cut sequence", [0xe6, 0xbc]],
    ["a cut sequence before an escape", [0xc3, ...Buffer.from("\\u00e9")]],
  ])("refuses a record with %s alone, and takes it in what it does not know", (_, text) => {
    const put = (where: string): Buffer => {
      const [before = "", after = ""] = where.split("@");
      return Buffer.concat([Buffer.from(before), Buffer.from(text as string), Buffer.from(after)]);
    };
    const members = ['"eventName":"@"', '"body":{"stringValue":"x@"}', '"attributes":[{"key":"@12345678"}]'];
    for (const member of members) {
      const { outcome, rows } = decodeJson(put(log(`${member}},{"eventName":"good"`)));
      const rejectedReason = "a string is not valid UTF-8";
      expect(outcome).toMatchObject({ kind: "stored", records: 1, rejected: 1, rejectedReason });
      expect(rows.log_entries).toMatchObject([{ event_name: "good" }]);
    }
    for (const unknown of ['"a":"@"', '"@":1', '"a":{"b":["@"]}']) {
      expect(decodeJson(put(log(unknown))).outcome).toMatchObject({ kind: "stored", records: 1, rejected: 0 });
    }
  });

  it("bounds nesting like protobuf, in what it knows and in what it skips", () => {
    const nested = (levels: number): string =>
      log(`"body":${'{"arrayValue":{"values":['.repeat(levels)}${"]}}".repeat(levels)}`);
    expect(decodeJson(nested(48)).outcome).toMatchObject({ kind: "stored", records: 1 });
    expect(decodeJson(nested(49)).outcome).toMatchObject({ code: "BAD_REQUEST" });
    for (const [open, close] of [
      ["[", "]"],
      ['{"a":', "}"],
    ] as const) {
      const unknown = (levels: number): string => `{"x":${open.repeat(levels)}1${close.repeat(levels)}}`;
      expect(decodeJson(unknown(100)).outcome).toMatchObject({ kind: "stored" });
      expect(decodeJson(unknown(101)).outcome).toMatchObject({ code: "BAD_REQUEST" });
      expect(decodeJson(unknown(100_000)).outcome).toMatchObject({ code: "BAD_REQUEST" });
    }
  });

  it("takes an empty object for an empty request", () => {
    for (const signal of [1, 2, 3] as const) {
      expect(decodeJson("{}", signal).outcome).toMatchObject({ kind: "stored", records: 0 });
    }
  });

  it("takes strings longer than any of its buffers", () => {
    const long = `${"x".repeat(100_000)}\n${"é".repeat(100_000)}`;
    const { rows } = decodeJson(log(`"body":{"stringValue":${JSON.stringify(long)}}`));
    expect(rows.log_entries).toMatchObject([{ msg: long }]);
  });
});
