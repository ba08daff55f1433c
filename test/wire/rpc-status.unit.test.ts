/** Bodies of OTLP responses, read by an implementation that nobody here wrote. */
import protobuf from "protobufjs";
import { describe, expect, test } from "vitest";

import {
  decodeRpcStatus,
  encodeExportResponse,
  encodeRetryStatus,
  encodeRpcStatus,
} from "../../src/wire/otlp/rpc-status.js";

const { root } = protobuf.parse(
  `syntax = "proto3";
   message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
   message Any { string type_url = 1; bytes value = 2; }
   message RetryInfo { Duration retry_delay = 1; }
   message Duration { int64 seconds = 1; int32 nanos = 2; }
   message PartialSuccess { int64 rejected = 1; string error_message = 2; }
   message Response { PartialSuccess partial_success = 1; }`,
  { keepCase: true },
);
const statusType = root.lookupType("Status");
const responseType = root.lookupType("Response");

describe("google.rpc.Status", () => {
  test.each([
    [3, "bad"],
    [0, ""],
    [16, "naïve ☃ ".repeat(50)],
  ])("code %i survives in both encodings", (code, message) => {
    const decoded = statusType.toObject(statusType.decode(encodeRpcStatus("protobuf", code, message)), {
      defaults: true,
    });
    expect(decoded).toEqual({ code, message, details: [] });
    expect(decodeRpcStatus(encodeRpcStatus("protobuf", code, message))).toEqual({ code, message });
    expect(JSON.parse(Buffer.from(encodeRpcStatus("json", code, message)).toString())).toEqual({
      code,
      message,
    });
  });
});

describe("google.rpc.RetryInfo", () => {
  test.each([0, 1, 86_400])("%i seconds survive", (seconds) => {
    const status = statusType.decode(encodeRetryStatus(14, "later", seconds)).toJSON();
    expect(status).toMatchObject({
      code: 14,
      message: "later",
      details: [{ type_url: "type.googleapis.com/google.rpc.RetryInfo" }],
    });
    const { value } = (status["details"] as { value: string }[])[0] ?? { value: "" };
    const retry = root.lookupType("RetryInfo").decode(Buffer.from(value, "base64"));
    expect(root.lookupType("RetryInfo").toObject(retry, { longs: Number, defaults: true })).toEqual({
      retry_delay: { seconds, nanos: 0 },
    });
  });
});

describe("Export*ServiceResponse", () => {
  test("is empty when there is nothing to say", () => {
    expect(encodeExportResponse("protobuf", 1, 0, null)).toHaveLength(0);
    expect(Buffer.from(encodeExportResponse("json", 1, 0, null)).toString()).toBe("{}");
  });

  test.each([
    [1, 1, "rejectedLogRecords"],
    [2, 300, "rejectedDataPoints"],
    [3, 2 ** 40 + 5, "rejectedSpans"],
  ] as const)("signal %i carries the count and the reason", (signal, rejected, field) => {
    const reason = "trace_id of a wrong length";
    const decoded = responseType.toObject(
      responseType.decode(encodeExportResponse("protobuf", signal, rejected, reason)),
      { longs: Number },
    );
    expect(decoded).toEqual({ partial_success: { rejected, error_message: reason } });
    expect(JSON.parse(Buffer.from(encodeExportResponse("json", signal, rejected, reason)).toString())).toEqual({
      partialSuccess: { [field]: String(rejected), errorMessage: reason },
    });
  });

  test("a warning without a rejection has no count", () => {
    expect(JSON.parse(Buffer.from(encodeExportResponse("json", 1, 0, "careful")).toString())).toEqual({
      partialSuccess: { errorMessage: "careful" },
    });
  });
});
